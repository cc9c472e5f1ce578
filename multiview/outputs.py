"""Decides what one call of ``encode`` makes of a model's views, and refuses arguments that mean nothing."""

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

NEUTRAL_ARGUMENTS: Mapping[str, tuple[object, ...]] = {
    "prompt": (None, ""),
    "prompt_name": (None,),
    "precision": (None, "float32"),
    "output_value": ("sentence_embedding",),
    "convert_to_numpy": (True, False),
    "pool": (None,),
    "chunk_size": (None,),
}
"""Arguments of sentence-transformers' ``encode``, each with the values that change nothing."""
Vectors = NDArray[np.floating] | Tensor
ChosenViews = tuple[ViewStack, list[int]]
"""A network of a model, and the positions of those of its views that are read."""


@dataclass(frozen=True)
class Output:
    """How the vectors of one call are made."""

    requires: set[str]
    """Annotations that are read."""
    width: int
    """Numbers of a vector."""
    vectors_of: Callable[[Batch], Tensor]
    """Makes the vectors [B, width] of parsed sentences."""


def chosen_views(members: Sequence[Member], views: Sequence[str] | str | None) -> list[ChosenViews]:
    """Find the views of a model by name, in each of its networks; None is all."""
    networks = [member.network for member in members]
    selection = [views] if isinstance(views, str) else views
    positions = view_positions([network.views for network in networks], selection)
    return list(zip(networks, positions, strict=True))


def annotations_of(views: Sequence[ChosenViews]) -> set[str]:
    """Return the annotations that views read: of ``tokens``, ``dep``, ``const``."""
    annotations = (network.encoder_list[place].requires for network, places in views for place in places)
    return set().union(*annotations)


def vectors_of_views(views: Sequence[ChosenViews], batch: Batch) -> Tensor:
    """Encode parsed sentences to [B, D], the views side by side."""
    return torch.cat([network.vectors(batch, positions) for network, positions in views], dim=1)


def readout_of(members: Sequence[Member]) -> Readout | None:
    """Return the map from all views to one vector made for cosine; None where none was fitted."""
    return members[0].network.readout if len(members) == 1 else None


def _check_kind(kind: object, name: str, *, is_fitted: bool, reads_all_views: bool) -> None:
    if not isinstance(kind, str | None) or kind not in (None, "meaning", "features", "raw"):
        raise UserError(f"encode: readout={kind!r:.60}: meaning, features or raw")
    if kind == "meaning" and not (is_fitted and reads_all_views):
        reason = "reads all views, not some" if is_fitted else "was never fitted (multiview.readout does)"
        raise UserError(f"encode: readout='meaning': that of {name or 'this model'} {reason}")


def _transform_of(
    views: Sequence[ChosenViews], readout: Readout | None, *, to_features: bool
) -> tuple[Readout | Scale | None, int]:
    """Return what maps the views side by side to vectors, None if nothing does, and how long these are."""
    if to_features and all(network.scale is not None for network, _ in views):
        scale = join_scales([network.scale_of(positions) for network, positions in views])
        return scale, len(scale.feature_indices)
    if readout is not None:
        return readout, readout.dim
    return None, sum(network.widths[position] for network, positions in views for position in positions)


def resolve_output(
    members: Sequence[Member],
    name: str,
    view_names: Sequence[str] | None,
    kind: str | None,
    structure: float | None,
    truncate_dim: int | None,
) -> Output:
    """Decide how the vectors of a call of ``encode`` are made; a UserError names an option without meaning.

    ``kind`` is ``meaning``, ``features``, ``raw`` or None, for the other options see
    :meth:`multiview.model.MultiViewEncoder.encode`.
    """
    readout, first_member = readout_of(members), members[0]
    _check_kind(kind, name, is_fitted=readout is not None, reads_all_views=view_names is None)
    views = chosen_views(members, view_names)
    for_cosine = view_names is None and kind in (None, "meaning")
    transform, width = _transform_of(views, readout if for_cosine else None, to_features=kind == "features")
    if truncate_dim is not None:
        width = min(truncate_dim, width)
    default_share = first_member.structure if for_cosine else 0.0
    share = default_share if structure is None else check_share(structure)
    size = first_member.structure_size
    if share and truncate_dim is not None:
        warn_once(f"truncate_dim={truncate_dim} cuts the meaning; {size:,} numbers of structure stay")

    def vectors_of(batch: Batch) -> Tensor:
        views_BD = vectors_of_views(views, batch)
        vectors = views_BD[:, :width] if transform is None else transform(views_BD, width)
        if not share:
            return vectors
        from multiview.encoders.binding import structure_of  # here: it compiles

        structure_BS = structure_of(batch, first_member.network.words, size=size)
        return join_with_structure(vectors, structure_BS, share)

    requires = annotations_of(views)
    if share:
        return Output(requires | {"dep"}, width + size, vectors_of)
    return Output(requires, width, vectors_of)


def check_arguments(
    counts: Mapping[str, object], trees: object, flags: Mapping[str, object], options: Mapping[str, object]
) -> None:
    """Refuse arguments of ``encode`` that mean nothing, by a UserError that names the first of them."""
    for name, count in counts.items():
        if not isinstance(count, Integral) or count < 1:
            raise UserError(f"encode: {name}={count!r:.40}: must be a whole number from 1")
    if trees is not None and not hasattr(trees, "has"):
        raise UserError(f"encode: trees={trees!r:.60}: is no tree cache; TreeCache.open opens one")
    for name, flag in flags.items():
        if not isinstance(flag, bool | np.bool_ | int | None):
            raise UserError(f"encode: {name}={flag!r:.60}: must be True or False")
    for name, value in options.items():
        neutral_values = [(type(neutral), neutral) for neutral in NEUTRAL_ARGUMENTS.get(name, ())]
        if (type(value), value) not in neutral_values:
            raise UserError(f"encode: {name}={value!r} has no meaning for this model")


def units(first: Vectors, second: Vectors) -> tuple[Tensor, Tensor]:
    """Return vectors at length 1, [n, D] and [m, D], on the device of the first; a zero vector stays zero.

    What are no vectors, or of different sizes, is a UserError.
    """
    left = read_vectors(first, "similarity")
    right = read_vectors(second, "similarity")
    if left.shape[1] != right.shape[1]:
        raise UserError(f"similarity: vectors of {left.shape[1]} numbers and of {right.shape[1]}")
    return normalize_rows(left), normalize_rows(right).to(left.device)
