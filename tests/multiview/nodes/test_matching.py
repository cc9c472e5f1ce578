"""The greedy choice of matches against its rules read aloud."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.nodes.explanation import best_matches
from tests.multiview.engines.trees import random_heads


def yields(n: int, rng: np.random.Generator) -> list[set[int]]:
    """The words under each word of a random dependency tree."""
    head = random_heads(n, rng)

    def below(word: int) -> set[int]:
        return {word}.union(*(below(k) for k in range(n) if head[k] == word + 1))

    return [below(word) for word in range(n)]


def covers(sets: list[set[int]]) -> np.ndarray:
    return np.array([[word in found for word in range(len(sets))] for found in sets])


@given(st.integers(1, 7), st.integers(1, 7), st.integers(0, 10_000), st.integers(1, 9))
@settings(deadline=None, max_examples=150)
def test_equals_going_through_all_pairs(n: int, m: int, seed: int, top: int) -> None:
    rng = np.random.default_rng(seed)
    one, other = yields(n, rng), yields(m, rng)
    cosine = rng.uniform(-0.5, 1, (n, m))
    trivial = rng.random((n, m)) < 0.2
    pairs = sorted(
        ((i, j) for i in range(n) for j in range(m)),
        key=lambda p: -cosine[p] * min(len(one[p[0]]), len(other[p[1]])) ** 0.5,
    )
    expected: list[tuple[int, int]] = []
    for i, j in pairs:
        whole = len(one[i]) == n and len(other[j]) == m
        used = any(i == a or j == b for a, b in expected)
        nested = any(one[i] <= one[a] and other[j] <= other[b] for a, b in expected)
        if cosine[i, j] > 0 and not (whole or used or nested or trivial[i, j]):
            expected.append((i, j))
    before = cosine.copy()
    assert best_matches(cosine, covers(one), covers(other), trivial, top) == expected[:top]
    np.testing.assert_array_equal(cosine, before)


def test_of_two_pairs_as_close_the_larger_comes_first() -> None:
    """Three words at 0.7 beat one at 1; two at 0.7 do not."""
    sets = [{0}, {1}, {0, 1, 2}, {0, 1, 2, 3}]
    trivial = np.zeros((4, 4), dtype=bool)
    cosine = np.zeros((4, 4))
    cosine[0, 0], cosine[2, 2] = 1, 0.7
    assert best_matches(cosine, covers(sets), covers(sets), trivial, 5) == [(2, 2)]
    cosine[2, 2] = 0.5
    assert best_matches(cosine, covers(sets), covers(sets), trivial, 5) == [(0, 0), (2, 2)]
