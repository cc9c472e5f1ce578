"""The tasks' examples, the stages one after the other, and SEQ-MT's two tables.

SST-5, Quora, STS-B and NLI are read from published files or the data folder. Sets that are not there are
replaced:

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

import dataclasses
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from corpora.pairs.labelled import NLI_LABELS, read_binary, read_nli
from corpora.senteval.files import Split, read_task
from runtime.cli import config_to_json
from runtime.errors import UserError
from runtime.files import json_digest
from senteval_runner.report.page import Cell as TableCell
from senteval_runner.report.page import Column, Page, Section, Table
from studies.finetune.examples import Examples, Stream, choose, fixed, hold_out, rng, sampled
from studies.finetune.loop import LoopConfig, Task, fit
from studies.finetune.tiny import ready
from studies.kit import Cell, Figures, Run, published
from studies.multitask.net import (
    TASKS,
    MultitaskNet,
    Stages,
    TaskExamples,
    TaskName,
    Tasks,
    name_of,
    parse_stages,
)

if TYPE_CHECKING:
    from studies.multitask.__main__ import MultitaskConfig

SIZES: Mapping[TaskName, tuple[int, int, int]] = {
    "sst": (8_544, 1_101, 2_210),
    "quora": (283_010, 40_429, 80_859),
    "sts": (6_040, 863, 1_725),
    "nli": (549_367, 9_842, 9_824),
}
"""Train, dev and test examples (SEQ-MT, section 5.1)."""
FREE_OPTIONS = {"output", "preset", "stages", "backbone", "data", "quora", "nli", "nli_dev", "nli_test"}
"""Options that do not decide a stage's figures, or by the content of what they name."""
SEQ_MT = LoopConfig(
    learning_rate=1e-5, betas=(0.9, 0.999), epsilon=1e-8, weight_decay=0.01, warmup=0.0, decay=False
)
"""AdamW with a constant 1e-5; its other values are not stated, ours are PyTorch's."""
COLUMNS = ("SST", "Quora", "SemEval", "SNLI")
"""Columns of SEQ-MT's Table 1, the overall score left out."""
NOTE = "Percent: accuracy; SemEval (STS): Pearson x 100. In brackets: not trained yet."
BEST = 3
"""How many configurations are scored on test (SEQ-MT, Table 2)."""


def train_all(config: MultitaskConfig, run: Run) -> Page:
    """Train every configuration; the three that are best on dev are scored on test.

    Raises:
        UserError: a bad stage, no backbone, or missing data.
    """
    sequences = [parse_stages(text) for text in config.stages]
    tasks = read_all_tasks(config)
    for name, task in tasks.items():
        train, dev_set, test_set = map(len, task)
        run.log(f"{name}: {train:,} train, {dev_set:,} dev, {test_set:,} test")
    start, key = ready(
        config.backbone,
        config.output,
        lambda: [text for task in tasks.values() for text in task.train.texts()],
        seed=config.seed,
    )
    options = {key: value for key, value in config_to_json(config).items() if key not in FREE_OPTIONS}
    parts = [part for task in tasks.values() for part in task]
    content = json_digest([[part.first, part.second, part.target.tolist()] for part in parts], 64)

    def cell(stages: Stages, compute: Callable[..., Figures], test: bool) -> Cell:
        return Cell(
            name=name_of(stages) + ", test" * test,
            identity=[options, key, content, name_of(stages), test],
            compute=partial(compute, config, tasks, stages, start, run),
            folder="" if test else str(folder_of(stages)),
        )

    prefixes = dict.fromkeys(sequence[: n + 1] for sequence in sequences for n in range(len(sequence)))
    every = run.figures({stages: cell(stages, _train, test=False) for stages in prefixes})
    dev = {stages: every[stages] for stages in sequences if stages in every}
    test = run.figures({stages: cell(stages, _test, test=True) for stages in best(dev)})
    sections = [
        Section("Table 1: dev", [_table("configuration", dev, "published-table-1.csv")]),
        Section("Table 2: test, the best on dev", [_table("configuration", test, "published-table-2.csv")]),
        Section("Stages: dev", [_table("after stage", every)]),
    ]
    return Page("Sequential multi-task fine-tuning", sections, NOTE)


