"""Which weights a run keeps: those of the best validation, the start included."""

from __future__ import annotations

import pytest
import torch

from corpora.support.files import read_json
from multiview.config import TrainConfig
from multiview.info import cli as info
from multiview.model import MultiViewEncoder
from multiview.train import main
from multiview.training import trainer as trainer_module
from multiview.training.data import open_trees
from multiview.training.trainer import Trainer
from multiview.training.validation import ValidationScores


def recalls(monkeypatch: pytest.MonkeyPatch, *values: float) -> None:
    """Validations find these recalls, one after the other, then the last one for ever."""
    left = list(values)

    def scores(*_: object, **__: object) -> ValidationScores:
        recall = left.pop(0) if len(left) > 1 else left[0]
        return ValidationScores(loss=1.0, recall_at_1=recall, pair_accuracy={}, anchors=10)

    monkeypatch.setattr(trainer_module.ValidationSet, "scores", scores)


def test_training_that_only_harms_keeps_the_start(
    tiny: TrainConfig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recalls(monkeypatch, 0.5, 0.4, 0.5, 0.3)
    assert main(tiny) == 0
    assert "kept       the untrained weights" in capsys.readouterr().out
    training = read_json(tiny.folder / "config.json")["training"]
    assert (training["step"], training["sentences"], training["best"]["recall@1"]) == (0, 0, 0.5)
    card = (tiny.folder / "README.md").read_text()
    assert "had seen no sentence" in card and "| untrained | 1.0000 | 0.5000 |" in card
    assert "| step" not in card
    kept = MultiViewEncoder.load(tiny.folder).members[0].network
    start = Trainer(tiny, open_trees(tiny.trees)).network
    assert all(torch.equal(a, b) for a, b in zip(kept.parameters(), start.parameters(), strict=False))
    assert info([str(tiny.folder)]) == 0
    assert "the start: recall@1 0.5000 (0.5000 untrained)" in capsys.readouterr().out


def test_the_card_counts_the_sentences_of_the_kept_step(
    tiny: TrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    recalls(monkeypatch, 0.1, 0.4, 0.2)  # best at step 4, the first after the start
    assert main(tiny) == 0
    training = read_json(tiny.folder / "config.json")["training"]
    assert (training["step"], training["sentences"]) == (4, 4 * tiny.loop.batch)
    text = f"step 4, which had seen {4 * tiny.loop.batch} sentences"
    assert text in (tiny.folder / "README.md").read_text()
