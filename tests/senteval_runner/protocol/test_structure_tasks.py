"""Scores of the tasks of structure against loops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from senteval_runner import evaluate
from senteval_runner.protocol.statistics import paired_bootstrap
from senteval_runner.protocol.structure_tasks import (
    binding_scores,
    opposite_scores,
    pair_scores,
    triplet_scores,
)
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


def test_triplets_are_right_if_the_first_pair_is_the_nearest() -> None:
    cosines = {"swap": np.array([0.9, 0.8, 0.1, 0.5, 0.5, 0.1]), "replace": np.array([0.3, 0.2, 0.4])}
    assert triplet_scores(cosines) == {"acc": 25, "swap.acc": 50, "replace.acc": 0}
    assert triplet_scores({"all": cosines["swap"]}) == {"acc": 50}


def test_opposites_are_measured_where_most_paraphrases_are_accepted() -> None:
    cosines = {"paraphrases": np.linspace(0, 1, 11), "claims": np.array([0.05, 0.2]), "reviews": np.ones(2)}
    metrics, right = opposite_scores(cosines)
    assert right.tolist() == [1, 0, 0, 0]
    assert metrics == {"acc": 25, "accepted": 75, "claims.accepted": 50, "reviews.accepted": 100}


def test_opposites_and_triplets_are_tasks(tmp_path: Path) -> None:
    folder = tmp_path / "structure"
    folder.mkdir()
    (folder / "semantoneg_dev.tsv").write_text(
        "input\tparaphrase\tnot_antonym\tno_not\n" + "not hot\tcold\tnot cold\thot\n" * 3
    )

    def letters(sentences: list[tuple[str, ...]]) -> np.ndarray:
        return np.array([[float("not" in s), len(s)] for s in sentences])

    result = evaluate(letters, "SemAntoNeg", tmp_path)["SemAntoNeg"]
    assert result.metrics["acc"] == 0 and len(result.predictions["all"]) == 3
    skipped = evaluate(letters, "Opposites,SugarCrepe++", tmp_path).skipped
    assert set(skipped) == {"Opposites", "SugarCrepe++"} and "swap_obj" in skipped["SugarCrepe++"]
