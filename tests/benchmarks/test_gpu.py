"""The command that checks a GPU: its parts on a device if there is one, the command itself on the CPU."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import torch

from benchmarks.gpu import checks
from benchmarks.gpu.__main__ import main
from benchmarks.gpu.bench import Bench, Skipped, run_parts
from benchmarks.gpu.text import parsed_text


@pytest.fixture(scope="module")
def device() -> torch.device:
    if not torch.cuda.is_available():
        pytest.skip("torch sees no CUDA device")
    return torch.device("cuda:0")


@pytest.fixture(scope="module")
def bench(device: torch.device, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    folder = tmp_path_factory.mktemp("gpu")
    return Bench(device, False, folder, *parsed_text(folder / "trees", 600))


@pytest.mark.gpu
@pytest.mark.parametrize("name", checks.PARTS)
def test_on_a_device(bench: Bench, name: str) -> None:
    bench.deadline[:] = [time.monotonic() + 240]
    checks.PARTS[name][0](bench)


def test_the_command_on_a_cpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("cpu", quick=True, minutes=4) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["good"] and result["device"] == "cpu"
    states = {name: part["state"] for name, part in result["parts"].items()}
    assert states.pop("waiting") == "skipped"
    assert set(states.values()) <= {"done", "skipped"}, result
    assert states["encoders"] == states["losses"] == states["resume"] == states["training"] == "done"
    assert {"dep/native", "const/torch", "seq/native"} <= result["parts"]["encoders"]["errors"].keys()


def test_parts_fail_and_skip_alone(tmp_path: Path) -> None:
    bench = Bench(torch.device("cpu"), True, tmp_path, None, [])  # type: ignore[arg-type]

    def skips(_: Bench) -> dict[str, object]:
        raise Skipped("no peer")

    def fails(_: Bench) -> dict[str, object]:
        raise AssertionError("dep/native: error 0.1 is above 0.0001")

    def works(b: Bench) -> dict[str, object]:
        return {"left": b.left_s()}

    parts = {"a": (skips, 1.0), "b": (fails, 1.0), "c": (works, 2.0)}
    results, good = run_parts(bench, parts, time.monotonic() + 60)
    assert not good
    assert [part["state"] for part in results.values()] == ["skipped", "failed", "done"]  # type: ignore[index]
    assert 50 < results["c"]["left"] <= 60, "what others left over"  # type: ignore[index]
    late, good = run_parts(bench, {"c": (works, 1.0)}, time.monotonic())
    assert good and late["c"]["why"] == "no time left"  # type: ignore[index]


@pytest.mark.parametrize(("value", "kept"), [(1e-5, True), (1e-3, False), (float("nan"), False)])
def test_a_limit_is_kept_or_not(value: float, kept: bool) -> None:
    if kept:
        assert checks.require("x", value, 1e-4) == 1e-5
    else:
        with pytest.raises(AssertionError, match="x: error"):
            checks.require("x", value, 1e-4)
