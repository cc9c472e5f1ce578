"""Vectors for classifiers: at one scale over a text, or at the model's own."""

from pathlib import Path

import numpy as np
import pytest
import torch

from multiview.encoders.meaning import FEATURE_LENGTH, Scale
from multiview.model import MultiViewEncoder
from senteval_runner.evaluation_trees import open_model
from tests.parsing.pipeline.toy_parsers import odd_sentences


@pytest.fixture
def npz(workplace: Path) -> str:
    """Vectors of the cache's sentences, and of one more."""
    sentences = sorted({" ".join(words) for words in odd_sentences(30)} | {"zzz"})
    normal = np.random.default_rng(1).normal(size=(len(sentences), 6))
    vectors = normal * [0.1, 9, 0.01, 0, 1e-5, 1e-8] + [7, -40, 0, 7, 0, 0.1]  # the last: a constant, rounded
    np.savez(workplace / "made.npz", sentences=sentences, vectors=vectors.astype(np.float32))
    return "made.npz"


@pytest.mark.parametrize(
    "spec",
    [
        "bag:random?dim=6",
        "words.txt",
        "random:seq?dim=8",
        "random:lstm?dim=4",
        "builtin",
        "builtin?views=seq",
        "npz",
    ],
)
def test_a_scale_is_that_of_a_text(
    workplace: Path, npz: str, spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Classifiers get each number centred and at one deviation over the text; cosines are of raw numbers."""
    spec = npz if spec == "npz" else spec
    monkeypatch.setattr("multiview.names.encoder.STORED_TOGETHER", 7)
    raw, scaled, none = (open_model(f"{spec}{end}") for end in ("", "?scale=trees", "?scale=none"))
    text = [list(words) for words in odd_sentences(30)]
    sentences, text_vectors = [["zzz"], *text[:3]], raw.encode(text).astype(np.float64)
    deviation = text_vectors.std(axis=0)
    flat = deviation <= 1e-6 * abs(text_vectors.mean(axis=0))
    factor = np.where(flat, 0, FEATURE_LENGTH / len(flat) ** 0.5 / np.where(flat, 1, deviation))
    expected = (raw.encode(sentences) - text_vectors.mean(axis=0)) * factor
    np.testing.assert_allclose(scaled.features(sentences), expected, atol=1e-5)
    for same in (scaled.encode(sentences), none.features(sentences)):
        np.testing.assert_allclose(same, raw.encode(sentences), atol=1e-6)
    np.testing.assert_allclose(scaled.features(sentences[0]), expected[:1], atol=1e-5)
    assert (scaled.label(), scaled.label("features")) == ("raw", "features")


def test_a_models_own_scale(workplace: Path, builtin: Path) -> None:
    """Its features have it unless a name says otherwise; a scale leaves out what the model's leaves out."""
    model = MultiViewEncoder.load("builtin", "cpu")
    dim = model.network.dim
    model.network.scale = Scale(torch.ones(dim), torch.full((dim,), 2.0))
    model.network.scale.deviation[1] = torch.inf
    model.save(workplace / "own")
    words = [["good", "bad"]]
    raw = model.encode(words)
    scaled = (np.delete(raw, 1, axis=1) - 1) / 2
    encoders = {end: open_model(f"own{end}") for end in ("", "?scale=none", "?scale=trees")}
    features = {end: encoder.features(words) for end, encoder in encoders.items()}
    np.testing.assert_allclose(features[""], scaled * FEATURE_LENGTH / scaled.shape[1] ** 0.5, atol=1e-6)
    np.testing.assert_allclose(features["?scale=none"], raw, atol=1e-6)
    assert features["?scale=trees"].shape == scaled.shape
    assert [(one.label(), one.label("features")) for one in encoders.values()] == [
        ("raw", "features"),
        ("raw", "raw"),
        ("raw", "features"),
    ]
    np.testing.assert_allclose(encoders[""].encode(words), raw, atol=1e-6)
    assert len({one.parts[0].key("features") for one in encoders.values()}) == 3
    columns = (np.split(raw, 2, axis=1)[1] - 1) / 2
    one = open_model("own?views=1-seq").features(words)
    np.testing.assert_allclose(one, columns * FEATURE_LENGTH / columns.shape[1] ** 0.5, atol=1e-6)
