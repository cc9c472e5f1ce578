"""Similarity under each of its names: over all pairs, mean of subsets, without training, trained."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from corpora.senteval.tasks import STS_SUBSETS
from senteval_runner import evaluate
from senteval_runner.report.page import Table
from senteval_runner.report.tables import averaged_columns, score_sections, similarity_row
from tests.fixtures.senteval import text
from tests.senteval_runner.encoders import RandomBag

ENCODER = RandomBag()
Pairs = list[tuple[str, str, float]]


@pytest.fixture
def pairs(data: Path) -> dict[str, Pairs]:
    """STS13 and STS16 with subsets of different sizes and ranges of scores, written into ``data``."""
    rng = random.Random(0)
    written: dict[str, Pairs] = {}
    for task in ("STS13", "STS16"):
        folder = data / "downstream" / "STS" / f"{task}-en-test"
        folder.mkdir(parents=True)
        for place, subset in enumerate(STS_SUBSETS[task]):
            rows = [
                (text(rng, i % 3), text(rng, i % 2), round(rng.uniform(place, place + 2), 2))
                for i in range(8 + 9 * place)
            ]
            (folder / f"STS.input.{subset}.txt").write_text("".join(f"{a}\t{b}\n" for a, b, _ in rows))
            (folder / f"STS.gs.{subset}.txt").write_text("".join(f"{y}\n" for *_, y in rows))
            written[f"{task} {subset}"] = rows
    return written


def by_hand(rows: Pairs) -> float:
    """Spearman of the cosines of pairs, one at a time."""
    found = []
    for a, b, _ in rows:
        u, v = ENCODER.encode([a.split()])[0].astype(float), ENCODER.encode([b.split()])[0].astype(float)
        found.append(u @ v / np.sqrt((u @ u) * (v @ v)))
    return float(stats.spearmanr(found, [y for *_, y in rows]).statistic)


def sick_test(data: Path) -> Pairs:
    lines = (data / "downstream/SICK/SICK_test_annotated.txt").read_text().splitlines()[1:]
    return [(row[1], row[2], float(row[3])) for row in (line.split("\t") for line in lines)]


def test_every_name_is_what_it_says(data: Path, pairs: Mapping[str, Pairs]) -> None:
    scores = {
        task: result.metrics
        for task, result in evaluate(ENCODER, "STS13,STS16,SICK-R", data, "fast").tasks.items()
    }
    averaged = averaged_columns({"one": [scores]})
    assert averaged == ["STS13 all", "STS16 all", "SICK-R (cosine)"]
    row = similarity_row(scores, averaged)
    for task in ("STS13", "STS16"):
        subsets = [rows for name, rows in pairs.items() if name.startswith(task)]
        together = by_hand([pair for rows in subsets for pair in rows])
        apart = float(np.mean([by_hand(rows) for rows in subsets]))
        assert row[f"{task} all"] == pytest.approx(100 * together, abs=1e-6)
        assert row[f"{task} mean"] == pytest.approx(100 * apart, abs=1e-6)
        assert abs(together - apart) > 1e-3
    assert row["SICK-R (cosine)"] == pytest.approx(100 * by_hand(sick_test(data)), abs=1e-6)
    assert abs(row["SICK-R (cosine)"] - 100 * scores["SICKRelatedness"]["spearman"]) > 1e-3
    three = [row[name] for name in averaged]
    assert row["STS average"] == pytest.approx(sum(three) / 3)


def test_the_average_names_its_sets_and_needs_them_all(data: Path, pairs: Mapping[str, Pairs]) -> None:
    tasks = evaluate(ENCODER, "STS13,STS16", data, "fast").tasks
    whole = {task: result.metrics for task, result in tasks.items()}
    (section,) = score_sections({"all": [whole], "half": [{"STS13": whole["STS13"]}]}, {})
    (table,) = section.blocks
    assert isinstance(table, Table)
    shown = table.markdown()
    assert "STS average: the mean of STS13 all, STS16 all." in shown
    assert list(map(str.strip, shown.splitlines()[0].strip("|").split("|"))) == [
        *("model", "STS13 all", "STS16 all", "STS average", "STS13 mean", "STS16 mean")
    ]
    half = next(line for line in shown.splitlines() if line.startswith("| half"))
    assert half.count("| –") == 3
