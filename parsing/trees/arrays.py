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

from dataclasses import dataclass

import numpy as np

from parsing.trees.batch import ConstituencyParse, Int, Int32, Int64
from runtime.compiled import compiled_if_long, compiled_part

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
    root's.
    """
    heights = np.zeros(len(head), np.int32)
    defects = np.zeros(len(offsets) - 1, np.int32)
    waiting = np.zeros(len(head), np.int32)  # dependents whose heights are not known
    stack = np.empty(len(head), np.int64)
    for i in range(len(offsets) - 1):
        start, end = offsets[i], offsets[i + 1]
        defects[i] = _count_dependents(head[start:end], waiting[start:end])
        if defects[i] != 0:
            continue
        # Peel words whose dependents are all done; a cycle is never reached. O(n).
        depth, peeled = 0, 0
        for j in range(start, end):
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
        if peeled != end - start:
            defects[i] = 3
    return heights, defects


@compiled_part
def _count_dependents(head, count):  # type: ignore[no-untyped-def]
    """Write how many dependents each word of a sentence has; return what is wrong, but for cycles."""
    roots = 0
    for h in head:
        if h < 0 or h > len(head):
            return 1
        if h == 0:
            roots += 1
        else:
            count[h - 1] += 1
    return 0 if roots == 1 else 2


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
    sound, leaf_label, nodes = _tree_arrays(parse.starts, parse.ends, parse.labels, dummy_label, n)
    if not sound:
        raise ValueError(f"the spans are no tree of {n} words: the whole sentence first, then in preorder")
    return BinaryTree(leaf_label, *nodes)


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
def _tree_arrays(starts, ends, labels, dummy, n):  # type: ignore[no-untyped-def]
    """Return whether spans are a tree, and the arrays of a :class:`BinaryTree`, in one pass over the words.

    The arrays are ``leaf_label`` [n] and ``left``, ``right``, ``label`` as rows of one [3, n-1]. A raised
    exception could not be kept on disk.
    """
    leaf_label, nodes = np.zeros(n, np.int32), np.zeros((3, n - 1), np.int32)
    if len(starts) == 0 or starts[0] != 0 or ends[0] != n:
        return False, leaf_label, nodes
    open_end = np.empty(len(starts), np.int32)
    open_label = np.empty(len(starts), np.int32)
    open_node = np.empty(len(starts), np.int32)  # what the children so far were joined into, -1 for none
    depth, span, made = 0, 0, 0
    for word in range(n):
        while span < len(starts) and starts[span] == word and ends[span] > word + 1:
            above = open_end[depth - 1] if depth > 0 else n + 1
            if ends[span] > above or (ends[span] == above and open_node[depth - 1] < 0):
                return False, leaf_label, nodes
            open_end[depth], open_label[depth], open_node[depth] = ends[span], labels[span], -1
            depth += 1
            span += 1
        if span < len(starts) and starts[span] == word and ends[span] == word + 1:
            leaf_label[word] = labels[span]
            span += 1
        node = word
        while depth > 0:
            top = depth - 1
            closes, joined = open_end[top] == word + 1, open_node[top]
            if joined >= 0:
                nodes[0, made], nodes[1, made] = joined, node
                nodes[2, made] = open_label[top] if closes else dummy
                node = n + made
                made += 1
            open_node[top] = node
            if joined < 0 or not closes:
                break
            depth -= 1
        if span < len(starts) and starts[span] <= word:
            return False, leaf_label, nodes
    return span == len(starts), leaf_label, nodes
