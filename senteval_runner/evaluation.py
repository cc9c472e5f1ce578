"""Score an encoder on SentEval's tasks.

    from senteval_runner import evaluate
    results = evaluate(encoder, ["MR", "SICK-R"], "data/senteval")
    results["MR"]["acc"], results["SICKRelatedness"]["pearson"]

Rows are first sorted as in the original, because folds and shuffles index into that order; predictions come
back in the files' order.
"""

import contextlib
import dataclasses
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpora.ranking.queries import QuerySet, ranking_metrics, report_lines
from corpora.senteval.files import Split, TaskData, read_task
from corpora.senteval.tasks import canonical_task
from multiview.names.opened import Encoder, OpenedEncoder, SentenceVectors, as_encoder
from runtime import __version__
from runtime.errors import UserError
from runtime.files import sha256_file
from runtime.progress import progress
from senteval_runner.evaluation_trees import EvaluationTrees
from senteval_runner.protocol.classify import inner_kfold, kfold, split
from senteval_runner.protocol.config import Protocol, Results, TaskResult, get_protocol
from senteval_runner.protocol.correlation import cosines, pearson, relatedness, spearman
from senteval_runner.protocol.cosine_tasks import SCORERS, neighbour_result
from senteval_runner.protocol.features import Float, Int, design, pair_blocks
from senteval_runner.protocol.statistics import SCORES


class EncoderError(UserError):
    """The encoder failed, or its vectors cannot be used, so that no task can be scored with it."""


def evaluate(
    encoder: Encoder | SentenceVectors,
    tasks: Sequence[str] | str,
    data: Path | str,
    protocol: str | Protocol = "default",
    seed: int = 1111,
    *,
    nhid: int | None = None,
    trees: Path | str | None = None,
) -> Results:
    """Score an encoder: an object with ``encode(list of sentences) -> [n, d]``, or a function of token lists.

    ``tasks`` are SentEval's names or aliases; a string holds several, separated by commas. ``data`` is the
    folder with ``downstream/`` and ``probing/``. The seed is that of every fit, and of the folds of TREC and
    MRPC; ``nhid`` replaces the protocol's width of the classifier's hidden layer. ``trees`` is a folder
    (``runs/trees``) in which a multi-view encoder's parsers keep the trees of every sentence.

    A task that could not be scored is under ``skipped`` with the reason. Raises EncoderError: the encoder
    refused the first task's input or returned no [n, d] of finite numbers (its other errors pass through as
    they are); UserError: an unknown task or protocol name, or something that is no encoder.
    """
    protocol = get_protocol(protocol, nhid=nhid)
    names = tasks.replace(",", " ").split() if isinstance(tasks, str) else tasks
    task_data = read_tasks([canonical_task(name) for name in names], Path(data))
    trees_of = None if trees is None else EvaluationTrees(folder=Path(trees), tasks=task_data.data).of
    opened_encoder = as_encoder(encoder, trees_of)
    results = Results(protocol=protocol, seed=seed, skipped=task_data.missing)
    with progress(total=len(task_data.data), unit="task", description="evaluate") as bar:
        for task in task_data.data:
            try:
                results.tasks[task.name] = evaluate_task(opened_encoder, task, protocol, seed)
            except UserError as error:
                # Nothing is lost yet: with a broken encoder every task would be skipped, one after the other.
                if isinstance(error, EncoderError) and not results.tasks:
                    raise
                results.skipped[task.name] = str(error)
            bar.update(1)
    return results


@dataclass(frozen=True)
class Tasks:
    """The tasks of an evaluation."""

    data: list[TaskData]
    """The tasks that can be read."""
    missing: dict[str, str]
    """Why others cannot be read, by task."""


def read_tasks(names: Sequence[str], folder: Path) -> Tasks:
    """Read tasks by canonical name."""
    tasks = Tasks([], {})
    for name in names:
        try:
            tasks.data.append(read_task(name, folder))
        except UserError as error:
            tasks.missing[name] = str(error)
    return tasks


