"""Random encoders: any size, given word vectors, and the published BiLSTM against a loop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from senteval_runner.vectors.encoders import open_model

SENTENCES = [["the", "cat", "sat"], ["a", "cat"], ["the"], ["unheard", "of"]]


@pytest.fixture
def glove(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)  # converted vectors go to runs/vectors
    drawn = np.random.default_rng(0).normal(size=(4, 3)).round(3)
    path = tmp_path / "glove.txt"
    words = ["the", "cat", "sat", "a"]
    path.write_text(
        "".join(f"{w} {' '.join(map(str, v))}\n" for w, v in zip(words, drawn.tolist(), strict=True))
    )
    return path


@pytest.mark.parametrize("spec", ["random:seq@8", "random:seq,seq@8", "random:lstm@8"])
def test_size_and_words(glove: Path, spec: str) -> None:
    plain, over = open_model(spec), open_model(f"{spec}?vectors={glove}")
    assert plain(SENTENCES).shape == over(SENTENCES).shape == (4, 8)
    assert np.abs(plain(SENTENCES) - over(SENTENCES)).max() > 1e-3
    np.testing.assert_array_equal(over(SENTENCES), open_model(f"{spec}?vectors={glove}")(SENTENCES))
    assert np.abs(over(SENTENCES) - open_model(f"{spec}?vectors={glove}", seed=1)(SENTENCES)).max() > 1e-3


def test_the_lstm_is_the_maximum_over_its_words(glove: Path, monkeypatch) -> None:
    monkeypatch.setattr("senteval_runner.vectors.networks.BATCH", 2)
    encoder = open_model(f"random:lstm@6?vectors={glove}", seed=3)
    table = {
        line.split()[0]: np.array(line.split()[1:], dtype=np.float32)
        for line in glove.read_text().splitlines()
    }
    unknown = np.mean(list(table.values()), axis=0)
    torch.manual_seed(3)
    lstm = nn.LSTM(3, 3, bidirectional=True)
    assert max(p.detach().abs().max().item() for p in lstm.parameters()) <= 1 / np.sqrt(3)
    for tokens, vector in zip(SENTENCES, encoder(SENTENCES), strict=True):
        inputs = torch.from_numpy(np.stack([table.get(token, unknown) for token in tokens]))
        states = lstm(inputs)[0].detach().numpy()
        np.testing.assert_allclose(vector, states.max(axis=0), atol=1e-6)
