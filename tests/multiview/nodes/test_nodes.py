"""Nodes are their words as sentences of their own; matches are chosen as the rules say, read aloud."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.nodes.explanation import best_matches, covers_of
from tests.multiview.engines.trees import random_heads
from tests.multiview.nodes.given_trees import GivenTrees, given_encoder


@pytest.mark.parametrize("view", ["dep", "const"])
@pytest.mark.parametrize("seed", range(3))
def test_a_node_s_vector_is_that_of_its_words_alone(view: str, seed: int) -> None:
    """Also where binarisation made the node, and where a dependency subtree is discontinuous."""
    trees = GivenTrees(seed)
    encoder = given_encoder(trees)
    sentences = [trees.sentence([f"w{i}{j}" for j in range(n)]) for i, n in enumerate((7, 1, 12, 2))]
    (nodes,) = encoder.node_states(sentences, views=[view])
    (states,) = nodes.views
    dummy = encoder.reader.inventories().dummy_label
    parts, lengths = [], set()
    for row, place in enumerate(nodes.places):
        cover_NW, named_N = covers_of(nodes.batch, row, states.tree, dummy)
        assert len(cover_NW) == int((states.sentence_N == row).sum())
        for cover_W in cover_NW:
            positions = np.flatnonzero(cover_W).tolist()
            lengths.add(len(positions))
            parts.append(trees.part(sentences[place], positions))
        if view == "const":  # the nodes that are named are those that the parser gave
            found = {(int(w.argmax()), int(np.flatnonzero(w)[-1]) + 1) for w in cover_NW[named_N]}
            words = {(i, i + 1) for i in range(len(sentences[place]))}
            assert found == words | set(trees.spans[sentences[place]])
    assert len(lengths) > 3
    np.testing.assert_allclose(states.h_ND.numpy(), encoder.encode(parts, views=[view]), atol=1e-6)


def test_views_of_one_name_are_told_apart_and_sequences_have_no_subtrees() -> None:
    trees = GivenTrees()
    encoder = given_encoder(trees, "dep,seq,dep")
    (nodes,) = encoder.node_states([trees.sentence(["a", "b"])])
    assert [(view.view, view.tree) for view in nodes.views] == [("dep", "dep"), ("seq", ""), ("dep 2", "dep")]
    assert torch.equal(nodes.views[1].sentence_N, torch.zeros(2, dtype=torch.int64))


def yields(n: int, rng: np.random.Generator) -> list[set[int]]:
    """The words under each word of a random dependency tree."""
    head = random_heads(n, rng)

    def below(word: int) -> set[int]:
        return {word}.union(*(below(k) for k in range(n) if head[k] == word + 1))

    return [below(word) for word in range(n)]


def covers(sets: list[set[int]]) -> np.ndarray:
    return np.array([[word in found for word in range(len(sets))] for found in sets])


@given(st.integers(1, 7), st.integers(1, 7), st.integers(0, 10_000), st.integers(1, 9))
@settings(deadline=None, max_examples=60)
def test_matches_equal_going_through_all_pairs(n: int, m: int, seed: int, top: int) -> None:
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
