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
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

from runtime.device import pick_device
from runtime.errors import UserError
from senteval_runner.protocol.correlation import accuracy, pearson
from senteval_runner.towers import Concatenation, Pooling
from senteval_runner.towers.transformer import Tower, load_tower
from studies.finetune.examples import Examples
from studies.finetune.heads import PairHead, save_tuned, seeded_linear

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
BATCH = 64
"""Examples scored at a time."""
HEADS = "heads.safetensors"
"""In the folder of a stage: the heads of all tasks trained up to it."""


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
            out = self.layer(tower.embed(examples.pairs, "cls"))
        else:
            u_BD, v_BD = tower.embed(examples.texts, stage.pooling).split(len(examples))
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

    @torch.inference_mode()
    def score(self, tower: Tower, examples: Examples) -> float:
        """Measure accuracy (sst, quora, nli) or Pearson correlation (sts) on ``examples``."""
        # Texts of similar length share a batch to save padding; the scores do not depend on it.
        order = np.argsort([len(text) for text in examples.first], kind="stable")
        batches = [examples.take(order[start : start + BATCH]) for start in range(0, len(order), BATCH)]
        out = np.concatenate([self(tower, batch).float().cpu().numpy() for batch in batches])
        target = examples.target[order]
        if self.stage.task == "sts":
            return pearson(out, target)
        predicted = out > 0 if self.stage.task == "quora" else out.argmax(axis=1)
        return accuracy(predicted.astype(np.int64), target)


class MultitaskNet(nn.Module):
    """Tower and heads at the beginning of the last of ``stages``; earlier heads are as their stage left them.

    A task that has had no stage has a new head, in the style of the latest stage on pairs: an encoder
    trained on pooled sentences is asked about pooled sentences.

    ``start`` is what the tower starts from: the folder of the stage before, or before the first one a
    backbone.
    """

    def __init__(self, seed: int, stages: Sequence[Stage], start: str | Path) -> None:
        super().__init__()
        device = pick_device("auto")
        # Pooling of the latest Siamese stage, so that the folder embeds as it was trained.
        pooling: Pooling = next((one.pooling for one in reversed(stages) if one.pooling), "mean")
        joint = next((one.pooling is None for one in reversed(stages) if one.task != "sst"), True)
        self.tower = load_tower(str(start), pooling=pooling, device=device)
        earlier = {one.task: one for one in stages[:-1]}
        self.trained = {**earlier, stages[-1].task: stages[-1]}
        """The latest stage of each task that has had one."""
        new = {task: Stage(task, None if joint or task == "sst" else pooling) for task in TASKS}
        styles = {**new, **self.trained}
        self.heads = nn.ModuleDict({task: TaskHead(styles[task], self.tower, seed) for task in TASKS})
        same = [
            task
            for task, one in earlier.items()
            if (one.pooling, one.product) == (styles[task].pooling, styles[task].product)
        ]
        stored = load_file(Path(start) / HEADS) if same else {}
        kept = {name: weight for name, weight in stored.items() if name.split(".")[0] in same}
        self.heads.load_state_dict(kept, strict=False)
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
        """Write the tower as a model folder, the heads of all trained tasks beside it."""
        save_tuned(
            self.tower, nn.ModuleDict({task: self.heads[task] for task in self.trained}), folder, HEADS
        )


def overall(scores: Mapping[str, float]) -> float:
    """Average SST accuracy, Quora accuracy and (STS Pearson + 1) / 2; NLI counts only by itself."""
    counted = [name for name in scores if name != "nli"] or ["nli"]
    return fmean((scores[name] + 1) / 2 if name == "sts" else scores[name] for name in counted)