class _EncodedSplit:
    """The vectors and labels of one split, in the order of the original toolkit."""

    def __init__(self, split: Split, vectors: SentenceVectors, snli_classes: Sequence[str] = ()) -> None:
        def sort_key(row: int) -> tuple[int, int, float | str]:
            """Sort by lengths in tokens, then label; SNLI by the second length first and by label names."""
            length_a = len(split.a[row])
            length_b = len(split.b[row]) if split.b else 0
            if snli_classes:
                return length_b, length_a, snli_classes[int(split.y[row])]
            return length_a, length_b, split.y[row]

        self.order = sorted(range(len(split)), key=sort_key)
        self.y = np.array([split.y[i] for i in self.order])
        self.u = vectors([split.a[i] for i in self.order])
        self.v = None if split.b is None else vectors([split.b[i] for i in self.order])
        self.is_snli = bool(snli_classes)

    def blocks(self) -> tuple[Float, ...]:
        """Return a classifier's input: u [n, d]; for pairs |u - v|, u ∗ v; for SNLI u, v, u ∗ v, |u - v|."""
        if self.v is None:
            return (self.u,)
        difference, product = pair_blocks(self.u, self.v)
        return (self.u, self.v, product, difference) if self.is_snli else (difference, product)

    def to_file_order(self, values: NDArray[np.generic]) -> list[float]:
        """Return values [n] of the sorted rows as a list in the file's order."""
        values_by_row = np.empty_like(values)
        values_by_row[self.order] = values
        as_list: list[float] = values_by_row.tolist()
        return as_list


_EncodedSplits = dict[str, _EncodedSplit]


def evaluate_task(encoder: OpenedEncoder, task: TaskData, protocol: Protocol, seed: int) -> TaskResult:
    """Encode and score one task: by cosines of meaning, or by classifiers and regressions of features.

    Raises EncoderError: the encoder refused its input or returned bad vectors; UserError: a split has too few
    rows.
    """
    for name, rows in task.splits.items():
        if not len(rows):
            raise UserError(f"{task.name} {name}: no rows in {', '.join(map(str, task.files.get(name, [])))}")
    kind, scorer = task.task.kind, task.task.scorer
    is_trained = kind in ("classes", "graded")
    vectors = encoder.features if is_trained else encoder.encode
    labels = [vectors.label]
    snli_classes = task.classes if scorer == "split_snli" else ()
    try:
        splits = {name: _EncodedSplit(rows, vectors, snli_classes) for name, rows in task.splits.items()}
        if kind == "graded" and encoder.has_features:
            splits["cosine"] = _EncodedSplit(task.splits["test"], encoder.encode)
            labels.append(f"{encoder.encode.label} (cosine)")
    except UserError as error:
        raise EncoderError(str(error)) from error
    began = time.perf_counter()
    if kind == "classes":
        fields = _score_classes(task, splits, protocol, seed)
    elif kind == "graded":
        fields = _score_graded(splits, seed)
    elif kind == "cosine":
        fields = _score_cosines(task, splits)
    elif kind == "ranking":
        fields = _score_ranking(task, splits)
    else:
        fields = neighbour_result({title: book.u[np.argsort(book.order)] for title, book in splits.items()})
    first_split, *_ = splits.values()
    return TaskResult(
        task=task.name,
        dim=first_split.u.shape[1],
        rows={name: len(rows) for name, rows in task.splits.items()},
        notes=[*task.count_notes(), *fields.pop("notes", [])],
        data_sha256=data_hashes(task),
        vector_label=", ".join(labels),
        seconds=time.perf_counter() - began,
        **fields,
    )


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of Python and of installed packages that scores depend on, with ``packages``."""
    version_of = {"python": platform.python_version(), "multiview-embeddings": __version__}
    for name in ("torch", "numpy", "scipy", "scikit-learn", *packages):
        with contextlib.suppress(PackageNotFoundError):
            version_of[name] = version(name)
    return version_of


def data_hashes(task: TaskData) -> dict[str, str]:
    """Return the SHA-256 of every file that a task was read from, by name."""
    files = sorted({path for paths in task.files.values() for path in paths})
    return {path.name: sha256_file(path) for path in files}


def _score_cosines(task: TaskData, splits: _EncodedSplits) -> dict[str, Any]:
    """Score STS12-16 and the tasks of structure by the cosines of pairs, without training.

    As the functions below it returns those fields of a :class:`TaskResult` that depend on the kind of task.
    """
    metrics = {
        name: np.array(encoded.to_file_order(cosines(encoded.u, encoded.v)))
        for name, encoded in splits.items()
        if encoded.v is not None
    }
    gold = {name: np.array(split.y, dtype=np.float64) for name, split in task.splits.items()}
    return SCORERS[task.task.scorer](metrics, gold)


def _score_ranking(task: TaskData, splits: _EncodedSplits) -> dict[str, Any]:
    """Score search by P@1 (``acc``), MRR and recall@10 in per cent; the notes have those of shared words."""
    collection = task.splits["collection"]
    texts = [" ".join(tokens) for tokens in collection.a]
    first_row = {text: row for row, text in reversed(list(enumerate(texts)))}
    index_of_text = {text: index for index, text in enumerate(first_row)}
    relevant: list[list[int]] = [[] for _ in task.splits["queries"].a]
    for text, query in zip(texts, collection.y, strict=True):
        if query >= 0:
            relevant[int(query)].append(index_of_text[text])
    queries = [" ".join(tokens) for tokens in task.splits["queries"].a]
    data = QuerySet(queries, list(first_row), [np.unique(indices) for indices in relevant])
    query_QD, text_ND = (splits[name].u[np.argsort(splits[name].order)] for name in ("queries", "collection"))
    ranks = data.ranks_by_vectors(query_QD, text_ND[list(first_row.values())])
    metrics = {name: 100 * value for name, value in ranking_metrics(ranks).items()}
    is_first = [float(each.min() == 1) for each in ranks]
    return {
        "metrics": {"acc": metrics["P@1"], "mrr": metrics["MRR"], "recall@10": metrics["recall@10"]},
        "predictions": {"queries": is_first},
        "gold": {"queries": [1.0] * len(is_first)},
        "notes": [f"{name}: {line}" for name, line in report_lines(data, {}) if name != "queries"],
    }


def _score_classes(task: TaskData, splits: _EncodedSplits, protocol: Protocol, seed: int) -> dict[str, Any]:
    """Score by classifiers, in SentEval's way for the task."""
    scorer = task.task.scorer
    test = "all" if scorer == "inner_kfold" else "test"
    x = np.concatenate([design(encoded.blocks()) for encoded in splits.values()])
    y = np.concatenate([encoded.y for encoded in splits.values()])
    ends = np.cumsum([len(encoded.y) for encoded in splits.values()])
    row_numbers = dict(zip(splits, np.split(np.arange(len(y)), ends[:-1]), strict=True))
    classes = len(task.classes)
    if scorer == "inner_kfold":
        # The outer test fold takes up to n / kfold rows of a class, rounded up; the inner folds need kfold.
        _check_class_sizes(task, "all", y, protocol.kfold + 2)
        outcome = inner_kfold(x, y, classes, protocol, seed)
    elif scorer == "kfold":
        _check_class_sizes(task, "train", splits["train"].y, protocol.kfold)
        outcome = kfold(x, y, row_numbers["train"], row_numbers["test"], classes, protocol, seed)
    else:
        if scorer == "split_linear":  # which never has a hidden layer
            protocol = get_protocol(protocol, nhid=0)
        is_snli = scorer == "split_snli"
        if is_snli:  # which is trained in 16 single passes
            protocol = dataclasses.replace(protocol, max_epoch=15, epoch_size=1)
        train_dev_test = row_numbers["train"], row_numbers["dev"], row_numbers["test"]
        outcome = split(x, y, *train_dev_test, classes, protocol, seed, nominal=is_snli)
    metrics = {"devacc": outcome.devacc, "acc": outcome.acc}
    if splits[test].v is not None and classes == 2:
        metrics["f1"] = float(round(float(SCORES["f1"](splits[test].y, outcome.predictions)), 2))
    return {
        "metrics": metrics,
        "regularisers": list(outcome.regularisers),
        "chosen": outcome.chosen,
        "dev_scores": outcome.dev_scores,
        "predictions": {test: splits[test].to_file_order(outcome.predictions)},
        "gold": {test: splits[test].to_file_order(splits[test].y)},
    }


