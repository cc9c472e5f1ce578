"""The vector of a node is that of its words as a sentence of their own, with the same tree."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from multiview.nodes.states import positions_of, subtrees_of, words_of
from tests.multiview.nodes.given_trees import GivenTrees, given_encoder


@pytest.mark.parametrize("view", ["dep", "const"])
@pytest.mark.parametrize("seed", range(4))
def test_a_node_s_vector_is_that_of_its_words_alone(view: str, seed: int) -> None:
    """Also where binarisation made the node, and where a dependency subtree is discontinuous."""
    trees = GivenTrees(seed)
    encoder = given_encoder(trees)
    sentences = [trees.sentence([f"w{i}{j}" for j in range(n)]) for i, n in enumerate((7, 1, 12, 2))]
    ((nodes),) = encoder.node_states(sentences, views=[view])
    (states,) = nodes.views
    subtrees = subtrees_of(nodes.batch, states.tree, encoder.reader.inventories().dummy_label)
    assert states.tree == view
    assert len(states.h_ND) == sum((2 if view == "const" else 1) * len(s) for s in sentences) - (
        len(sentences) if view == "const" else 0
    )
    parts, lengths = [], set()
    for node, sentence in enumerate(states.sentence_N.tolist()):
        tokens = sentences[nodes.places[sentence]]
        positions = positions_of(subtrees, node, trees.heads[tokens])
        lengths.add(len(positions))
        assert len(positions) == subtrees.size_N[node]
        parts.append(trees.part(tokens, positions))
    assert len(lengths) > 3
    found = encoder.encode(parts, views=[view])
    np.testing.assert_allclose(states.h_ND.numpy(), found, atol=1e-6)
    whole = encoder.encode([sentences[place] for place in nodes.places], views=[view])
    np.testing.assert_allclose(states.h_ND.numpy()[subtrees.root_B], whole, atol=1e-6)


def test_constituents_are_the_nodes_that_the_parser_gave() -> None:
    trees = GivenTrees(5)
    encoder = given_encoder(trees)
    sentences = [trees.sentence([f"w{i}{j}" for j in range(n)]) for i, n in enumerate((9, 1, 14))]
    (nodes,) = encoder.node_states(sentences, views=["const"])
    subtrees = subtrees_of(nodes.batch, "const", encoder.reader.inventories().dummy_label)
    for row, place in enumerate(nodes.places):
        own = np.arange(subtrees.offset_B[row], subtrees.offset_B[row + 1])
        named = {(int(subtrees.first_N[k]), int(subtrees.last_N[k]) + 1) for k in own[subtrees.named_N[own]]}
        words = {(i, i + 1) for i in range(len(sentences[place]))}
        assert named == words | set(trees.spans[sentences[place]])
        assert subtrees.root_B[row] == own[-1]


def test_views_of_one_name_are_told_apart_and_sequences_have_no_subtrees() -> None:
    trees = GivenTrees()
    encoder = given_encoder(trees, "dep,seq,dep")
    (nodes,) = encoder.node_states([trees.sentence(["a", "b"])])
    assert [(view.view, view.tree) for view in nodes.views] == [("dep", "dep"), ("seq", ""), ("dep 2", "dep")]
    assert torch.equal(nodes.views[1].sentence_N, torch.zeros(2, dtype=torch.int64))


def test_words_that_are_left_out_are_dots() -> None:
    words = ["a", "b", "c", "d", "e"]
    assert words_of(words, (1,)) == "b"
    assert words_of(words, (0, 1, 2)) == "a b c"
    assert words_of(words, (0, 2, 4)) == "a … c … e"
    assert words_of(words, (1, 2, 4)) == "b c … e"
