"""Train SEQ-MT's stages under its names, on the data of their tasks, for the paper's two tables.

A configuration is its stages joined by hyphens, a stage is ``TASK[sub](POOLING)*``; all but the task may be
missing. Table 1 of the paper names its thirteen rows so::

    SA                sentiment, single sentences: a head on [CLS]
    P, STS, NLI       both texts of a pair read together, a head on [CLS] (BERT)
    P(M)              both texts read alone and pooled (SBERT): features u, v, |u-v|; (C) and (X) likewise
    P(M)*             with u*v added: u, v, |u-v|, u*v
    P[sub](M)         trained on a fresh random tenth of the data each epoch
    SA-P-STS(M)       sentiment first, then paraphrases, then similarity

Siamese ``STS`` predicts the cosine itself, joint ``STS`` a logit; ``*`` has no meaning for either.

The data folder has tweets in place of Quora's pairs, in the same form, and SNLI's dev and test parts in place
of its training and test parts. SEQ-MT splits Quora's one file and all 8,628 pairs of STS-B at random, 7 : 1 :
2; which pair went where it does not say.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import accumulate
from operator import add
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from safetensors.torch import load_file
from torch import nn

from corpora.pairs import read_binary
from corpora.senteval.files import read_task
from corpora.senteval.tasks import data_folder
from runtime.cli import config_to_json
from runtime.device import pick_device
from runtime.errors import UserError
from runtime.files import json_digest
from senteval_runner.report.page import Column, Page, Section, Table, TableCell
from senteval_runner.towers import Pooling
from senteval_runner.towers.transformer import load_tower
from studies.finetune.examples import Examples, Stream, choose, fixed, hold_out, rng, sampled
from studies.finetune.tiny import ready
from studies.finetune.training import Features, Head, TuningConfig, Turn, fit, save_tuned
from studies.kit import Cell, Figures, Run, published

if TYPE_CHECKING:
    from studies.multitask.__main__ import MultitaskConfig

TaskName = Literal["sst", "quora", "sts", "nli"]
TASKS: tuple[TaskName, ...] = ("sst", "quora", "sts", "nli")
LETTERS: dict[str, TaskName] = {"SA": "sst", "P": "quora", "STS": "sts", "NLI": "nli"}
POOLINGS: dict[str, Pooling] = {"C": "cls", "M": "mean", "X": "max"}


@dataclass(frozen=True)
class Stage:
    """One stage: which task is trained, with which head."""

    task: TaskName
    pooling: Pooling | None = None
    """Siamese pooling; None is the joint (BERT) head."""
    product: bool = False
    """Add u*v to u, v, |u-v|."""
    sampled: bool = False
    """Train on a fresh tenth of the examples each epoch."""

    @property
    def slug(self) -> str:
        """Write the stage as part of a folder name."""
        parts = [self.task, "sub" * self.sampled, self.pooling or "", "prod" * self.product]
        return "-".join(filter(None, parts))


def parse_stages(name: str) -> tuple[Stage, ...]:
    """Read a configuration's name; a stage of another form than above is an error."""
    stages = []
    for part in name.split("-"):
        match = re.fullmatch(r"(SA|P|STS|NLI)(\[sub\])?(?:\(([CMX])\))?(\*)?", part)
        letters, sub, letter, star = match.groups() if match else ("", "", "", "")
        if not match or (star and not (letter and letters in ("P", "NLI"))):
            raise UserError(
                f"stage {part!r}: want SA, P, STS or NLI, then [sub], (C|M|X), * after P(M) or NLI(M)"
            )
        stages.append(Stage(LETTERS[letters], POOLINGS.get(letter), bool(star), bool(sub)))
    return tuple(stages)


class TaskExamples(NamedTuple):
    """The three splits of a task."""

    train: Examples
    dev: Examples
    test: Examples


