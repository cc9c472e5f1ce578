"""Heights, words and well-formedness of many trees at once, compiled (numba).

Shapes: B sentences, N tokens; a sentence of n tokens has n - 1 internal nodes of the binary tree,
which start at ``offsets[i] - i``. Ids as in :class:`parsing.cache.format.Batch`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from parsing.trees.parsers import Int, Int32, Int64

DEFECTS = (
    "",
    "a head lies outside the sentence",
    "not exactly one root",
    "the heads have a cycle",
    "a child is not made before its parent",
    "a node does not have exactly one parent",
    "the words are not in order under the tree",
    "a height is not one more than its highest child's",
)


@njit(cache=True)
def dependency_heights(head: Int, offsets: Int64) -> tuple[Int32, Int32]:
    """Height of each word: 0 without dependents, else 1 + the highest dependent's.

    Args:
        head: [N], 1-based head within the sentence, 0 for the root.
        offsets: int64 [B+1], where sentences start.

    Returns:
        int32 [N] heights, and int32 [B] with the index in DEFECTS of what is wrong with each tree.
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


@njit(cache=True)
def constituency_heights(left: Int, right: Int, offsets: Int64) -> tuple[Int32, Int32, Int32, Int32]:
    """Height and words of each internal node.

    Args:
        left: [N-B] left children, ids local to the sentence.
        right: [N-B] right children.
        offsets: int64 [B+1], where the tokens of each sentence start.

    Returns:
        int32 [N-B] heights, 1 + the higher child's (leaves have 0); int32 [B] with the index in DEFECTS of
        what is wrong with each tree; int32 [N-B] first and last word, positions in the sentence.
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
