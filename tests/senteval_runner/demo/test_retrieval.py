"""Neighbour retrieval against a loop over anchors and candidates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from senteval_runner.demo.retrieval import neighbour_retrieval, reciprocal_ranks, tfidf_embeddings


def by_loop(embeddings: np.ndarray, documents: list[int], block: int) -> list[float]:
    ranks = []
    for anchor in range(len(embeddings)):
        first = anchor // block * block
        inside = range(first, min(first + block, len(embeddings)))
        cosine = {}
        for other in inside:
            if other != anchor:
                u, v = embeddings[anchor], embeddings[other]
                cosine[other] = float(np.float32(u @ v))
        positives = [
            other
            for other in (anchor - 1, anchor + 1)
            if other in cosine and documents[other] == documents[anchor]
        ]
        if positives:
            best = max(cosine[p] for p in positives)
            before = sum(1 for other in cosine if other not in positives and cosine[other] >= best)
            ranks.append(1 / (1 + before))
    return ranks


@given(st.lists(st.integers(1, 5), min_size=1, max_size=12), st.integers(2, 9), st.integers(0, 2**31))
@settings(deadline=None, max_examples=40)
def test_ranks_equal_the_loop(lengths: list[int], block: int, seed: int) -> None:
    documents = [d for d, length in enumerate(lengths) for _ in range(length)]
    # One-hot rows: cosines are exactly 0 or 1 whatever the summation order, and ties abound.
    embeddings = np.eye(4, dtype=np.float32)[np.random.default_rng(seed).integers(0, 4, len(documents))]
    expected = by_loop(embeddings, documents, block)
    if expected:
        actual, owners = reciprocal_ranks(embeddings, np.array(documents), block)
        assert actual.tolist() == expected
        assert len(owners) == len(expected)


def test_perfect_and_constant_vectors() -> None:
    documents = np.repeat(np.arange(50), 4)
    rows = {"perfect": np.eye(50)[documents], "constant": np.ones((200, 3))}
    found = neighbour_retrieval(rows, documents)
    assert found["perfect"].recall_at_1.mean == 0.0  # the document's other sentences tie with the neighbour
    assert found["constant"].recall_at_1.mean == 0.0 and found["constant"].mrr.mean < 0.02
    pairs = np.repeat(np.arange(100), 2)
    found = neighbour_retrieval({"perfect": np.eye(100)[pairs], "constant": np.ones((200, 3))}, pairs)
    assert found["perfect"].recall_at_1.mean == 1.0 and found["perfect"].behind is None
    behind = found["constant"].behind
    assert behind is not None and (behind.low, behind.mean, behind.high) == (1.0, 1.0, 1.0)


def test_a_difference_is_taken_anchor_by_anchor() -> None:
    """Where the same anchors are hard for both, the difference is surer than either figure."""
    rng = np.random.default_rng(0)
    documents = np.repeat(np.arange(60), 6)
    one = rng.normal(size=(360, 8)) + 2 * rng.normal(size=(60, 8))[documents]
    other = one + 0.1 * rng.normal(size=one.shape)
    found = neighbour_retrieval({"one": one, "other": other}, documents, block=120)
    hits = [(reciprocal_ranks(rows, documents, 120)[0] == 1).astype(float) for rows in (one, other)]
    behind, recall = found["other"].behind, found["other"].recall_at_1
    assert behind is not None and behind.mean == pytest.approx((hits[0] - hits[1]).mean())
    assert behind.high - behind.low < (recall.high - recall.low) / 2


def test_what_cannot_be_scored_is_said() -> None:
    with pytest.raises(ValueError, match="x: 3 embeddings for 2 sentences"):
        neighbour_retrieval({"x": np.ones((3, 2))}, np.zeros(2, dtype=int))
    with pytest.raises(ValueError, match="nothing to retrieve"):
        neighbour_retrieval({"x": np.ones((3, 2))}, np.arange(3))
    with pytest.raises(ValueError, match="nothing to retrieve"):  # neighbours, but in two blocks
        neighbour_retrieval({"x": np.ones((4, 2))}, np.array([0, 1, 1, 2]), block=2)


def test_tfidf_ignores_case_and_unseen_words() -> None:
    rows = tfidf_embeddings([["A", "cat"], ["a", "dog"]], [["a", "CAT"], ["a", "cat"], ["unseen"]]).toarray()
    assert np.array_equal(rows[0], rows[1]) and not rows[2].any()
