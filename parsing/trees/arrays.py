"""Trees as arrays: constituents to binary trees and back, heights and well-formedness of many trees at once.

Binarisation is left markovisation of order 0 (Simoulin & Crabbé 2021): of a node's children all but
the last go under a dummy node, recursively, so that

    A(b c d)  becomes  A(dummy(b c) d)

and a sentence of n words has n - 1 internal nodes with exactly two children each. Unary chains are
one label (``S::VP``) already in the spans, above words too. Label 0 is the parser's null label ``""``:
it stands for "no chain above this word" and for a sentence without a label of its own.

Shapes: n words of a sentence, m spans, B sentences, N tokens; internal nodes of sentence i start at
``offsets[i] - i``. Ids as in :class:`parsing.trees.batch.Batch`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parsing.trees.batch import ConstituencyParse, Int, Int32, Int64
from runtime.compiled import compiled_if_long

NULL_LABEL = 0
"""Index of the empty label in every parser's ``labels``."""
DEFECTS = (
    "",
    "a head lies outside the sentence",
    "not exactly one root",
    "the heads have a cycle",
    "a child is not made before its parent",
    "a node does not have exactly one parent",
    "the words are not in order under the tree",
)


@compiled_if_long
def dependency_heights(head: Int, offsets: Int64) -> tuple[Int32, Int32]:
    """Return the height of each word, [N], 0 without dependents, else 1 + the highest dependent's.

    And what is wrong with each tree, [B], as an index in DEFECTS. Heads are 1-based in the sentence, 0 is the
    root's. It is compiled as one function: parts of it would be compiled one by one.
    """
    heights = np.zeros(len(head), np.int32)
    defects = np.zeros(len(offsets) - 1, np.int32)
    waiting = np.zeros(len(head), np.int32)
    stack = np.empty(len(head), np.int64)
    for i in range(len(offsets) - 1):
        start, n = offsets[i], offsets[i + 1] - offsets[i]
        roots = 0
        for j in range(n):
            h = head[start + j]
            if h < 0 or h > n:
                defects[i] = 1
            elif h == 0:
                roots += 1
            else:
                waiting[start + h - 1] += 1
        if defects[i] == 0 and roots != 1:
            defects[i] = 2
        if defects[i] != 0:
            continue
        # Peel words whose dependents are all done; a cycle is never reached. O(n).
        depth, peeled = 0, 0
        for j in range(start, start + n):
            if waiting[j] == 0:
                stack[depth] = j
                depth += 1
        while depth > 0:
            depth -= 1
            j = stack[depth]
            peeled += 1
            if head[j] == 0:
                continue
            parent = start + head[j] - 1
            heights[parent] = max(heights[parent], heights[j] + 1)
            waiting[parent] -= 1
            if waiting[parent] == 0:
                stack[depth] = parent
                depth += 1
        if peeled != n:
            defects[i] = 3
    return heights, defects


@compiled_if_long
def constituency_heights(left: Int, right: Int, offsets: Int64) -> tuple[Int32, Int32, Int32, Int32]:
    """Return the height of each internal node, [N-B], 1 + the higher child's (leaves have 0).

    Then what is wrong with each tree, [B], as an index in DEFECTS; and the first and last word of each node,
    [N-B], as positions in the sentence. Children are ids local to the sentence.
    """
    heights = np.zeros(len(left), np.int32)
    first = np.zeros(len(left), np.int32)
    last = np.zeros(len(left), np.int32)
    used = np.zeros(offsets[-1] + len(left), np.bool_)
    defects = np.zeros(len(offsets) - 1, np.int32)
    for i in range(len(offsets) - 1):
        n, base = offsets[i + 1] - offsets[i], offsets[i] - i
        nodes = offsets[i] + base  # where this sentence's flags in `used` start
        for k in range(base, base + n - 1):
            a, b = left[k], right[k]
            if min(a, b) < 0 or max(a, b) >= n + k - base:
                defects[i] = 4
                break
            if used[nodes + a] or used[nodes + b] or a == b:
                defects[i] = 5
                break
            used[nodes + a] = used[nodes + b] = True
            in_a, in_b = base + a - n, base + b - n  # places of children that are internal nodes
            first[k] = first[in_a] if a >= n else a
            last[k] = last[in_b] if b >= n else b
            if (last[in_a] if a >= n else a) + 1 != (first[in_b] if b >= n else b):
                defects[i] = 6
                break
            heights[k] = 1 + max(heights[in_a] if a >= n else 0, heights[in_b] if b >= n else 0)
    return heights, defects, first, last


