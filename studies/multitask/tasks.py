"""The four tasks' examples: SST-5, Quora, STS-B and NLI, from published files or the data folder.

SEQ-MT used SST-5, Quora and SNLI as published, and another split of the STS data (6,040 / 863 / 1,725 pairs).
Here STS is STS-B's own split. Sets that are not in the data folder are replaced:

=======  =====================================  ====================================================
task     published                              data folder
=======  =====================================  ====================================================
quora    quora_duplicate_questions.tsv          paraphrase/twitter_url_{train,test}: same form, tweets
nli      SNLI/MultiNLI train .jsonl             nli/snli_dev for training, nli/snli_test for the test
=======  =====================================  ====================================================
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from corpora.pairs.labelled import NLI_LABELS, read_binary, read_nli
from corpora.senteval.files import Split, read_task
from corpora.support.errors import UserError
from corpora.support.split import hold_out
from studies.finetune.examples import Examples, rng
from studies.multitask.config import MultitaskConfig, SplitFiles


@dataclass(frozen=True)
class TaskExamples:
    """The three splits of a task."""

    train: Examples
    dev: Examples
    test: Examples

    def describe(self) -> str:
        """Their sizes."""
        return f"{len(self.train):,} train, {len(self.dev):,} dev, {len(self.test):,} test"

    def texts(self) -> Iterator[str]:
        """Every text of the three splits."""
        for examples in (self.train, self.dev, self.test):
            yield from examples.texts()


def read_all_tasks(config: MultitaskConfig) -> dict[str, TaskExamples]:
    """All four tasks, since every stage is scored on all of them.

    Raises:
        UserError: a set is neither given nor in the data folder.
    """
    data = config.data or _data_from_environment()
    read = {
        "sst": _graded(read_task("SST5", data).splits, scale=None),
        "quora": _pairs(
            "quora", config.quora, data / "paraphrase" / "twitter_url_{}.tsv.gz", ("train", "test")
        ),
        "sts": _graded(read_task("STSBenchmark", data).splits, scale=5.0),
        "nli": _pairs("nli", config.nli, data / "nli" / "snli_{}.tsv", ("dev", "test")),
    }
    return {
        name: TaskExamples(
            _choose(task.train, config.limit, name),
            _choose(task.dev, config.dev_rows, name),
            _choose(task.test, config.test_rows, name),
        )
        for name, task in read.items()
    }


def _data_from_environment() -> Path:
    folder = os.environ.get("MULTIVIEW_DATA")
    if not folder:
        raise UserError("no data folder: give --data FOLDER or set MULTIVIEW_DATA")
    return Path(folder)


def _graded(splits: dict[str, Split], scale: float | None) -> TaskExamples:
    """SentEval rows as examples; scores divided by ``scale``, or class ids kept."""

    def examples(split: Split) -> Examples:
        target = np.array(split.y, dtype=np.float32) / scale if scale else np.array(split.y, dtype=np.int64)
        first = [" ".join(tokens) for tokens in split.a]
        second = None if split.b is None else [" ".join(tokens) for tokens in split.b]
        return Examples(first, second, target.astype(np.float32) if scale else target)

    return TaskExamples(examples(splits["train"]), examples(splits["dev"]), examples(splits["test"]))


def _pairs(task: str, files: SplitFiles, pattern: Path, parts: tuple[str, str]) -> TaskExamples:
    """The given files, else the data folder's. Missing splits are held out of the training pairs."""
    own = files.train is not None
    train = _read(task, files.train or Path(str(pattern).format(parts[0])))
    test_file = files.test or (None if own else Path(str(pattern).format(parts[1])))
    if test_file is None:
        train, test = hold_out(train, 0.1, "test")
    else:
        test = _read(task, test_file)
    if files.dev is None:
        train, dev = hold_out(train, 0.1, "dev")
    else:
        dev = _read(task, files.dev)
    return TaskExamples(train, dev, test)


def _read(task: str, path: Path) -> Examples:
    if task == "nli":
        ids = {label: place for place, label in enumerate(NLI_LABELS)}
        return Examples.of_pairs((a, b, ids[label]) for a, b, label in read_nli(path) if label in ids)
    return Examples.of_pairs(read_binary(path))


def _choose(examples: Examples, most: int, name: str) -> Examples:
    """A fixed random choice of at most ``most`` examples in their order; 0 takes all."""
    if not most or len(examples) <= most:
        return examples
    return examples.take(np.sort(rng(0, "choose/" + name).permutation(len(examples))[:most]))
