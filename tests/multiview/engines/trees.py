"""Batches of trees for tests, with the fields a tree cache's batch has."""

from types import SimpleNamespace

import numpy as np

from parsing.trees.arrays import constituency_heights, dependency_heights


def random_heads(n: int, rng: np.random.Generator) -> list[int]:
    """A random tree over n words (not projective in general)."""
    order = rng.permutation(n)
    head = [0] * n
    for position in range(1, n):
        head[order[position]] = int(order[rng.integers(position)]) + 1
    return head


def random_children(n: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Children of the n - 1 internal nodes of a random tree over n words, adjacent spans joined."""
    spans = list(range(n))
    children = []
    for node in range(n, 2 * n - 1):
        k = int(rng.integers(len(spans) - 1))
        children.append((spans[k], spans[k + 1]))
        spans[k : k + 2] = [node]
    return children


def chain_children(n: int) -> list[tuple[int, int]]:
    """Left-branching: each internal node joins the one before and the next word."""
    return [(0 if j == 0 else n + j - 1, j + 1) for j in range(n - 1)]


def batch_of(heads: list[list[int]], children: list[list[tuple[int, int]]]) -> SimpleNamespace:
    """The batch of these trees, one dependency and one constituency tree per sentence."""
    sentence_offsets = np.cumsum([0, *map(len, heads)]).astype(np.int64)
    head = np.concatenate(heads).astype(np.int32)
    left, right = np.array([pair for pairs in children for pair in pairs], np.int32).reshape(-1, 2).T.copy()
    return SimpleNamespace(
        sentence_offsets=sentence_offsets,
        head=head,
        dep_height=dependency_heights(head, sentence_offsets)[0],
        left=left,
        right=right,
        const_height=constituency_heights(left, right, sentence_offsets)[0],
    )


def random_batch(lengths: list[int], seed: int) -> SimpleNamespace:
    """Random trees over sentences of these lengths."""
    rng = np.random.default_rng(seed)
    return batch_of([random_heads(n, rng) for n in lengths], [random_children(n, rng) for n in lengths])
