"""Trees as arrays: binarisation and its inverse, and the heights and defects of many trees at once.

Binarisation is left markovisation of order 0 (docs/equations.md): A(b c d) becomes A(dummy(b c) d), and so a
sentence of n words has n - 1 internal nodes with two children each. A unary chain, also above a single word,
is one label (``S::VP``) in both forms. Label 0 is the parser's null label ``""``. It means that a word has no
chain above it, or that the sentence as a whole has no label.

Legend of dimension suffixes: n words of a sentence, m spans, B sentences, N tokens; internal nodes of
sentence i start at ``offsets[i] - i``. Ids as in :class:`parsing.trees.batch.Batch`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from corpora.text import Sentence
from parsing.trees.batch import ConstituencyParse, Int, Int32, Int64
from runtime.compiled import compiled_if_long, compiled_part

NULL_LABEL = 0
"""Index of the empty label in every parser's ``labels``."""
SOUND, HEAD_OUTSIDE, NOT_ONE_ROOT, CYCLE, CHILD_AFTER_PARENT, NOT_ONE_PARENT, WORDS_OUT_OF_ORDER = range(7)
DEFECTS = {
    HEAD_OUTSIDE: "a head lies outside the sentence",
    NOT_ONE_ROOT: "not exactly one root",
    CYCLE: "the heads have a cycle",
    CHILD_AFTER_PARENT: "a child is not made before its parent",
    NOT_ONE_PARENT: "a node does not have exactly one parent",
    WORDS_OUT_OF_ORDER: "the words are not in order under the tree",
}
"""The message of each defect; a tree that is ``SOUND`` has none."""


@compiled_if_long
def dependency_heights(head: Int, offsets: Int64) -> tuple[Int32, Int32]:
    """Return the height of each word, [N], and the defect of each tree, [B]: ``SOUND`` or a key of DEFECTS.

    A word without dependents has height 0, every other word one more than its highest dependent. Heads [N]
    are 1-based in the sentence, 0 for the root; ``offsets`` [B+1] are where the sentences start.
    """
    heights = np.zeros(len(head), np.int32)
    defects = np.zeros(len(offsets) - 1, np.int32)
    missing_children = np.zeros(len(head), np.int32)  # dependents whose heights are not known yet
    stack = np.empty(len(head), np.int64)
    for i in range(len(offsets) - 1):
        first, end = offsets[i], offsets[i + 1]
        defects[i] = _count_dependents(head[first:end], missing_children[first:end])
        if defects[i] != SOUND:
            continue
        # From the words without dependents upwards, in O(n). The words of a cycle are never reached.
        depth, finished_words = 0, 0
        for j in range(first, end):
            if missing_children[j] == 0:
                stack[depth] = j
                depth += 1
        while depth > 0:
            depth -= 1
            j = stack[depth]
            finished_words += 1
            if head[j] == 0:
                continue
            parent = first + head[j] - 1
            heights[parent] = max(heights[parent], heights[j] + 1)
            missing_children[parent] -= 1
            if missing_children[parent] == 0:
                stack[depth] = parent
                depth += 1
        if finished_words != end - first:
            defects[i] = CYCLE
    return heights, defects


@compiled_part
def _count_dependents(head, count):  # type: ignore[no-untyped-def]
    """Add the number of dependents of each word to ``count``; return any defect but a cycle."""
    roots = 0
    for h in head:
        if h < 0 or h > len(head):
            return HEAD_OUTSIDE
        if h == 0:
            roots += 1
        else:
            count[h - 1] += 1
    return SOUND if roots == 1 else NOT_ONE_ROOT


@compiled_if_long
def constituency_heights(left: Int, right: Int, offsets: Int64) -> tuple[Int32, Int32, Int32, Int32]:
    """Return heights [N-B], defects [B], and the first and the last word [N-B] of internal nodes.

    A leaf has height 0, a node one more than its higher child. Defects are as in :func:`dependency_heights`,
    words are positions in the sentence. The children ``left`` and ``right`` [N-B] are ids local to the
    sentence.
    """
    heights = np.zeros(len(left), np.int32)
    first_word = np.zeros(len(left), np.int32)
    last_word = np.zeros(len(left), np.int32)
    has_parent = np.zeros(offsets[-1] + len(left), np.bool_)
    defects = np.zeros(len(offsets) - 1, np.int32)
    for i in range(len(offsets) - 1):
        n, base = offsets[i + 1] - offsets[i], offsets[i] - i
        nodes = offsets[i] + base  # where this sentence's flags in `has_parent` start
        for k in range(base, base + n - 1):
            a, b = left[k], right[k]
            if min(a, b) < 0 or max(a, b) >= n + k - base:
                defects[i] = CHILD_AFTER_PARENT
                break
            if has_parent[nodes + a] or has_parent[nodes + b] or a == b:
                defects[i] = NOT_ONE_PARENT
                break
            has_parent[nodes + a] = has_parent[nodes + b] = True
            node_a, node_b = base + a - n, base + b - n  # of children that are internal nodes
            first_word[k] = first_word[node_a] if a >= n else a
            last_word[k] = last_word[node_b] if b >= n else b
            if (last_word[node_a] if a >= n else a) + 1 != (first_word[node_b] if b >= n else b):
                defects[i] = WORDS_OUT_OF_ORDER
                break
            heights[k] = 1 + max(heights[node_a] if a >= n else 0, heights[node_b] if b >= n else 0)
    return heights, defects, first_word, last_word


