"""BURT's three objectives over any tower, their schedule and their epoch.

Every objective is a softmax head over the features of two vectors. Shapes: B pairs, D width, C classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from corpora.pairs.labelled import NLI_LABELS
from senteval_runner.towers.transformer import embed_all
from studies.burt.config import Objective
from studies.finetune.config import Concatenation
from studies.finetune.examples import Examples
from studies.finetune.heads import PairHead, TowerModule, classification_loss

CLASSES: dict[Objective, tuple[str, ...]] = {
    "nli": NLI_LABELS,
    "identification": ("different", "paraphrase"),
    "classification": ("equivalence", "entailment", "independent"),
}


class Siamese(TowerModule):
    """One tower, one head per objective."""

    def __init__(
        self, tower: nn.Module, objectives: Sequence[Objective], concatenation: Concatenation, seed: int
    ) -> None:
        super().__init__(tower)
        self.heads = nn.ModuleDict(
            {
                name: PairHead(self.encoder.dim, len(CLASSES[name]), concatenation, seed + place)
                for place, name in enumerate(CLASSES)
                if name in objectives
            }
        )

    def loss(self, objective: Objective, examples: Examples) -> Tensor:
        """−1/B Σ log softmax(head(u, v))[class]; both sides of the batch share one forward pass."""
        assert examples.second is not None
        vectors = self.encoder.embed(examples.first + examples.second)
        u_BD, v_BD = vectors.split(len(examples))
        target = torch.from_numpy(examples.target).to(vectors.device)
        return classification_loss(self.heads[objective](u_BD, v_BD), target)

    def predict(self, objective: Objective, examples: Examples) -> np.ndarray:
        """Most probable class per pair, int64 [n]."""
        assert examples.second is not None
        table = torch.from_numpy(embed_all(self.encoder, examples.first + examples.second))
        u_BD, v_BD = table.split(len(examples))
        head = self.heads[objective]
        device = next(head.parameters()).device
        classes: np.ndarray = head(u_BD.to(device), v_BD.to(device)).argmax(dim=-1).cpu().numpy()
        return classes


def one_round(objectives: Sequence[Objective]) -> tuple[Objective, ...]:
    """One round of batches: every second one is NLI, the PPDB objectives alternate on the others."""
    others: list[Objective] = [name for name in ("identification", "classification") if name in objectives]
    if "nli" not in objectives:
        return tuple(others)
    if not others:
        return ("nli",)
    return tuple(name for other in others for name in ("nli", other))


def steps_per_epoch(cycle: Sequence[Objective], batches: Mapping[Objective, int]) -> int:
    """Steps per epoch.

    The sets differ in size by orders of magnitude. So an epoch is one pass over NLI, which gets half of the
    steps; without NLI it is one pass over the set that takes longest. The other sets repeat, reshuffled
    at each of their passes.

    Args:
        cycle: one round of :func:`one_round`.
        batches: batches in one pass of each set.
    """
    decisive: list[Objective] = ["nli"] if "nli" in cycle else list(dict.fromkeys(cycle))
    return max(-(-batches[name] * len(cycle) // cycle.count(name)) for name in decisive)
