"""Configurations under SEQ-MT's names: which tasks are trained, in which order, under which head.

A configuration is its stages joined by hyphens, a stage is ``TASK[sub](POOLING)*``; all but the task may be
missing. Table 1 of the paper names its thirteen rows so::

    SA                sentiment, single sentences: a head on [CLS]
    P, STS, NLI       both texts of a pair read together, a head on [CLS] (BERT)
    P(M)              both texts read alone and pooled (SBERT): features u, v, |u-v|; (C) and (X) likewise
    P(M)*             with u*v added: u, v, |u-v|, u*v
    P[sub](M)         trained on a fresh random tenth of the data each epoch
    SA-P-STS(M)       sentiment first, then paraphrases, then similarity

Siamese ``STS`` predicts the cosine itself, joint ``STS`` a logit; ``*`` has no meaning for either.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from corpora.support.errors import UserError
from senteval_runner.towers import Pooling

TaskName = Literal["sst", "quora", "sts", "nli"]
TASKS: tuple[TaskName, ...] = ("sst", "quora", "sts", "nli")
LETTERS: dict[str, TaskName] = {"SA": "sst", "P": "quora", "STS": "sts", "NLI": "nli"}
POOLINGS: dict[str, Pooling] = {"C": "cls", "M": "mean", "X": "max"}
_LETTERS_OF = {task: letters for letters, task in LETTERS.items()}
_POOLING_OF = {pooling: letter for letter, pooling in POOLINGS.items()}


@dataclass(frozen=True)
class Stage:
    """One stage: which task is trained, with which head."""

    task: TaskName
    pooling: Pooling | None = None
    """Siamese pooling; None is the joint (BERT) head."""
    product: bool = False
    """Add u*v to u, v, |u-v|."""
    sampled: bool = False
    """Train on a fresh tenth of the examples each epoch."""

    def __str__(self) -> str:
        pooling = f"({_POOLING_OF[self.pooling]})" if self.pooling else ""
        return f"{_LETTERS_OF[self.task]}{'[sub]' * self.sampled}{pooling}{'*' * self.product}"

    @property
    def slug(self) -> str:
        """The stage as part of a folder name."""
        parts = [self.task, "sub" * self.sampled, self.pooling or "", "prod" * self.product]
        return "-".join(filter(None, parts))


Stages = tuple[Stage, ...]
"""A configuration."""


def name_of(stages: Sequence[Stage]) -> str:
    """The configuration's name, as :func:`parse_stages` reads it."""
    return "-".join(map(str, stages))


def parse_stages(text: str) -> Stages:
    """Read a configuration's name.

    Raises:
        UserError: a stage does not have the form above.
    """
    return tuple(map(_parse_stage, text.strip().split("-")))


def _parse_stage(text: str) -> Stage:
    found = re.fullmatch(r"(SA|P|STS|NLI)(\[sub\])?(?:\(([CMX])\))?(\*)?", text)
    if not found:
        raise UserError(f"stage {text!r}: want TASK[sub](C|M|X)*, TASK one of {', '.join(LETTERS)}")
    letters, sub, letter, star = found.groups()
    if star and (not letter or letters in ("SA", "STS")):
        raise UserError(f"stage {text!r}: * adds u*v to a Siamese pair head, P(M)* or NLI(M)*")
    return Stage(LETTERS[letters], POOLINGS[letter] if letter else None, bool(star), bool(sub))