Tasks = dict[TaskName, TaskExamples]
OUTPUTS = {"sst": 5, "quora": 1, "sts": 1, "nli": 3}
"""Outputs of a head: classes, or one value for the binary and the graded task."""
HEADS = "heads.safetensors"
"""In the folder of a stage: the heads of all tasks trained up to it."""


def new_head(stage: Stage, dim: int, seed: int) -> Head:
    """Make the head of a stage.

    The targets of sts are gold scores / 5: of the cosine, or read jointly the probability of "similar".
    """
    features: Features = "uv-diff-prod" if stage.product else "uv-diff"
    if stage.task == "sst" or stage.pooling is None:
        features = "one"
    elif stage.task == "sts":
        features = "cosine"
    seed += TASKS.index(stage.task)
    return Head(dim, OUTPUTS[stage.task], features, seed, stage.pooling or "cls")


class MultitaskNet(nn.Module):
    """Tower and heads at the beginning of the last of ``stages``; earlier heads are as their stage left them.

    A task that has had no stage has a new head, in the style of the latest stage on pairs: an encoder
    trained on pooled sentences is asked about pooled sentences.

    ``start`` is what the tower starts from: the folder of the stage before, or before the first one a
    backbone.
    """

    def __init__(self, seed: int, stages: Sequence[Stage], start: str | Path) -> None:
        super().__init__()
        # Pooling of the latest Siamese stage, so that the folder embeds as it was trained.
        pooling: Pooling = next((stage.pooling for stage in reversed(stages) if stage.pooling), "mean")
        joint = next((stage.pooling is None for stage in reversed(stages) if stage.task != "sst"), True)
        self.tower = load_tower(str(start), pooling=pooling)
        earlier = {stage.task: stage for stage in stages[:-1]}
        self.trained = {stage.task: stage for stage in stages}
        """The latest stage of each task that has had one."""
        new = {task: Stage(task, None if joint or task == "sst" else pooling) for task in TASKS}
        styles = {**new, **self.trained}
        self.heads = nn.ModuleDict({task: new_head(styles[task], self.tower.dim, seed) for task in TASKS})
        same = [
            task
            for task, stage in earlier.items()
            if (stage.pooling, stage.product) == (styles[task].pooling, styles[task].product)
        ]
        stored = load_file(Path(start) / HEADS) if same else {}
        weights = {name: weight for name, weight in stored.items() if name.split(".")[0] in same}
        self.heads.load_state_dict(weights, strict=False)
        self.to(pick_device())

    def head(self, task: str) -> Head:
        """Take the head of a task."""
        return self.heads[task]  # type: ignore[return-value]

    def scores(self, tasks: Tasks, part: str, names: Iterable[TaskName] = TASKS) -> dict[str, float]:
        """Measure the tasks on ``dev`` or ``test``, and their ``overall``."""
        values: dict[str, float] = {
            name: self.head(name).score(self.tower, getattr(tasks[name], part)) for name in names
        }
        return {**values, "overall": overall(values)}

    def save(self, folder: Path) -> None:
        """Write the tower as a model folder, the heads of all trained tasks beside it."""
        save_tuned(
            self.tower, nn.ModuleDict({task: self.heads[task] for task in self.trained}), folder, HEADS
        )


def overall(scores: Mapping[str, float]) -> float:
    """Average SST accuracy, Quora accuracy and (STS Pearson + 1) / 2; NLI counts only by itself."""
    counted = [name for name in scores if name != "nli"] or ["nli"]
    return fmean((scores[name] + 1) / 2 if name == "sts" else scores[name] for name in counted)


