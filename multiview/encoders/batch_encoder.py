"""Encoders of parsed batches: the concatenated views of a model, or their features or meaning."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from multiview.encoders.meaning import Readout, Scale, normalize_rows
from multiview.encoders.registry import ViewStack
from multiview.libraries.arrays import read_vectors
from parsing.trees.batch import Batch
from runtime.errors import UserError

ArrayOrTensor = NDArray[np.floating] | Tensor


@dataclass(frozen=True)
class BatchEncoder:
    """A function that encodes parsed sentences, with the annotations that it reads and its vector size."""

    requires: set[str]
    """The annotations that ``encode`` reads, of ``tokens``, ``dep`` and ``const``."""
    width: int
    """The size of a vector."""
    encode: Callable[[Batch], Tensor]
    """Returns the vectors [B, width] of parsed sentences."""


def view_positions(names: Sequence[str], selection: Sequence[str] | str | None) -> list[int]:
    """Return the positions of the selected views of a model; None selects all.

    A label is the name of a view, such as ``dep``, or its position and name, such as ``0-dep``. Raises
    UserError if a label is unknown.
    """
    if selection is None:
        return list(range(len(names)))
    if isinstance(selection, str):
        selection = [selection]
    if not isinstance(selection, Collection) or not all(isinstance(label, str) for label in selection):
        raise UserError(f"views={selection!r:.60}: are no names of views")
    labels_of_positions = [{name, f"{position}-{name}"} for position, name in enumerate(names)]
    known_labels = set[str]().union(*labels_of_positions)
    selected_labels = set(selection)
    unknown_labels = selected_labels - known_labels
    if unknown_labels or not selected_labels:
        subject = f"view {min(unknown_labels)!r}" if unknown_labels else "views=[]"
        raise UserError(f"{subject}: this model has {', '.join(sorted(known_labels))}")
    return [position for position, labels in enumerate(labels_of_positions) if labels & selected_labels]


def annotations_of(network: ViewStack, positions: Sequence[int]) -> set[str]:
    """Return the annotations that the views at these positions read, of ``tokens``, ``dep`` and ``const``."""
    return set[str]().union(*(network.encoder_list[position].requires for position in positions))


def encoder_of_views(
    network: ViewStack, positions: Sequence[int], transform: Readout | Scale | None, dim: int | None
) -> BatchEncoder:
    """Return the encoder of concatenated views, mapped by ``transform``, then cut after ``dim`` numbers."""
    width = transform.dim if transform is not None else sum(network.widths[index] for index in positions)
    width = min(dim or width, width)

    def encode(batch: Batch) -> Tensor:
        views_BD = network.vectors(batch, positions)
        return views_BD[:, :width] if transform is None else transform(views_BD, width)

    return BatchEncoder(annotations_of(network, positions), width, encode)


def check_finite(vectors_BD: Tensor, batch: Batch, rows: NDArray[np.integer], name: str) -> None:
    """Raise UserError if a vector is not finite; ``rows`` are the sentences' numbers in the input."""
    is_finite = torch.isfinite(vectors_BD)
    if not is_finite.all():
        row = int(is_finite.all(dim=1).int().argmin())
        sentence = " ".join(list(batch.words())[row])
        raise UserError(
            f"{name}: the vector of sentence {int(rows[row])}, {sentence[:60]!r}, is not finite; "
            "the model's weights are unusable"
        )


def unit_vectors(first: ArrayOrTensor, second: ArrayOrTensor) -> tuple[Tensor, Tensor]:
    """Return vectors scaled to length 1, [n, D] and [m, D], on the device of the first; zero stays zero.

    Raises UserError if one of them is no array of vectors, or if their sizes differ.
    """
    left = read_vectors(first, "similarity")
    right = read_vectors(second, "similarity")
    if left.shape[1] != right.shape[1]:
        raise UserError(
            f"similarity: vectors of {left.shape[1]} and of {right.shape[1]} numbers; give one size"
        )
    return normalize_rows(left), normalize_rows(right).to(left.device)
