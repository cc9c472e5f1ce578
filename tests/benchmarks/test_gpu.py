"""The command that checks a GPU: its parts on a device if there is one, the command itself on the CPU."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from benchmarks import gpu


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> gpu.Bench:
    if not torch.cuda.is_available():
        pytest.skip("torch sees no CUDA device")
    return gpu.Bench.make(torch.device("cuda:0"), tmp_path_factory.mktemp("gpu"), size=600)


@pytest.mark.gpu
@pytest.mark.parametrize("part", gpu.CHECKS)
def test_on_a_device(bench: gpu.Bench, part) -> None:  # type: ignore[no-untyped-def]
    part(bench)


def test_the_command_on_a_cpu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = gpu.Bench.make
    make = functools.cache(lambda device: real(device, tmp_path, quick=True, size=120))
    monkeypatch.setattr(gpu, "Bench", SimpleNamespace(make=lambda device, *_, **__: make(device)))

    def fails(_: gpu.Bench) -> gpu.Result:
        raise AssertionError("dep/native: error 0.1 is above 0.0001")

    assert gpu.cli(["--device", "cpu", "--quick"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["good"] and {"dep/native", "const/native"} <= result["parts"]["encoders"].keys()
    monkeypatch.setattr(gpu, "CHECKS", (fails, gpu.waiting))
    assert gpu.cli(["--device", "cpu", "--quick"]) == 1
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert "above 0.0001" in result["parts"]["fails"]["failed"] and result["parts"]["waiting"]["steps"]
