"""Heights, spans and well-formedness of many trees at once, compiled (numba).

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
def constituency_heights(left: Int, right: Int, offsets: Int64) -> tuple[Int32, Int32]:
    """Height of each internal node: 1 + the higher child's; leaves have 0.

    Args:
        left: [N-B] left children, ids local to the sentence.
        right: [N-B] right children.
        offsets: int64 [B+1], where the tokens of each sentence start.

    Returns:
        int32 [N-B] heights, and int32 [B] with the index in DEFECTS of what is wrong with each tree.
    """
    heights = np.zeros(len(left), np.int32)
    defects = np.zeros(len(offsets) - 1, np.int32)
    longest = 1
    for i in range(len(offsets) - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    first = np.empty(2 * longest, np.int32)
    last = np.empty(2 * longest, np.int32)
    used = np.empty(2 * longest, np.int32)
    for i in range(len(offsets) - 1):
        n, base = offsets[i + 1] - offsets[i], offsets[i] - i
        used[: 2 * n - 1] = 0
        for j in range(n):
            first[j] = last[j] = j
        for k in range(n - 1):
            a, b = left[base + k], right[base + k]
            if a < 0 or b < 0 or a >= n + k or b >= n + k:
                defects[i] = 4
                break
            if used[a] or used[b] or a == b:
                defects[i] = 5
                break
            used[a] = used[b] = 1
            if last[a] + 1 != first[b]:
                defects[i] = 6
                break
            first[n + k], last[n + k] = first[a], last[b]
            height_a = heights[base + a - n] if a >= n else 0
            height_b = heights[base + b - n] if b >= n else 0
            heights[base + k] = 1 + max(height_a, height_b)
    return heights, defects


@njit(cache=True)
def dependency_spans(head: Int, offsets: Int64) -> tuple[Int32, Int32, Int32]:
    """Where the subtree of each word begins and ends, and how many words it has.

    It is contiguous if ``last - first + 1 == size``; a non-projective tree has subtrees that are not.

    Args:
        head: [N], 1-based head within the sentence, 0 for the root; well-formed trees.
        offsets: int64 [B+1], where sentences start.

    Returns:
        int32 [N] first word, last word (positions in the sentence) and size.
    """
    first = np.empty(len(head), np.int32)
    last = np.empty(len(head), np.int32)
    size = np.zeros(len(head), np.int32)
    for i in range(len(offsets) - 1):
        start = offsets[i]
        for j in range(offsets[i + 1] - start):
            first[start + j] = last[start + j] = j
        # Every word counts for itself and for all words above it.
        for j in range(offsets[i + 1] - start):
            above = j
            while above >= 0:
                k = start + above
                first[k], last[k] = min(first[k], j), max(last[k], j)
                size[k] += 1
                above = head[k] - 1
    return first, last, size


@njit(cache=True)
def constituency_spans(left: Int, right: Int, offsets: Int64) -> tuple[Int32, Int32]:
    """First and last word under each node, the words of a sentence before its internal nodes.

    Args:
        left: [N-B] left children, ids local to the sentence; well-formed trees.
        right: [N-B] right children.
        offsets: int64 [B+1], where the tokens of each sentence start.

    Returns:
        int32 [2N-B] first and last word, positions in the sentence.
    """
    sentences = len(offsets) - 1
    first = np.empty(2 * offsets[-1] - sentences, np.int32)
    last = np.empty(2 * offsets[-1] - sentences, np.int32)
    for i in range(sentences):
        n, base = offsets[i + 1] - offsets[i], offsets[i] - i
        start = 2 * offsets[i] - i
        for j in range(n):
            first[start + j] = last[start + j] = j
        for k in range(n - 1):
            first[start + n + k] = first[start + left[base + k]]
            last[start + n + k] = last[start + right[base + k]]
    return first, last