def folder_of(stages: Stages) -> Path:
    """Tell where a stage's model lies below the output."""
    return Path("stages") / "+".join(stage.slug for stage in stages)


def _net(config: MultitaskConfig, stages: Stages, backbone: str) -> MultitaskNet:
    """Tower and heads at the beginning of the last of ``stages``."""
    earlier = [(stage, config.output / folder_of(stages[: n + 1])) for n, stage in enumerate(stages[:-1])]
    return MultitaskNet(config.seed, stages[-1], earlier, backbone)


def _train(
    config: MultitaskConfig, tasks: Tasks, stages: Stages, start: str, run: Run, work: Path
) -> Figures:
    """Train the last of ``stages`` from where the one before it ended; dev scores of its best epoch."""
    stage = stages[-1]
    backbone = str(config.output / folder_of(stages[:-1])) if len(stages) > 1 else start
    net = _net(config, stages, backbone)
    train = tasks[stage.task].train
    draw = sampled(train, 0.1, config.seed, str(stage)) if stage.sampled else fixed(train)
    stream = Stream(draw, config.batch_size, config.seed, stage.task)
    head = net.head(stage.task)
    # The heads of tasks without a stage so far are random: they have no say in which epoch is kept.
    scored = [task for task in TASKS if task in {one.task for one in stages}]
    fit(
        net,
        {stage.task: Task(stream, lambda examples: head.loss(net.tower, examples))},
        dataclasses.replace(SEQ_MT, learning_rate=config.learning_rate),
        steps=config.epochs * stream.batches_per_pass,
        evaluate_every=stream.batches_per_pass,
        select="overall",
        evaluate=lambda: net.scores(tasks, "dev", scored),
        seed=config.seed,
        folder=work,
        report=run.log,
    )
    figures = net.scores(tasks, "dev")
    net.save(config.output / folder_of(stages))
    return figures


def _test(config: MultitaskConfig, tasks: Tasks, stages: Stages, *_: object) -> Figures:
    net = _net(config, (*stages, stages[-1]), str(config.output / folder_of(stages))).eval()
    return net.scores(tasks, "test")


def best(dev: Mapping[Stages, Figures]) -> list[Stages]:
    """Sort out the configurations with the highest overall dev score, best first; of equal ones the earlier.

    Without a Siamese stage a configuration is a baseline. SEQ-MT leaves those out of Table 2, SA-P-STS
    though it is third on dev; here they count where nothing else ran.
    """
    siamese = [stages for stages in dev if any(stage.pooling for stage in stages)]
    return sorted(siamese or dev, key=lambda stages: -dev[stages]["overall"])[:BEST]


def _table(first: str, scores_of: Mapping[Stages, Figures], quoted: str = "") -> Table:
    """Our rows, and those of the paper below where one has a name of ours."""
    theirs = published(Path(__file__).with_name(quoted)) if quoted else {}
    # A bare star would begin or end italics in Markdown.
    names = {stages: name_of(stages).replace("*", "\\*") for stages in scores_of}
    rows: list[list[TableCell]] = []
    for stages, scores in scores_of.items():
        trained = {stage.task for stage in stages}
        cells = {task: f"{100 * scores[task]:.1f}" for task in TASKS}
        shown = [cell if task in trained else f"({cell})" for task, cell in cells.items()]
        rows.append([names[stages], *shown, scores["overall"]])
    below: list[list[TableCell]] = [
        [names[stages], *(f"{100 * row[c]:.1f}" if c in row else None for c in COLUMNS), row["Overall"]]
        for stages in scores_of
        if (row := theirs.get(name_of(stages)))
    ]
    return Table(
        [first, *(Column(name) for name in COLUMNS), Column("Overall", digits=3)],
        rows,
        quoted=below,
        quoted_title="published (SEQ-MT)" if below else "",
    )


def read_all_tasks(config: MultitaskConfig) -> Tasks:
    """Read all four tasks, since every stage is scored on all of them.

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
    """Split all examples at random in the proportions of SEQ-MT."""
    total = sum(SIZES[task])
    dev, test = (round(len(every) * size / total) for size in SIZES[task][1:])
    order = rng(0, "split/" + task).permutation(len(every))
    chosen = (order[dev + test :], order[:dev], order[dev : dev + test])
    return TaskExamples(*(every.take(np.sort(rows)) for rows in chosen))
