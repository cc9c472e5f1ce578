"""A training step never waits for the device: metrics are read many steps at a time."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from corpora.support.errors import UserError
from corpora.support.files import read_json
from multiview.config import TrainConfig
from multiview.encoders import recurrent
from multiview.engines.plan import pack, unpack
from multiview.train import main
from multiview.training import trainer as trainer_module
from multiview.training.data import open_trees
from multiview.training.trainer import Trainer
from tests.fixtures.trees import changed
from tests.fixtures.waiting import Waits, no_waiting
from tests.multiview.test_train import assert_same_bits, log_of, newest

VARIANTS = {
    "paper": {},
    "fixed": {"words": "fixed"},
    "seq": {"views": "seq,dep"},
    "rows": {"table": {"update": "rows"}, "objective": {"direction": "both", "denominator": "all"}},
    "cached": {"objective": {"same": 1.0}, "loop": {"segments": 2, "micro_batch": 7}},
    "dot": {
        "objective": {"score": "dot", "denominator": "quickthought"},
        "loop": {"schedule": "cosine"},
    },
}


@pytest.fixture
def portable(tiny: TrainConfig, tmp_path: Path, request, monkeypatch) -> TrainConfig:
    """Kernels that do nothing: a GPU's own do not wait, and numba's read the tensors as arrays."""
    names = [f"{kind}_{way}" for kind in ("leaf", "const", "dep") for way in ("forward", "backward")]
    steps = dict.fromkeys((*names, "dep_attend", "dep_attend_backward"), lambda *_: None)
    kernels = SimpleNamespace(array=lambda tensor: tensor, BIAS_AFTERWARDS=True, **steps)
    monkeypatch.setattr(recurrent, "kernels_for", lambda x: kernels)
    (tmp_path / "vectors.txt").write_text("the 0.5 1 0 0 0 2\ncat 1 2 3 4 5 6\n")
    config = changed(tiny, vectors=str(tmp_path / "vectors.txt"))
    return changed(config, **VARIANTS[request.param])


# Not SEQ: torch's GRU reads the sizes of its steps, which are on the host even where the rest is not.
@pytest.mark.parametrize("portable", [name for name in VARIANTS if name != "seq"], indirect=True)
def test_a_step_does_not_wait(portable: TrainConfig) -> None:
    trainer = Trainer(portable, open_trees(portable.trees))
    jobs = trainer.jobs()
    for _ in range(2):
        step = trainer.prepare(next(jobs))
        with no_waiting() as seen:
            trainer.update(trainer.gradient(step))
        assert seen.launches > 100
    assert len(trainer.unread) == 2
    with no_waiting(), pytest.raises(Waits):
        trainer.read()


@pytest.mark.parametrize("portable", [name for name in VARIANTS if name != "fixed"], indirect=True)
def test_a_step_stays_on_its_device(portable: TrainConfig, monkeypatch) -> None:
    """On torch's device without memory: a tensor left on the CPU, or a value asked for, is an error."""
    monkeypatch.setattr(trainer_module, "pick_device", lambda *_: torch.device("meta"))
    # Autocast does not know that device, and the fused kernel needs memory.
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda _: False)
    monkeypatch.setattr(torch.optim.Adam, "step", lambda self: None)
    trainer = Trainer(portable, open_trees(portable.trees))
    step = trainer.prepare(next(trainer.jobs()))
    with no_waiting("meta"):
        result = trainer.gradient(step)
        trainer.update(result)
    assert {tensor.device.type for tensor in (result.metrics, *result.row_gradients)} == {"meta"}


def test_rare_readings_change_nothing(tiny: TrainConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    rarely = changed(tiny, name="rarely")
    main(tiny)
    monkeypatch.setitem(trainer_module.READ_EVERY, "cpu", 7)
    main(rarely)
    assert_same_bits(newest(tiny), newest(rarely))
    one, other = (
        sorted(log_of(config), key=lambda line: (line["step"], line["kind"])) for config in (tiny, rarely)
    )
    assert one == other


@pytest.mark.parametrize("update", ["dense", "rows"])
def test_a_bad_step_found_late_changed_nothing(tiny: TrainConfig, update: str, monkeypatch) -> None:
    config = changed(tiny, table={"update": update}, loop={"epochs": 40})
    monkeypatch.setitem(trainer_module.READ_EVERY, "cpu", 20)
    gradient, seen = Trainer.gradient, []

    def state(trainer: Trainer) -> dict[str, torch.Tensor]:
        found = {**trainer.network.state_dict(), **trainer.updates.state()}
        return {name: value.clone() for name, value in found.items() if name != "steps"}

    def poisoned(self: Trainer, step):
        result = gradient(self, step)
        if self.position.step == 4:
            next(p.grad for p in self.updates.dense if p.grad is not None)[0] = float("inf")
            seen.extend([self, state(self)])
        return result

    monkeypatch.setattr(Trainer, "gradient", poisoned)
    with pytest.raises(UserError, match=r"step 5: loss [0-9.]+, gradient norm (inf|nan); stopped before"):
        main(config)
    trainer, before = seen
    assert trainer.position.step == 20
    assert_same_bits(before, state(trainer))
    assert not list((config.folder / "checkpoints").glob("*"))
    assert read_json(config.folder / "config.json")["training"]["step"] == 0, "the start is all that is kept"


def test_arrays_are_packed_without_change() -> None:
    arrays = {
        "longs": np.arange(5), "flags": np.array([[True, False, True]]), "none": np.zeros((0, 3), np.int32),
        "ints": np.arange(6, dtype=np.int32).reshape(2, 3)[:, ::2], "floats": np.float32([0.5, np.nan]),
    }  # fmt: skip
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    for name, found in unpack(pack(tensors, pinned=False), tensors).items():
        assert found.dtype == tensors[name].dtype
        np.testing.assert_array_equal(found, arrays[name])
