"""Constituency spans to binary trees and back, straight between integer arrays.

Binarisation is left markovisation of order 0 (Simoulin & Crabbé 2021): of a node's children all but
the last go under a dummy node, recursively, so that

    A(b c d)  becomes  A(dummy(b c) d)

and a sentence of n words has n - 1 internal nodes with exactly two children each. Unary chains are
one label (``S::VP``) already in the spans, above words too. Label 0 is the parser's null label ``""``:
it stands for "no chain above this word" and for a sentence without a label of its own.

Shapes: n words, m spans.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from parsing.trees.arrays import constituency_heights
from parsing.trees.parsers import ConstituencyParse, Int

NULL_LABEL = 0
"""Index of the empty label in every parser's ``labels``."""


@dataclass(frozen=True, slots=True)
class BinaryTree:
    """Binary tree over ``n`` words: leaves are 0..n-1, internal nodes n..2n-2, the root is last."""

    leaf_label: Int
    """int32 [n], the unary chain above each word, 0 for none."""
    left: Int
    """int32 [n-1], left child of internal node n+i; children come before their parents."""
    right: Int
    """int32 [n-1], right child of internal node n+i."""
    label: Int
    """int32 [n-1], label of internal node n+i, or the dummy label."""


def binarise(parse: ConstituencyParse, dummy_label: int) -> BinaryTree:
    """Binarise a parse; internal nodes are numbered in postorder.

    Args:
        parse: spans of ``n`` words in preorder, the first one the whole sentence. One-word spans
            may be missing; they get the null label.
        dummy_label: id for the nodes that binarisation adds; not one of the parser's labels.

    Raises:
        ValueError: the spans are not a tree over the sentence, or one has the dummy label.
    """
    n = len(parse.tags)
    tree = BinaryTree(
        leaf_label=np.zeros(n, np.int32),
        left=np.empty(n - 1, np.int32),
        right=np.empty(n - 1, np.int32),
        label=np.empty(n - 1, np.int32),
    )
    if (parse.labels == dummy_label).any():
        raise ValueError(f"a span has the dummy label {dummy_label}")
    spans = parse.starts, parse.ends, parse.labels
    if not _fill_tree(*spans, dummy_label, tree.leaf_label, tree.left, tree.right, tree.label):
        raise ValueError(f"the spans are no tree of {n} words: the whole sentence first, then in preorder")
    return tree


def unbinarise(tree: BinaryTree, tags: Int, dummy_label: int) -> ConstituencyParse:
    """The parse that :func:`binarise` was given (one-word spans with the null label left out).

    Args:
        tree: a binary tree of ``n`` words.
        tags: int32 [n]; binary trees do not store them.
        dummy_label: what :func:`binarise` was given.
    """
    n = len(tree.leaf_label)
    words = np.arange(n, dtype=np.int32)
    _, _, *ends = constituency_heights(tree.left, tree.right, np.array([0, n], np.int64))
    first, last = (np.concatenate([words, end]) for end in ends)
    labels = np.concatenate([tree.leaf_label, tree.label])
    kept = labels != np.repeat([NULL_LABEL, dummy_label], [n, n - 1])
    kept[-1] = True
    order = np.lexsort((-last, first))  # preorder: no two nodes of a binary tree have the same words
    order = order[kept[order]]
    return ConstituencyParse(tags=tags, starts=first[order], ends=last[order] + 1, labels=labels[order])


def left_branching(n: int, dummy_label: int, root_label: int = NULL_LABEL) -> BinaryTree:
    """The fallback for a sentence that cannot be parsed: a flat tree, binarised.

    Args:
        n: number of words, at least 1.
        dummy_label: label of every internal node but the root.
        root_label: label of the root.
    """
    left = np.arange(n - 1, 2 * n - 2, dtype=np.int32)
    label = np.full(n - 1, dummy_label, np.int32)
    if n > 1:
        left[0] = 0
        label[-1] = root_label
    return BinaryTree(
        leaf_label=np.full(n, NULL_LABEL if n > 1 else root_label, np.int32),
        left=left,
        right=np.arange(1, n, dtype=np.int32),
        label=label,
    )


@njit(cache=True)
def _fill_tree(
    starts: Int,
    ends: Int,
    labels: Int,
    dummy: int,
    leaf_label: Int,
    left: Int,
    right: Int,
    label: Int,
) -> bool:
    """Fill the arrays of a tree in one pass over words and spans; False if they are no tree.

    A raised exception would cost numba its cache.
    """
    n, m = len(leaf_label), len(starts)
    if m == 0 or starts[0] != 0 or ends[0] != n:
        return False
    open_end = np.empty(m, np.int32)
    open_label = np.empty(m, np.int32)
    open_node = np.empty(m, np.int32)  # what the children so far were joined into, -1 for none
    depth, span, made = 0, 0, 0
    for word in range(n):
        while span < m and starts[span] == word and ends[span] > word + 1:
            # Beyond what is open above it, or a repetition of that.
            above = open_end[depth - 1] if depth > 0 else n + 1
            if ends[span] > above or (ends[span] == above and open_node[depth - 1] < 0) or ends[span] > n:
                return False
            open_end[depth], open_label[depth], open_node[depth] = ends[span], labels[span], -1
            depth += 1
            span += 1
        if span < m and starts[span] == word and ends[span] == word + 1:
            leaf_label[word] = labels[span]
            span += 1
        node = word
        while depth > 0:
            top = depth - 1
            closes = open_end[top] == word + 1
            if open_node[top] < 0:
                open_node[top] = node
                break
            left[made], right[made] = open_node[top], node
            label[made] = open_label[top] if closes else dummy
            open_node[top] = node = n + made
            made += 1
            if not closes:
                break
            depth -= 1
        if span < m and starts[span] <= word:
            return False
    return span == m
