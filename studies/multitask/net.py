"""Configurations under SEQ-MT's names, and the tower with one head per task that they train.

A configuration is its stages joined by hyphens, a stage is ``TASK[sub](POOLING)*``; all but the task may be
missing. Table 1 of the paper names its thirteen rows so::

    SA                sentiment, single sentences: a head on [CLS]
    P, STS, NLI       both texts of a pair read together, a head on [CLS] (BERT)
    P(M)              both texts read alone and pooled (SBERT): features u, v, |u-v|; (C) and (X) likewise
    P(M)*             with u*v added: u, v, |u-v|, u*v
    P[sub](M)         trained on a fresh random tenth of the data each epoch
    SA-P-STS(M)       sentiment first, then paraphrases, then similarity

Siamese ``STS`` predicts the cosine itself, joint ``STS`` a logit; ``*`` has no meaning for either.

Shapes: B examples, D width, C classes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Literal, NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from runtime.device import pick_device
from runtime.errors import UserError
from runtime.files import atomic_path
from senteval_runner.protocol.correlation import accuracy, pearson
from senteval_runner.towers import Concatenation, Pooling
from senteval_runner.towers.transformer import Tower, load_tower
from studies.finetune.examples import Examples
from studies.finetune.heads import PairHead, seeded_linear

TaskName = Literal["sst", "quora", "sts", "nli"]
TASKS: tuple[TaskName, ...] = ("sst", "quora", "sts", "nli")
LETTERS: dict[str, TaskName] = {"SA": "sst", "P": "quora", "STS": "sts", "NLI": "nli"}
POOLINGS: dict[str, Pooling] = {"C": "cls", "M": "mean", "X": "max"}
_LETTERS_OF = {task: letters for letters, task in LETTERS.items()}
_POOLING_OF = {pooling: letter for letter, pooling in POOLINGS.items()}


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

    def __str__(self) -> str:
        pooling = f"({_POOLING_OF[self.pooling]})" if self.pooling else ""
        return f"{_LETTERS_OF[self.task]}{'[sub]' * self.sampled}{pooling}{'*' * self.product}"

    @property
    def slug(self) -> str:
        """Write the stage as part of a folder name."""
        parts = [self.task, "sub" * self.sampled, self.pooling or "", "prod" * self.product]
        return "-".join(filter(None, parts))


Stages = tuple[Stage, ...]
"""A configuration."""


def name_of(stages: Sequence[Stage]) -> str:
    """Write a configuration's name, as :func:`parse_stages` reads it."""
    return "-".join(map(str, stages))


def parse_stages(text: str) -> Stages:
    """Read a configuration's name.

    Raises:
        UserError: a stage does not have the form above.
    """
    stages = []
    for part in text.strip().split("-"):
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


