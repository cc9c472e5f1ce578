"""The words under every node, against walking the tree."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from parsing.trees.arrays import constituency_spans, dependency_spans
from tests.multiview.engines.trees import random_batch


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(0, 10_000))
@settings(deadline=None, max_examples=30)
def test_spans_equal_the_words_found_below(lengths: list[int], seed: int) -> None:
    batch = random_batch(lengths, seed)
    offsets = batch.sentence_offsets
    dep = np.stack(dependency_spans(batch.head, offsets), axis=1).tolist()
    const = np.stack(constituency_spans(batch.left, batch.right, offsets), axis=1).tolist()
    expected_dep, expected_const = [], []
    for i, n in enumerate(lengths):
        head = batch.head[offsets[i] : offsets[i + 1]]
        left, right = (a[offsets[i] - i : offsets[i + 1] - i - 1] for a in (batch.left, batch.right))

        def below(word: int, head: np.ndarray = head) -> set[int]:
            return {word}.union(*(below(k) for k in np.flatnonzero(head == word + 1).tolist()))

        def leaves(node: int, n: int = n, left: np.ndarray = left, right: np.ndarray = right) -> set[int]:
            return {node} if node < n else leaves(int(left[node - n])) | leaves(int(right[node - n]))

        expected_dep += [[min(found), max(found), len(found)] for found in map(below, range(n))]
        expected_const += [[min(found), max(found)] for found in map(leaves, range(2 * n - 1))]
    assert dep == expected_dep
    assert const == expected_const
