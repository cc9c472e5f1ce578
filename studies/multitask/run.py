"""Train stages one after the other; every finished stage is a model folder that later ones start from.

    python -m studies.multitask --output runs/multitask/bert --backbone bert-base-uncased
    python -m studies.multitask --output runs/multitask/grid --preset grid --backbone tiny
    python -m studies.multitask --output runs/multitask/paper --preset paper --quora ... --nli ...

A stage's folder is named after all stages up to it, so configurations that begin alike share their first
stages. Source: Yao 2023 (SEQ-MT).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from corpora.support.cli import config_to_json
from corpora.support.files import json_digest
from senteval_runner.report.page import Cell as TableCell
from senteval_runner.report.page import Column, Page, Section, Table
from studies.finetune.examples import Stream, fixed, sampled
from studies.finetune.loop import LoopConfig, Task, fit
from studies.finetune.tiny import ready
from studies.kit.data import published
from studies.kit.runner import Cell, Figures, Run
from studies.multitask.config import MultitaskConfig
from studies.multitask.net import MultitaskNet
from studies.multitask.stages import TASKS, Stages, name_of, parse_stages
from studies.multitask.tasks import Tasks, read_all_tasks

FREE_OPTIONS = {"output", "preset", "stages", "backbone", "data", "quora", "nli", "nli_dev", "nli_test"}
"""Options that do not decide a stage's figures, or by the content of what they name."""
SEQ_MT = LoopConfig(
    learning_rate=1e-5, betas=(0.9, 0.999), epsilon=1e-8, weight_decay=0.01, warmup=0.0, decay=False
)
"""AdamW with a constant 1e-5; its other values are not stated, ours are PyTorch's."""
COLUMNS = ("SST", "Quora", "SemEval", "SNLI")
"""As in SEQ-MT's Table 1, the overall score left out."""
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
    """Where a stage's model lies below the output."""
    return Path("stages") / "+".join(stage.slug for stage in stages)


def _net(config: MultitaskConfig, stages: Stages, backbone: str) -> MultitaskNet:
    """Tower and heads at the beginning of the last of ``stages``."""
    earlier = [(stage, config.output / folder_of(stages[: n + 1])) for n, stage in enumerate(stages[:-1])]
    return MultitaskNet(config, stages[-1], earlier, backbone)


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
    # The overall score leaves NLI out, so its dev set is scored after an epoch only where it is trained.
    scored = [task for task in TASKS if task in ("sst", "quora", "sts", stage.task)]
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
    """The configurations with the highest overall dev score, best first; of equal ones the earlier.

    Without a Siamese stage a configuration is a baseline. SEQ-MT leaves those out of Table 2, SA-P-STS
    though it is third on dev; here they count where nothing else ran.
    """
    siamese = [stages for stages in dev if any(stage.pooling for stage in stages)]
    return sorted(siamese or dev, key=lambda stages: -dev[stages]["overall"])[:BEST]


def _table(first: str, found: Mapping[Stages, Figures], quoted: str = "") -> Table:
    """Our rows, and those of the paper below where one has a name of ours."""
    theirs = published(Path(__file__).with_name(quoted)) if quoted else {}
    # A bare star would begin or end italics in Markdown.
    names = {stages: name_of(stages).replace("*", "\\*") for stages in found}
    rows: list[list[TableCell]] = []
    for stages, scores in found.items():
        trained = {stage.task for stage in stages}
        cells = {task: f"{100 * scores[task]:.1f}" for task in TASKS}
        shown = [cell if task in trained else f"({cell})" for task, cell in cells.items()]
        rows.append([names[stages], *shown, scores["overall"]])
    below: list[list[TableCell]] = [
        [names[stages], *(f"{100 * row[c]:.1f}" if c in row else None for c in COLUMNS), row["Overall"]]
        for stages in found
        if (row := theirs.get(name_of(stages)))
    ]
    return Table(
        [first, *(Column(name) for name in COLUMNS), Column("Overall", digits=3)],
        rows,
        quoted=below,
        quoted_title="published (SEQ-MT)" if below else "",
    )
