"""From arc scores to trees: greedy heads, a linear check, Chu-Liu/Edmonds only where needed.

The result is supar's (``decode(tree=True, proj=False)``), down to the choice among equal scores:
each token takes its best head. If that is not a tree with exactly one root, the maximum spanning tree is
taken; if that has several roots, the best of the trees rooted at one of them. It is compiled, because up
to a third of a weak model's sentences need it and per-element torch took longer than the network.

A sentence of n tokens has positions 0..n, T = n + 1; ``scores[i, j]`` is the score of head j for token i.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

MIN = np.float32(-1e32)
"""Score of a forbidden arc, as in supar."""


@numba.njit(cache=True, nogil=True)
def _argmax_rows(scores: NDArray[np.float32]) -> NDArray[np.int64]:
    """First index of the largest value of every row."""
    best = np.zeros(len(scores), dtype=np.int64)
    for i in range(len(scores)):
        for j in range(1, len(scores)):
            if scores[i, j] > scores[i, best[i]]:
                best[i] = j
    return best


@numba.njit(cache=True, nogil=True)
def _first_cycle(heads: NDArray[np.int64]) -> NDArray[np.int64]:
    """The cycle that holds the smallest possible token, as head(i), head(head(i)), ..., i; or empty.

    This is the order in which supar's Tarjan search yields it, which decides among equal scores.
    """
    n = len(heads)
    mark = np.zeros(n, dtype=np.int64)  # the token from which each was first reached
    smallest = n
    for i in range(1, n):
        j = i
        while j != 0 and mark[j] == 0:
            mark[j] = i
            j = heads[j]
        if j != 0 and mark[j] == i:  # a new cycle, entered at j
            k = j
            low = j
            while heads[k] != j:
                k = heads[k]
                low = min(low, k)
            smallest = min(smallest, low)
    cycle = np.empty(n, dtype=np.int64)
    size = 0
    k = smallest
    while smallest < n and (size == 0 or k != smallest):
        k = heads[k]
        cycle[size] = k
        size += 1
    return cycle[:size]


@numba.njit(cache=True, nogil=True)
def is_tree(heads: NDArray[np.int64]) -> bool:
    """Whether ``heads[1..n]`` (of [n+1]) is a tree with exactly one root, in O(n)."""
    roots = 0
    for i in range(1, len(heads)):
        roots += heads[i] == 0
    return roots == 1 and len(_first_cycle(heads)) == 0


@numba.njit(cache=True, nogil=True)
def chu_liu_edmonds(s: NDArray[np.float32]) -> NDArray[np.int64]:
    """Maximum spanning tree over positions 0..n, rooted at 0, possibly with several roots: heads [T].

    McDonald et al. (2005): take every token's best head; contract a cycle c to one node with
    s(c→x) = max over x' in c of s(x'→x) and s(x→c) = max over x' in c of
    s(x→x') − s(head(x')→x') + s(c); recurse. ``s``, [T, T], is modified: forbidden arcs become MIN.
    """
    n = len(s)
    for j in range(1, n):
        s[0, j] = MIN
        s[j, j] = MIN
    tree = _argmax_rows(s)
    cycle = _first_cycle(tree)
    m = len(cycle)
    if m == 0:
        return tree
    in_cycle = np.zeros(n, dtype=np.bool_)
    total = np.float32(0)
    for c in cycle:
        in_cycle[c] = True
        total += s[c, tree[c]]
    rest = np.flatnonzero(~in_cycle)
    r = len(rest)
    contracted = np.empty((r + 1, r + 1), dtype=np.float32)
    contracted[r, r] = MIN
    heads, dependents = np.zeros(r, dtype=np.int64), np.zeros(r, dtype=np.int64)
    for a in range(r):
        x = rest[a]
        for b in range(r):
            contracted[a, b] = s[x, rest[b]]
        best_in, best_out = np.float32(-np.inf), np.float32(-np.inf)
        for k in range(m):
            c = cycle[k]
            if s[x, c] > best_out:
                best_out, dependents[a] = s[x, c], k
            into = np.float32(np.float32(s[c, x] - s[c, tree[c]]) + total)
            if into > best_in:
                best_in, heads[a] = into, k
        contracted[a, r], contracted[r, a] = best_out, best_in
    y = chu_liu_edmonds(contracted)
    for a in range(r):
        tree[rest[a]] = rest[y[a]] if y[a] < r else cycle[dependents[a]]
    tree[cycle[heads[y[r]]]] = rest[y[r]]
    return tree


@numba.njit(cache=True, nogil=True)
def spanning_tree(scores: NDArray[np.float32]) -> NDArray[np.int64]:
    """Best tree with exactly one root, as supar searches it, from scores [T, T]: heads [T].

    Only roots of the unconstrained tree are tried, each with all other arcs from 0 forbidden.
    """
    n = len(scores)
    s = scores.copy()
    tree = chu_liu_edmonds(s)
    roots = np.flatnonzero(tree[1:] == 0) + 1
    if len(roots) <= 1:
        return tree
    best = MIN
    for root in roots:
        candidate = s.copy()
        candidate[:, 0] = MIN
        candidate[root, 0] = s[root, 0]
        heads = chu_liu_edmonds(candidate)
        total = np.float32(0)
        for i in range(1, n):
            total += candidate[i, heads[i]]
        if total > best:
            best, tree = total, heads
    return tree


@numba.njit(cache=True, nogil=True)
def decode_heads(
    scores_BTT: NDArray[np.float32], tokens_B: NDArray[np.int64]
) -> tuple[NDArray[np.int64], int]:
    """Heads of the tokens of a batch.

    Args:
        scores_BTT: arc scores, [sentence, token, head]; padding comes after position n.
        tokens_B: number n of tokens of each sentence.

    Returns:
        Heads of all tokens, sentence after sentence, and how many sentences needed the spanning tree.
    """
    heads_N = np.empty(tokens_B.sum(), dtype=np.int64)
    start, repaired = 0, 0
    for b in range(len(tokens_B)):
        n = tokens_B[b]
        scores = scores_BTT[b, : n + 1, : n + 1]
        heads = _argmax_rows(scores)
        if not is_tree(heads):
            heads = spanning_tree(scores)
            repaired += 1
        heads_N[start : start + n] = heads[1:]
        start += n
    return heads_N, repaired
