"""Gradients: caching, any number of processes, the optimiser; a step never waits for its device."""

import itertools
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from multiview.config import NewViewsConfig
from multiview.engines import sweeps
from multiview.train import main, open_trainer
from multiview.training import new_views as new_views_module
from multiview.training import trainer as trainer_module
from multiview.training.gradient import DistributedContext
from multiview.training.trainer import Trainer
from runtime import training_loop as loop_module
from runtime.errors import UserError
from runtime.files import read_json
from tests.fixtures.device import OneDevice
from tests.fixtures.files import timeless
from tests.fixtures.processes import run_ranks
from tests.fixtures.training import VARIANTS
from tests.fixtures.trees import changed


def first_gradient(
    config: NewViewsConfig, distributed: DistributedContext | None = None
) -> dict[str, Tensor]:
    """Dense and row gradients of the first step in float64, and its metrics."""
    trainer = open_trainer(config, distributed)
    trainer.network.double()
    result = trainer.gradient(next(trainer.jobs())())
    gradients = {n: p.grad.clone() for n, p in trainer.network.named_parameters() if p.grad is not None}
    gradients |= {f"rows.{i}": g.detach().clone() for i, g in enumerate(result.row_gradients)}
    return gradients | {"table_rows": result.table_rows, "metrics": result.metrics}


def assert_close(one: dict[str, Tensor], other: dict[str, Tensor], tolerance: float) -> None:
    """Compare tensors, relative to the largest number of each."""
    assert one.keys() == other.keys()
    for name, value in one.items():
        scale = float(value.abs().max()) or 1.0
        torch.testing.assert_close(value / scale, other[name] / scale, rtol=0, atol=tolerance, msg=name)


def assert_same_bits(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    assert one.keys() == other.keys()
    assert [name for name in one if not torch.equal(one[name], other[name])] == []


@pytest.mark.parametrize(("views", "same"), [("dep,const", 0.0), ("seq,dep", 0.5)])
def test_cached_gradient_equals_the_plain_one(tiny: NewViewsConfig, views: str, same: float) -> None:
    config = changed(tiny, views=views, objective={"same": same}, table={"dropout": same})
    plain = first_gradient(changed(config, loop={"segments": 2}))
    for micro_batch in (1, 7, 19):
        cached = first_gradient(changed(config, loop={"segments": 2, "micro_batch": micro_batch}))
        assert_close(plain, cached, 1e-10)


Work = Callable[[NewViewsConfig, DistributedContext], dict[str, Tensor]]


def in_processes(world: int, config: NewViewsConfig, out: Path, work: Work) -> list[dict[str, Tensor]]:
    """What ``work`` gives in each of some processes that know each other."""

    def save(rank: int) -> None:
        distributed = DistributedContext.from_environment("cpu")
        save_file(work(config, distributed), out / f"{world}-{rank}.safetensors")
        distributed.close()

    run_ranks(world, save)
    return [load_file(out / f"{world}-{rank}.safetensors") for rank in range(world)]


def test_any_number_of_processes_gives_the_same_gradient(tiny: NewViewsConfig, tmp_path: Path) -> None:
    config = changed(tiny, loop={"segments": 4, "micro_batch": 11})
    alone = first_gradient(config)
    for world in (2, 4):
        for gradients in in_processes(world, config, tmp_path, first_gradient):
            assert_close(alone, gradients, 1e-10)


def test_the_rate_rises_over_a_hundredth_of_the_steps_and_falls_to_a_tenth(tiny: NewViewsConfig) -> None:
    rates = {}
    for schedule in ("cosine", "constant"):
        config = changed(tiny, loop={"schedule": schedule, "epochs": 40})
        trainer = open_trainer(config)
        result, rates[schedule] = trainer.gradient(next(trainer.jobs())()), []
        for step in range(trainer.position.steps):
            trainer.position.step = step
            rates[schedule].append(float(trainer.update(result).values[-1]) / tiny.loop.learning_rate)
    cosine = rates["cosine"]
    rising = [(step + 1) / len(cosine) * 100 for step in range(4)]
    assert 400 < len(cosine) < 500 and cosine[:4] == pytest.approx(rising, rel=1e-3)
    assert max(cosine) == cosine[4] == pytest.approx(1, abs=1e-3)
    assert cosine[4:] == sorted(cosine[4:], reverse=True) and cosine[-1] == pytest.approx(0.1, abs=1e-3)
    assert {*rates["constant"]} == {1.0}


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_step_stays_on_its_device(tiny: NewViewsConfig, variant: str, monkeypatch) -> None:
    """On torch's device without memory: a tensor left on the CPU, or a value asked for, is an error.

    Kernels do nothing: a GPU's own do not wait, and numba's read the tensors as arrays.
    """
    kernels = Mock(BIAS_AFTERWARDS=True)
    monkeypatch.setattr(sweeps, "kernels_for", lambda x: kernels)
    monkeypatch.setattr(new_views_module, "pick_device", lambda *_: torch.device("meta"))
    # Autocast does not know that device, and the fused kernel needs memory.
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda _: False)
    trainer = open_trainer(changed(tiny, **VARIANTS[variant]))
    monkeypatch.setattr(trainer.optimiser.adam, "step", lambda: None)
    step = next(trainer.jobs())()
    with OneDevice():
        result = trainer.gradient(step)
        trainer.update(result)
    assert {tensor.device.type for tensor in (result.metrics, *result.row_gradients)} == {"meta"}


