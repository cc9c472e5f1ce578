"""Train SEQ-MT's stages under its names, on the data of their tasks, for the paper's two tables.

A configuration is its stages joined by hyphens, a stage is ``TASK[sub](POOLING)*``, where all but the task
may be missing (``--stages``, docs/papers/seq-mt.md). Siamese ``STS`` predicts the cosine itself, joint
``STS`` a logit; ``*`` has no meaning for either.

The data folder has tweets in place of Quora's pairs, in the same form, and SNLI's dev split in place of its
training split.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import accumulate
from operator import add
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, NamedTuple

import numpy as np
from safetensors.torch import load_file
from torch import nn

from corpora.pairs import read_binary
from corpora.senteval.files import read_task
from corpora.senteval.tasks import data_folder
from runtime.cli import config_to_json
from runtime.device import pick_device
from runtime.errors import UserError
from senteval_runner.report.page import Column, Page, Section, Table, TableCell
from senteval_runner.towers import Pooling
from senteval_runner.towers.transformer import load_tower
from studies.finetune.backbone import find_backbone
from studies.finetune.examples import Examples, Stream, digest, draw_all, draw_fraction, hold_out, rng
from studies.finetune.training import HEADS, Features, Head, TrainedTask, TuningConfig, fit, save_tuned
from studies.multitask.config import MultitaskConfig
from studies.runner import Cell, Figures, StudyRun, read_published, score_table

TaskName = Literal["sst", "quora", "sts", "nli"]
TASKS: dict[str, TaskName] = {"SA": "sst", "P": "quora", "STS": "sts", "NLI": "nli"}
"""Tasks by the paper's letters."""
POOLINGS: dict[str, Pooling] = {"C": "cls", "M": "mean", "X": "max"}


@dataclass(frozen=True)
class Stage:
    """One stage: which task is trained, with which head."""

    task: TaskName
    pooling: Pooling | None = None
    """Siamese pooling; None is the joint (BERT) head."""
    product: bool = False
    """Add u*v to u, v, |u-v|."""
    on_samples: bool = False
    """Train on a fresh tenth of the examples each epoch."""

    @property
    def slug(self) -> str:
        """The stage as part of a folder name."""
        sample = "sub" if self.on_samples else ""
        product = "prod" if self.product else ""
        return "-".join(filter(None, [self.task, sample, self.pooling, product]))


def parse_stages(name: str) -> tuple[Stage, ...]:
    """Read a configuration's name; a stage of another form than above is an error."""
    stages = []
    for part in name.split("-"):
        match = re.fullmatch(r"(SA|P|STS|NLI)(\[sub\])?(?:\(([CMX])\))?(\*)?", part)
        task, sub, pooling, star = match.groups() if match else ("", "", "", "")
        if not match or (star and not (pooling and task in ("P", "NLI"))):
            raise UserError(
                f"stage {part!r}: want SA, P, STS or NLI, then [sub], (C|M|X), * after P(M) or NLI(M)"
            )
        stages.append(Stage(TASKS[task], POOLINGS.get(pooling), bool(star), bool(sub)))
    return tuple(stages)


class TaskExamples(NamedTuple):
    """The three splits of a task."""

    train: Examples
    dev: Examples
    test: Examples


Tasks = dict[TaskName, TaskExamples]
OUTPUTS: dict[TaskName, int] = {"sst": 5, "quora": 1, "sts": 1, "nli": 3}
"""Outputs of a head: classes, or one value for the binary and the graded task."""


def new_head(stage: Stage, dim: int, seed: int) -> Head:
    """Make the head of a stage. For sts it learns gold scores / 5, as cosine or probability of "similar"."""
    features: Features = "uv-diff-prod" if stage.product else "uv-diff"
    if stage.task == "sst" or stage.pooling is None:
        features = "one"
    elif stage.task == "sts":
        features = "cosine"
    seed += list(OUTPUTS).index(stage.task)
    return Head(dim, OUTPUTS[stage.task], features, seed, stage.pooling or "cls")


