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
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from corpora.pairs.labelled import NLI_LABELS, read_binary, read_nli
from corpora.senteval.files import Split, read_task
from corpora.support.errors import UserError
from studies.finetune.examples import Examples, choose, hold_out, rng
from studies.multitask.config import MultitaskConfig
from studies.multitask.stages import TaskName

SIZES: Mapping[TaskName, tuple[int, int, int]] = {
    "sst": (8_544, 1_101, 2_210),
    "quora": (283_010, 40_429, 80_859),
    "sts": (6_040, 863, 1_725),
    "nli": (549_367, 9_842, 9_824),
}
"""Train, dev and test examples (SEQ-MT, section 5.1)."""


class TaskExamples(NamedTuple):
    """The three splits of a task."""

    train: Examples
    dev: Examples
    test: Examples


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
    sst, sts = (
        {part: _graded(split, scale) for part, split in read_task(name, data).splits.items()}
        for name, scale in (("SST5", None), ("STSBenchmark", 5.0))
    )
    tweets, snli = data / "paraphrase", data / "nli"
    pairs = Examples.of_pairs(read_binary(config.quora or tweets / "twitter_url_train.tsv.gz"))
    unseen = None if config.quora else Examples.of_pairs(read_binary(tweets / "twitter_url_test.tsv.gz"))
    nli_test = config.nli_test or (None if config.nli else snli / "snli_test.tsv")
    nli = [
        None if file is None else _nli(file)
        for file in (config.nli or snli / "snli_dev.tsv", config.nli_dev, nli_test)
    ]
    read: Tasks = {
        "sst": TaskExamples(**sst),
        "quora": _parts(pairs, None, unseen),
        "sts": TaskExamples(**sts),
        "nli": _parts(*nli),
    }
    if config.splits == "paper":
        read["sts"] = resplit("sts", sts["train"] + sts["dev"] + sts["test"])
        if config.quora:
            read["quora"] = resplit("quora", pairs)
    return {
        name: TaskExamples(
            task.train.take(choose(len(task.train), config.limit, name)),
            task.dev.take(choose(len(task.dev), config.dev_rows, name)),
            task.test,
        )
        for name, task in read.items()
    }


def _graded(split: Split, scale: float | None) -> Examples:
    target = np.array(split.y, dtype=np.float32) / scale if scale else np.array(split.y, dtype=np.int64)
    second = None if split.b is None else [" ".join(tokens) for tokens in split.b]
    return Examples([" ".join(tokens) for tokens in split.a], second, target)


def _nli(path: Path) -> Examples:
    ids = {label: place for place, label in enumerate(NLI_LABELS)}
    return Examples.of_pairs((a, b, ids[label]) for a, b, label in read_nli(path) if label in ids)


def _parts(train: Examples | None, dev: Examples | None, test: Examples | None) -> TaskExamples:
    """The three parts; a missing one is a tenth of the training pairs, by a hash of the first text."""
    assert train is not None
    if test is None:
        train, test = hold_out(train, 0.1, "test")
    if dev is None:
        train, dev = hold_out(train, 0.1, "dev")
    return TaskExamples(train, dev, test)


def resplit(task: TaskName, every: Examples) -> TaskExamples:
    """All examples, split at random in the proportions of SEQ-MT."""
    total = sum(SIZES[task])
    dev, test = (round(len(every) * size / total) for size in SIZES[task][1:])
    order = rng(0, "split/" + task).permutation(len(every))
    chosen = (order[dev + test :], order[:dev], order[dev : dev + test])
    return TaskExamples(*(every.take(np.sort(rows)) for rows in chosen))
