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

from parsing.trees.parsers import ConstituencyParse, Int

NULL_LABEL = 0
"""Index of the empty label in every parser's ``labels``."""

# What the compiled functions return instead of raising (an exception costs numba its cache).
_PROBLEMS = (
    "",
    "the first span is not the whole sentence",
    "a span is empty or reaches beyond the sentence",
    "spans cross, repeat or are not in preorder",
)


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
    problem = _fill_tree(
        parse.starts,
        parse.ends,
        parse.labels,
        dummy_label,
        tree.leaf_label,
        tree.left,
        tree.right,
        tree.label,
    )
    if problem:
        raise ValueError(f"no tree of {n} words: {_PROBLEMS[problem]}")
    return tree


def unbinarise(tree: BinaryTree, tags: Int, dummy_label: int) -> ConstituencyParse:
    """The parse that :func:`binarise` was given (one-word spans with the null label left out).

    Args:
        tree: a binary tree of ``n`` words.
        tags: int32 [n]; binary trees do not store them.
        dummy_label: what :func:`binarise` was given.
    """
    n = len(tree.leaf_label)
    starts, ends, labels = (np.empty(2 * n, np.int32) for _ in range(3))
    m = _fill_spans(tree.leaf_label, tree.left, tree.right, tree.label, dummy_label, starts, ends, labels)
    return ConstituencyParse(tags=tags, starts=starts[:m], ends=ends[:m], labels=labels[:m])


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
) -> int:
    """Fill the arrays of a tree in one pass over words and spans; return an index of _PROBLEMS."""
    n, m = len(leaf_label), len(starts)
    if m == 0 or starts[0] != 0 or ends[0] != n:
        return 1
    open_end = np.empty(m, np.int32)
    open_label = np.empty(m, np.int32)
    open_node = np.empty(m, np.int32)  # what the children so far were joined into, -1 for none
    depth, span, made = 0, 0, 0
    for word in range(n):
        while span < m and starts[span] == word and ends[span] > word + 1:
            if ends[span] > n:
                return 2
            if depth > 0 and (
                ends[span] > open_end[depth - 1]
                or (ends[span] == open_end[depth - 1] and open_node[depth - 1] < 0)
            ):
                return 3
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
            return 2 if ends[span] <= starts[span] else 3
    return 0 if span == m else 2


@njit(cache=True)
def _fill_spans(
    leaf_label: Int,
    left: Int,
    right: Int,
    label: Int,
    dummy: int,
    starts: Int,
    ends: Int,
    labels: Int,
) -> int:
    """Write the spans of a binary tree in preorder; return how many."""
    n = len(leaf_label)
    first = np.empty(2 * n - 1, np.int32)
    last = np.empty(2 * n - 1, np.int32)
    for node in range(n):
        first[node] = last[node] = node
    for i in range(n - 1):
        first[n + i], last[n + i] = first[left[i]], last[right[i]]
    stack = np.empty(2 * n - 1, np.int32)
    stack[0] = root = 2 * n - 2
    depth, m = 1, 0
    while depth > 0:
        depth -= 1
        node = stack[depth]
        own = leaf_label[node] if node < n else label[node - n]
        if node == root or (own != 0 if node < n else own != dummy):
            starts[m], ends[m], labels[m] = first[node], last[node] + 1, own
            m += 1
        if node >= n:
            stack[depth] = right[node - n]
            stack[depth + 1] = left[node - n]
            depth += 2
    return m
