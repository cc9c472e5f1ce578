"""What one call of ``encode`` makes of a model's views, the arguments it refuses, and vectors to compare."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from multiview.encoders.meaning import (
    Readout,
    Scale,
    check_share,
    join_scales,
    join_with_structure,
    normalize_rows,
)
from multiview.encoders.registry import ViewStack
from multiview.folder.files import Member, view_positions
from multiview.pretrained import read_vectors
from parsing.trees.batch import Batch
from runtime.cli import warn_once
from runtime.errors import UserError

IGNORED_ARGUMENTS: Mapping[str, tuple[object, ...]] = {
    "prompt": (None, ""),
    "prompt_name": (None,),
    "precision": (None, "float32"),
    "output_value": ("sentence_embedding",),
    "convert_to_numpy": (True, False),
    "pool": (None,),
    "chunk_size": (None,),
}
"""Arguments of sentence-transformers' ``encode``, and the values that change nothing."""
Vectors = NDArray[np.floating] | Tensor


@dataclass(frozen=True)
class Output:
    """How the vectors of one call are made."""

    requires: set[str]
    """Annotations that are read."""
    width: int
    """Numbers of a vector."""
    of: Callable[[Batch], Tensor]
    """Makes the vectors [B, width] of parsed sentences."""


Networks = Sequence[tuple[ViewStack, list[int]]]
"""The networks of a model, each with the positions of the chosen ones of its views."""


def chosen_networks(members: Sequence[Member], views: Sequence[str] | str | None) -> Networks:
    """Pair the networks of a model with the positions of some views, by name; None is all."""
    networks = [member.network for member in members]
    names = [views] if isinstance(views, str) else views
    return list(zip(networks, view_positions([network.views for network in networks], names), strict=True))


def annotations_of(chosen: Networks) -> set[str]:
    """Give the annotations that views read: of ``tokens``, ``dep``, ``const``."""
    read = (network.encoder_list[place].requires for network, places in chosen for place in places)
    return set().union(*read)


def vectors_of_views(chosen: Networks, batch: Batch) -> Tensor:
    """Encode parsed sentences to [B, D], the views side by side."""
    return torch.cat([network.vectors(batch, places) for network, places in chosen], dim=1)


def fitted_readout(members: Sequence[Member]) -> Readout | None:
    """Give the map from all views to one vector made for cosine; None where none was fitted."""
    return members[0].network.readout if len(members) == 1 else None


def resolve_output(
    members: Sequence[Member],
    name: str,
    views: Sequence[str] | None,
    readout: str | None,
    structure: float | None,
    truncate_dim: int | None,
) -> Output:
    """Find out what ``encode`` is to make of these options; a UserError names one that means nothing."""
    chosen, fitted, first = chosen_networks(members, views), fitted_readout(members), members[0]
    if not isinstance(readout, str | None) or readout not in (None, "meaning", "features", "raw"):
        raise UserError(f"encode: readout={readout!r:.60}: meaning, features or raw")
    if readout == "meaning" and (fitted is None or views is not None):
        reason = "reads all views, not some" if fitted else "was never fitted (multiview.readout does)"
        raise UserError(f"encode: readout='meaning': that of {name or 'this model'} {reason}")
    transform, width = _transform(chosen, fitted if views is None else None, readout)
    default_share = first.structure if views is None and readout in (None, "meaning") else 0.0
    share = default_share if structure is None else check_share(structure)
    if share and truncate_dim is not None:
        stay = f"{first.structure_size:,} numbers of structure stay"
        warn_once(f"truncate_dim={truncate_dim} cuts the meaning; {stay}")
    dim = width if truncate_dim is None else min(truncate_dim, width)

    def of(batch: Batch) -> Tensor:
        views_BD = vectors_of_views(chosen, batch)
        vectors = transform(views_BD, dim) if transform is not None else views_BD[:, :dim]
        if not share:
            return vectors
        from multiview.encoders.binding import structure_of  # here: it compiles

        bound = structure_of(batch, first.network.words, size=first.structure_size)
        return join_with_structure(vectors, bound, share)

    requires = annotations_of(chosen) | ({"dep"} if share else set())
    return Output(requires, dim + (first.structure_size if share else 0), of)


def _transform(
    chosen: Networks, fitted: Readout | None, readout: str | None
) -> tuple[Scale | Readout | None, int]:
    """Return what is applied to the views side by side, None for nothing, and how many numbers it gives."""
    if readout == "features" and all(network.scale is not None for network, _ in chosen):
        scale = join_scales([network.scale_of(places) for network, places in chosen])
        return scale, len(scale.feature_indices)
    if fitted is None or readout in ("features", "raw"):
        return None, sum(network.widths[place] for network, places in chosen for place in places)
    return fitted, fitted.dim


def check_arguments(
    numbers: Mapping[str, object], trees: object, flags: Mapping[str, object], others: Mapping[str, object]
) -> None:
    """Refuse arguments of ``encode`` that mean nothing, by a UserError that names the first of them."""
    for name, number in numbers.items():
        if not isinstance(number, Integral) or number < 1:
            raise UserError(f"encode: {name}={number!r:.40}: must be a whole number from 1")
    if trees is not None and not hasattr(trees, "has"):
        raise UserError(f"encode: trees={trees!r:.60}: is no tree cache; TreeCache.open opens one")
    for name, flag in flags.items():
        if not isinstance(flag, bool | np.bool_ | int | None):
            raise UserError(f"encode: {name}={flag!r:.60}: must be True or False")
    for name, value in others.items():
        if not any(type(value) is type(each) and value == each for each in IGNORED_ARGUMENTS.get(name, ())):
            raise UserError(f"encode: {name}={value!r} has no meaning for this model")


def units(*sides: Vectors) -> list[Tensor]:
    """Give vectors at length 1, [n, D] and [m, D], on the device of the first; a zero vector stays zero.

    What are no vectors, or of different sizes, is a UserError.
    """
    left, right = (read_vectors(vectors, "similarity") for vectors in sides)
    if left.shape[1] != right.shape[1]:
        raise UserError(f"similarity: vectors of {left.shape[1]} numbers and of {right.shape[1]}")
    return [normalize_rows(left), normalize_rows(right).to(left.device)]
