"""BURT's published rows: typed as printed, averages as computed, quoted below ours."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from studies.similarity.columns import SENTENCE_AVERAGE, STS_AVERAGE, STS_TASKS, WORD_AVERAGE, with_averages
from studies.similarity.config import SimilarityConfig
from studies.similarity.published import PUBLISHED
from studies.similarity.run import run

SENTENCES = {
    "Avg. GloVe": 58.8, "Avg. FastText": 65.7, "SkipThought": 52.6, "InferSent-2": 70.5, "GenSen LAST": 68.6,
    "BERT CLS": 60.6, "BERT MAX": 57.1, "BERT MEAN": 40.9, "ALBURT": 75.1, "BURT": 76.8,
}  # fmt: skip
WORDS = {
    "Avg. GloVe": 65.8, "Avg. FastText": 72.2, "SkipThought": 51.0, "InferSent-2": 62.0, "GenSen LAST": 51.7,
    "BERT CLS": 14.4, "BERT MAX": 24.6, "BERT MEAN": 15.9, "ALBURT": 65.6, "BURT": 63.7,
}  # fmt: skip
ABLATION = [30.8, 63.6, 46.2, 63.7, 54.9, 57.2, 63.7, 14.3, 45.5, 55.6, 63.7, 59.6, 57.5, 56.4,
            56.2, 63.7, 58.2, 61.3]  # fmt: skip
"""The averages as printed, Tables 2, 3 and 4."""


def swapped(printed: dict[str, float]) -> dict[str, float]:
    return {**printed, "BERT CLS": printed["BERT MEAN"], "BERT MEAN": printed["BERT CLS"]}


def test_the_cells_give_the_printed_averages() -> None:
    models = {name: with_averages(row) for name, row in PUBLISHED["models"].items()}
    for average, printed in ((SENTENCE_AVERAGE, SENTENCES), (WORD_AVERAGE, WORDS)):
        for name, value in swapped(printed).items():
            assert models[name][average] == pytest.approx(value, abs=0.11), (name, average)
    rows = [with_averages(row) for row in PUBLISHED["ablation"].values()]
    off = [abs(row[WORD_AVERAGE] - value) for row, value in zip(rows, ABLATION, strict=True)]
    assert off[0] == pytest.approx(12.3) and max(off[1:]) < 0.11
    assert models["BURT"][STS_AVERAGE] == pytest.approx(PUBLISHED["ablation"]["MEAN"][STS_AVERAGE], abs=0.1)


def test_an_average_needs_all_its_columns() -> None:
    assert with_averages(dict.fromkeys(STS_TASKS, 3.0))[STS_AVERAGE] == 3.0
    assert STS_AVERAGE not in with_averages(dict.fromkeys(STS_TASKS[1:], 3.0))


def test_published_rows_stand_below_ours_and_are_marked(tmp_path: Path) -> None:
    (tmp_path / "EN-SIMLEX-999.txt").write_text("a b 1\na c 2\nb c 3\n")
    words = np.array(["a", "b", "c"])
    np.savez(tmp_path / "m.npz", sentences=words, vectors=np.random.default_rng(0).normal(size=(3, 4)))
    models = (str(tmp_path / "m.npz"),)
    run(SimilarityConfig(models=models, words=tmp_path, published="models", output=tmp_path / "out"))
    lines = (tmp_path / "out/results.md").read_text().splitlines()
    own = next(i for i, line in enumerate(lines) if "m.npz" in line)
    marked = next(i for i, line in enumerate(lines) if "published (BURT)" in line)
    assert own < marked and "| *BURT* | *60.8* |" in lines[marked + 1 :]
    assert "BURT" not in json.loads((tmp_path / "out/results.json").read_text())["results"]
