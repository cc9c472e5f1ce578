"""How many threads training and encoding take."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from multiview.config import TrainConfig
from multiview.model import MultiViewEncoder
from multiview.train import main
from multiview.training.data import open_trees
from multiview.training.trainer import Trainer
from parsing.networks import device as threads
from tests.fixtures.trees import changed

CPU = torch.device("cpu")


@pytest.fixture
def eight_threads() -> Iterator[None]:
    """As on a machine of eight cores."""
    with threads.torch_threads(8):
        yield


def test_several_threads_only_for_large_products(eight_threads: None) -> None:
    assert threads.chosen_threads(400, 1200, CPU) == 8
    assert threads.chosen_threads(200, 128, CPU) == 1  # the laptop preset
    assert threads.chosen_threads(1, 1200, CPU) == 1
    assert threads.chosen_threads(400, 1200, torch.device("cuda")) == 1


def test_a_run_keeps_its_threads_and_gives_torch_s_back(tiny: TrainConfig) -> None:
    with threads.torch_threads(3):
        assert main(tiny) == 0
        assert torch.get_num_threads() == 3
    again = Trainer(changed(tiny, loop={"epochs": 3}), open_trees(tiny.trees))
    again.threads = 7  # another machine
    assert again.run() == 0 and again.threads == 1


def test_few_sentences_are_encoded_by_one_thread(
    monkeypatch: pytest.MonkeyPatch, eight_threads: None
) -> None:
    encoder = MultiViewEncoder.untrained("seq,seq", dim=4, word_dim=4)
    seen = []
    inner = encoder._vectors
    monkeypatch.setattr(encoder, "_vectors", lambda *a: (seen.append(torch.get_num_threads()), inner(*a))[1])
    encoder.encode([["a", "b"]])
    monkeypatch.setattr("multiview.model.chosen_threads", lambda *_: 5)
    encoder.encode([["a", "b"]])
    encoder.encode([["a"]] * 200, batch_size=200)
    assert seen == [1, 1, 5] and torch.get_num_threads() == 8


def test_commands_let_threads_sleep_while_they_wait(command, tmp_path: Path) -> None:
    """OpenMP reads the variable when torch is loaded."""
    (tmp_path / "waits.py").write_text(
        "import os, sys\nfrom corpora.support.cli import Command\nfrom multiview.train import TrainConfig\n"
        "def main(_):\n    print(os.environ['OMP_WAIT_POLICY'], 'torch' in sys.modules)\n"
        "Command(TrainConfig, main, 'waits', 'x')([])\n"
    )
    result = command("waits", cwd=tmp_path)
    assert result.stdout.split() == ["PASSIVE", "False"], result.stderr
