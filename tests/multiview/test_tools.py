"""The encoder under the names that other libraries use, saved and loaded, and the one in the package."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from multiview import encode
from multiview.encoders.meaning import Scale
from multiview.folder.files import load_model, model_folder
from multiview.model import MultiViewEncoder
from multiview.names.constructors import encoder_of
from multiview.sklearn import MultiViewTransformer
from runtime.errors import UserError
from tests.fixtures.builtin import LINES


def test_the_names_of_sentence_transformers(seq_model: Path) -> None:
    encoder = MultiViewEncoder.load(seq_model, "cpu")
    vectors = encoder.encode(LINES)
    np.testing.assert_array_equal(encoder.encode_query(LINES), vectors)
    np.testing.assert_array_equal(encoder.encode_document(LINES, normalize_embeddings=False), vectors)
    unit, other = encoder.encode(LINES, normalize_embeddings=True), vectors[::-1].copy()
    np.testing.assert_allclose(encoder.similarity(vectors, other), unit @ unit[::-1].T, atol=1e-5)
    pairs = encoder.similarity_pairwise(vectors, other)
    torch.testing.assert_close(pairs, encoder.similarity(vectors, other).diagonal())
    with pytest.raises(UserError, match="device 'xyz'"):
        encoder.encode(LINES, device="xyz")


def test_a_saved_model_is_the_same(seq_model: Path, tmp_path: Path) -> None:
    encoder, copy = MultiViewEncoder.load(seq_model), tmp_path / "copy"
    encoder.save(copy)
    for name in ("config.json", "model.safetensors", "README.md", "vocab.txt", "time.json"):
        assert (copy / name).read_bytes() == (seq_model / name).read_bytes()
    before = encoder.encode(LINES)
    with torch.no_grad():
        encoder.network.words.tables[0].mul_(2)
    assert np.abs(encoder.encode(LINES) - before).max() > 1e-3
    for model in (encoder, MultiViewEncoder.untrained("seq", dim=4), MultiViewEncoder.load(seq_model)):
        model.save(copy)  # a model may be replaced
        np.testing.assert_array_equal(MultiViewEncoder.load(copy).encode(LINES), model.encode(LINES))
    assert (copy / "README.md").read_bytes() == (seq_model / "README.md").read_bytes()


def test_a_step_of_a_scikit_learn_pipeline(seq_model: Path) -> None:
    texts, labels = LINES * 6, [0, 1, 0] * 6
    plain, shared = MultiViewEncoder.load(seq_model), MultiViewEncoder.load(seq_model)
    x = plain.encode(LINES)
    shared.network.scale = Scale(*map(torch.from_numpy, (x.mean(axis=0), x.std(axis=0))))
    scaled = (x - x.mean(axis=0)) / x.std(axis=0)
    scaled /= np.linalg.norm(scaled, axis=1, keepdims=True)
    raw = plain.encode(LINES, normalize_embeddings=True)
    for model, expected in ((seq_model, raw), (shared, scaled)):
        pipeline = make_pipeline(
            clone(MultiViewTransformer(model, normalize=True)), LogisticRegression(C=100)
        )
        assert cross_val_score(pipeline, texts, labels, cv=2).mean() == 1
        step = pipeline.fit(texts, labels)[0]
        np.testing.assert_allclose(step.transform(LINES), expected, atol=1e-6)
        assert len(step.get_feature_names_out()) == 16
    assert clone(MultiViewTransformer(shared)).model is shared


@pytest.mark.usefixtures("both_devices")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_sentence_transformers_opens_and_saves_a_model(seq_model: Path, tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    from sentence_transformers import SentenceTransformer

    from multiview import sentence_transformers as st_adapter

    expected = MultiViewEncoder.load(seq_model).encode(LINES)
    np.testing.assert_allclose(st_adapter.load(seq_model).encode(LINES), expected, atol=1e-5)
    model = SentenceTransformer(str(seq_model), trust_remote_code=True, device="cpu")
    np.testing.assert_allclose(model.encode(LINES, batch_size=2), expected, atol=1e-5)
    assert model.encode(LINES[0]).shape == (16,)
    model.save(str(tmp_path / "copy"))
    np.testing.assert_allclose(MultiViewEncoder.load(tmp_path / "copy").encode(LINES), expected, atol=1e-6)


def test_builtin_is_the_name_of_a_folder(builtin: Path, corpus: Path, refusal) -> None:
    encoder = MultiViewEncoder.load("builtin")
    expected = MultiViewEncoder.load(builtin).encode(LINES)
    np.testing.assert_array_equal(encoder.encode(LINES), expected)
    assert encoder.name == "builtin" and encoder.folder == builtin
    assert model_folder("builtin") == model_folder(Path("builtin")) == builtin
    assert model_folder("./x/builtin") == Path("x/builtin")
    np.testing.assert_array_equal(MultiViewTransformer("builtin").fit_transform(LINES), expected)
    assert "seq 8 + seq 8 = 16 dimensions" in repr(encoder)
    for name in ("bultin", "built-in", "Builtin"):
        assert f"model '{name}': no such folder; did you mean builtin?" in refusal(encode.cli, name, corpus)
        with pytest.raises(UserError, match="did you mean builtin"):
            encoder_of(name)


def test_the_packaged_encoder_is_small_and_says_where_its_data_come_from() -> None:
    folder = model_folder("builtin")
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) <= 20e6
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "CC BY-SA 3.0" in card and "public domain" in card and "Apache-2.0" in card
    network = load_model(folder).network
    assert network.views == ("dep", "const", "seq", "bag", "spelling")
    fitted, scale = network.readout, network.scale
    assert (
        fitted is not None and scale is not None and (fitted.dim, len(scale.feature_indices)) == (384, 2560)
    )
