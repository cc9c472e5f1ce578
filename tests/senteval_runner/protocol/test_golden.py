"""Scores of the original toolkit, seed 1111, on the mean of fixed random vectors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from senteval_runner import evaluate
from tests.conftest import ROOT
from tests.senteval_runner.encoders import RandomBag

pytestmark = pytest.mark.data
ENCODER = RandomBag()


def scores(data_folder: Path, task: str, protocol: str = "default") -> dict[str, float]:
    results = evaluate(ENCODER, [task], data_folder / "senteval", protocol)
    assert not results.skipped
    (result,) = results.tasks.values()
    assert not result.notes
    return {name: round(value, 4) for name, value in result.metrics.items()}


def test_mrpc(data_folder: Path) -> None:
    assert scores(data_folder, "MRPC") == {"devacc": 71.27, "acc": 71.07, "f1": 81.25}


def test_sick_entailment(data_folder: Path) -> None:
    assert scores(data_folder, "SICKEntailment") == {"devacc": 78.40, "acc": 78.02}


def test_sick_relatedness(data_folder: Path) -> None:
    result = scores(data_folder, "SICKRelatedness")
    assert (result["pearson"], result["spearman"], result["mse"]) == (0.7254, 0.6803, 0.4833)


@pytest.mark.parametrize(("task", "pearson"), [("STS12", 0.4337), ("STS14", 0.5425), ("STS16", 0.5428)])
def test_sts(data_folder: Path, task: str, pearson: float) -> None:
    assert scores(data_folder, task)["all.pearson.mean"] == pearson


def test_sts_benchmark(data_folder: Path) -> None:
    assert scores(data_folder, "STSBenchmark")["pearson"] == 0.5325


def test_trec_by_scikit_learn(data_folder: Path) -> None:
    """L-BFGS stops before convergence, so the last digit hangs on OpenBLAS's kernels."""
    wide = torch.backends.cpu.get_cpu_capability() == "AVX512"
    kernels, expected = (
        ("SkylakeX", {"devacc": 66.69, "acc": 73.0}) if wide else ("Haswell", {"devacc": 66.73, "acc": 72.8})
    )
    script = (
        "import sys; from pathlib import Path; from tests.senteval_runner.protocol.test_golden import scores;"
        "print(scores(Path(sys.argv[1]), 'TREC', 'sklearn'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(data_folder)],
        env={**os.environ, "OPENBLAS_CORETYPE": kernels, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(expected)
