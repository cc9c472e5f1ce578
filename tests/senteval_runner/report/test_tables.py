"""Tables of scores: the paired bootstrap against drawing by hand, published rows, the page of a run."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from scipy.stats import rankdata

from senteval_runner.protocol.config import TaskResult
from senteval_runner.protocol.statistics import p_of_difference, resample_score, resample_scores
from senteval_runner.report import tables
from senteval_runner.report.tables import AVERAGE, NOTE, published_rows
from tests.senteval_runner.runs import run as run

Parts = dict[str, np.ndarray]


def result(task: str, predictions: Parts, gold: Parts, **metrics: float) -> TaskResult:
    return TaskResult(
        task=task,
        metrics=metrics,
        dim=3,
        rows={},
        predictions={name: values.tolist() for name, values in predictions.items()},
        gold={name: gold[name].tolist() for name in predictions},
    )


def p_value(first: TaskResult, second: TaskResult, metric: str) -> float:
    return p_of_difference(resample_score(first, metric), resample_score(second, metric))


def pearson(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.corrcoef(a, b)[0, 1])


def p_by_hand(difference, n: int, draws: int) -> float:  # type: ignore[no-untyped-def]
    rng = np.random.RandomState(1)
    differences = np.array([difference(rng.randint(0, n, n)) for _ in range(draws)])
    return min(1.0, 2 * float((differences * np.sign(difference(np.arange(n))) <= 0).mean()))


@pytest.mark.parametrize("of_ranks", [False, True])
def test_bootstrap_of_correlations(of_ranks: bool) -> None:
    """Human scores tie, subsets lie in another order, and a resample holds some pairs several times."""
    rng = np.random.RandomState(5)
    gold = {name: np.round(rng.rand(n) * 5) for name, n in (("OnWN", 60), ("FNWN", 30))}
    metric = "concatenated.spearman" if of_ranks else "all.pearson.mean"

    def noisy_result(noise: float, names: list[str]) -> TaskResult:
        rows = {name: np.round(gold[name] + noise * rng.randn(len(gold[name])), 1) for name in names}
        return result("STS13", rows, gold)

    first, second = noisy_result(2.0, ["OnWN", "FNWN"]), noisy_result(2.4, ["FNWN", "OnWN"])
    sides = (first.predictions, second.predictions, gold)
    names = [["OnWN", "FNWN"]] if of_ranks else [["OnWN"], ["FNWN"]]
    parts = [[np.concatenate([side[name] for name in part]) for side in sides] for part in names]
    if of_ranks:
        parts = [[rankdata(values) for values in part] for part in parts]

    def difference(rows: np.ndarray) -> float:
        differences = []
        for part in parts:
            a, b, scores = (values[rows[rows < len(values)]] for values in part)
            differences.append(pearson(a, scores) - pearson(b, scores))
        return float(np.mean(differences))

    score = resample_score(first, metric).score - resample_score(second, metric).score
    assert score == pytest.approx(difference(np.arange(90)))
    if of_ranks:
        p = p_by_hand(difference, 90, 1000)
        assert 0.02 < p < 0.9 and p_value(first, second, metric) == pytest.approx(p, abs=0.05)
    constant = result("STS13", {name: np.ones(len(values)) for name, values in gold.items()}, gold)
    exact = result("STS13", gold, gold)
    assert resample_score(constant, metric).score == 0 and p_value(exact, constant, metric) == 0.002


@pytest.mark.parametrize("metric", ["acc", "f1", "mse", "pearson", "spearman"])
def test_intervals_equal_drawing_by_hand(metric: str) -> None:
    """Of several seeds that of their mean, on the same resamples."""
    rng = np.random.RandomState(3)
    gold = rng.randint(0, 2, 80) if metric in ("acc", "f1") else rng.rand(80)
    sides = [np.where(rng.rand(80) < 0.7, gold, 1 - gold), np.where(rng.rand(80) < 0.8, gold, 1 - gold)]
    score = {
        "acc": lambda g, f: 100 * np.mean(g == f),
        "f1": lambda g, f: 200 * np.sum(g * f) / np.sum(g + f),
        "mse": lambda g, f: np.mean((g - f) ** 2),
        "pearson": pearson,
        "spearman": pearson,  # of ranks among all
    }[metric]
    items = [gold, *sides] if metric != "spearman" else [rankdata(side) for side in (gold, *sides)]
    rows = [rng.randint(0, 80, 80) for _ in range(2000)]
    by_hand = [np.mean([score(items[0][r], side[r]) for side in items[1:]]) for r in rows]
    metrics = {metric: 0.0, "seconds": 1.0}
    samples = resample_scores([result("MRPC", {"test": side}, {"test": gold}, **metrics) for side in sides])
    assert set(samples) == {metric} and samples[metric].shape == (1000,)
    interval_by_hand, interval = (
        np.quantile(values, [0.025, 0.975]) for values in (by_hand, samples[metric])
    )
    assert interval == pytest.approx(interval_by_hand, abs=0.15 * float(np.ptp(interval_by_hand)))


def test_intervals_stand_beside_the_scores_and_their_average() -> None:
    rng = np.random.RandomState(0)
    samples = {task: {"acc": 80 + rng.randn(1000)} for task in ("MR", "CR", "SUBJ", "MPQA", "TREC")}
    samples["MRPC"] = {"acc": 70 + rng.randn(1000), "f1": 80 + rng.randn(1000)}
    correlations = ("pearson", "spearman", "mse")
    samples["SICKRelatedness"] = {name: 0.5 + 0.01 * rng.randn(1000) for name in correlations}
    results = {}
    for task, metrics in samples.items():
        means = {name: float(values.mean()) for name, values in metrics.items()}
        results[task] = TaskResult(task=task, metrics=means, dim=3, rows={})
    mine = tables.ModelScores(name="mine", results={1: results}, dim=3)
    vars(mine)["resamples"] = samples
    (section,) = tables.score_sections([mine], intervals=True)
    texts = {head.text: cell.text for head, cell in zip(*section.blocks[0].formatted_rows()[:2], strict=True)}
    low, high = map(float, re.findall(r"[\d.]+", texts["MR"])[1:])
    assert high - low == pytest.approx(2 * 1.96, rel=0.1)
    low, high = map(float, re.findall(r"[\d.]+", texts["average"])[1:])
    deviation = (5 + 1 / 2 + 1 / 3) ** 0.5 / 7  # seven tasks are drawn, two of them with several metrics
    assert high - low == pytest.approx(2 * 1.96 * deviation, rel=0.1)
    assert tables.INTERVALS in section.blocks[0].notes


def test_published_rows_are_whole() -> None:
    for line, scores in published_rows():
        assert line["quoted from"] and line["dim"] and all(20 < value < 100 for value in scores.values())
    averages = {
        line["model"]: round(scores[AVERAGE], 1) for line, scores in published_rows() if AVERAGE in scores
    }
    assert (averages["SEQ, SEQ"], averages["DEP, CONST"]) == (84.9, 86.0)


def test_page_of_a_run(tmp_path, words, run) -> None:
    assert run(words, "random:seq", tasks="CR,SICK-E,WordContent", seeds="1,2") == 0
    page, markdown = ((tmp_path / "report" / name).read_text() for name in ("report.html", "results.md"))
    ET.fromstring(page.split("\n", 1)[1])
    assert "http" not in page
    for text in ("±", "words.txt − random:seq", "Probing", "Logeswaran &amp; Lee 2018"):
        assert text in page
    # Quoted is what was asked for: no hours of what was not trained here, no MR, no averages.
    assert "| DEP, CONST (Simoulin & Crabbé 2021) † | 4800 | 83.6 |\n" in markdown and f"† {NOTE}" in markdown
    assert "| model | Dim | CR |\n" in markdown and "CONST, CONST" not in markdown
