"""Held-out shares by a hash of the first text: stable under added rows, no premise on both sides."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

import numpy as np

from studies.finetune.examples import Examples


def normalised(text: str) -> str:
    """Lower-cased letters and digits only: equal for the same sentence under another tokenisation."""
    return re.sub(r"[^a-z0-9]", "", text.lower())


def in_share(text: str, share: float, salt: str = "") -> bool:
    """Whether a text falls into a fixed pseudo-random ``share`` of all texts, another one per ``salt``."""
    return zlib.crc32((salt + normalised(text)).encode()) < share * 2**32


def hold_out(examples: Examples, share: float, salt: str = "") -> tuple[Examples, Examples]:
    """(training, held out); all examples of a first text are on one side."""
    held = np.array([in_share(text, share, salt) for text in examples.first], dtype=bool)
    return examples.take(np.flatnonzero(~held)), examples.take(np.flatnonzero(held))


def hold_out_pairs(
    pairs: Sequence[tuple[str, str]], share: float
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """(training, held out) paraphrase pairs, by the first phrase."""
    train: list[tuple[str, str]] = []
    held: list[tuple[str, str]] = []
    for pair in pairs:
        (held if in_share(pair[0], share) else train).append(pair)
    return train, held
