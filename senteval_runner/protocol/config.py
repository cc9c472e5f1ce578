"""Define what an evaluation takes and returns: protocols and results.

SentEval's scores are published under three protocols. ``default`` makes scores comparable, also with those of
the multi-view paper; ``fast`` is the original toolkit's one for prototyping; ``sklearn`` is its scikit-learn
path (``usepytorch=False``), a second opinion on the classifier.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from runtime.errors import UserError, extra


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How classifiers are trained, stopped and chosen."""

    name: str
    """Name under which the scores are reported."""
    backend: Literal["torch", "sklearn"] = "torch"
    """``torch``: Adam or RMSprop with early stopping; ``sklearn``: ``LogisticRegression``."""
    kfold: int = 10
    """Number of folds, outer and inner."""
    optim: Literal["adam", "rmsprop"] = "adam"
    """Optimiser, at torch's default learning rate (1e-3, 1e-2)."""
    batch_size: int = 64
    """Rows per step."""
    tenacity: int = 5
    """Rounds without improvement allowed over the whole fit."""
    epoch_size: int = 4
    """Epochs per round; development accuracy is measured after each round."""
    max_epoch: int = 200
    """No round begins once more than this many epochs are done."""
    nhid: int = 0
    """Width of the hidden sigmoid layer; 0 is logistic regression."""

    def __post_init__(self) -> None:
        minimums = {"kfold": 2, "batch_size": 1, "epoch_size": 1, "tenacity": 0, "nhid": 0}
        for name, minimum in minimums.items():
            if getattr(self, name) < minimum:
                raise UserError(f"{name} must be at least {minimum}, not {getattr(self, name)}")
        if self.backend == "sklearn" and self.nhid:
            raise UserError("the sklearn protocol has no hidden layer: use nhid 0, or default or fast")


PROTOCOLS = {
    "default": Protocol(name="default"),
    "fast": Protocol(name="fast", kfold=5, optim="rmsprop", batch_size=128, tenacity=3, epoch_size=2),
    "sklearn": Protocol(name="sklearn", backend="sklearn"),
}


def get_protocol(protocol: str | Protocol, *, nhid: int | None = None) -> Protocol:
    """Return a protocol, given itself or by its name; ``nhid`` replaces the width of the hidden layer."""
    if isinstance(protocol, str):
        if protocol not in PROTOCOLS:
            raise UserError(f"unknown protocol {protocol!r} (known: {', '.join(PROTOCOLS)})")
        protocol = PROTOCOLS[protocol]
    if protocol.backend == "sklearn":  # before anything is encoded
        with extra("sklearn", "scikit-learn"):
            import sklearn  # noqa: F401
    return protocol if nhid is None else dataclasses.replace(protocol, nhid=nhid)


@dataclass(frozen=True, kw_only=True, repr=False)
class TaskResult:
    """Scores of one task; ``result["acc"]`` is a metric."""

    task: str
    """SentEval's name."""
    metrics: dict[str, float]
    """``devacc acc f1`` in percent; ``devpearson pearson spearman mse`` (trained), ``cosine.pearson
    cosine.spearman`` (not trained) and those of STS12-16 as fractions."""
    dim: int
    """Number of dimensions of a sentence vector."""
    rows: dict[str, int]
    """Number of rows by split."""
    notes: list[str] = field(default_factory=list)
    """Row counts that differ from the published ones."""
    data_sha256: dict[str, str] = field(default_factory=dict)
    """SHA-256 by name of the files that were read."""
    regularisers: list[float] = field(default_factory=list)
    """Candidates, L2 weights or scikit-learn's C."""
    chosen: list[float] = field(default_factory=list)
    """Regulariser that was chosen; one per outer fold for MR, CR, SUBJ and MPQA."""
    dev_scores: list[list[float]] = field(default_factory=list)
    """Development accuracy per candidate; one row per outer fold for MR, CR, SUBJ and MPQA."""
    predictions: dict[str, list[float]] = field(default_factory=dict)
    """A prediction per row, in the file's order, by split (or subset of STS)."""
    gold: dict[str, list[float]] = field(default_factory=dict)
    """Classes or scores of the same rows."""
    vector_label: str = ""
    """Which vectors were scored, of a model that has some for cosines and some for classifiers."""
    seconds: float = 0.0
    """Wall time without that of encoding."""

    def __getitem__(self, metric: str) -> float:
        return self.metrics[metric]

    def __repr__(self) -> str:
        metrics = "  ".join(f"{name} {value:.4g}" for name, value in self.metrics.items())
        return f"{self.task}: {metrics}  ({sum(self.rows.values()):,} rows, {self.dim} dimensions)"

    def score_rows(self) -> list[dict[str, Any]]:
        """Return a row per score."""
        return [
            {"task": self.task, "metric": name, "value": self.metrics[name]} for name in sorted(self.metrics)
        ]

    def figures(self) -> dict[str, Any]:
        """Return everything but the predictions and gold labels of single rows, for JSON."""
        record = dataclasses.asdict(self)
        del record["predictions"], record["gold"]
        return record


@dataclass(frozen=True, kw_only=True, repr=False)
class Results:
    """Results of tasks by name: ``results["MR"]["acc"]``."""

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

    def __repr__(self) -> str:
        head = f"protocol {self.protocol.name}, seed {self.seed}"
        reasons = [f"{task}: skipped, {reason}"[:100] for task, reason in self.skipped.items()]
        return "\n".join([head, *map(repr, self.tasks.values()), *reasons])

    def rows(self) -> list[dict[str, Any]]:
        """Return a row per score, for ``pandas.DataFrame(results.rows())``."""
        names = {"protocol": self.protocol.name, "seed": self.seed}
        return [names | row for result in self.tasks.values() for row in result.score_rows()]