SIZES: Mapping[TaskName, tuple[int, int, int]] = {
    "quora": (283_010, 40_429, 80_859),
    "sts": (6_040, 863, 1_725),
}
"""Train, dev and test examples (SEQ-MT, section 5.1) of what is split at random."""
FREE_OPTIONS = {"output", "preset", "stages", "backbone", "data", "quora", "nli", "nli_dev", "nli_test"}
"""Options that do not decide a stage's figures, or by the content of what they name."""
SEQ_MT = TuningConfig(
    learning_rate=1e-5, betas=(0.9, 0.999), epsilon=1e-8, weight_decay=0.01, warmup=0.0, decay=False
)
"""AdamW with a constant 1e-5; its other values are not stated, ours are PyTorch's."""
COLUMNS = ("SST", "Quora", "SemEval", "SNLI")
"""Columns of SEQ-MT's Table 1, the overall score left out."""
NOTE = "Percent: accuracy; SemEval (STS): Pearson x 100. In brackets: not trained yet."
BEST = 3
"""How many configurations are scored on test (SEQ-MT, Table 2)."""


def train_all(config: MultitaskConfig, run: Run) -> Page:
    """Train every configuration; the three that are best on dev are scored on test."""
    names = [name.strip() for name in config.stages]
    prefixes = dict.fromkeys(start for name in names for start in accumulate(name.split("-"), "{}-{}".format))
    folders = {name: folder_of(name) for name in prefixes}  # a bad stage is refused before data are read
    tasks = read_all_tasks(config)
    for name, task in tasks.items():
        train, dev_set, test_set = map(len, task)
        run.log(f"{name}: {train:,} train, {dev_set:,} dev, {test_set:,} test")
    texts = [text for task in tasks.values() for text in task.train.texts]
    start, key = ready(config.backbone, config.output, lambda: texts, seed=config.seed)
    options = {key: value for key, value in config_to_json(config).items() if key not in FREE_OPTIONS}
    parts = [part for task in tasks.values() for part in task]
    content = json_digest([[part.first, part.second, part.target.tolist()] for part in parts], 64)

    def cell(name: str, test: bool) -> Cell:
        return Cell(
            name=name + ", test" * test,
            identity=[options, key, content, name, test],
            compute=partial(_test if test else _train, config, tasks, name, start),
            folder="" if test else folders[name],
        )

    of_stage = run.figures({name: cell(name, test=False) for name in prefixes})
    dev = {name: of_stage[name] for name in names if name in of_stage}
    test = run.figures({name: cell(name, test=True) for name in best(dev)})
    sections = [
        Section("Table 1: dev", [_table("configuration", dev, "published-table-1.csv")]),
        Section("Table 2: test, the best on dev", [_table("configuration", test, "published-table-2.csv")]),
        Section("Stages: dev", [_table("after stage", of_stage)]),
    ]
    return Page("Sequential multi-task fine-tuning", sections, NOTE)


def folder_of(name: str) -> str:
    """Tell where the model of a configuration lies below the output."""
    return "stages/" + "+".join(stage.slug for stage in parse_stages(name))


def _train(config: MultitaskConfig, tasks: Tasks, name: str, start: str, work: Path) -> Figures:
    """Train the last stage from where the one before it ended; dev scores of its best epoch."""
    before, _, last = name.rpartition("-")
    stages, place = parse_stages(name), config.output / folder_of(before) if before else start
    net, stage = MultitaskNet(config.seed, stages, place), stages[-1]
    train = tasks[stage.task].train
    draw = sampled(train, 0.1, config.seed, last) if stage.sampled else fixed(train)
    stream = Stream(draw, config.batch_size, config.seed, stage.task)
    # The heads of tasks without a stage so far are random: they have no say in which epoch is kept.
    scored = [task for task in TASKS if task in net.trained]
    fit(
        net,
        [Turn(stream, partial(net.head(stage.task).loss, net.tower))],
        dataclasses.replace(SEQ_MT, learning_rate=config.learning_rate),
        steps=config.epochs * stream.batches_per_pass,
        evaluate_every=stream.batches_per_pass,
        select="overall",
        evaluate=lambda: net.scores(tasks, "dev", scored),
        seed=config.seed,
        folder=work,
    )
    figures = net.scores(tasks, "dev")
    net.save(config.output / folder_of(name))
    return figures


