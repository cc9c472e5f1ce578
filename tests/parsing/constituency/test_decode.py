"""CKY against enumeration of all bracketings and against benepar's decoder, ties included."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from benepar.decode_chart import ChartDecoder
from parsing.constituency.decode import best_labels, cky, decode_batch, span_index, span_offsets

from parsing.trees.arrays import binarise
from parsing.trees.parsers import ConstituencyParse

# torch-struct's, under today's torch.
pytestmark = pytest.mark.filterwarnings("ignore:.*arg_constraints:UserWarning")


def pack(charts, lengths):
    """[B, N, N, K+1] padded charts to [S, K] without the null label (subtracted, as benepar does)."""
    rows = [charts[b, i, j] for b, n in enumerate(lengths) for i in range(n) for j in range(i, n)]
    rows = np.array(rows, np.float32)
    return np.ascontiguousarray(rows[:, 1:] - rows[:, :1])


def decode(scores_SK, lengths, *, force):
    offsets = span_offsets(lengths)
    lengths = np.asarray(lengths, np.int64)
    labelled = np.zeros(len(scores_SK), np.bool_)
    if force:
        labelled[offsets[:-1] + lengths - 1] = True
    best, label = np.empty(len(scores_SK), np.float32), np.empty(len(scores_SK), np.int32)
    best_labels(scores_SK, np.zeros(len(scores_SK), np.int32), 0.0, labelled, best, label)
    *columns, counts = decode_batch(best, label, lengths)
    cuts = np.concatenate(([0], np.cumsum(counts)))
    return [list(zip(*(a[i:j].tolist() for a in columns), strict=True)) for i, j in itertools.pairwise(cuts)]


def bracketings(start, end):
    """Every binary bracketing as a list of spans."""
    if end - start == 1:
        return [[(start, end)]]
    return [
        [(start, end), *left, *right]
        for k in range(start + 1, end)
        for left in bracketings(start, k)
        for right in bracketings(k, end)
    ]


@pytest.mark.parametrize("n", range(1, 8))
def test_cky_finds_the_best_of_all_bracketings(n) -> None:
    rng = np.random.default_rng(n)
    for _ in range(20):
        best = rng.normal(size=n * (n + 1) // 2).astype(np.float32)
        scratch = [np.zeros((n + 1, n + 1), t) for t in (np.int32, np.float32, np.float32)]
        score = cky(best, n, *scratch)
        oracle = max(sum(best[span_index(n, i, j)] for i, j in spans) for spans in bracketings(0, n))
        assert score == pytest.approx(oracle, abs=1e-5)


@pytest.mark.parametrize("force", [True, False])
@pytest.mark.parametrize("ties", [True, False])
def test_equals_benepars_decoder(force, ties) -> None:
    rng = np.random.default_rng(7)
    for _ in range(30):
        lengths = rng.integers(1, 16, size=rng.integers(1, 9))
        shape = (len(lengths), lengths.max(), lengths.max(), rng.integers(2, 6))
        # Small integers make ties everywhere: between labels, with the null label, between splits.
        charts = rng.integers(-2, 3, shape) if ties else rng.normal(size=shape)
        charts = charts.astype(np.float32)
        vocabulary = {f"L{i}" if i else "": i for i in range(shape[-1])}
        theirs = ChartDecoder(vocabulary, force_root_constituent=force)
        oracle = theirs.charts_from_pytorch_scores_batched(
            torch.from_numpy(charts), torch.from_numpy(lengths)
        )
        ours = decode(pack(charts, lengths), lengths, force=force)
        for chart, spans in zip(oracle, ours, strict=True):
            expected = theirs.compressed_output_from_chart(chart)
            triples = zip(
                expected.starts.tolist(), expected.ends.tolist(), expected.labels.tolist(), strict=True
            )
            assert spans == [t for i, t in enumerate(triples) if i == 0 or t[2] != 0]


def test_spans_of_a_batch_lie_one_after_the_other() -> None:
    assert span_offsets(np.array([1, 3, 2])).tolist() == [0, 1, 7, 10]
    order = [span_index(3, i, j) for i in range(3) for j in range(i + 1, 4)]
    assert order == list(range(6))


def test_decoded_spans_are_a_parse() -> None:
    spans = decode(np.ones((6, 2), np.float32), [3], force=True)[0]
    starts, ends, labels = (np.array(column, np.int32) for column in zip(*spans, strict=True))
    parse = ConstituencyParse(tags=np.zeros(3, np.int32), starts=starts, ends=ends, labels=labels)
    assert binarise(parse, 3).label.tolist() == [1, 1]
