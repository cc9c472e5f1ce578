"""The four tasks' examples: SST-5, Quora, STS-B and NLI, from published files or the data folder.

Sets that are not in the data folder are replaced:

=======  =====================================  ====================================================
task     published                              data folder
=======  =====================================  ====================================================
quora    quora_duplicate_questions.tsv          paraphrase/twitter_url_{train,test}: same form, tweets
nli      SNLI/MultiNLI train .jsonl             nli/snli_dev for training, nli/snli_test for the test
=======  =====================================  ====================================================

SEQ-MT splits Quora's one file and all 8,628 pairs of STS-B at random, 7 : 1 : 2. Which pair went where it
does not say; ``--splits paper`` draws such a split.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from corpora.pairs.labelled import NLI_LABELS, read_binary, read_nli
from corpora.senteval.files import Split, read_task
from corpora.support.errors import UserError
from corpora.support.split import hold_out
from studies.finetune.examples import Examples, choose, rng
from studies.multitask.config import MultitaskConfig
from studies.multitask.stages import TaskName

SIZES: Mapping[TaskName, tuple[int, int, int]] = {
    "sst": (8_544, 1_101, 2_210),
    "quora": (283_010, 40_429, 80_859),
    "sts": (6_040, 863, 1_725),
    "nli": (549_367, 9_842, 9_824),
}
"""Train, dev and test examples (SEQ-MT, section 5.1)."""


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


Tasks = dict[TaskName, TaskExamples]


def read_all_tasks(config: MultitaskConfig) -> Tasks:
    """All four tasks, since every stage is scored on all of them.

    Raises:
        UserError: a set is neither given nor in the data folder.
    """
    folder = config.data or os.environ.get("MULTIVIEW_DATA")
    if not folder:
        raise UserError("no data folder: give --data FOLDER or set MULTIVIEW_DATA")
    data = Path(folder)
    sts = _graded(read_task("STSBenchmark", data).splits, scale=5.0)
    read: Tasks = {
        "sst": _graded(read_task("SST5", data).splits, scale=None),
        "quora": _quora(config, data / "paraphrase"),
        "sts": resplit("sts", sts) if config.splits == "paper" else sts,
        "nli": _nli(config, data / "nli"),
    }
    return {
        name: TaskExamples(
            task.train.take(choose(len(task.train), config.limit, name)),
            task.dev.take(choose(len(task.dev), config.dev_rows, name)),
            task.test,
        )
        for name, task in read.items()
    }


def _graded(splits: dict[str, Split], scale: float | None) -> TaskExamples:
    """SentEval rows as examples; scores divided by ``scale``, or class ids kept."""

    def examples(split: Split) -> Examples:
        target = np.array(split.y, dtype=np.float32) / scale if scale else np.array(split.y, dtype=np.int64)
        first = [" ".join(tokens) for tokens in split.a]
        second = None if split.b is None else [" ".join(tokens) for tokens in split.b]
        return Examples(first, second, target.astype(np.float32) if scale else target)

    return TaskExamples(examples(splits["train"]), examples(splits["dev"]), examples(splits["test"]))


def _quora(config: MultitaskConfig, folder: Path) -> TaskExamples:
    """The given file, split; else the data folder's training and test part."""
    train = Examples.of_pairs(read_binary(config.quora or folder / "twitter_url_train.tsv.gz"))
    if config.quora is None:
        test = Examples.of_pairs(read_binary(folder / "twitter_url_test.tsv.gz"))
    elif config.splits == "paper":
        return resplit("quora", TaskExamples(train, train.take(_NONE), train.take(_NONE)))
    else:
        train, test = hold_out(train, 0.1, "test")
    train, dev = hold_out(train, 0.1, "dev")
    return TaskExamples(train, dev, test)


def _nli(config: MultitaskConfig, folder: Path) -> TaskExamples:
    """The given files, else the data folder's; missing splits are held out of the training pairs."""

    def read(path: Path) -> Examples:
        ids = {label: place for place, label in enumerate(NLI_LABELS)}
        return Examples.of_pairs((a, b, ids[label]) for a, b, label in read_nli(path) if label in ids)

    train = read(config.nli or folder / "snli_dev.tsv")
    if config.nli is not None and config.nli_test is None:
        train, test = hold_out(train, 0.1, "test")
    else:
        test = read(config.nli_test or folder / "snli_test.tsv")
    if config.nli_dev is None:
        train, dev = hold_out(train, 0.1, "dev")
    else:
        dev = read(config.nli_dev)
    return TaskExamples(train, dev, test)


_NONE = np.zeros(0, dtype=np.int64)


def resplit(task: TaskName, parts: TaskExamples) -> TaskExamples:
    """All examples of three parts, split at random in the proportions of SEQ-MT."""
    every = parts.train + parts.dev + parts.test
    total = sum(SIZES[task])
    dev, test = (round(len(every) * size / total) for size in SIZES[task][1:])
    order = rng(0, "split/" + task).permutation(len(every))
    chosen = (order[dev + test :], order[:dev], order[dev : dev + test])
    return TaskExamples(*(every.take(np.sort(rows)) for rows in chosen))