@dataclass(frozen=True, slots=True)
class BinaryTree:
    """A binary tree over n words: nodes 0..n-1 are words, n..2n-2 internal nodes, children before parents."""

    leaf_label: Int
    """int32 [n], the unary chain above each word, 0 for none."""
    left: Int
    """int32 [n-1], the left child of node n+i."""
    right: Int
    """int32 [n-1], the right child of node n+i."""
    label: Int
    """int32 [n-1], the label of node n+i, which is the dummy label if binarisation added the node."""


def binarise(parse: ConstituencyParse, dummy_label: int) -> BinaryTree:
    """Return the binary tree of a parse; internal nodes are numbered in postorder.

    The first span must be the whole sentence; a word without a span of its own gets the null label. Nodes
    that binarisation adds have the dummy label. Raises ValueError if the spans are not a tree over the
    sentence, or if one of them has the dummy label.
    """
    n = len(parse.tags)
    if (parse.labels == dummy_label).any():
        raise ValueError(f"a span has the dummy label {dummy_label}")
    is_tree, leaf_label, nodes = _tree_arrays(parse.starts, parse.ends, parse.labels, dummy_label, n)
    if not is_tree:
        raise ValueError(f"the spans are no tree of {n} words: the whole sentence first, then in preorder")
    return BinaryTree(leaf_label, *nodes)


def unbinarise(tree: BinaryTree, tags: Int, dummy_label: int) -> ConstituencyParse:
    """Return the parse of a binary tree and its tags, int32 [n]; words with the null label have no span."""
    n = len(tree.leaf_label)
    words = np.arange(n, dtype=np.int32)
    _, _, first_word, last_word = constituency_heights(tree.left, tree.right, np.array([0, n], np.int64))
    starts = np.concatenate([words, first_word])
    ends = np.concatenate([words, last_word]) + 1
    labels = np.concatenate([tree.leaf_label, tree.label])
    is_span = labels != np.repeat([NULL_LABEL, dummy_label], [n, n - 1])
    is_span[-1] = True
    preorder = np.lexsort((-ends, starts))  # no two nodes of a binary tree have the same words
    preorder = preorder[is_span[preorder]]
    return ConstituencyParse(tags=tags, starts=starts[preorder], ends=ends[preorder], labels=labels[preorder])


@compiled_if_long
def _tree_arrays(starts, ends, labels, dummy, n):  # type: ignore[no-untyped-def]
    """Return whether spans are a tree, and the arrays of its :class:`BinaryTree`, in one pass.

    The arrays are ``leaf_label`` [n] and ``left``, ``right``, ``label`` as the rows of one array [3, n-1]. No
    exception is raised, because compiled code that raises one could not be kept on disk. The function is long
    because smaller ones would have to pass the whole state of the loop to each other.
    """
    leaf_label, nodes = np.zeros(n, np.int32), np.zeros((3, n - 1), np.int32)
    if len(starts) == 0 or starts[0] != 0 or ends[0] != n:
        return False, leaf_label, nodes
    open_end = np.empty(len(starts), np.int32)
    open_label = np.empty(len(starts), np.int32)
    open_node = np.empty(len(starts), np.int32)  # the node over the children so far, -1 for none
    depth, span, size = 0, 0, 0
    for word in range(n):
        while span < len(starts) and starts[span] == word and ends[span] > word + 1:
            parent_end = open_end[depth - 1] if depth > 0 else n + 1
            if ends[span] > parent_end or (ends[span] == parent_end and open_node[depth - 1] < 0):
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
            is_last_child = open_end[top] == word + 1
            sister = open_node[top]
            if sister >= 0:
                nodes[0, size], nodes[1, size] = sister, node
                nodes[2, size] = open_label[top] if is_last_child else dummy
                node = n + size
                size += 1
            open_node[top] = node
            if sister < 0 or not is_last_child:
                break
            depth -= 1
        if span < len(starts) and starts[span] <= word:
            return False, leaf_label, nodes
    return span == len(starts), leaf_label, nodes


def to_parse(
    tree: Sentence, labels: Mapping[str, int], tags: Mapping[str, int], *, unlabelled: bool = False
) -> ConstituencyParse:
    """Return a constituency tree as arrays.

    Args:
        tree: a sentence with tags and spans.
        labels: the id of each label.
        tags: the id of each tag.
        unlabelled: whether to keep spans without a label; that of the whole sentence is always kept.
    """
    whole, *parts = tree.spans or ()
    spans = [whole, *(span for span in parts if unlabelled or span[2])]
    return ConstituencyParse(
        tags=np.array([tags[tag] for tag in tree.tags or ()], np.int32),
        starts=np.array([first for first, _, _ in spans], np.int32),
        ends=np.array([end for _, end, _ in spans], np.int32),
        labels=np.array([labels[label] for _, _, label in spans], np.int32),
    )


def from_parse(
    parse: ConstituencyParse, words: Sequence[str], labels: Sequence[str], tags: Sequence[str]
) -> Sentence:
    """Return a parse as a sentence with tags and spans.

    Args:
        parse: the arrays of the tree.
        words: the words of the sentence.
        labels: the names of the labels, by id.
        tags: the names of the tags, by id.
    """
    names = [labels[label] for label in parse.labels]
    spans = tuple(zip(parse.starts.tolist(), parse.ends.tolist(), names, strict=True))
    return Sentence(tuple(words), tags=tuple(tags[tag] for tag in parse.tags), spans=spans)


def labels_and_tags(trees: Iterable[Sentence]) -> tuple[list[str], list[str]]:
    """Return sorted labels (the null label first) and sorted tags of a treebank."""
    labels: set[str] = set()
    tags: set[str] = set()
    for tree in trees:
        labels.update(label for _, _, label in tree.spans or ())
        tags.update(tree.tags or ())
    return ["", *sorted(labels - {""})], sorted(tags)
