"""Score an encoder on SentEval's tasks.

    from senteval_runner import evaluate
    results = evaluate(encoder, ["MR", "SICK-R"], "data/senteval")
    results["MR"]["acc"], results["SICKRelatedness"]["pearson"]

The rows of a task are sorted as in the original toolkit before they are scored, because folds and shuffles
depend on their order. Predictions are returned in the order of the files.
"""

import contextlib
import dataclasses
import functools
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpora.ranking.queries import QuerySet, ranking_metrics, report_lines
from corpora.sentences import describe_value, read_elements
from corpora.senteval.files import Split, TaskData, read_task
from corpora.senteval.tasks import canonical_task
from multiview.names.encoder import Method
from multiview.names.opened import Encoder, OpenedEncoder, SentenceVectors, as_encoder
from runtime import __version__
from runtime.errors import UserError, check_count
from runtime.files import path_of, sha256_file
from runtime.progress import progress
from senteval_runner.evaluation_trees import EvaluationTrees
from senteval_runner.protocol.classify import fixed_split, inner_kfold, kfold
from senteval_runner.protocol.config import Protocol, Results, TaskResult, get_protocol
from senteval_runner.protocol.correlation import cosines, pearson, relatedness, spearman
from senteval_runner.protocol.cosine_tasks import SCORERS, neighbour_result
from senteval_runner.protocol.features import Float, Int, design, pair_blocks
from senteval_runner.protocol.statistics import SCORES


class EncoderError(UserError):
    """The encoder refused its input, or its vectors cannot be scored."""


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
    """Return the scores of an encoder on SentEval's tasks.

    Args:
        encoder: an object with ``encode(list of sentences) -> [n, d]``, or a function from lists of tokens to
            [n, d].
        tasks: names or aliases of tasks; a string holds several, separated by commas.
        data: the folder with ``downstream/`` and ``probing/``.
        protocol: how classifiers are trained, or the name of a protocol (``default``, ``fast``, ``sklearn``).
        seed: of every training, and of the folds of TREC and MRPC.
        nhid: width of the classifiers' hidden layer, in place of the protocol's.
        trees: a folder (``runs/trees``) in which the trees of sentences that a multi-view encoder parses are
            kept; None keeps none.

    A task that cannot be scored is in ``skipped`` of the results, with the reason. Raises UserError if a task
    or protocol is unknown, or if an argument is of another type. Raises EncoderError if the encoder refused
    the input of the first task, or did not return finite numbers [n, d]. Its other errors are not caught.
    """
    if isinstance(encoder, str | type):  # they have a method "encode", too
        raise UserError(f"evaluate: {describe_value(encoder)} is no encoder; MultiViewEncoder.load opens one")
    seed = check_count(seed, "evaluate: seed", 0, 2**32 - 1)
    protocol = get_protocol(protocol, nhid=nhid)
    names = tasks.replace(",", " ").split() if isinstance(tasks, str) else tasks
    names = [canonical_task(name) for name in read_elements(names, "evaluate", "tasks")]
    task_data = read_tasks(names, path_of(data, "evaluate: data"))
    trees_folder = None if trees is None else path_of(trees, "evaluate: trees")
    trees_of = None if trees_folder is None else EvaluationTrees(folder=trees_folder, tasks=task_data.data).of
    opened_encoder = as_encoder(encoder, trees_of)
    results = Results(protocol=protocol, seed=seed, skipped=task_data.missing)
    with progress(total=len(task_data.data), unit="task", description="evaluate") as bar:
        for task in task_data.data:
            try:
                results.tasks[task.name] = evaluate_task(opened_encoder, task, protocol, seed)
            except UserError as error:
                # An encoder that fails at the first task is broken: all tasks would be skipped.
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
    """The reason why a task cannot be read, by the name of the task."""


def read_tasks(names: Sequence[str], folder: Path) -> Tasks:
    """Read the tasks with these canonical names from SentEval's data folder."""
    tasks = Tasks([], {})
    for name in names:
        try:
            tasks.data.append(read_task(name, folder))
        except UserError as error:
            tasks.missing[name] = str(error)
    return tasks


