"""Scores of the tasks without training, against loops."""

import numpy as np
import pytest

from senteval_runner import evaluate
from senteval_runner.protocol.cosine_tasks import (
    binding_scores,
    neighbour_ranks,
    neighbour_scores,
    opposite_scores,
    pair_scores,
    triplet_scores,
)
from tests.senteval_runner.encoders import Letters


def test_binding_is_strict_and_a_tie_is_wrong() -> None:
    cosines = {"passive": np.array([0.7, 0.7, 0.9, 0.1]), "x": np.array([1.0, 0.2, 0.5, 0.4])}
    scores = {"acc": 75, "low": 50, "high": 100, "passive.acc": 50, "x.acc": 100}
    assert binding_scores(cosines, fillings=1) == scores


def test_pair_scores_equal_a_loop() -> None:
    generator = np.random.default_rng(0)
    cosine, gold = generator.standard_normal(30), generator.integers(2, size=30)
    pairs = sorted(zip(cosine, gold, strict=True), reverse=True)
    ranks = [rank for rank, (_, label) in enumerate(pairs, start=1) if label]
    ap = np.mean([(place + 1) / rank for place, rank in enumerate(ranks)])
    hits = max(sum(label == (rank < k) for rank, (_, label) in enumerate(pairs)) for k in range(31))
    auc = np.mean([a > b for a, g in pairs if g for b, h in pairs if not h])
    scores = {"ap": 100 * ap, "acc": 100 * hits / 30, "auc": 100 * auc}
    assert pair_scores(gold, cosine) == pytest.approx(scores)


def test_triplets_are_right_if_the_first_pair_is_the_nearest() -> None:
    cosines = {"swap": np.array([0.9, 0.8, 0.1, 0.5, 0.5, 0.1]), "replace": np.array([0.3, 0.2, 0.4])}
    assert triplet_scores(cosines) == {"acc": 25, "swap.acc": 50, "replace.acc": 0}
    assert triplet_scores({"all": cosines["swap"]}) == {"acc": 50}


def test_opposites_are_measured_where_most_paraphrases_are_accepted() -> None:
    cosines = {"paraphrases": np.linspace(0, 1, 11), "claims": np.array([0.05, 0.2]), "reviews": np.ones(2)}
    metrics, right = opposite_scores(cosines)
    assert right.tolist() == [1, 0, 0, 0]
    assert metrics == {"acc": 25, "accepted": 75, "claims.accepted": 50, "reviews.accepted": 100}


def test_tasks_of_structure_by_counts_of_words(tmp_path) -> None:
    (tmp_path / "structure").mkdir()
    (tmp_path / "structure/semantoneg_dev.tsv").write_text(
        "input\tparaphrase\tnot_antonym\tno_not\n" + "not hot\tcold\tnot cold\thot\n" * 3
    )

    results = evaluate(Letters(), "Binding,SemAntoNeg,Opposites,SugarCrepe++", tmp_path)
    binding, negation = results["Binding"], results["SemAntoNeg"]
    assert binding["acc"] < 5 and binding.rows["passive"] == 2 * 20 * 6  # the same letters
    assert negation.metrics["acc"] == 0 and len(negation.predictions["all"]) == 3
    assert set(results.skipped) == {"Opposites", "SugarCrepe++"}
    assert "swap_obj" in results.skipped["SugarCrepe++"]


def test_ranks_of_neighbours_are_those_of_a_loop_over_all_pairs() -> None:
    random = np.random.default_rng(0)
    books = {
        title: random.standard_normal((size, 5)).astype(np.float32) for title, size in (("a", 7), ("b", 4))
    }
    together = np.concatenate(list(books.values())).astype(np.float64)
    for title, ranks in neighbour_ranks(books).items():
        rows = (books[title] - together.mean(axis=0)) / together.std(axis=0)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        for place, rank in enumerate(ranks):
            cosines = rows @ rows[place]
            nearest = max(cosines[n] for n in (place - 1, place + 1) if 0 <= n < len(rows))
            far_cosines = [cosine for n, cosine in enumerate(cosines) if abs(n - place) > 1]
            assert rank == 1 + sum(cosine >= nearest for cosine in far_cosines)
    constant = neighbour_scores(neighbour_ranks({"a": np.ones((9, 3), np.float32)}))
    assert constant["acc"] == 0


def test_the_interval_of_neighbours_is_over_books() -> None:
    scores = neighbour_scores({"all": np.array([1, 1, 1]), "none": np.array([2, 4, 4])})
    assert scores["acc"] == 50 and (scores["low"], scores["high"]) == (0, 100)
    assert scores["mrr"] == pytest.approx(100 * (3 + 1 / 2 + 1 / 4 + 1 / 4) / 6)