class TaskHead(nn.Module):
    """The head of one stage; its initial weights depend on the seed alone."""

    def __init__(self, stage: Stage, tower: Tower, seed: int) -> None:
        super().__init__()
        self.stage = stage
        seed = seed + TASKS.index(stage.task)
        concatenation: Concatenation = "uv-diff-prod" if stage.product else "uv-diff"
        if stage.task == "sst" or stage.pooling is None:
            self.layer: nn.Module = seeded_linear(tower.dim, OUTPUTS[stage.task], seed)
        elif stage.task == "sts":
            self.layer = nn.CosineSimilarity(dim=-1)
        else:
            self.layer = PairHead(tower.dim, OUTPUTS[stage.task], concatenation, seed)

    def forward(self, tower: Tower, examples: Examples) -> Tensor:
        """Compute logits [B, C], or a value per example [B] for quora (a logit) and sts (cosine or logit)."""
        stage = self.stage
        if stage.task == "sst":
            out: Tensor = self.layer(tower.embed(examples.first, stage.pooling or "cls"))
        elif stage.pooling is None:
            pairs = list(zip(examples.first, examples.second or (), strict=True))
            out = self.layer(tower.embed(pairs, "cls"))
        else:
            u_BD, v_BD = tower.embed(list(examples.texts()), stage.pooling).split(len(examples))
            out = self.layer(u_BD, v_BD)
        return out.reshape(len(examples)) if OUTPUTS[stage.task] == 1 else out

    def loss(self, tower: Tower, examples: Examples) -> Tensor:
        """Compute the stage's objective.

        sst, nli: cross-entropy, the mean of −log softmax(logits)[target]. quora: binary cross-entropy, the
        mean of −t log σ(x) − (1−t) log(1−σ(x)). sts: the mean of (cosine − t)², t being the gold score / 5;
        read jointly, quora's, t being the probability of "similar".
        """
        out = self(tower, examples)
        target = torch.from_numpy(examples.target).to(out.device)
        if OUTPUTS[self.stage.task] > 1:
            return functional.cross_entropy(out, target)
        if isinstance(self.layer, nn.CosineSimilarity):
            return functional.mse_loss(out, target)
        return functional.binary_cross_entropy_with_logits(out, target.float())

    def score(self, tower: Tower, examples: Examples, batch_size: int = 64) -> float:
        """Measure accuracy (sst, quora, nli) or Pearson correlation (sts) on ``examples``."""
        # Texts of similar length share a batch to save padding; the scores do not depend on it.
        order = np.argsort([len(text) for text in examples.first], kind="stable")
        with torch.inference_mode():
            outputs = [
                self(tower, examples.take(order[start : start + batch_size])).float().cpu().numpy()
                for start in range(0, len(order), batch_size)
            ]
        out, target = np.concatenate(outputs), examples.target[order]
        if self.stage.task == "sts":
            return pearson(out, target)
        predicted = out > 0 if self.stage.task == "quora" else out.argmax(axis=1)
        return accuracy(predicted.astype(np.int64), target)


class MultitaskNet(nn.Module):
    """Tower and heads; those of other tasks stay as their stage left them.

    A task that has had no stage has a new head, in the style of the latest stage on pairs: an encoder
    trained on pooled sentences is asked about pooled sentences.

    ``earlier`` are the stages before ``stage`` and their folders; ``backbone`` is what the tower starts from.
    """

    def __init__(self, seed: int, stage: Stage, earlier: Sequence[tuple[Stage, Path]], backbone: str) -> None:
        super().__init__()
        device = pick_device("auto")
        stages = [*(one for one, _ in earlier), stage]
        # Pooling of the latest Siamese stage, so that the folder embeds as it was trained.
        pooling: Pooling = next((one.pooling for one in reversed(stages) if one.pooling), "mean")
        joint = next((one.pooling is None for one in reversed(stages) if one.task != "sst"), True)
        self.tower = load_tower(backbone, pooling=pooling, device=device)
        self.stage = stage
        latest = {one.task: (one, folder) for one, folder in earlier}
        self.heads = nn.ModuleDict()
        for task in TASKS:
            new = Stage(task, None if joint or task == "sst" else pooling)
            trained, folder = latest.get(task, (new, None))
            style = stage if task == stage.task else trained
            self.heads[task] = TaskHead(style, self.tower, seed)
            if folder and (trained.pooling, trained.product) == (style.pooling, style.product):
                self.heads[task].load_state_dict(load_file(folder / "head.safetensors"))
        self.to(device)

    def head(self, task: str) -> TaskHead:
        """Take the head of a task."""
        return self.heads[task]  # type: ignore[return-value]

    def scores(self, tasks: Tasks, part: str, names: Iterable[TaskName] = TASKS) -> dict[str, float]:
        """Measure the tasks on ``dev`` or ``test``, and their ``overall``."""
        values: dict[str, float] = {
            name: self.head(name).score(self.tower, getattr(tasks[name], part)) for name in names
        }
        return {**values, "overall": overall(values)}

    def save(self, folder: Path) -> None:
        """Write the tower as a model folder, the stage's head beside it."""
        self.cpu().tower.save(folder)
        head = self.head(self.stage.task).state_dict()
        with atomic_path(folder / "head.safetensors") as temporary:
            save_file({name: tensor.contiguous() for name, tensor in head.items()}, temporary)


def overall(scores: Mapping[str, float]) -> float:
    """Average SST accuracy, Quora accuracy and (STS Pearson + 1) / 2; NLI counts only by itself."""
    counted = [name for name in scores if name != "nli"] or ["nli"]
    return fmean((scores[name] + 1) / 2 if name == "sts" else scores[name] for name in counted)
