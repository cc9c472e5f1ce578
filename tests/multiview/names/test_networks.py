"""Networks behind names: pooled transformers, random encoders, and the weights that a training began with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from multiview.config import TrainConfig
from multiview.folder.files import save_members
from multiview.model import MultiViewEncoder
from multiview.names.networks import load_start
from multiview.names.opened import glorot_projection
from multiview.train import main
from multiview.training import trainer as trainer_module
from parsing.trees.cache import TreeCache
from runtime.errors import UserError
from senteval_runner.vectors import open_model
from tests.fixtures.trees import changed
from tests.multiview.test_train import validated
from tests.parsing.trees.test_cache import corpus_of, write_cache
from tests.studies.layers.transformers_tiny import build

SENTENCES = [["the", "cat", "sat"], ["a", "cat"], ["the"], ["unheard", "of"]]
POOLS = {"cls": lambda h: h[0], "mean": lambda h: h.mean(axis=0), "max": lambda h: h.max(axis=0)}


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_transformers_last_layer_is_pooled_as_the_name_says(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    from transformers import AutoModel, AutoTokenizer

    bert = build(tmp_path / "bert", "bert")
    tokenizer, model = AutoTokenizer.from_pretrained(bert), AutoModel.from_pretrained(bert).eval()
    with torch.no_grad():
        states = [
            model(**tokenizer(" ".join(tokens), return_tensors="pt")).last_hidden_state[0].numpy()
            for tokens in SENTENCES
        ]
    opened = {name: open_model(f"{name}:{bert}", device="cpu") for name in POOLS}
    for name, pool in POOLS.items():
        np.testing.assert_allclose(opened[name](SENTENCES), [pool(h) for h in states], atol=1e-5)
    assert opened["cls"].name == "cls:bert" and opened["cls"].identity != opened["max"].identity
    # the control of table 3
    projected = open_model(f"cls:{bert}", project=4096, device="cpu")
    expected = opened["cls"](SENTENCES) @ glorot_projection(states[0].shape[1], 4096, seed=0)
    np.testing.assert_allclose(projected(SENTENCES), expected, atol=1e-5)
    assert projected.dim == 4096


@pytest.fixture
def glove(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)  # converted vectors go to runs/vectors
    path = tmp_path / "glove.txt"
    path.write_text("the .1 -.4 1.2\ncat -.7 .3 .9\nsat 2.1 -.2 -.5\na .6 1.4 -1.1\n")
    return path


@pytest.mark.usefixtures("both_devices")
def test_the_lstm_is_the_maximum_over_its_words(glove: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multiview.names.networks.BATCH", 2)
    encoder = open_model(f"random:lstm@6?vectors={glove}", seed=3)
    rows = (line.split() for line in glove.read_text().splitlines())
    table = {word: np.array(values, dtype=np.float32) for word, *values in rows}
    unknown = np.mean(list(table.values()), axis=0)
    torch.manual_seed(3)
    lstm = nn.LSTM(3, 3, bidirectional=True)
    for tokens, vector in zip(SENTENCES, encoder(SENTENCES), strict=True):
        inputs = torch.from_numpy(np.stack([table.get(token, unknown) for token in tokens]))
        np.testing.assert_allclose(vector, lstm(inputs)[0].detach().numpy().max(axis=0), atol=1e-6)


@pytest.mark.parametrize("start", ["xavier", "bag"])
def test_a_start_is_what_no_training_leaves(
    tiny: TrainConfig, toy_trees: Path, start: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "teacher.npy", np.eye(265, 5, dtype=np.float32) + 1)
    config = changed(tiny, seed=3, encoder={"start": start}, objective={"teacher": tmp_path / "teacher.npy"})
    assert main(changed(config, name="trained", loop={"validation": 0})) == 0
    # Validations are best before the first step, so a run keeps the weights it began with.
    monkeypatch.setattr(trainer_module.ValidationSet, "scores", validated([0.1, 0.5]))
    assert main(changed(config, name="kept")) == 0
    (tmp_path / "teacher.npy").unlink()  # it has no say in the start
    begun = load_start(config.output / "trained", toy_trees, "cpu")
    kept, trained = (MultiViewEncoder.load(config.output / name, "cpu") for name in ("kept", "trained"))
    cache = TreeCache.open(toy_trees)
    vectors = [model.encode(None, trees=cache) for model in (begun, kept, trained)]
    np.testing.assert_array_equal(vectors[0], vectors[1])
    assert np.abs(vectors[0] - vectors[2]).max() > 1e-3


def test_starts_of_joined_models_and_of_other_trees(tiny: TrainConfig, tmp_path: Path) -> None:
    for seed in (0, 1):
        main(changed(tiny, name=f"both/{seed}", seed=seed, loop={"epochs": 1}))
    folder, cache = tiny.output / "both", TreeCache.open(tiny.trees)
    save_members(folder, ["0", "1"], card="")
    models = (load_start(model, tiny.trees, "cpu") for model in (folder, folder / "0", folder / "1"))
    both, *parts = (model.encode(None, trees=cache) for model in models)
    np.testing.assert_allclose(both, np.hstack(parts), atol=1e-6)
    write_cache(tmp_path / "other", corpus_of(60))
    with pytest.raises(UserError, match=r"other: is not the tree cache that .*0 was trained on"):
        load_start(folder / "0", tmp_path / "other")
