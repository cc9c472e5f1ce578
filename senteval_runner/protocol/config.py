"""Define the protocols under which encoders are scored, and the results of an evaluation.

SentEval's scores are published under three protocols. ``default`` gives scores that can be compared with
published ones, also with those of the multi-view paper. ``fast`` is the setting that the original toolkit
recommends for prototyping. ``sklearn`` is the toolkit's option ``usepytorch=False``: scikit-learn's logistic
regression in place of the classifier in torch.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from runtime.errors import UserError, check_count, extra


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How classifiers are trained, when their training stops, and how a regulariser is chosen."""

    name: str
    """Name under which the scores are reported."""
    backend: Literal["torch", "sklearn"] = "torch"
    """``torch``: Adam or RMSprop with early stopping; ``sklearn``: ``LogisticRegression``."""
    kfold: int = 10
    """Number of folds of the outer and of the inner cross-validation."""
    optim: Literal["adam", "rmsprop"] = "adam"
    """Optimiser, at torch's default learning rate (1e-3 for Adam, 1e-2 for RMSprop)."""
    batch_size: int = 64
    """Rows of a batch."""
    tenacity: int = 5
    """Number of rounds without improvement that are tolerated, counted over the whole training."""
    epoch_size: int = 4
    """Epochs of a round; the development accuracy is measured after each round."""
    max_epoch: int = 200
    """No round begins after more than this many epochs."""
    nhid: int = 0
    """Width of the hidden sigmoid layer; 0 is logistic regression."""

    def __post_init__(self) -> None:
        minimums = {"kfold": 2, "batch_size": 1, "epoch_size": 1, "tenacity": 0, "nhid": 0}
        for name, minimum in minimums.items():
            # The class is frozen; a number of numpy would not be written as JSON.
            object.__setattr__(self, name, check_count(getattr(self, name), name, minimum, 2**31 - 1))
        choices = {"backend": ("torch", "sklearn"), "optim": ("adam", "rmsprop")}
        for name, values in choices.items():
            if getattr(self, name) not in values:
                raise UserError(f"{name} {getattr(self, name)!r:.40}: must be {' or '.join(values)}")
        if self.backend == "sklearn" and self.nhid:
            raise UserError("the sklearn protocol has no hidden layer: use nhid 0, or default or fast")


PROTOCOLS = {
    "default": Protocol(name="default"),
    "fast": Protocol(name="fast", kfold=5, optim="rmsprop", batch_size=128, tenacity=3, epoch_size=2),
    "sklearn": Protocol(name="sklearn", backend="sklearn"),
}


def get_protocol(protocol: str | Protocol, *, nhid: int | None = None) -> Protocol:
    """Return the protocol of a name, or the given protocol, with ``nhid`` hidden units unless that is None.

    Raises UserError if no protocol has that name, or scikit-learn is needed and not installed.
    """
    if isinstance(protocol, str):
        if protocol not in PROTOCOLS:
            raise UserError(f"unknown protocol {protocol!r} (known: {', '.join(PROTOCOLS)})")
        protocol = PROTOCOLS[protocol]
    if not isinstance(protocol, Protocol):
        raise UserError(f"protocol {protocol!r:.40} is no name and no Protocol")
    if protocol.backend == "sklearn":
        # Whether scikit-learn is installed must be known before sentences are encoded, which takes long.
        with extra("sklearn", "scikit-learn"):
            import sklearn  # noqa: F401
    return protocol if nhid is None else dataclasses.replace(protocol, nhid=nhid)


@dataclass(frozen=True, kw_only=True, repr=False)
class TaskResult:
    """Scores of one task; ``result["acc"]`` is a metric."""

    task: str
    """SentEval's name."""
    metrics: dict[str, float]
    """Scores by name. ``devacc acc f1`` of classifiers are in percent. Correlations are in [-1, 1]:
    ``devpearson pearson spearman`` of a regression, ``cosine.pearson cosine.spearman`` and the metrics of
    STS12-16, for which nothing is trained. ``mse`` is on the scale of the human scores."""
    dim: int
    """Number of dimensions of a sentence vector."""
    rows: dict[str, int]
    """Number of rows by split."""
    notes: list[str] = field(default_factory=list)
    """Remarks for the report: row counts that differ from the published ones, scores to compare with."""
    data_sha256: dict[str, str] = field(default_factory=dict)
    """SHA-256 of each file that was read, by file name."""
    regularisers: list[float] = field(default_factory=list)
    """The regularisers to choose from: L2 weights, or scikit-learn's C."""
    chosen: list[float] = field(default_factory=list)
    """The chosen regulariser; for MR, CR, SUBJ and MPQA one per outer fold."""
    dev_scores: list[list[float]] = field(default_factory=list)
    """Development accuracy by regulariser; for MR, CR, SUBJ and MPQA one row per outer fold."""
    predictions: dict[str, list[float]] = field(default_factory=dict)
    """A prediction per row, in the file's order, by split (or subset of STS)."""
    gold: dict[str, list[float]] = field(default_factory=dict)
    """The true classes or scores of the same rows."""
    vector_label: str = ""
    """Which vectors were scored, if the model has different ones for cosines and for classifiers."""
    seconds: float = 0.0
    """Wall time of scoring, without that of encoding."""

    def __getitem__(self, metric: str) -> float:
        return self.metrics[metric]

    def __repr__(self) -> str:
        metrics = "  ".join(f"{name} {value:.4g}" for name, value in self.metrics.items())
        return f"{self.task}: {metrics}  ({sum(self.rows.values()):,} rows, {self.dim} dimensions)"

    def score_rows(self) -> list[dict[str, Any]]:
        """Return a row with the keys task, metric and value for each metric."""
        return [
            {"task": self.task, "metric": name, "value": self.metrics[name]} for name in sorted(self.metrics)
        ]

    def figures(self) -> dict[str, Any]:
        """Return all fields for JSON, except the predictions and gold labels of single rows."""
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
    """Why a task has no scores, by task: missing or bad files, or vectors that are not finite."""

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
        """Return a row for each metric of each task, for ``pandas.DataFrame(results.rows())``."""
        names = {"protocol": self.protocol.name, "seed": self.seed}
        return [names | row for result in self.tasks.values() for row in result.score_rows()]
