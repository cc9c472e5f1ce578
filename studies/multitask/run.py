"""Train the stages of SEQ-MT's configurations, and score them for the paper's two tables.

The name of a configuration is that of its stages, joined by hyphens. The name of a stage is
``TASK[sub](POOLING)*``, of which all but the task may be missing (``--stages``, docs/papers/seq-mt.md). For
``STS`` with a pooling the prediction is the cosine, without one it is a logit; neither has ``*``.

The data folder has pairs of tweets in place of Quora's pairs, and SNLI's dev split in place of its training
split.
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
"""The tasks by their names in the paper."""
POOLINGS: dict[str, Pooling] = {"C": "cls", "M": "mean", "X": "max"}
"""The poolings by their names in the paper."""


@dataclass(frozen=True)
class Stage:
    """One stage: the task that is trained, and its head."""

    task: TaskName
    pooling: Pooling | None = None
    """Pooling of the two texts, which are encoded separately; None encodes a pair as one text (as BERT)."""
    product: bool = False
    """Whether the features of a pair are u, v, |u-v| and u*v; if not, u*v is left out."""
    on_samples: bool = False
    """Whether each epoch trains on a new random tenth of the examples."""

    @property
    def slug(self) -> str:
        """The part of a folder name that stands for the stage."""
        sample = "sub" if self.on_samples else ""
        product = "prod" if self.product else ""
        return "-".join(filter(None, [self.task, sample, self.pooling, product]))


def parse_stages(name: str) -> tuple[Stage, ...]:
    """Return the stages of a configuration from its name.

    Raises UserError if a part of the name is no stage.
    """
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
"""The number of outputs of a task's head: its classes, or one for the binary and the graded task."""


def new_head(stage: Stage, dim: int, seed: int) -> Head:
    """Return the head of a stage.

    For sts it predicts gold scores divided by 5, as a cosine or as the probability of "similar".
    """
    features: Features = "uv-diff-prod" if stage.product else "uv-diff"
    if stage.task == "sst" or stage.pooling is None:
        features = "one"
    elif stage.task == "sts":
        features = "cosine"
    seed += list(OUTPUTS).index(stage.task)
    return Head(dim, OUTPUTS[stage.task], features, seed, stage.pooling or "cls")


class MultitaskNet(nn.Module):
    """The tower and the heads of all tasks at the beginning of the last of ``stages``.

    ``start`` is the folder of the stage before or, for the first stage, the backbone; the tower, and the
    heads of tasks that were trained, have its weights. A task that had no stage has a new head; it encodes
    pairs separately or jointly like the latest stage on pairs, because the encoder was trained to do so.
    """

    def __init__(self, seed: int, stages: Sequence[Stage], start: str | Path) -> None:
        super().__init__()
        # The folder of the model embeds texts by the pooling with which it was trained last.
        pooling: Pooling = "mean"
        is_joint = True
        for stage in stages:
            pooling = stage.pooling or pooling
            if stage.task != "sst":
                is_joint = stage.pooling is None
        self.tower = load_tower(str(start), pooling=pooling)
        self.stage_of = {stage.task: stage for stage in stages}
        """The latest stage of each task that had one."""
        self.heads = nn.ModuleDict()
        for task in OUTPUTS:
            new_stage = Stage(task, None if is_joint or task == "sst" else pooling)
            self.heads[task] = new_head(self.stage_of.get(task, new_stage), self.tower.dim, seed)
        if len(stages) > 1:
            weights = self.heads.state_dict()
            for name, weight in load_file(Path(start) / HEADS).items():
                # The stored head has another size if its task now has a stage with other features.
                if name in weights and weights[name].shape == weight.shape:
                    weights[name].copy_(weight)
        self.to(pick_device())

    def head(self, task: str) -> Head:
        """Return the head of a task."""
        return self.heads[task]  # type: ignore[return-value]

    def scores(
        self, tasks: Tasks, split: str, names: Iterable[TaskName] = tuple(OUTPUTS)
    ) -> dict[str, float]:
        """Return the score of each task on its split ``dev`` or ``test``, and their ``overall`` score."""
        values: dict[str, float] = {}
        for name in names:
            values[name] = self.head(name).score(self.tower, getattr(tasks[name], split))
        return values | {"overall": overall(values)}


def overall(scores: Mapping[str, float]) -> float:
    """Return the mean of SST accuracy, Quora accuracy and (STS Pearson + 1) / 2, of those that there are.

    NLI accuracy is left out, unless it is the only score.
    """
    names = [name for name in scores if name != "nli"] or ["nli"]
    return fmean((scores[name] + 1) / 2 if name == "sts" else scores[name] for name in names)


SIZES: Mapping[TaskName, tuple[int, int, int]] = {
    "quora": (283_010, 40_429, 80_859),
    "sts": (6_040, 863, 1_725),
}
"""Numbers of train, dev and test examples (SEQ-MT, section 5.1) of the tasks that are split at random."""
INPUT_OPTIONS = {"output", "preset", "stages", "backbone", "data", "quora", "nli", "nli_dev", "nli_test"}
"""Options on which a stage's figures do not depend, or only by the content of the files that they name."""
ADAM_W: Mapping[str, Any] = {"betas": (0.9, 0.999), "epsilon": 1e-8, "weight_decay": 0.01}
"""Options of AdamW. The paper does not state them; these are PyTorch's."""
COLUMNS: dict[TaskName, str] = {"sst": "SST", "quora": "Quora", "sts": "SemEval", "nli": "SNLI"}
"""Columns of SEQ-MT's Table 1 by task, without that of the overall score."""
NOTE = "Percent: accuracy; SemEval (STS): Pearson x 100. In brackets: not trained yet."
BEST = 3
"""The number of configurations that are scored on test (SEQ-MT, Table 2)."""