@dataclass(frozen=True, slots=True)
class BinaryTree:
    """Binary tree over ``n`` words: leaves are 0..n-1, internal nodes n..2n-2, the root is last.

    Children of internal nodes [n-1] come before their parents.
    """

    leaf_label: Int
    """int32 [n], the unary chain above each word, 0 for none."""
    left: Int
    right: Int
    label: Int
    """int32 [n-1], label of internal node n+i, or the dummy label."""


def binarise(parse: ConstituencyParse, dummy_label: int) -> BinaryTree:
    """Binarise a parse; internal nodes are numbered in postorder.

    Of the spans in preorder, the first one is the whole sentence; one-word spans may be missing, and get the
    null label. Nodes that binarisation adds have the dummy label, which is not one of the parser's. A
    ValueError says that the spans are not a tree over the sentence, or that one has the dummy label.
    """
    n = len(parse.tags)
    if (parse.labels == dummy_label).any():
        raise ValueError(f"a span has the dummy label {dummy_label}")
    sound, *arrays = _tree_arrays(parse.starts, parse.ends, parse.labels, dummy_label, n)
    if not sound:
        raise ValueError(f"the spans are no tree of {n} words: the whole sentence first, then in preorder")
    return BinaryTree(*arrays)


def unbinarise(tree: BinaryTree, tags: Int, dummy_label: int) -> ConstituencyParse:
    """Return the parse that :func:`binarise` was given (one-word spans with the null label left out).

    ``tags``, int32 [n], are not part of binary trees.
    """
    n = len(tree.leaf_label)
    words = np.arange(n, dtype=np.int32)
    _, _, *ends = constituency_heights(tree.left, tree.right, np.array([0, n], np.int64))
    first, last = (np.concatenate([words, end]) for end in ends)
    labels = np.concatenate([tree.leaf_label, tree.label])
    labelled = labels != np.repeat([NULL_LABEL, dummy_label], [n, n - 1])
    labelled[-1] = True
    order = np.lexsort((-last, first))  # preorder: no two nodes of a binary tree have the same words
    order = order[labelled[order]]
    return ConstituencyParse(tags=tags, starts=first[order], ends=last[order] + 1, labels=labels[order])


@compiled_if_long
def _tree_arrays(  # type: ignore[no-untyped-def]
    starts, ends, labels, dummy, n
):
    """Return whether spans are a tree, and the arrays of a :class:`BinaryTree`, in one pass over the words.

    It is one function because all steps change what is open. A raised exception could not be kept on disk.
    """
    leaf_label, m = np.zeros(n, np.int32), len(starts)
    left, right, label = np.zeros(n - 1, np.int32), np.zeros(n - 1, np.int32), np.zeros(n - 1, np.int32)
    if m == 0 or starts[0] != 0 or ends[0] != n:
        return False, leaf_label, left, right, label
    open_end = np.empty(m, np.int32)
    open_label = np.empty(m, np.int32)
    open_node = np.empty(m, np.int32)  # what the children so far were joined into, -1 for none
    depth, span, made = 0, 0, 0
    for word in range(n):
        while span < m and starts[span] == word and ends[span] > word + 1:
            # Beyond what is open above it, or a repetition of that.
            above = open_end[depth - 1] if depth > 0 else n + 1
            if ends[span] > above or (ends[span] == above and open_node[depth - 1] < 0) or ends[span] > n:
                return False, leaf_label, left, right, label
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
            return False, leaf_label, left, right, label
    return span == m, leaf_label, left, right, label
