"""``start:MODEL``: the weights that a training began with, bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from corpora.support.errors import UserError
from corpora.support.files import read_record, write_record
from multiview.config import TrainConfig
from multiview.folder.files import save_members
from multiview.model import MultiViewEncoder
from multiview.train import main
from multiview.training import trainer as trainer_module
from parsing.trees.cache import TreeCache
from senteval_runner.vectors.untrained import load_start
from tests.fixtures.trees import changed
from tests.parsing.trees.test_cache import corpus_of, write_cache


def never_better(monkeypatch: pytest.MonkeyPatch) -> None:
    """Validations are best before the first step, so a run keeps the weights it began with."""
    left = [0.5, 0.1]

    def scores(*_: object, **__: object) -> dict[str, float]:
        recall = left.pop(0) if len(left) > 1 else left[0]
        return {"anchors": 10, "recall@1": recall, "loss": 1.0}

    monkeypatch.setattr(trainer_module.ValidationSet, "scores", scores)


@pytest.mark.parametrize("start", ["xavier", "bag"])
def test_it_is_what_no_training_leaves(
    tiny: TrainConfig, toy_trees: Path, start: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = changed(tiny, seed=3, encoder={"start": start})
    assert main(changed(config, name="trained", loop={"validation": 0})) == 0
    never_better(monkeypatch)
    assert main(changed(config, name="kept")) == 0
    trained = config.output / "trained"
    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    begun = load_start(trained, toy_trees, "cpu")
    assert torch.equal(torch.random.get_rng_state(), before)
    kept = MultiViewEncoder.load(config.output / "kept", "cpu")
    cache = TreeCache.open(toy_trees)
    vectors = [
        model.encode(None, trees=cache) for model in (begun, kept, MultiViewEncoder.load(trained, "cpu"))
    ]
    np.testing.assert_array_equal(vectors[0], vectors[1])
    assert np.abs(vectors[0] - vectors[2]).max() > 1e-3
    assert begun.members[0].network.words.vocabulary.key == kept.members[0].network.words.vocabulary.key


def test_a_folder_of_models_starts_as_all_of_them(tiny: TrainConfig, toy_trees: Path) -> None:
    for seed in (0, 1):
        main(changed(tiny, name=f"both/{seed}", seed=seed, loop={"epochs": 1}))
    folder = tiny.output / "both"
    save_members(folder, ["0", "1"], card="")
    cache = TreeCache.open(toy_trees)

    def start(model: Path) -> np.ndarray:
        return load_start(model, toy_trees, "cpu").encode(None, trees=cache)

    parts = [start(folder / name) for name in ("0", "1")]
    np.testing.assert_allclose(start(folder), np.hstack(parts), atol=1e-6)


def test_another_cache_or_model_is_one_line(tiny: TrainConfig, toy_trees: Path, tmp_path: Path) -> None:
    main(changed(tiny, loop={"epochs": 1}))
    model = tiny.folder
    write_cache(tmp_path / "other", corpus_of(60))
    with pytest.raises(UserError, match=r"other: is not the tree cache that .*tiny was trained on"):
        load_start(model, tmp_path / "other")
    record = read_record(model / "config.json")
    write_record(model / "config.json", record | {"training": {"fine_tuned_from": "x"}})
    with pytest.raises(UserError, match=r"tiny: has no record of multiview\.train"):
        load_start(model, toy_trees)
