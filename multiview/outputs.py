"""What one call of ``encode`` makes of a model's views: a meaning, features or raw numbers, and structure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from multiview.encoders.meaning import Readout, joined, joined_with_structure, share_of, unit
from multiview.encoders.registry import ViewStack
from multiview.folder.files import Member, chosen_views
from multiview.pretrained import vectors_of
from multiview.words.table import WordTable
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
Transform = Callable[[Tensor, int | None], Tensor]
"""Makes vectors [B, D], of which it keeps so many numbers, of the views side by side."""


@dataclass(frozen=True, kw_only=True)
class Output:
    """How the vectors of one call are made."""

    views: Sequence[str] | None
    """The views that are read; None is all."""
    requires: frozenset[str]
    """Annotations that they read, and structure."""
    transform: Transform | None
    """What the views side by side go through; None leaves them as they are."""
    dim: int
    """Numbers of the meaning, the features or the views that are kept."""
    share: float
    """λ of structure."""
    structure_size: int
    """Numbers of a structure vector."""

    @property
    def width(self) -> int:
        """Counts the numbers of a vector."""
        return self.dim + (self.structure_size if self.share else 0)

    def of(self, views_BD: Tensor, batch: Batch, words: WordTable) -> Tensor:
        """Return the vectors [B, width] of parsed sentences, whose views and words are given."""
        vectors = self.transform(views_BD, self.dim) if self.transform else views_BD[:, : self.dim]
        if not self.share:
            return vectors
        from multiview.encoders.binding import structure_of  # here: it compiles

        bound = structure_of(batch, words, size=self.structure_size)
        return joined_with_structure(vectors, bound, self.share)


Networks = Sequence[tuple[ViewStack, list[int]]]
"""The networks of a model, each with the positions of the chosen ones of its views."""


def chosen_networks(members: Sequence[Member], views: Sequence[str] | str | None) -> Networks:
    """Return the networks of a model with the positions of some views, by name; None is all.

    Raises:
        UserError: an unknown view, or none at all.
    """
    networks = [member.network for member in members]
    names = [views] if isinstance(views, str) else views
    return list(zip(networks, chosen_views([network.views for network in networks], names), strict=True))


def required_annotations(networks: Networks) -> frozenset[str]:
    """Give annotations that the chosen views read: of ``tokens``, ``dep``, ``const``."""
    return frozenset(
        need
        for network, places in networks
        for place in places
        for need in network.encoder_list[place].requires
    )


def fitted_readout(members: Sequence[Member]) -> Readout | None:
    """Give the map from all views to one vector made for cosine; None where none was fitted."""
    return members[0].network.readout if len(members) == 1 else None


def resolve_output(
    members: Sequence[Member],
    model: str,
    *,
    views: Sequence[str] | None,
    readout: str | None,
    structure: float | None,
    dim: int | None,
) -> Output:
    """Find out what ``encode`` is to make of the views of a model; ``dim`` numbers are kept.

    Raises:
        UserError: unknown views, λ outside 0 to 1, or a meaning where no read-out was fitted.
    """
    networks = chosen_networks(members, views)
    transform, width = _transform(members, networks, model, readout, views)
    own_share = members[0].structure if views is None and readout in (None, "meaning") else 0.0
    share = own_share if structure is None else share_of(structure)
    requires = required_annotations(networks)
    bound = members[0].structure_size
    if share:
        requires |= {"dep"}
        if dim is not None:
            warn_once(f"truncate_dim={dim} cuts the meaning; {bound:,} numbers of structure stay")
    size = width if dim is None else min(dim, width)
    return Output(
        views=views, requires=requires, transform=transform, dim=size, share=share, structure_size=bound
    )


def _transform(
    members: Sequence[Member],
    networks: Networks,
    model: str,
    readout: str | None,
    views: Sequence[str] | None,
) -> tuple[Transform | None, int]:
    """Choose what the views side by side go through, if they do not stay as they are, and its numbers."""
    fitted = fitted_readout(members)
    if not isinstance(readout, str | None) or readout not in (None, "meaning", "features", "raw"):
        raise UserError(f"encode: readout={readout!r:.60}: meaning, features or raw")
    if readout == "meaning" and (fitted is None or views is not None):
        reason = "reads all views, not some" if fitted else "was never fitted (multiview.readout does)"
        raise UserError(f"encode: readout='meaning': that of {model or 'this model'} {reason}")
    if readout == "features" and all(network.scale is not None for network, _ in networks):
        scale = joined([network.scale_of(places) for network, places in networks])
        return scale, len(scale.numbers)
    if fitted is None or views is not None or readout in ("features", "raw"):
        return None, sum(network.widths[place] for network, places in networks for place in places)
    return fitted, fitted.dim


def check_arguments(
    batch_size: int,
    truncate_dim: int | None,
    trees: object,
    flags: Mapping[str, object],
    others: Mapping[str, object],
) -> None:
    """Refuse arguments of ``encode`` that mean nothing.

    Raises:
        UserError: the first of them.
    """
    for name, number in {
        "batch_size": batch_size,
        "truncate_dim": 1 if truncate_dim is None else truncate_dim,
    }.items():
        if not isinstance(number, Integral) or number < 1:
            raise UserError(f"encode: {name}={number!r:.40}: must be a whole number from 1")
    if trees is not None and not hasattr(trees, "has"):
        raise UserError(f"encode: trees={trees!r:.60}: is no tree cache; TreeCache.open opens one")
    for name, flag in flags.items():
        if not isinstance(flag, bool | np.bool_ | int | None):
            raise UserError(f"encode: {name}={flag!r:.60}: must be True or False")
    for name, value in others.items():
        if not any(type(value) is type(one) and value == one for one in IGNORED_ARGUMENTS.get(name, ())):
            raise UserError(f"encode: {name}={value!r} has no meaning for this model")


def check_finite(vectors_BD: Tensor, batch: Batch, places: NDArray[np.int64], model: str) -> None:
    """Refuse vectors that are not finite, of sentences at these places of the input.

    Raises:
        UserError: it names the first such sentence.
    """
    finite = torch.isfinite(vectors_BD).all(dim=1)
    if not finite.all():
        row = int(finite.int().argmin())
        text = " ".join(list(batch.words())[row])
        raise UserError(
            f"{model}: the vector of sentence {int(places[row])}, {text[:60]!r}, is not finite; the model's "
            "weights are unusable"
        )


def units(*sides: Vectors) -> list[Tensor]:
    """Give vectors at length 1, [n, D] and [m, D], on the device of the first; a zero vector stays zero.

    Raises:
        UserError: they are no vectors, or of different sizes.
    """
    left, right = (vectors_of(vectors, "similarity") for vectors in sides)
    if left.shape[1] != right.shape[1]:
        raise UserError(f"similarity: vectors of {left.shape[1]} numbers and of {right.shape[1]}")
    return [unit(left), unit(right).to(left.device)]
