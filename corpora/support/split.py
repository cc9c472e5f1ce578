"""Held-out sets by a hash of the text: adding rows never moves others, and equal texts stay together."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from typing import Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray


class Rows(Protocol):
    """Rows of data that begin with a text."""

    @property
    def first(self) -> Sequence[str]:
        """The text of each row."""
        ...

    def take(self, rows: NDArray[np.intp]) -> Self:
        """The rows with these numbers, int [n]."""
        ...


AnyRows = TypeVar("AnyRows", bound=Rows)


def normalised(text: str) -> str:
    """Lower-cased letters and digits only: equal for the same sentence under another tokenisation."""
    return re.sub(r"[^a-z0-9]", "", text.lower())


def in_fraction(text: str, fraction: float, salt: str = "") -> bool:
    """Whether a text falls into a fixed pseudo-random ``fraction`` of all texts, chosen by ``salt``."""
    return zlib.crc32((salt + normalised(text)).encode()) < fraction * 2**32


def hold_out(rows: AnyRows, fraction: float, salt: str = "") -> tuple[AnyRows, AnyRows]:
    """(training, held out); all rows of a first text are on one side."""
    held = np.array([in_fraction(text, fraction, salt) for text in rows.first], dtype=bool)
    return rows.take(np.flatnonzero(~held)), rows.take(np.flatnonzero(held))


def pair_in_fraction(a: str, b: str, fraction: float) -> bool:
    """:func:`in_fraction` of a pair, the same in either order: no pair is on both sides, turned round."""
    return in_fraction(min(normalised(a), normalised(b)), fraction)