def newest(config: NewViewsConfig) -> dict[str, Tensor]:
    """Weights and moments of a run's newest checkpoint."""
    folder = sorted((config.folder / "checkpoints").glob("step-*"))[-1]
    return load_file(folder / "weights.safetensors") | {
        f"optimiser.{name}": value for name, value in load_file(folder / "optimiser.safetensors").items()
    }


def test_rare_readings_change_nothing(tiny: NewViewsConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    rarely = changed(tiny, name="rarely")
    main(tiny)
    monkeypatch.setitem(trainer_module.READ_EVERY, "cpu", 7)
    main(rarely)
    assert_same_bits(newest(tiny), newest(rarely))
    logs = [timeless(config.folder / "log.jsonl") for config in (tiny, rarely)]
    one, other = (sorted(log, key=lambda line: (line["step"], line["kind"])) for log in logs)
    assert one == other


@pytest.mark.parametrize("update", ["dense", "rows"])
def test_a_bad_step_found_late_changed_nothing(tiny: NewViewsConfig, update: str, monkeypatch) -> None:
    config = changed(tiny, table={"update": update}, loop={"epochs": 40})
    monkeypatch.setitem(trainer_module.READ_EVERY, "cpu", 20)
    gradient, trainer_and_state = Trainer.gradient, []

    def state(trainer: Trainer) -> dict[str, torch.Tensor]:
        tensors = {**trainer.network.state_dict(), **trainer.optimiser.tensors()}
        return {name: value.clone() for name, value in tensors.items() if name != "steps"}

    def poisoned(self: Trainer, step):
        result = gradient(self, step)
        if self.position.step == 4:
            next(p.grad for p in self.optimiser.dense if p.grad is not None)[0] = float("inf")
            trainer_and_state.extend([self, state(self)])
        return result

    monkeypatch.setattr(Trainer, "gradient", poisoned)
    with pytest.raises(UserError, match=r"step 5: gradient_norm (inf|nan); stopped before.* another --name"):
        main(config)
    trainer, weights_before = trainer_and_state
    assert trainer.position.step == 20
    assert_same_bits(weights_before, state(trainer))
    assert not list((config.folder / "checkpoints").glob("*"))
    assert read_json(config.folder / "config.json")["training"]["step"] == 0, "the start is all that is kept"


def test_processes_with_different_clocks_keep_equal_weights(tiny: NewViewsConfig, tmp_path: Path) -> None:
    """A falling learning rate follows the clock: one clock, or the weights would drift apart."""

    def trained(config: NewViewsConfig, distributed: DistributedContext) -> dict[str, Tensor]:
        trainer = open_trainer(config, distributed)
        ticks = itertools.count(step=1 + 9 * distributed.rank)
        loop_module.time = SimpleNamespace(perf_counter=lambda: next(ticks))  # type: ignore[assignment]
        assert trainer.run() == 0
        return {name: value.clone() for name, value in trainer.network.state_dict().items()}

    config = changed(tiny, loop={"schedule": "cosine", "max_minutes": 1.0, "max_steps": 6, "segments": 2})
    first, second = in_processes(2, config, tmp_path, trained)
    assert_same_bits(first, second)
