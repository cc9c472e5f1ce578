"""Scores of the tasks of structure against loops."""

from __future__ import annotations

import numpy as np
import pytest

from senteval_runner import evaluate
from senteval_runner.protocol.statistics import paired_bootstrap
from senteval_runner.protocol.structure_tasks import binding_scores, pair_scores
from tests.senteval_runner.report.test_tables import result


def test_binding_is_strict_and_a_tie_is_wrong() -> None:
    cosines = {"passive": np.array([0.7, 0.7, 0.9, 0.1]), "x": np.array([1.0, 0.2, 0.5, 0.4])}
    scores = binding_scores(cosines, fillings=1)
    assert scores["passive.acc"] == 50 and scores["x.acc"] == 100 and scores["acc"] == 75
    assert scores["low"] == 50 and scores["high"] == 100


def test_pair_scores_equal_a_loop() -> None:
    drawn = np.random.default_rng(0)
    cosine, gold = drawn.standard_normal(30), drawn.integers(2, size=30)
    scores = pair_scores(gold, cosine)
    ranked = sorted(zip(cosine, gold, strict=True), reverse=True)
    positives = [rank for rank, (_, same) in enumerate(ranked, start=1) if same]
    ap = np.mean([(place + 1) / rank for place, rank in enumerate(positives)])
    best = max(sum(same == (rank < k) for rank, (_, same) in enumerate(ranked)) for k in range(31))
    above = np.mean([a > b for a, g in ranked if g for b, h in ranked if not h])
    assert scores["ap"] == pytest.approx(100 * ap) and scores["acc"] == pytest.approx(100 * best / 30)
    assert scores["auc"] == pytest.approx(100 * above)


def test_counts_of_letters_do_not_bind() -> None:
    def letters(batch: list[list[str]]) -> np.ndarray:
        texts = [" ".join(tokens).lower() for tokens in batch]
        return np.array([[text.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts])

    result = evaluate(letters, "Binding", "nowhere")["Binding"]
    assert result["acc"] < 5 and result.rows["passive"] == 2 * 20 * 6


def test_p_values_are_of_what_is_compared() -> None:
    drawn = np.random.default_rng(1)
    gold = drawn.integers(2, size=200)
    good, none = gold + 0.5 * drawn.standard_normal(200), drawn.standard_normal(200)
    one, other = (result("PAWS", {"all": side}, {"all": gold}) for side in (good, none))
    ahead, p = paired_bootstrap(one, other)
    gain = pair_scores(gold, good)["ap"] - pair_scores(gold, none)["ap"]
    assert 100 * ahead == pytest.approx(gain) and p <= 0.002
    assert paired_bootstrap(other, other) == (0, 1)
