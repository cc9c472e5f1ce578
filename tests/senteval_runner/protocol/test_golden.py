"""Scores of the original toolkit, seed 1111, on the mean of fixed random vectors."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from senteval_runner import evaluate
from tests.senteval_runner.encoders import RandomBag

pytestmark = pytest.mark.data
EXPECTED = {
    "MRPC": {"devacc": 71.27, "acc": 71.07, "f1": 81.25},
    "SICKEntailment": {"devacc": 78.40, "acc": 78.02},
    "SICKRelatedness": {"pearson": 0.7254, "spearman": 0.6803, "mse": 0.4833},
    "STS12": {"all.pearson.mean": 0.4337},
    "STS14": {"all.pearson.mean": 0.5425},
    "STS16": {"all.pearson.mean": 0.5428},
    "STSBenchmark": {"pearson": 0.5325},
}


def scores(data_folder: Path, task: str, protocol: str = "default") -> dict[str, float]:
    [result] = evaluate(RandomBag(), [task], data_folder / "senteval", protocol).tasks.values()
    assert not result.notes
    return {name: round(value, 4) for name, value in result.metrics.items()}


@pytest.mark.parametrize("task", EXPECTED)
def test_scores(data_folder: Path, task: str) -> None:
    found = scores(data_folder, task)
    assert {name: found[name] for name in EXPECTED[task]} == EXPECTED[task]


def test_trec_by_scikit_learn(data_folder: Path, command) -> None:  # type: ignore[no-untyped-def]
    """L-BFGS stops before convergence, so the last digit hangs on OpenBLAS's kernels."""
    wide = torch.backends.cpu.get_cpu_capability() == "AVX512"
    kernels, devacc, acc = ("SkylakeX", 66.69, 73.0) if wide else ("Haswell", 66.73, 72.8)
    done = command("tests.senteval_runner.protocol.test_golden", data_folder, OPENBLAS_CORETYPE=kernels)
    assert done.stdout.strip() == str({"devacc": devacc, "acc": acc}), done.stderr


if __name__ == "__main__":
    print(scores(Path(sys.argv[1]), "TREC", "sklearn"))