class MultitaskNet(nn.Module):
    """Tower and heads at the beginning of the last of ``stages``; earlier heads are as their stage left them.

    A task that has had no stage has a new head, in the style of the latest stage on pairs: an encoder that
    was trained on pooled sentences gets pooled sentences. ``start`` is what the tower starts from: the folder
    of the stage before, or before the first one a backbone.
    """

    def __init__(self, seed: int, stages: Sequence[Stage], start: str | Path) -> None:
        super().__init__()
        # Pooling of the latest Siamese stage, so that the folder embeds as it was trained.
        pooling: Pooling = next((stage.pooling for stage in reversed(stages) if stage.pooling), "mean")
        is_joint = next((stage.pooling is None for stage in reversed(stages) if stage.task != "sst"), True)
        self.tower = load_tower(str(start), pooling=pooling)
        self.stage_of = {stage.task: stage for stage in stages}
        """The latest stage of each task that has had one."""
        new = {task: Stage(task, None if is_joint or task == "sst" else pooling) for task in OUTPUTS}
        styles = {**new, **self.stage_of}
        self.heads = nn.ModuleDict(
            {task: new_head(style, self.tower.dim, seed) for task, style in styles.items()}
        )
        if len(stages) > 1:
            weights = self.heads.state_dict()
            for name, weight in load_file(Path(start) / HEADS).items():
                # A head is new if its task has a stage of another size now.
                if name in weights and weights[name].shape == weight.shape:
                    weights[name].copy_(weight)
        self.to(pick_device())

    def head(self, task: str) -> Head:
        """Return the head of a task."""
        return self.heads[task]  # type: ignore[return-value]

    def scores(self, tasks: Tasks, split: str, names: Iterable[TaskName] = (*OUTPUTS,)) -> dict[str, float]:
        """Measure tasks on ``dev`` or ``test``, and their ``overall``."""
        values: dict[str, float] = {
            name: self.head(name).score(self.tower, getattr(tasks[name], split)) for name in names
        }
        return {**values, "overall": overall(values)}


def overall(scores: Mapping[str, float]) -> float:
    """Average SST accuracy, Quora accuracy and (STS Pearson + 1) / 2; NLI counts only by itself."""
    names = [name for name in scores if name != "nli"] or ["nli"]
    return fmean((scores[name] + 1) / 2 if name == "sts" else scores[name] for name in names)


SIZES: Mapping[TaskName, tuple[int, int, int]] = {
    "quora": (283_010, 40_429, 80_859),
    "sts": (6_040, 863, 1_725),
}
"""Train, dev and test examples (SEQ-MT, section 5.1) of what is split at random."""
INPUT_OPTIONS = {"output", "preset", "stages", "backbone", "data", "quora", "nli", "nli_dev", "nli_test"}
"""Options that do not decide a stage's figures, or only by the content of the files that they name."""
ADAM_W: Mapping[str, Any] = {"betas": (0.9, 0.999), "epsilon": 1e-8, "weight_decay": 0.01}
"""The paper's optimiser; its values are not stated, these are PyTorch's."""
COLUMNS: dict[TaskName, str] = {"sst": "SST", "quora": "Quora", "sts": "SemEval", "nli": "SNLI"}
"""Columns of SEQ-MT's Table 1, the overall score left out."""
NOTE = "Percent: accuracy; SemEval (STS): Pearson x 100. In brackets: not trained yet."
BEST = 3
"""The number of configurations that are scored on test (SEQ-MT, Table 2)."""


