"""One head per task and style over any tower: BERT (both texts in one pass) or SBERT (two vectors).

Shapes: B examples, D width, C classes.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from corpora.support.errors import UserError
from senteval_runner.protocol.correlation import accuracy, pearson
from senteval_runner.towers.transformer import Tower
from studies.finetune.config import Concatenation
from studies.finetune.examples import Examples
from studies.finetune.heads import (
    PairHead,
    binary_loss,
    classification_loss,
    cosine,
    seeded_linear,
    similarity_loss,
)
from studies.multitask.stages import TASKS, Stage

OUTPUTS = {"sst": 5, "quora": 1, "sts": 1, "nli": 3}
"""Outputs of a head: classes, or one value for the binary and the graded task."""


class TaskHead(nn.Module):
    """The head of one stage.

    Args:
        stage: task and style.
        tower: the encoder; joint pair stages need one that reads pairs.
        seed: seed of the initial weights.
    """

    def __init__(self, stage: Stage, tower: Tower, seed: int) -> None:
        super().__init__()
        if stage.pooling is None and stage.task != "sst" and not tower.joint:
            raise UserError(f"stage {stage}: this encoder reads one sentence at a time; use {stage}(M)")
        self.stage = stage
        seed = seed + TASKS.index(stage.task)
        self.layer: nn.Module | None = None
        if stage.task == "sst" or stage.pooling is None:
            self.layer = seeded_linear(tower.dim, OUTPUTS[stage.task], seed)
        elif stage.task != "sts":
            concatenation: Concatenation = "uv-diff-prod" if stage.product else "uv-diff"
            self.layer = PairHead(tower.dim, OUTPUTS[stage.task], concatenation, seed)

    def forward(self, tower: Tower, examples: Examples) -> Tensor:
        """Logits [B, C], or one value per example [B] for quora (a logit) and sts (cosine or logit)."""
        stage = self.stage
        if stage.task == "sst":
            assert self.layer is not None
            pooling = stage.pooling or ("cls" if tower.joint else None)
            logits: Tensor = self.layer(tower.embed(examples.first, pooling))
            return logits
        assert examples.second is not None
        if stage.pooling is None:
            assert self.layer is not None
            out: Tensor = self.layer(
                tower.embed_pairs(list(zip(examples.first, examples.second, strict=True)))
            )
        else:
            u_BD, v_BD = tower.embed(examples.first + examples.second, stage.pooling).split(len(examples))
            out = cosine(u_BD, v_BD) if self.layer is None else self.layer(u_BD, v_BD)
        return out.squeeze(-1) if OUTPUTS[stage.task] == 1 and self.layer is not None else out

    def loss(self, tower: Tower, examples: Examples) -> Tensor:
        """The stage's objective.

        sst, nli: cross-entropy. quora: binary cross-entropy. sts: squared error of the cosine to the gold
        score / 5; read jointly, the binary cross-entropy of "similar", gold being the probability.
        """
        out = self(tower, examples)
        target = torch.from_numpy(examples.target).to(out.device)
        if OUTPUTS[self.stage.task] > 1:
            return classification_loss(out, target)
        return binary_loss(out, target) if self.layer is not None else similarity_loss(out, target)

    def score(self, tower: Tower, examples: Examples, batch_size: int = 64) -> float:
        """Accuracy (sst, quora, nli) or Pearson correlation (sts) on ``examples``, without gradients."""
        # Texts of similar length share a batch to save padding; the scores do not depend on it.
        length = [len(text) for text in examples.first]
        order = np.argsort(length, kind="stable")
        outputs = []
        with torch.inference_mode():
            for start in range(0, len(order), batch_size):
                rows = order[start : start + batch_size]
                outputs.append(self(tower, examples.take(rows)).float().cpu().numpy())
        out = np.concatenate(outputs)
        target = examples.target[order]
        if self.stage.task == "sts":
            return pearson(out, target)
        predicted = out > 0 if self.stage.task == "quora" else out.argmax(axis=1)
        return accuracy(predicted.astype(np.int64), target)


def overall(scores: Mapping[str, float]) -> float:
    """(SST accuracy + Quora accuracy + (STS Pearson + 1) / 2) / 3; NLI does not count."""
    return (scores["sst"] + scores["quora"] + (scores["sts"] + 1) / 2) / 3
