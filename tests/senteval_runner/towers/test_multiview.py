"""A multi-view encoder under the Siamese heads: gradients reach encoders and word tables; save and load."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from multiview import info
from multiview.config import TrainConfig
from multiview.train import main
from senteval_runner.towers.multiview import MultiViewTower
from senteval_runner.towers.transformer import embed_all, load_tower
from senteval_runner.vectors.sources import is_multiview
from studies.burt.train import siamese
from studies.finetune.config import LoopConfig
from studies.finetune.examples import Examples, Stream, fixed
from studies.finetune.loop import Task, fit
from tests.fixtures.trees import changed
from tests.parsing.pipeline.toy_parsers import ToyConstituencyParser, ToyDependencyParser
from tests.studies.finetune.fixtures import nli_rows


@pytest.fixture
def folder(tiny: TrainConfig) -> Path:
    main(changed(tiny, views="dep,const", loop={"epochs": 1}))
    return tiny.output / tiny.name


def with_toy_parsers(tower: MultiViewTower) -> MultiViewTower:
    tower.encoder.reader.use_parser("dep", ToyDependencyParser())
    tower.encoder.reader.use_parser("const", ToyConstituencyParser())
    return tower


def test_dep_and_const_learn_nli_under_siamese_heads(folder: Path, tmp_path: Path) -> None:
    assert is_multiview(folder)
    assert not is_multiview(tmp_path)
    tower = load_tower(str(folder))
    assert isinstance(tower, MultiViewTower)
    with_toy_parsers(tower)
    rows = nli_rows(60, 3)
    labels = ("entailment", "neutral", "contradiction")
    target = np.array([labels.index(label) for label, _, _ in rows])
    examples = Examples([a for _, a, _ in rows], [b for _, _, b in rows], target)
    before = embed_all(tower, examples.first)
    tower.prepare([*examples.first, *(examples.second or [])])
    np.testing.assert_allclose(embed_all(tower, examples.first), before, atol=1e-6)
    plain = tower.encoder.encode(examples.first)
    np.testing.assert_allclose(before, plain, atol=1e-5)

    net = siamese(tower, ["nli"], "uv-diff", seed=1)
    held = {name: parameter.detach().clone() for name, parameter in net.named_parameters()}
    stream = Stream(fixed(examples), 20, 0, "nli")
    task = Task(stream, lambda batch: net.loss("nli", batch))

    def evaluate() -> dict[str, float]:
        return {"loss": net.loss("nli", examples).item()}

    history = fit(net, {"nli": task}, LoopConfig(learning_rate=0.01), steps=40, evaluate=evaluate, seed=1,
                  folder=tmp_path / "run")  # fmt: skip
    assert history[-1]["loss"] < 0.9 * history[0]["loss"]
    moved = {name for name, parameter in net.named_parameters() if not torch.equal(parameter, held[name])}
    assert any("tables" in name for name in moved)
    assert any("encoders.0" in name for name in moved) and any("encoders.1" in name for name in moved)

    tower.save(tmp_path / "saved")
    info.main(info.InfoConfig(run=tmp_path / "saved"))
    again = with_toy_parsers(load_tower(str(tmp_path / "saved")))  # type: ignore[arg-type]
    np.testing.assert_array_equal(embed_all(again, examples.first), embed_all(tower, examples.first))
