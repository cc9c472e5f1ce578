"""Binarisation against nltk's on random trees; its exact inverse."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.tree import Tree

from parsing.trees.arrays import binarise, constituency_heights, unbinarise
from parsing.trees.batch import ConstituencyParse

LABELS = ("", "S", "NP", "VP", "S::VP", "PP")
DUMMY = len(LABELS)


def spans_of(shape, start=0):
    """Preorder spans of a shape: a leaf is its label id, a node is (label id, children)."""
    if isinstance(shape, int):
        return start + 1, [(start, start + 1, shape)]
    label, children = shape
    end, spans = start, []
    for child in children:
        end, inner = spans_of(child, end)
        spans += inner
    return end, [(start, end, label), *spans]


def parse_of(shape) -> ConstituencyParse:
    n, spans = spans_of(shape)
    spans = [s for i, s in enumerate(spans) if i == 0 or s[2] != 0]
    starts, ends, labels = (np.array(column, np.int32) for column in zip(*spans, strict=True))
    return ConstituencyParse(tags=np.arange(n, dtype=np.int32), starts=starts, ends=ends, labels=labels)


def nested(tree, node=None):
    """A BinaryTree as nested tuples (label, left, right); a leaf is (label, position)."""
    n = len(tree.leaf_label)
    node = 2 * n - 2 if node is None else node
    if node < n:
        return int(tree.leaf_label[node]), node
    i = node - n
    assert tree.left[i] < node and tree.right[i] < node  # children before parents
    return int(tree.label[i]), nested(tree, int(tree.left[i])), nested(tree, int(tree.right[i]))


def height(tree):
    """Of a tree as nested tuples; a leaf has 0."""
    return 0 if len(tree) == 2 else 1 + max(map(height, tree[1:]))


def by_nltk(shape):
    """nltk's left factoring with a horizontal order of 0."""

    def build(shape):
        if isinstance(shape, int):
            return Tree(f"{shape}", ["w"])
        return Tree(f"{shape[0]}", [build(child) for child in shape[1]])

    tree = build(shape)
    if isinstance(shape, tuple):
        tree.chomsky_normal_form(factor="left", horzMarkov=0)
    position = iter(range(10_000))

    def read(tree):
        label = DUMMY if "|" in tree.label() else int(tree.label())
        return (label, next(position)) if tree.height() == 2 else (label, read(tree[0]), read(tree[1]))

    return read(tree)


labels = st.integers(1, len(LABELS) - 1)
shapes = st.recursive(
    st.integers(0, len(LABELS) - 1),
    lambda inner: st.tuples(labels, st.lists(inner, min_size=2, max_size=6)),
    max_leaves=40,
)


@settings(max_examples=150, deadline=None)
@given(shapes)
def test_equals_nltk_and_is_inverted(shape) -> None:
    parse = parse_of(shape)
    tree = binarise(parse, DUMMY)
    n = len(parse.tags)
    assert [len(a) for a in (tree.leaf_label, tree.left, tree.right, tree.label)] == [n, n - 1, n - 1, n - 1]
    assert all(a.dtype == np.int32 for a in (tree.leaf_label, tree.left, tree.right, tree.label))
    assert nested(tree) == by_nltk(shape)
    heights, defects, *_ = constituency_heights(tree.left, tree.right, np.array([0, n]))
    assert not defects.any() and [0, *heights][-1] == height(nested(tree))
    back = unbinarise(tree, parse.tags, DUMMY)
    for name in ("tags", "starts", "ends", "labels"):
        np.testing.assert_array_equal(getattr(back, name), getattr(parse, name))


@pytest.mark.parametrize(
    "spans",
    [
        [(0, 2, 1)],  # not the whole sentence
        [(0, 3, 1), (0, 2, 1), (1, 3, 1)],  # crossing
        [(0, 3, 1), (0, 3, 2)],  # a unary chain that was not collapsed
        [(0, 3, 1), (1, 2, 1), (0, 1, 2)],  # not in preorder
        [(0, 3, 1), (2, 4, 1)],  # beyond the end
        [(0, 3, 1), (1, 1, 1)],  # empty
        [(0, 3, DUMMY)],  # the dummy label
    ],
)
def test_what_is_no_tree_is_refused(spans) -> None:
    starts, ends, labels = (np.array(column, np.int32) for column in zip(*spans, strict=True))
    parse = ConstituencyParse(tags=np.zeros(3, np.int32), starts=starts, ends=ends, labels=labels)
    with pytest.raises(ValueError, match=r"no tree|dummy"):
        binarise(parse, DUMMY)