def train_all(config: MultitaskConfig, run: StudyRun) -> Page:
    """Train every configuration; the three that are best on dev are scored on test."""
    names = [name.strip() for name in config.stages]
    prefixes = dict.fromkeys(stage for name in names for stage in accumulate(name.split("-"), "{}-{}".format))
    folders = {name: folder_of(name) for name in prefixes}  # a bad stage is refused before data are read
    tasks = read_all_tasks(config)
    for name, task in tasks.items():
        run.log(f"{name}: {len(task.train):,} train, {len(task.dev):,} dev, {len(task.test):,} test")
    texts = [text for task in tasks.values() for text in task.train.texts]
    backbone = find_backbone(config.backbone, config.output, lambda: texts, seed=config.seed)
    options = {name: value for name, value in config_to_json(config).items() if name not in INPUT_OPTIONS}
    content = digest(part for task in tasks.values() for part in task)

    def train_cell(name: str, folder: str) -> Cell:
        identity = [options, backbone.key(), content, name, False]
        compute = partial(_train, config, tasks, name, backbone.name.spec)
        return Cell(name=name, identity=identity, compute=compute, folder=folder)

    def test_cell(name: str) -> Cell:
        identity = [options, backbone.key(), content, name, True]
        compute = partial(_test, config.output / folders[name], parse_stages(name), tasks, config.seed)
        return Cell(name=f"{name}, test", identity=identity, compute=compute)

    figures_of_stages = run.compute({name: train_cell(name, folder) for name, folder in folders.items()})
    dev = {name: figures_of_stages[name] for name in names if name in figures_of_stages}
    test = run.compute({name: test_cell(name) for name in best(dev)})
    table_1, table_2 = (
        read_published(Path(__file__).with_name(f"published-table-{number}.csv")) for number in (1, 2)
    )
    sections = [
        Section("Table 1: dev", [_table("configuration", dev, table_1)]),
        Section("Table 2: test, the best on dev", [_table("configuration", test, table_2)]),
        Section("Stages: dev", [_table("after stage", figures_of_stages, {})]),
    ]
    return Page("Sequential multi-task fine-tuning", sections, NOTE)


def folder_of(name: str) -> str:
    """Name the folder of a configuration's model below the output."""
    return "stages/" + "+".join(stage.slug for stage in parse_stages(name))


def _train(config: MultitaskConfig, tasks: Tasks, name: str, backbone: str, work: Path) -> Figures:
    """Train the last stage from where the one before it ended; return dev scores of the best epoch."""
    stages = parse_stages(name)
    stage = stages[-1]
    earlier_stages, _, stage_name = name.rpartition("-")
    start = config.output / folder_of(earlier_stages) if earlier_stages else backbone
    net = MultitaskNet(config.seed, stages, start)
    train = tasks[stage.task].train
    draw = draw_fraction(train, 0.1, config.seed, stage_name) if stage.on_samples else draw_all(train)
    stream = Stream(draw, config.batch_size, config.seed, stage.task)
    # The heads of tasks without a stage so far are random: they have no say in which epoch is kept.
    decisive_tasks = [task for task in OUTPUTS if task in net.stage_of]
    tuning = TuningConfig(
        learning_rate=config.learning_rate,
        steps=config.epochs * stream.batches_per_pass,
        evaluate_every=stream.batches_per_pass,
        select="overall",
        seed=config.seed,
        warmup=0.0,
        **ADAM_W,
    )
    trained_task = TrainedTask(stream, partial(net.head(stage.task).loss, net.tower))
    fit(net, [trained_task], tuning, lambda: net.scores(tasks, "dev", decisive_tasks), work)
    figures = net.scores(tasks, "dev")
    trained_heads = nn.ModuleDict({task: net.heads[task] for task in net.stage_of})
    save_tuned(net.tower, trained_heads, config.output / folder_of(name))
    return figures


def _test(model: Path, stages: Sequence[Stage], tasks: Tasks, seed: int, work: Path) -> Figures:
    """Score on test the model that the last of the stages left."""
    return MultitaskNet(seed, (*stages, stages[-1]), model).eval().scores(tasks, "test")


def best(dev: Mapping[str, Figures]) -> list[str]:
    """Choose the configurations with the highest overall dev score, best first; of equal ones the earlier.

    Baselines, without a Siamese stage, count only where nothing else ran (docs/papers/seq-mt.md).
    """
    siamese = [name for name in dev if "(" in name]
    return sorted(siamese or dev, key=lambda name: -dev[name]["overall"])[:BEST]


