"""Tables of scores: the paired bootstrap against drawing by hand, published rows, the page of a run."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import pearsonr, rankdata

from senteval_runner.protocol.config import TaskResult
from senteval_runner.report import tables
from senteval_runner.report.tables import AVERAGE, NOTE, paired_bootstrap, published_rows
from tests.senteval_runner.test_run import Run
from tests.senteval_runner.test_run import run as run

Parts = dict[str, np.ndarray]


def result(task: str, predicted: Parts, gold: Parts) -> TaskResult:
    return TaskResult(
        task=task,
        metrics={},
        dim=3,
        rows={},
        predictions={name: values.tolist() for name, values in predicted.items()},
        gold={name: gold[name].tolist() for name in predicted},
    )


def p_by_hand(ahead, n: int, draws: int) -> float:  # type: ignore[no-untyped-def]
    rng = np.random.RandomState(1)
    drawn = np.array([ahead(rng.randint(0, n, n)) for _ in range(draws)])
    return min(1.0, 2 * float((drawn * np.sign(ahead(np.arange(n))) <= 0).mean()))


def test_bootstrap_of_accuracies() -> None:
    rng = np.random.RandomState(0)
    a, b = rng.rand(200) < 0.75, rng.rand(200) < 0.66
    gain = a.astype(float) - b
    expected = p_by_hand(lambda rows: gain[rows].mean(), 200, 4000)
    one, other = (result("MR", {"test": hits * 1.0}, {"test": np.ones(200)}) for hits in (a, b))
    ahead, p = paired_bootstrap(one, other)
    assert ahead == pytest.approx(gain.mean()) and p == pytest.approx(expected, abs=0.03)
    assert paired_bootstrap(one, one) == (0, 1)


@pytest.mark.parametrize("ranked", [False, True])
def test_bootstrap_of_correlations(ranked: bool) -> None:
    """Human scores tie, subsets lie in another order, and a resample holds some pairs several times."""
    rng = np.random.RandomState(5)
    gold = {name: np.round(rng.rand(n) * 5) for name, n in (("OnWN", 60), ("FNWN", 30))}

    def scored(noise: float, names: list[str]) -> TaskResult:
        rows = {name: np.round(gold[name] + noise * rng.randn(len(gold[name])), 1) for name in names}
        return result("STS13", rows, gold)

    one, other = scored(2.0, ["OnWN", "FNWN"]), scored(2.4, ["FNWN", "OnWN"])
    sides = (one.predictions, other.predictions, gold)
    names = [["OnWN", "FNWN"]] if ranked else [["OnWN"], ["FNWN"]]
    flat = [[np.concatenate([of[name] for name in part]) for of in sides] for part in names]
    if ranked:
        flat = [[rankdata(values) for values in part] for part in flat]

    def ahead(rows: np.ndarray) -> float:
        found = []
        for part in flat:
            a, b, wanted = (values[rows[rows < len(values)]] for values in part)
            found.append(pearsonr(a, wanted).statistic - pearsonr(b, wanted).statistic)
        return float(np.mean(found))

    difference, p = paired_bootstrap(one, other, ranked=ranked)
    assert difference == pytest.approx(ahead(np.arange(90)))
    if ranked:
        expected = p_by_hand(ahead, 90, 1000)
        assert 0.02 < expected < 0.9 and p == pytest.approx(expected, abs=0.05)
    assert paired_bootstrap(one, one, ranked=ranked) == (0.0, 1.0)
    constant = result("STS13", {name: np.ones(len(values)) for name, values in gold.items()}, gold)
    exact = result("STS13", gold, gold)
    assert paired_bootstrap(exact, constant, ranked=ranked) == (pytest.approx(1.0), 0.002)


def test_published_rows_are_whole() -> None:
    for line, scores in published_rows():
        assert line["quoted from"] and line["dim"] and all(20 < value < 100 for value in scores.values())
    averages = {
        line["model"]: round(scores[AVERAGE], 1) for line, scores in published_rows() if AVERAGE in scores
    }
    assert (averages["SEQ, SEQ"], averages["DEP, CONST"]) == (84.9, 86.0)


def test_paper_average() -> None:
    scores = {t: {"acc": 80.0} for t in ("MR", "CR", "SUBJ", "MPQA", "TREC")}
    scores["MRPC"] = {"acc": 70.0, "f1": 80.0}
    assert "average" not in tables.paper_row(scores)
    scores["SICKRelatedness"] = {"pearson": 0.8, "spearman": 0.7, "mse": 0.3}
    row = tables.paper_row(scores)
    assert row["average"] == pytest.approx((5 * 80 + 75 + (80 + 70 + 70) / 3) / 7)


def test_page_of_a_run(tmp_path: Path, words: Path, run: Run) -> None:
    assert run(words, "random:seq", tasks="CR,SICK-E,WordContent", seeds="1,2") == 0
    page, markdown = ((tmp_path / "report" / name).read_text() for name in ("report.html", "results.md"))
    ET.fromstring(page.split("\n", 1)[1])
    assert "http" not in page
    for expected in ("±", "words.txt − random:seq", "Probing", "Logeswaran &amp; Lee 2018"):
        assert expected in page
    # Quoted is what was asked for: no hours of what was not trained here, no MR, no averages.
    assert "| DEP, CONST (Simoulin & Crabbé 2021) † | 4800 | 83.6 |\n" in markdown and f"† {NOTE}" in markdown
    assert "| model | Dim | CR |\n" in markdown and "CONST, CONST" not in markdown
