"""Checks vectors that callers or other encoders give, and turns errors of libraries into one line."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from corpora.sentences import describe_value
from runtime.errors import UserError, out_of_memory, out_of_space

if TYPE_CHECKING:
    from torch import Tensor

Float = NDArray[np.float32]


def check_encoder(encoder: Any, caller: str) -> None:
    """Raise UserError if an object has no ``encode(sentences)``; its message begins with ``caller``."""
    if isinstance(encoder, str | type) or not callable(getattr(encoder, "encode", None)):
        raise UserError(f"{caller}: {describe_value(encoder)} has no encode(sentences)")


def check_vectors(
    output: Any, sentences: Sequence[object], name: str, dim: int | None = None, columns: int = 1
) -> Float:
    """Return what an encoder returned for n sentences as a float32 array [K, n, D].

    Args:
        output: The vectors, [n, D] or [K, n, D]: a tensor on any device, or anything that numpy reads.
        sentences: The n sentences, for the message.
        name: The name of the encoder, for the message.
        dim: D, if it is known.
        columns: K, the number of vectors of each sentence.

    Raises UserError if the shape is another one, or if a value is not finite; the message names the first
    sentence with such a value.
    """
    vectors, n = to_array(output, f"{name}: encode() returned a {type(output).__name__}"), len(sentences)
    fits_sentences = vectors.ndim > 1 and vectors.shape[-1] and vectors.shape[:-1] in ((n,), (columns, n))
    if not fits_sentences or vectors.dtype.kind not in "fiu" or dim not in (None, vectors.shape[-1]):
        raise UserError(
            f"{name}: encode() returned {vectors.dtype} {list(vectors.shape)} for {n} sentences; "
            f"expected numbers [sentences, {dim or 'dimensions'}]"
        )
    with np.errstate(over="ignore"):
        rows: Float = np.require(vectors, np.float32, ["C", "W"]).reshape(-1, n, vectors.shape[-1])
    is_finite = np.isfinite(rows).all(axis=(0, 2))
    if not is_finite.all():
        raise UserError(
            f"{name}: encode() returned NaN or infinity for {int((~is_finite).sum())} of {n} sentences, "
            f"first {str(sentences[int(np.argmin(is_finite))])[:80]!r}"
        )
    return rows


def read_vectors(value: Any, caller: str) -> Tensor:
    """Return vectors [n, D], or a single one [D], as a float32 tensor [n, D] on their device.

    Raises UserError if ``value`` is no array of finite numbers; its message begins with ``caller``.
    """
    import torch

    if not isinstance(value, torch.Tensor):
        array = to_array(value, f"{caller}: a {type(value).__name__}")
        value = torch.from_numpy(array.astype(np.float32)) if array.dtype.kind in "fiu" else array
    if not isinstance(value, torch.Tensor) or value.is_complex() or not 1 <= value.ndim <= 2:
        raise UserError(f"{caller}: {describe_value(value)} is no array of numbers [vectors, dimensions]")
    vectors: Tensor = torch.atleast_2d(value).float()
    is_finite = torch.isfinite(vectors).all(dim=1)
    if not is_finite.all():
        raise UserError(f"{caller}: vector {int(is_finite.int().argmin())} has NaN or infinity")
    return vectors


def unit_rows(rows: Float) -> Float:
    """Return the rows scaled to length 1, without overflow or underflow of squares; zero rows stay zero.

    Each row is first divided by the largest magnitude of its numbers. :func:`runtime.vectors.divide_by_norms`
    leaves that out; it is faster, and its results differ in the last digits.
    """
    least, most = (statistic(axis=1, keepdims=True, initial=0) for statistic in (rows.min, rows.max))
    unit: Float = rows / np.maximum(np.maximum(most, -least), np.finfo(rows.dtype).tiny)
    length = np.sqrt(np.add.reduce(unit * unit, axis=1, keepdims=True))  # np.linalg.norm would copy the rows
    unit /= np.maximum(length, 1e-12)
    return unit


def to_array(value: Any, subject: str) -> NDArray[Any]:
    """Return anything that numpy reads, or tensors in a list, as an array; errors begin with ``subject``."""

    def to_host(value: Any) -> Any:
        return value.detach().cpu().float().numpy() if hasattr(value, "detach") else value

    with report_in_one_line(f"{subject} that is no array"):
        return np.asarray([*map(to_host, value)] if isinstance(value, list | tuple) else to_host(value))


@contextlib.contextmanager
def report_in_one_line(message: str, advice: str = "") -> Iterator[None]:
    """Raise a library's error as a UserError: message, first line of the error in brackets, advice.

    Errors that mean a lack of memory or a full disk are raised unchanged.
    """
    try:
        yield
    except Exception as error:
        if out_of_memory(error) or out_of_space(error):
            raise
        first_line = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"{message} ({first_line})" + (f"; {advice}" if advice else "")) from None