def _table(label: str, figures: Mapping[str, Figures], paper_rows: Mapping[str, Figures]) -> Table:
    """Put our rows in a table, and below them the paper's rows of the same names."""
    own_rows: dict[str, dict[str, TableCell]] = {}
    quoted_rows: dict[str, dict[str, TableCell]] = {}
    for name, scores in figures.items():
        tasks_so_far = {stage.task for stage in parse_stages(name)}
        row: dict[str, TableCell] = {"Overall": scores["overall"]}
        for task, column in COLUMNS.items():
            percent = f"{100 * scores[task]:.1f}"
            row[column] = percent if task in tasks_so_far else f"({percent})"
        # A bare star would begin or end italics in Markdown.
        label_of_row = name.replace("*", "\\*")
        own_rows[label_of_row] = row
        if name in paper_rows:
            quoted_rows[label_of_row] = {
                column: value if column == "Overall" else f"{100 * value:.1f}"
                for column, value in paper_rows[name].items()
            }
    columns = [*(Column(name) for name in COLUMNS.values()), Column("Overall", digits=3)]
    return score_table([label], columns, own_rows, quoted_rows, quoted_source="published (SEQ-MT)")


def read_all_tasks(config: MultitaskConfig) -> Tasks:
    """Read all four tasks, since every stage is scored on all; a set that is nowhere is an error."""
    data = data_folder(config.data)
    tweets, snli = data / "paraphrase", data / "nli"
    quora = Examples.of_pairs(read_binary(config.quora or tweets / "twitter_url_train.tsv.gz"))
    quora_test = None if config.quora else Examples.of_pairs(read_binary(tweets / "twitter_url_test.tsv.gz"))
    nli = Examples.of_nli([config.nli or snli / "snli_dev.tsv"])
    nli_dev = Examples.of_nli([config.nli_dev]) if config.nli_dev else None
    test_file = config.nli_test or (None if config.nli else snli / "snli_test.tsv")
    nli_test = Examples.of_nli([test_file]) if test_file else None
    tasks: Tasks = {
        "sst": _senteval("SST5", data),
        "quora": _complete_splits(quora, None, quora_test),
        "sts": _senteval("STSBenchmark", data, scale=5),
        "nli": _complete_splits(nli, nli_dev, nli_test),
    }
    if config.splits == "paper":
        tasks["sts"] = resplit("sts", reduce(add, tasks["sts"]))
        if config.quora:
            tasks["quora"] = resplit("quora", quora)
    return {
        name: TaskExamples(
            task.train.sample(config.limit, name), task.dev.sample(config.dev_rows, name), task.test
        )
        for name, task in tasks.items()
    }


def _senteval(name: str, data: Path, scale: float = 0) -> TaskExamples:
    """Read a task of SentEval: classes, or scores as fractions of ``scale``."""
    splits = {}
    for split_name, split in read_task(name, data).splits.items():
        first, second = ([" ".join(tokens) for tokens in side or ()] for side in (split.a, split.b))
        target = np.array(split.y, dtype=np.float32) / scale if scale else np.array(split.y, dtype=np.int64)
        splits[split_name] = Examples(first, second or None, target)
    return TaskExamples(**splits)


def _complete_splits(train: Examples, dev: Examples | None, test: Examples | None) -> TaskExamples:
    """Complete three splits: a missing one is a tenth of the training pairs, by a hash of the first text."""
    if test is None:
        train, test = hold_out(train, 0.1, "test")
    if dev is None:
        train, dev = hold_out(train, 0.1, "dev")
    return TaskExamples(train, dev, test)


def resplit(task: TaskName, examples: Examples) -> TaskExamples:
    """Split all examples at random in the proportions of SEQ-MT."""
    total = sum(SIZES[task])
    dev_size, test_size = (round(len(examples) * size / total) for size in SIZES[task][1:])
    order = rng(0, "split/" + task).permutation(len(examples))
    dev, test, train = np.split(order, [dev_size, dev_size + test_size])
    return TaskExamples(*(examples.take(np.sort(rows)) for rows in (train, dev, test)))
