"""What an evaluation returns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from senteval_runner.protocol.config import Protocol


@dataclass(frozen=True, kw_only=True)
class TaskResult:
    """Scores of one task; ``result["acc"]`` reads a metric."""

    task: str
    """SentEval's name."""
    metrics: dict[str, float]
    """``devacc acc f1`` in percent, ``devpearson pearson spearman mse`` and STS keys as they are."""
    dim: int
    """Dimensions of a sentence vector."""
    rows: dict[str, int]
    """Rows read per split."""
    notes: list[str] = field(default_factory=list)
    """Row counts that differ from the published ones."""
    data_sha256: dict[str, str] = field(default_factory=dict)
    """SHA-256 per file read."""
    regularisers: list[float] = field(default_factory=list)
    """Candidates: L2 weights, or C of scikit-learn."""
    chosen: list[float] = field(default_factory=list)
    """Chosen regulariser; one per outer fold for MR, CR, SUBJ and MPQA."""
    dev_scores: list[list[float]] = field(default_factory=list)
    """Development accuracy per candidate; one row per outer fold for MR, CR, SUBJ and MPQA."""
    predictions: dict[str, list[float]] = field(default_factory=dict)
    """Per scored split (or STS subset) one prediction per row, in the file's order."""
    gold: dict[str, list[float]] = field(default_factory=dict)
    """The same rows' classes or scores."""
    seconds: float = 0.0
    """Wall time after encoding."""

    def __getitem__(self, metric: str) -> float:
        return self.metrics[metric]


@dataclass(frozen=True, kw_only=True)
class Results:
    """Tasks by name: ``results["MR"]["acc"]``."""

    protocol: Protocol
    seed: int
    tasks: dict[str, TaskResult] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    """Why a task has no scores: missing or bad files, or vectors that are not finite."""

    def __getitem__(self, task: str) -> TaskResult:
        return self.tasks[task]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tasks)

    def __len__(self) -> int:
        return len(self.tasks)
