"""Batched CKY over the spans of many sentences; finds the trees of benepar 0.2.0's decoder, also on ties.

The score of a span is that of its best label, on a tie the first one. Label 0 means "no constituent" and
scores 0; the whole sentence may not have it. The best tree is the one with the highest sum of scores, on a
tie the one with the leftmost split. Sums are float32 in benepar's order: both parts of the best split are
added first, and then the span's own score.

Layout: the n(n+1)/2 spans of a sentence of n words are in the order (0,1) (0,2) ... (0,n) (1,2) ... (n-1,n),
sentence after sentence. Legend of dimension suffixes: B sentences, S spans in all, K labels without the null
label.
"""

import numpy as np
from numpy.typing import NDArray

from parsing.trees.batch import Int, concatenated_ranges, offsets_of
from runtime.compiled import compiled_if_long, compiled_part

Float = NDArray[np.float32]


def span_offsets(lengths: Int) -> Int:
    """Return where the spans of each sentence begin, int64 [B+1]; ``lengths`` [B] are in words."""
    lengths = np.asarray(lengths, np.int64)
    return offsets_of(lengths * (lengths + 1) // 2)


def fenceposts(lengths: Int) -> tuple[Int, Int]:
    """Return the left and right fencepost of each span, numbered through the batch, int32 [S] each."""
    ends = np.cumsum(lengths + 1)
    word_starts = np.delete(np.arange(ends[-1]), ends - 1)
    spans_from_word = np.repeat(ends, lengths) - 1 - word_starts
    left = np.repeat(word_starts, spans_from_word)
    right = concatenated_ranges(word_starts + 1, spans_from_word)
    return left.astype(np.int32), right.astype(np.int32)


@compiled_if_long
def best_labels(
    scores: Float, gold: Int, cost: float, needs_label: NDArray[np.bool_], best: Float, label: Int
) -> None:
    """Find the best label of each span and its score.

    Equation: s(i,j) = max_l [s(i,j,l) + cost * (l is not gold(i,j))], s(i,j,0) = 0, the first l on a tie.

    Args:
        scores: the scores of all labels but the null label, [S, K].
        gold: the gold label of each span, int32 [S].
        cost: 1 in training, else 0.
        needs_label: whether a span may not have the null label, [S].
        best: memory for the scores of the best labels, [S].
        label: memory for the best labels, int32 [S].
    """
    margin = np.float32(cost)
    for k in range(scores.shape[0]):
        best_score, best_label = np.float32(-np.inf), 0
        if not needs_label[k]:
            best_score = np.float32(0.0) if gold[k] == 0 else margin
        for j in range(scores.shape[1]):
            score = scores[k, j] if gold[k] == j + 1 else scores[k, j] + margin
            if score > best_score:
                best_score, best_label = score, j + 1
        best[k], label[k] = best_score, best_label


@compiled_part
def _cky(best: Float, n: int, split: Int, inside: Float, mirror: Float) -> None:
    """Write the best split k of each span (i, j) of n words to ``split``.

    Equation: S(i,j) = s(i,j) + max_k [S(i,k) + S(k,j)], the smallest k on a tie; S(i,i+1) = s(i,i+1).
    ``best`` are the scores s of the spans. S is stored by rows in ``inside`` and by columns in ``mirror``, so
    that both inner loops are contiguous. ``split``, ``inside`` and ``mirror`` are at least [n+1, n+1].
    """
    for first in range(n - 1, -1, -1):
        row = first * n - first * (first - 1) // 2 - first - 1
        inside[first, first + 1] = mirror[first + 1, first] = best[row + first + 1]
        for end in range(first + 2, n + 1):
            best_sum = inside[first, first + 1] + mirror[end, first + 1]
            for k in range(first + 2, end):
                best_sum = max(best_sum, inside[first, k] + mirror[end, k])
            middle = first + 1
            while middle < end - 1 and inside[first, middle] + mirror[end, middle] != best_sum:
                middle += 1
            split[first, end] = middle
            inside[first, end] = mirror[end, first] = best_sum + best[row + end]


@compiled_if_long
def best_trees(best: Float, lengths: Int, offsets: Int) -> tuple[Int, Int, Int]:
    """Find the best binary tree of each sentence, given the scores ``best`` [S] of all spans.

    Return three arrays over the spans of the trees in preorder, [Σ 2n-1]: the first word, one past the last
    word (int32 both), and the index of the span among all S (int64).
    """
    total, longest = 2 * lengths.sum() - len(lengths), lengths.max() + 1
    split, stack = np.empty((longest, longest), np.int32), np.empty((2 * longest, 2), np.int32)
    inside, mirror = np.empty((longest, longest), np.float32), np.empty((longest, longest), np.float32)
    starts, ends, spans = np.empty(total, np.int32), np.empty(total, np.int32), np.empty(total, np.int64)
    m = 0
    for b in range(len(lengths)):
        n, base = lengths[b], offsets[b]
        _cky(best[base : offsets[b + 1]], n, split, inside, mirror)
        stack[0, 0], stack[0, 1] = 0, n
        depth = 1
        while depth > 0:
            depth -= 1
            first, end = stack[depth, 0], stack[depth, 1]
            starts[m], ends[m] = first, end
            spans[m] = base + first * n - first * (first - 1) // 2 + end - first - 1
            m += 1
            if end - first > 1:
                middle = split[first, end]
                stack[depth, 0], stack[depth, 1] = middle, end
                stack[depth + 1, 0], stack[depth + 1, 1] = first, middle
                depth += 2
    return starts, ends, spans


def decode_batch(best: Float, label: Int, lengths: Int) -> list[list[Int]]:
    """Find the best trees of a batch, given the score ``best`` [S] of each span's best label ``label`` [S].

    Return the first words, the ends and the labels of the constituents, int32, as one list of arrays per
    sentence each, in preorder. A span with the null label is no constituent, unless it is a whole sentence.
    """
    starts, ends, spans = best_trees(best, lengths, span_offsets(lengths))
    labels = label[spans]
    roots = offsets_of(2 * lengths - 1)[:-1]
    is_constituent = labels != 0
    is_constituent[roots] = True
    cuts = np.cumsum(np.add.reduceat(is_constituent, roots, dtype=np.int64))[:-1]
    return [np.split(values[is_constituent], cuts) for values in (starts, ends, labels)]