class _EncodedSplit:
    """The embeddings and labels of one split, in the order of the original toolkit.

    ``u`` [n, d] are the embeddings of first sentences, ``v`` those of second sentences (None for a task of
    single sentences), ``y`` [n] the labels. ``snli_classes`` are the names of SNLI's classes, empty for other
    tasks.
    """

    def __init__(self, rows: Split, vectors: SentenceVectors, snli_classes: Sequence[str] = ()) -> None:
        def sort_key(row: int) -> tuple[int, int, float | str]:
            """Return lengths in tokens and label; for SNLI the second length first, and the class name."""
            length_a = len(rows.a[row])
            length_b = len(rows.b[row]) if rows.b else 0
            if snli_classes:
                return length_b, length_a, snli_classes[int(rows.y[row])]
            return length_a, length_b, rows.y[row]

        self.order = sorted(range(len(rows)), key=sort_key)
        self.y = np.array([rows.y[i] for i in self.order])
        self.u = vectors([rows.a[i] for i in self.order])
        self.v = None if rows.b is None else vectors([rows.b[i] for i in self.order])
        self.is_snli = bool(snli_classes)

    def blocks(self) -> tuple[Float, ...]:
        """Return the features of a classifier in blocks [n, d].

        They are u for single sentences; |u - v| and u ∗ v for pairs; u, v, u ∗ v and |u - v| for SNLI.
        """
        if self.v is None:
            return (self.u,)
        difference, product = pair_blocks(self.u, self.v)
        return (self.u, self.v, product, difference) if self.is_snli else (difference, product)

    def to_file_order(self, values: NDArray[np.generic]) -> list[float]:
        """Return values [n], one per sorted row, as a list in the order of the file."""
        values_in_file_order = np.empty_like(values)
        values_in_file_order[self.order] = values
        as_list: list[float] = values_in_file_order.tolist()
        return as_list


_EncodedSplits = dict[str, _EncodedSplit]


def evaluate_task(encoder: OpenedEncoder, task: TaskData, protocol: Protocol, seed: int) -> TaskResult:
    """Encode the sentences of one task and return its scores.

    Classifiers and regressions read the encoder's features; the other tasks compare vectors by cosine. Raises
    EncoderError if the encoder refused its input or returned vectors that cannot be scored, and UserError if
    a split has too few rows.
    """
    for name, rows in task.splits.items():
        if not len(rows):
            raise UserError(f"{task.name} {name}: no rows in {', '.join(map(str, task.files.get(name, [])))}")
    kind, scorer = task.task.kind, task.task.scorer
    method: Method = "features" if kind in ("classes", "graded") else "encode"
    vectors, labels = functools.partial(encoder.vectors, method), [encoder.label(method)]
    snli_classes = task.classes if scorer == "fixed_split_snli" else ()
    try:
        splits = {name: _EncodedSplit(rows, vectors, snli_classes) for name, rows in task.splits.items()}
        if kind == "graded" and encoder.has_features:
            splits["cosine"] = _EncodedSplit(task.splits["test"], encoder.encode)
            labels.append(f"{encoder.label()} (cosine)")
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
        assert kind == "order", kind
        fields = neighbour_result({title: _in_file_order(book) for title, book in splits.items()})
    first_split = next(iter(splits.values()))
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


@functools.cache
def versions(*packages: str) -> Mapping[str, str]:
    """Return the versions of Python, of installed libraries that compute scores, and of ``packages``."""
    version_of = {"python": platform.python_version(), "multiview-embeddings": __version__}
    for name in ("torch", "numpy", "scipy", "scikit-learn", *packages):
        with contextlib.suppress(PackageNotFoundError):
            version_of[name] = version(name)
    return version_of


def data_hashes(task: TaskData) -> dict[str, str]:
    """Return the SHA-256 of every file that a task was read from, by file name."""
    files = sorted({path for paths in task.files.values() for path in paths})
    return {path.name: sha256_file(path) for path in files}


def _score_cosines(task: TaskData, splits: _EncodedSplits) -> dict[str, Any]:
    """Score STS12-16 and the tasks of structure by the cosines of pairs, without training.

    This function and those below return the fields of a :class:`TaskResult` that depend on the kind of task.
    """
    cosines_by_split = {
        name: np.array(encoded.to_file_order(cosines(encoded.u, encoded.v)))
        for name, encoded in splits.items()
        if encoded.v is not None
    }
    gold = {name: np.array(rows.y, dtype=np.float64) for name, rows in task.splits.items()}
    return SCORERS[task.task.scorer](cosines_by_split, gold)


def _in_file_order(encoded: _EncodedSplit) -> Float:
    """Return the embeddings of first sentences, [n, d], in the order of the file."""
    return encoded.u[np.argsort(encoded.order)]


