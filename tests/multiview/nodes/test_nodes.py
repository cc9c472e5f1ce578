"""The vector of a node is that of its words as a sentence of their own, with the same tree."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from multiview.nodes.explanation import covers_of
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
