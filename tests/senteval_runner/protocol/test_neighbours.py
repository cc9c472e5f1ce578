"""Retrieval of neighbours: ranks by brute force, and no gain by scale."""

from __future__ import annotations

import numpy as np
import pytest

from senteval_runner.protocol.neighbours import neighbour_ranks, neighbour_scores


def test_ranks_are_those_of_a_loop_over_all_pairs() -> None:
    random = np.random.default_rng(0)
    books = {
        title: random.standard_normal((size, 5)).astype(np.float32) for title, size in (("a", 7), ("b", 4))
    }
    together = np.concatenate(list(books.values())).astype(np.float64)
    for title, found in neighbour_ranks(books).items():
        rows = (books[title] - together.mean(axis=0)) / together.std(axis=0)
        for place, rank in enumerate(found):
            cosines = [
                float(rows[place] @ other / np.linalg.norm(rows[place]) / np.linalg.norm(other))
                for other in rows
            ]
            near = [cosines[n] for n in (place - 1, place + 1) if 0 <= n < len(rows)]
            far = [cosine for n, cosine in enumerate(cosines) if abs(n - place) > 1]
            assert rank == 1 + sum(cosine >= max(near) for cosine in far)


def test_the_scale_of_a_number_does_not_matter_and_constant_vectors_find_nothing() -> None:
    rows = np.random.default_rng(1).standard_normal((50, 6)).astype(np.float32)
    scaled = rows * np.array([1, 10, 100, 0.1, 0.01, 1], np.float32) + 3
    assert (neighbour_ranks({"a": rows})["a"] == neighbour_ranks({"a": scaled})["a"]).all()
    constant = neighbour_scores(neighbour_ranks({"a": np.ones((9, 3), np.float32)}))
    assert constant["acc"] == 0


def test_the_interval_is_over_books() -> None:
    scores = neighbour_scores({"all": np.array([1, 1, 1]), "none": np.array([2, 4, 4])})
    assert scores["acc"] == 50 and (scores["low"], scores["high"]) == (0, 100)
    assert scores["mrr"] == pytest.approx(100 * (3 + 1 / 2 + 1 / 4 + 1 / 4) / 6)
