"""Random encoders: any size, given word vectors, and the published BiLSTM against a loop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from corpora.support.errors import UserError
from senteval_runner.vectors.encoders import open_model, resolve_encoder
from senteval_runner.vectors.random_encoders import RandomSpec

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


def test_the_spec(glove: Path) -> None:
    assert RandomSpec.parse("random:dep,const") == RandomSpec("dep,const", None, None)
    assert RandomSpec.parse("random:seq@4096") == RandomSpec("seq", 4096, None)
    whole = RandomSpec.parse(f"random:lstm@4800?vectors={glove}")
    assert whole == RandomSpec("lstm", 4800, glove)
    assert whole.name == "random:lstm@4800 over glove"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("random:", "random:VIEWS"),
        ("random:dep@", "random:VIEWS"),
        ("random:dep@x", "random:VIEWS"),
        ("random:dep,const@7", "cannot be divided by 2"),
        ("random:seq@7", "even"),
        ("random:lstm@7", "even"),
        ("random:dep?size=3", "random:VIEWS"),
        ("random:seq,lstm", "lstm"),
        ("random:lstm?vectors=nowhere.txt", "nowhere.txt: no such file"),
        ("random:xyz", "view 'xyz'"),
    ],
)
def test_a_wrong_spec_is_refused_before_any_work(spec: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        open_model(spec, cache=None)


@pytest.mark.parametrize("spec", ["random:seq@8", "random:seq,seq@8", "random:lstm@8"])
def test_size_and_words(glove: Path, spec: str) -> None:
    plain, over = resolve_encoder(spec), resolve_encoder(f"{spec}?vectors={glove}")
    assert plain(SENTENCES).shape == over(SENTENCES).shape == (4, 8)
    assert np.abs(plain(SENTENCES) - over(SENTENCES)).max() > 1e-3
    np.testing.assert_array_equal(over(SENTENCES), resolve_encoder(f"{spec}?vectors={glove}")(SENTENCES))
    assert (
        np.abs(over(SENTENCES) - resolve_encoder(f"{spec}?vectors={glove}", seed=1)(SENTENCES)).max() > 1e-3
    )
    keys = {open_model(one, cache=None).identity[0] for one in (spec, f"{spec}?vectors={glove}")}
    glove.write_text(glove.read_text() + "sat 1 2 3\n")
    keys.add(open_model(f"{spec}?vectors={glove}", cache=None).identity[0])
    assert len(keys) == 3


def test_the_lstm_is_the_maximum_over_its_words(glove: Path) -> None:
    encoder = resolve_encoder(f"random:lstm@6?vectors={glove}", seed=3, batch_size=2)
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