def train_all(config: MultitaskConfig, run: StudyRun) -> Page:
    """Train every configuration, score the three that are best on dev on test, and return the report."""
    names = [name.strip() for name in config.stages]
    folders: dict[str, str] = {}
    for name in names:
        # After each stage the configuration up to it has a model. A bad stage is refused before data are
        # read.
        for beginning in accumulate(name.split("-"), "{}-{}".format):
            folders[beginning] = folder_of(beginning)
    tasks = read_all_tasks(config)
    for name, task in tasks.items():
        run.log(f"{name}: {len(task.train):,} train, {len(task.dev):,} dev, {len(task.test):,} test")
    texts = [text for task in tasks.values() for text in task.train.texts]
    backbone = find_backbone(config.backbone, config.output, lambda: texts, seed=config.seed)
    options = {name: value for name, value in config_to_json(config).items() if name not in INPUT_OPTIONS}
    content = digest(split for task in tasks.values() for split in task)

    def train_cell(name: str, folder: str) -> Cell:
        identity = [options, backbone.key(), content, name, False]
        compute = partial(_train, config, tasks, name, backbone.parsed.full_name)
        return Cell(name=name, identity=identity, compute=compute, folder=folder)

    def test_cell(name: str) -> Cell:
        identity = [options, backbone.key(), content, name, True]
        compute = partial(_test, config.output / folders[name], parse_stages(name), tasks, config.seed)
        return Cell(name=f"{name}, test", identity=identity, compute=compute)

    figures_of_stages = run.compute({name: train_cell(name, folder) for name, folder in folders.items()})
    dev = {name: figures_of_stages[name] for name in names if name in figures_of_stages}
    test = run.compute({name: test_cell(name) for name in best(dev)})
    table_1 = read_published(Path(__file__).with_name("published-table-1.csv"))
    table_2 = read_published(Path(__file__).with_name("published-table-2.csv"))
    sections = [
        Section("Table 1: dev", [_table("configuration", dev, table_1)]),
        Section("Table 2: test, the best on dev", [_table("configuration", test, table_2)]),
        Section("Stages: dev", [_table("after stage", figures_of_stages, {})]),
    ]
    return Page("Sequential multi-task fine-tuning", sections, NOTE)


def folder_of(name: str) -> str:
    """Return the folder of a configuration's model, below the output."""
    return "stages/" + "+".join(stage.slug for stage in parse_stages(name))


def _train(config: MultitaskConfig, tasks: Tasks, name: str, backbone: str, work: Path) -> Figures:
    """Train the last stage of a configuration, and return the dev scores of its best epoch.

    The stage starts from the folder of the stage before, or from the backbone.
    """
    stages = parse_stages(name)
    stage = stages[-1]
    earlier_stages, _, stage_name = name.rpartition("-")
    start = config.output / folder_of(earlier_stages) if earlier_stages else backbone
    net = MultitaskNet(config.seed, stages, start)
    train = tasks[stage.task].train
    draw = draw_fraction(train, 0.1, config.seed, stage_name) if stage.on_samples else draw_all(train)
    stream = Stream(draw, config.batch_size, config.seed, stage.task)
    # Heads of tasks without a stage so far are random; their scores do not decide which epoch is kept.
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
    """Return the scores on test of the model that was saved after the last stage."""
    return MultitaskNet(seed, (*stages, stages[-1]), model).eval().scores(tasks, "test")


def best(dev: Mapping[str, Figures]) -> list[str]:
    """Return the configurations with the highest overall dev score, best first; of equal ones the first.

    Configurations that encode all pairs jointly are baselines, and are only chosen if there are no others
    (docs/papers/seq-mt.md).
    """
    siamese = [name for name in dev if "(" in name]
    return sorted(siamese or dev, key=lambda name: -dev[name]["overall"])[:BEST]


def _table(label: str, figures: Mapping[str, Figures], paper_rows: Mapping[str, Figures]) -> Table:
    """Return the table of scores, with the paper's rows of the same configurations below ours."""
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
    """Return all four tasks, because every stage is scored on all.

    Raises UserError if the files of a task are missing.
    """
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
    """Return a task of SentEval; its scores are divided by ``scale``, with 0 its labels are class ids."""
    splits = {}
    for split_name, split in read_task(name, data).splits.items():
        first, second = ([" ".join(tokens) for tokens in side or ()] for side in (split.a, split.b))
        target = np.array(split.y, dtype=np.float32) / scale if scale else np.array(split.y, dtype=np.int64)
        splits[split_name] = Examples(first, second or None, target)
    return TaskExamples(**splits)


def _complete_splits(train: Examples, dev: Examples | None, test: Examples | None) -> TaskExamples:
    """Return the three splits; a missing one is a tenth of the training pairs, by a hash of first texts."""
    if test is None:
        train, test = hold_out(train, 0.1, "test")
    if dev is None:
        train, dev = hold_out(train, 0.1, "dev")
    return TaskExamples(train, dev, test)


def resplit(task: TaskName, examples: Examples) -> TaskExamples:
    """Return the examples, split at random in the proportions of SEQ-MT."""
    total = sum(SIZES[task])
    _, dev_size, test_size = (round(len(examples) * size / total) for size in SIZES[task])
    order = rng(0, "split/" + task).permutation(len(examples))
    rows = np.split(order, [dev_size, dev_size + test_size])
    dev, test, train = (examples.take(np.sort(rows_of_split)) for rows_of_split in rows)
    return TaskExamples(train, dev, test)
