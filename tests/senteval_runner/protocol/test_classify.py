"""Folds and measures of rankings are scikit-learn's, which the core does without."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, f1_score
from sklearn.model_selection import StratifiedKFold

from senteval_runner.protocol.classify import stratified_folds
from senteval_runner.protocol.correlation import average_precision
from senteval_runner.protocol.statistics import SCORES


@pytest.mark.parametrize("seed", range(20))
def test_folds_are_scikit_learns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, classes = int(rng.integers(2, 11)), int(rng.integers(2, 6))
    rows = np.sort(rng.choice(900, 300, replace=False))
    y = np.concatenate([np.repeat(np.arange(classes), 12), rng.integers(0, classes, 900)])
    y[rows[: 12 * classes]] = np.repeat(rng.permutation(classes), 12)  # enough of each
    expected = StratifiedKFold(count, shuffle=True, random_state=seed).split(rows, y[rows])
    for ours, theirs in zip(stratified_folds(rows, y, count, seed), expected, strict=True):
        for part, places in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(part, rows[places])


@pytest.mark.parametrize("decimals", [0, 1, 9])
def test_measures_of_rankings_are_scikit_learns_ties_too(decimals: int) -> None:
    rng = np.random.default_rng(decimals)
    for _ in range(20):
        gold, scores = rng.integers(0, 2, 50), rng.normal(size=50).round(decimals)
        assert average_precision(gold, scores) == pytest.approx(average_precision_score(gold, scores))
        predictions = rng.permutation(gold)
        assert SCORES["f1"](gold, predictions) == pytest.approx(100 * f1_score(gold, predictions))
