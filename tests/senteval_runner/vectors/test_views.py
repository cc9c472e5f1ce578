"""``MODEL?views=dep``: some views of a model, as a model of its own in a report."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from multiview import train
from multiview.folder.files import save_members
from multiview.model import MultiViewEncoder
from parsing.trees.cache import TreeCache
from senteval_runner.vectors.encoders import open_model
from tests.fixtures.trees import TINY, changed, toy_corpus

DIM = 8
SENTENCES = [list(words) for words in toy_corpus()[0][:40]]


@pytest.fixture(scope="module")
def models(toy_trees: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``one`` of three views; ``joined``, two parts."""
    out = tmp_path_factory.mktemp("models")
    for seed, (name, views) in enumerate(
        {"one": "dep,const,seq", "joined/a": "dep,const", "joined/b": "dep,const"}.items()
    ):
        values = {"name": name, "views": views, "seed": seed, "loop": {"epochs": 1}}
        assert train.main(changed(TINY, trees=toy_trees, output=out, **values)) == 0
    save_members(out / "joined", ["a", "b"], card="")
    return out


@pytest.mark.parametrize(
    ("spec", "columns"),
    [
        ("one?views=dep", [0]),
        ("one?views=2-seq,const", [1, 2]),
        ("joined?views=const", [1, 3]),
        ("joined?views=0-dep", [0, 2]),
        ("joined?views=const,dep", [0, 1, 2, 3]),
    ],
)
def test_it_is_the_columns_of_the_whole_vector(
    models: Path, toy_trees: Path, spec: str, columns: list[int]
) -> None:
    name, *_ = spec.partition("?")
    cache = TreeCache.open(toy_trees)
    whole = MultiViewEncoder.load(models / name, "cpu").encode(SENTENCES, batch_size=128, trees=cache)
    blocks = np.split(whole, whole.shape[1] // DIM, axis=1)
    found = open_model(str(models / spec), trees=toy_trees, device="cpu")(SENTENCES)
    np.testing.assert_array_equal(found, np.hstack([blocks[place] for place in columns]))