def _test(config: MultitaskConfig, tasks: Tasks, name: str, *_: object) -> Figures:
    stages = parse_stages(name)
    net = MultitaskNet(config.seed, (*stages, stages[-1]), config.output / folder_of(name))
    return net.eval().scores(tasks, "test")


def best(dev: Mapping[str, Figures]) -> list[str]:
    """Sort out the configurations with the highest overall dev score, best first; of equal ones the earlier.

    Without a Siamese stage a configuration is a baseline. SEQ-MT leaves those out of Table 2, SA-P-STS
    though it is third on dev; here they count where nothing else ran.
    """
    siamese = [name for name in dev if "(" in name]
    return sorted(siamese or dev, key=lambda name: -dev[name]["overall"])[:BEST]


def _table(first: str, scores_of: Mapping[str, Figures], quoted: str = "") -> Table:
    """Put our rows in a table, and those of the paper below where one has a name of ours."""
    paper_rows = published(Path(__file__).with_name(quoted)) if quoted else {}
    # A bare star would begin or end italics in Markdown.
    shown = {name: name.replace("*", "\\*") for name in scores_of}
    rows: list[list[TableCell]] = []
    for name, scores in scores_of.items():
        trained = {stage.task for stage in parse_stages(name)}
        cells = {task: f"{100 * scores[task]:.1f}" for task in TASKS}
        marked = [cell if task in trained else f"({cell})" for task, cell in cells.items()]
        rows.append([shown[name], *marked, scores["overall"]])
    below: list[list[TableCell]] = [
        [shown[name], *(f"{100 * row[c]:.1f}" if c in row else None for c in COLUMNS), row["Overall"]]
        for name, row in paper_rows.items()
        if name in shown
    ]
    columns: list[Column | str] = [first, *(Column(name) for name in COLUMNS), Column("Overall", digits=3)]
    return Table(columns, rows, quoted=below, quoted_title="published (SEQ-MT)")


def read_all_tasks(config: MultitaskConfig) -> Tasks:
    """Read all four tasks, since every stage is scored on all; a set that is nowhere is an error."""
    data = data_folder(config.data)
    tweets, snli = data / "paraphrase", data / "nli"
    quora = Examples.of_pairs(read_binary(config.quora or tweets / "twitter_url_train.tsv.gz"))
    unseen = None if config.quora else Examples.of_pairs(read_binary(tweets / "twitter_url_test.tsv.gz"))
    nli_test = config.nli_test or (None if config.nli else snli / "snli_test.tsv")
    nli = [
        None if file is None else Examples.of_nli([file])
        for file in (config.nli or snli / "snli_dev.tsv", config.nli_dev, nli_test)
    ]
    read: Tasks = {
        "sst": _senteval("SST5", data),
        "quora": _parts(quora, None, unseen),
        "sts": _senteval("STSBenchmark", data, scale=5),
        "nli": _parts(*nli),
    }
    if config.splits == "paper":
        read["sts"] = resplit("sts", reduce(add, read["sts"]))
        if config.quora:
            read["quora"] = resplit("quora", quora)
    for name, (train, dev, test) in read.items():
        train = train.take(choose(len(train), config.limit, name))
        dev = dev.take(choose(len(dev), config.dev_rows, name))
        read[name] = TaskExamples(train, dev, test)
    return read


def _senteval(name: str, data: Path, scale: float = 0) -> TaskExamples:
    """Read a task of SentEval: classes, or scores as fractions of ``scale``."""
    parts = {}
    for part, split in read_task(name, data).splits.items():
        first, second = ([" ".join(tokens) for tokens in side or ()] for side in (split.a, split.b))
        target = np.array(split.y, dtype=np.float32) / scale if scale else np.array(split.y, dtype=np.int64)
        parts[part] = Examples(first, second or None, target)
    return TaskExamples(**parts)


def _parts(train: Examples | None, dev: Examples | None, test: Examples | None) -> TaskExamples:
    """Complete three parts: a missing one is a tenth of the training pairs, by a hash of the first text."""
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