def _score_ranking(task: TaskData, splits: _EncodedSplits) -> dict[str, Any]:
    """Score the search for the relevant texts of each query by P@1 (``acc``), MRR and recall@10, in percent.

    The label of a text is the number of the query that it is relevant to, or negative if there is none. The
    notes hold the same metrics for a search by shared words.
    """
    collection = task.splits["collection"]
    texts = [" ".join(tokens) for tokens in collection.a]
    queries = [" ".join(tokens) for tokens in task.splits["queries"].a]
    first_rows: dict[str, int] = {}
    for row in reversed(range(len(texts))):
        first_rows[texts[row]] = row
    index_of_text = {text: index for index, text in enumerate(first_rows)}
    relevant: list[list[int]] = [[] for _ in queries]
    for text, query in zip(texts, collection.y, strict=True):
        if query >= 0:
            relevant[int(query)].append(index_of_text[text])
    data = QuerySet(queries, list(first_rows), [np.unique(indices) for indices in relevant])
    query_QD = _in_file_order(splits["queries"])
    text_ND = _in_file_order(splits["collection"])[list(first_rows.values())]
    ranks = data.ranks_by_vectors(query_QD, text_ND)
    metrics = {name: 100 * value for name, value in ranking_metrics(ranks).items()}
    is_first = [float(ranks_of_query.min() == 1) for ranks_of_query in ranks]
    return {
        "metrics": {"acc": metrics["P@1"], "mrr": metrics["MRR"], "recall@10": metrics["recall@10"]},
        "predictions": {"queries": is_first},
        "gold": {"queries": [1.0] * len(is_first)},
        "notes": [f"{name}: {line}" for name, line in report_lines(data, {}) if name != "queries"],
    }


def _score_classes(task: TaskData, splits: _EncodedSplits, protocol: Protocol, seed: int) -> dict[str, Any]:
    """Train and score classifiers by the scorer that SentEval uses for the task."""
    scorer = task.task.scorer
    test = "all" if scorer == "inner_kfold" else "test"
    x = np.concatenate([design(encoded.blocks()) for encoded in splits.values()])
    y = np.concatenate([encoded.y for encoded in splits.values()])
    ends = np.cumsum([len(encoded.y) for encoded in splits.values()])
    row_numbers = dict(zip(splits, np.split(np.arange(len(y)), ends[:-1]), strict=True))
    classes = len(task.classes)
    if scorer == "inner_kfold":
        # A test fold takes up to n / kfold of a class's n rows, rounded up; the inner folds need kfold more.
        _check_class_sizes(task, "all", y, protocol.kfold + 2)
        outcome = inner_kfold(x, y, classes, protocol, seed)
    elif scorer == "kfold":
        _check_class_sizes(task, "train", splits["train"].y, protocol.kfold)
        outcome = kfold(x, y, row_numbers["train"], row_numbers["test"], classes, protocol, seed)
    else:
        if scorer == "fixed_split_linear":  # these tasks never have a hidden layer
            protocol = get_protocol(protocol, nhid=0)
        is_snli = scorer == "fixed_split_snli"
        if is_snli:  # SentEval trains on SNLI for 16 rounds of one epoch
            protocol = dataclasses.replace(protocol, max_epoch=15, epoch_size=1)
        train, dev, test_rows = (row_numbers[name] for name in ("train", "dev", "test"))
        outcome = fixed_split(x, y, train, dev, test_rows, classes, protocol, seed, nominal=is_snli)
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


def _check_class_sizes(task: TaskData, split_name: str, y: Int, minimum: int) -> None:
    """Raise UserError if a class has fewer rows of a split among ``y`` than ``minimum``."""
    counts = np.bincount(y, minlength=len(task.classes))
    if counts.min() < minimum:
        smallest = int(counts.argmin())
        # Tasks of the reader "binary" have a file of class 1 and then a file of class 0.
        file_number = 1 - smallest if task.task.reader == "binary" else 0
        file = task.files[split_name][file_number]
        raise UserError(
            f"{task.name} {split_name}: class {task.classes[smallest]} has {counts.min()} rows, the folds "
            f"need {minimum}; is {file} truncated?"
        )


def _score_graded(splits: _EncodedSplits, seed: int) -> dict[str, Any]:
    """Score pairs by a regression, and by cosines without training; both are the same under all protocols."""
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