def _check_class_sizes(task: TaskData, split: str, y: Int, minimum: int) -> None:
    counts = np.bincount(y, minlength=len(task.classes))
    if counts.min() < minimum:
        smallest = int(counts.argmin())
        # Of a file per class, that of class 1 is first.
        file = task.files[split][-1 - smallest if task.task.reader == "binary" else 0]
        raise UserError(
            f"{task.name} {split}: class {task.classes[smallest]} has {counts.min()} rows, the folds need "
            f"{minimum}; is {file} truncated?"
        )


def _score_graded(splits: _EncodedSplits, seed: int) -> dict[str, Any]:
    """Score by regression, and by cosines without training; the same under every protocol."""
    train, dev, test = splits["train"], splits["dev"], splits["test"]
    designs = [(design(encoded.blocks()), encoded.y.astype(np.float64)) for encoded in (train, dev, test)]
    metrics, predictions = relatedness(designs[0], designs[1], designs[2], seed)
    pairs = splits.get("cosine", test)
    assert pairs.v is not None
    cosine = cosines(pairs.u, pairs.v)
    metrics |= {"cosine.pearson": pearson(cosine, test.y), "cosine.spearman": spearman(cosine, test.y)}
    return {
        "metrics": metrics,
        "predictions": {"test": test.to_file_order(predictions), "cosine": test.to_file_order(cosine)},
        "gold": {"test": test.to_file_order(test.y)},
    }
