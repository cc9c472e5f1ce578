"""The vectors of callers and of their encoders, checked, and an error of a library in one line."""

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
    """Refuse an object without ``encode(sentences)``; the message names the ``caller``."""
    if isinstance(encoder, str | type) or not callable(getattr(encoder, "encode", None)):
        raise UserError(f"{caller}: {describe_value(encoder)} has no encode(sentences)")


def check_vectors(
    output: Any, sentences: Sequence[object], name: str, dim: int | None = None, columns: int = 1
) -> Float:
    """Return the vectors that an encoder made of n sentences, as float32 [K, n, D] on the host.

    ``output`` is [n, D] or [K, n, D], in anything that numpy reads, tensors too; ``dim`` is D where it is
    known, ``columns`` is K. A UserError names another shape, or a sentence whose numbers are not finite.
    """
    vectors, n = _to_array(output, f"{name}: encode() returned a {type(output).__name__}"), len(sentences)
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
    """Return a caller's vectors, [n, D] or one [D], as float32 [n, D] on their device; refuse others."""
    import torch

    if not isinstance(value, torch.Tensor):
        array = _to_array(value, f"{caller}: a {type(value).__name__}")
        value = torch.from_numpy(array.astype(np.float32)) if array.dtype.kind in "fiu" else array
    if not isinstance(value, torch.Tensor) or value.is_complex() or not 1 <= value.ndim <= 2:
        raise UserError(f"{caller}: {describe_value(value)} is no array of numbers [vectors, dimensions]")
    vectors: Tensor = torch.atleast_2d(value).float()
    is_finite = torch.isfinite(vectors).all(dim=1)
    if not is_finite.all():
        raise UserError(f"{caller}: vector {int(is_finite.int().argmin())} has NaN or infinity")
    return vectors


def unit_rows(rows: Float) -> Float:
    """Scale rows of any length to length 1; a zero row stays zero."""
    least, most = (statistic(axis=1, keepdims=True, initial=0) for statistic in (rows.min, rows.max))
    unit: Float = rows / np.maximum(np.maximum(most, -least), 1e-12)
    length = np.sqrt(np.add.reduce(unit * unit, axis=1, keepdims=True))  # as np.linalg.norm, but no copies
    unit /= np.maximum(length, 1e-12)
    return unit


def _to_array(value: Any, subject: str) -> NDArray[Any]:
    """Read anything that numpy reads, and tensors in lists; ``subject`` begins the message of an error."""

    def to_host(value: Any) -> Any:
        return value.detach().cpu().float().numpy() if hasattr(value, "detach") else value

    with report_in_one_line(f"{subject} that is no array"):
        return np.asarray([*map(to_host, value)] if isinstance(value, list | tuple) else to_host(value))


@contextlib.contextmanager
def report_in_one_line(message: str, advice: str = "") -> Iterator[None]:
    """Turn a library's error into a UserError: message, first line of the error in brackets, advice."""
    try:
        yield
    except Exception as error:
        if out_of_memory(error) or out_of_space(error):
            raise
        first_line = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"{message} ({first_line})" + (f"; {advice}" if advice else "")) from None
