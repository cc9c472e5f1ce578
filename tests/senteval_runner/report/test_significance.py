"""The report: significance, projections, one page from a run."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest
from scipy.stats import pearsonr, rankdata

from senteval_runner import running
from senteval_runner.protocol.correlation import row_pearsons
from senteval_runner.protocol.results import TaskResult
from senteval_runner.report.projections import pca, tsne
from senteval_runner.report.significance import paired_bootstrap, paired_bootstrap_of_all_pairs
from tests.fixtures.browser import look
from tests.senteval_runner.test_run import config


def classified(task: str, hits: np.ndarray, acc: float = 0.0) -> TaskResult:
    gold = np.ones(len(hits))
    return TaskResult(
        task=task,
        metrics={"acc": round(100 * float(hits.mean()), 2)},
        dim=3,
        rows={},
        predictions={"test": (hits * 1.0).tolist()},
        gold={"test": gold.tolist()},
    )


def test_bootstrap_tells_real_from_chance() -> None:
    rng = np.random.RandomState(0)
    base = rng.rand(1000) < 0.7
    same, better = base.copy(), base | (rng.rand(1000) < 0.3)
    flipped = base.copy()
    flipped[:6] = ~flipped[:6]
    assert paired_bootstrap(classified("MR", base), classified("MR", same)) == 1.0
    assert paired_bootstrap(classified("MR", better), classified("MR", base)) < 0.01
    assert paired_bootstrap(classified("MR", flipped), classified("MR", base)) > 0.1


def test_multinomial_shortcut_equals_drawing_items() -> None:
    rng = np.random.RandomState(1)
    a, b = rng.rand(200) < 0.75, rng.rand(200) < 0.66
    gain = a.astype(float) - b
    drawn = np.array([gain[rng.randint(0, 200, 200)].mean() for _ in range(4000)])
    expected = min(1.0, 2 * float((drawn * np.sign(gain.mean()) <= 0).mean()))
    assert paired_bootstrap(classified("MR", a), classified("MR", b)) == pytest.approx(expected, abs=0.03)


def test_correlations_of_resamples_equal_scipy() -> None:
    rng = np.random.RandomState(0)
    predicted, gold = rng.rand(4, 30) + 3, rng.rand(4, 30) * 5
    expected = [pearsonr(p, g).statistic for p, g in zip(predicted, gold, strict=True)]
    np.testing.assert_allclose(row_pearsons(predicted, gold), expected, atol=1e-12)
    assert row_pearsons(np.ones((1, 5)), rng.rand(1, 5)).tolist() == [0.0]


def test_bootstrap_of_correlations() -> None:
    rng = np.random.RandomState(0)
    gold = rng.rand(300)

    def related(noise: float) -> TaskResult:
        scores = (gold + noise * rng.randn(300)).tolist()
        values = {"predictions": {"test": scores}, "gold": {"test": gold.tolist()}}
        return TaskResult(task="STSBenchmark", metrics={}, dim=1, rows={}, **values)

    assert paired_bootstrap(related(0.2), related(1.0)) < 0.01


def test_subsets_are_compared_by_name() -> None:
    """A stored result has its subsets in the order of their names, a fresh one in that of the task."""
    rng = np.random.RandomState(0)
    gold = {name: rng.rand(n).tolist() for name, n in (("MSRpar", 40), ("OnWN", 60), ("MSRvid", 50))}

    def scored(noise: float, names: list[str]) -> TaskResult:
        predictions = {name: (np.array(gold[name]) + noise).tolist() for name in names}
        values = {"predictions": predictions, "gold": {name: gold[name] for name in names}}
        return TaskResult(task="STS12", metrics={}, dim=1, rows={}, **values)

    assert paired_bootstrap(scored(0.0, list(gold)), scored(0.5, sorted(gold))) == 1.0


def test_all_pairs_are_compared_by_their_ranks() -> None:
    """Human scores tie, subsets lie in another order, and a resample holds some pairs several times."""
    rng = np.random.RandomState(5)
    gold = {name: np.round(rng.rand(n) * 5) for name, n in (("OnWN", 60), ("FNWN", 30))}

    def scored(noise: float, names: list[str]) -> TaskResult:
        given = {
            name: np.round(gold[name] + noise * rng.randn(len(gold[name])), 1).tolist() for name in names
        }
        values = {"predictions": given, "gold": {name: gold[name].tolist() for name in names}}
        return TaskResult(task="STS13", metrics={}, dim=1, rows={}, **values)

    one, other = scored(2.0, ["OnWN", "FNWN"]), scored(2.4, ["FNWN", "OnWN"])
    given = (one.predictions, other.predictions, gold)
    flat = [rankdata(np.concatenate([of[name] for name in gold])) for of in given]

    def ahead(rows: np.ndarray) -> float:
        a, b, wanted = (values[rows] for values in flat)
        return float(pearsonr(a, wanted).statistic - pearsonr(b, wanted).statistic)

    whole = ahead(np.arange(90))
    drawn = np.array([ahead(rng.randint(0, 90, 90)) for _ in range(1000)])
    expected = min(1.0, 2 * float((drawn * np.sign(whole) <= 0).mean()))
    assert 0.02 < expected < 0.9
    difference, p = paired_bootstrap_of_all_pairs(one, other)
    assert difference == pytest.approx(whole) and p == pytest.approx(expected, abs=0.05)
    assert paired_bootstrap_of_all_pairs(one, one) == (0.0, 1.0)


def test_projections() -> None:
    rng = np.random.RandomState(0)
    line = np.outer(np.arange(12), rng.randn(5)).astype(np.float32)
    flat = pca(line)
    np.testing.assert_allclose(flat[:, 1], 0, atol=1e-3)
    distances = np.abs(np.diff(flat[:, 0]))
    np.testing.assert_allclose(distances, np.linalg.norm(line[1] - line[0]), rtol=1e-3)
    assert tsne(rng.randn(12, 5).astype(np.float32)).shape == (12, 2)


def test_page_of_a_run(tmp_path, data, words, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    models = (str(words), "random:seq")
    tasks = "CR,SICK-E,WordContent"
    running.run(config(tmp_path, data, *models, tasks=tasks, seeds="1,2"))
    page = (tmp_path / "report/report.html").read_text()
    look(page, tmp_path)
    ET.fromstring(page.split("\n", 1)[1])
    for expected in ("±", "words.txt − random:seq", "Probing", "random:seq"):
        assert expected in page
    assert "http" not in page
