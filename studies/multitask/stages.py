"""The language of ``--stages`` and the thirteen configurations of the grid; imports nothing heavy.

A stage is ``TASK[:POOLING][*][[sub]]``, stages are joined by commas::

    sst                 the task, both texts of a pair read together (BERT-style head on [CLS])
    quora:mean          Siamese (SBERT-style), mean pooling; cls and max likewise; features u, v, |u-v|
    quora:mean*         the same with u*v added: u, v, |u-v|, u*v
    quora:mean*[sub]    the same, trained on a fresh tenth of the data each epoch

``sst`` has one sentence: without a pooling its head reads [CLS] (a multi-view tower: its vector). ``sts``
predicts the cosine when Siamese and an output value when joint, so ``*`` has no meaning there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from corpora.support.errors import UserError
from senteval_runner.towers.config import Pooling

TaskName = Literal["sst", "quora", "sts", "nli"]
TASKS: tuple[TaskName, ...] = ("sst", "quora", "sts", "nli")

GRID: tuple[str, ...] = (
    "sst",
    "sst,quora",
    "sst,quora:mean",
    "sst,quora:mean*",
    "sst,quora,sts",
    "sst,quora:mean,sts:mean",
    "sst,quora:cls,sts:cls",
    "sst,quora:max,sts:max",
    "sst,quora:mean*,sts:mean",
    "sst,quora:mean[sub],sts:mean",
    "quora:mean,sts:mean,sst",
    "sst,nli:mean,quora:mean,sts:mean",
    "sst,quora:mean,sts:mean,nli:mean",
)
"""Thirteen configurations: heads (BERT, SBERT), pooling, concatenation, sampling, order, NLI early or late.

SEQ-MT's Table 1 has thirteen rows along these axes; the exact rows are this project's choice.
"""


@dataclass(frozen=True)
class Stage:
    """One stage: which task is trained, with which head."""

    task: TaskName
    pooling: Pooling | None = None
    """Siamese pooling; None is the joint (BERT-style) head."""
    product: bool = False
    """Add u*v to u, v, |u-v|."""
    sampled: bool = False
    """Train on a fresh tenth of the examples each epoch."""

    def __str__(self) -> str:
        pooling = f":{self.pooling}" if self.pooling else ""
        return f"{self.task}{pooling}{'*' * self.product}{'[sub]' * self.sampled}"

    @property
    def slug(self) -> str:
        """The stage as part of a folder name."""
        return str(self).replace(":", "-").replace("*", "-prod").replace("[sub]", "-sub")


def parse_stages(text: str) -> tuple[Stage, ...]:
    """Read ``--stages``.

    Raises:
        UserError: a stage does not have the form above.
    """
    return tuple(_parse_stage(part.strip()) for part in text.split(","))


def _parse_stage(text: str) -> Stage:
    found = re.fullmatch(r"(sst|quora|sts|nli)(?::(cls|mean|max))?(\*)?(\[sub\])?", text)
    if not found:
        raise UserError(
            f"stage {text!r} is not TASK[:cls|mean|max][*][[sub]] with TASK one of {', '.join(TASKS)}; "
            "e.g. sst,quora:mean*,sts:mean"
        )
    task, pooling, star, sub = found.groups()
    if star and (not pooling or task in ("sst", "sts")):
        raise UserError(f"stage {text!r}: * adds u*v to a Siamese pair head (quora or nli with a pooling)")
    return Stage(task, pooling, bool(star), bool(sub))  # type: ignore[arg-type]
