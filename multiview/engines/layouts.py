"""Ranks and slots of a batch's nodes, compiled; :mod:`multiview.engines.plan` says what they are."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def _count_levels(height, first):  # type: ignore[no-untyped-def]
    """Start of each height >= ``first`` in the order of a stable counting sort; [highest - first + 2]."""
    highest = first - 1
    for i in range(len(height)):
        highest = max(highest, height[i])
    starts = np.zeros(highest - first + 2, np.int64)
    for i in range(len(height)):
        starts[height[i] - first + 1] += 1
    for level in range(1, len(starts)):
        starts[level] += starts[level - 1]
    return starts


@njit(cache=True, nogil=True)
def const_layout(offsets, left, right, height):  # type: ignore[no-untyped-def]
    """The array fields of a ConstPlan in order, then the last sentence that is no tree, or -1."""
    sentences = len(offsets) - 1
    tokens = offsets[-1]
    internal = tokens - sentences
    nodes = tokens + internal
    slot = np.full(nodes, -1, np.int64)
    node_slot = np.zeros(nodes, np.int64)
    node_height = np.zeros(nodes, np.int32)
    for i in range(sentences):
        for k in range(offsets[i] - i, offsets[i + 1] - i - 1):
            if height[k] < 1 or height[k] > internal:
                return np.zeros(1, np.int64), slot, node_slot, node_height, i
    levels = _count_levels(height, 1)
    rank = np.empty(nodes, np.int64)  # of words, then of internal nodes in sentence order
    cursor = levels.copy()
    for k in range(internal):
        rank[tokens + k] = tokens + cursor[height[k] - 1]
        cursor[height[k] - 1] += 1
    bad = -1
    node = 0
    for i in range(sentences):
        start = offsets[i]
        n = offsets[i + 1] - start
        base = start - i
        for j in range(n):
            rank[start + j] = start + j
        for j in range(n - 1):
            for side in range(2):
                child = left[base + j] if side == 0 else right[base + j]
                if child < 0 or child >= n + j:
                    bad = i
                    continue
                below = start + child if child < n else tokens + base + child - n
                if (child >= n and height[base + child - n] >= height[base + j]) or slot[rank[below]] >= 0:
                    bad = i
                slot[rank[below]] = 2 * (rank[tokens + base + j] - tokens) + side
        root = rank[start] if n == 1 else rank[tokens + base + n - 2]
        if slot[root] >= 0:
            bad = i
        slot[root] = 2 * internal + i
        for j in range(n):
            node_slot[node + j] = slot[rank[start + j]]
        for j in range(n - 1):
            node_slot[node + n + j] = slot[rank[tokens + base + j]]
            node_height[node + n + j] = height[base + j]
        node += 2 * n - 1
    return levels, slot, node_slot, node_height, bad


@njit(cache=True, nogil=True)
def dep_layout(offsets, head, height):  # type: ignore[no-untyped-def]
    """The fields of a DepPlan in order, then the last sentence that is no tree with one root, or -1."""
    sentences = len(offsets) - 1
    tokens = offsets[-1]
    order = np.zeros(tokens, np.int64)
    slot = np.zeros(tokens, np.int64)
    node_slot = np.zeros(tokens, np.int64)
    edge_parent = np.zeros(max(tokens - sentences, 0), np.int64)
    parent = np.full(tokens, -1, np.int64)
    children = np.zeros(tokens, np.int64)
    bad = -1
    for i in range(sentences):
        start = offsets[i]
        n = offsets[i + 1] - start
        roots = 0
        for j in range(n):
            t = start + j
            if head[t] < 0 or head[t] > n or height[t] < 0 or height[t] >= n:
                bad = i
            elif head[t] == 0:
                roots += 1
            else:
                parent[t] = start + head[t] - 1
                children[parent[t]] += 1
                if height[parent[t]] <= height[t]:
                    bad = i
        for j in range(n):
            if (children[start + j] > 0) != (height[start + j] > 0):
                bad = i
        if roots != 1:
            bad = i
    if bad >= 0:
        return 0, slot[:1], slot, edge_parent, order, slot, node_slot, bad
    starts = _count_levels(height, 0)
    leaves = starts[1] if len(starts) > 1 else 0
    cursor = starts.copy()
    rank = np.empty(tokens, np.int64)
    for t in range(tokens):
        rank[t] = cursor[height[t]]
        cursor[height[t]] += 1
        order[rank[t]] = t
    child_offsets = np.zeros(tokens - leaves + 1, np.int64)
    for r in range(leaves, tokens):
        child_offsets[r - leaves + 1] = child_offsets[r - leaves] + children[order[r]]
    next_slot = child_offsets.copy()
    root_slot = tokens - sentences
    for t in range(tokens):  # tokens ascend, so siblings keep their order and roots that of the sentences
        if parent[t] < 0:
            s = root_slot
            root_slot += 1
        else:
            above = rank[parent[t]] - leaves
            s = next_slot[above]
            next_slot[above] += 1
            edge_parent[s] = above
        slot[rank[t]] = s
        node_slot[t] = s
    levels = starts[1:] - leaves if len(starts) > 1 else np.zeros(1, np.int64)
    return leaves, levels, child_offsets, edge_parent, order, slot, node_slot, bad


@njit(cache=True, nogil=True)
def packed_layout(offsets, by_length):  # type: ignore[no-untyped-def]
    """Token of each packed row, batch size of each step, packed row of each token."""
    tokens = offsets[-1]
    steps = offsets[by_length[0] + 1] - offsets[by_length[0]] if len(by_length) else 0
    packed = np.empty(tokens, np.int64)
    row = np.empty(tokens, np.int64)
    batch_sizes = np.zeros(steps, np.int64)
    k = 0
    for step in range(steps):
        for column in range(len(by_length)):
            sentence = by_length[column]
            if offsets[sentence + 1] - offsets[sentence] <= step:
                break
            packed[k] = offsets[sentence] + step
            row[packed[k]] = k
            batch_sizes[step] += 1
            k += 1
    return packed, batch_sizes, row
