"""CKY and the margin loss against enumeration and against benepar's plain ones: trees, ties, gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from benepar.decode_chart import ChartDecoder, SpanClassificationMarginLoss

from parsing.networks.cky import best_labels, cky, decode_batch, span_index, span_offsets
from parsing.networks.constituency import SpanHead, margin_loss
from parsing.trees.batch import ConstituencyParse

# torch-struct's, under today's torch.
pytestmark = pytest.mark.filterwarnings("ignore:.*arg_constraints:UserWarning")


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


@pytest.mark.parametrize("ties", [True, False])
def test_equals_benepars_decoder(ties) -> None:
    rng = np.random.default_rng(7)
    for _ in range(30):
        lengths = rng.integers(1, 16, size=rng.integers(1, 9))
        shape = (len(lengths), lengths.max(), lengths.max(), rng.integers(2, 6))
        # Small integers make ties everywhere: between labels, with the null label, between splits.
        charts = (rng.integers(-2, 3, shape) if ties else rng.normal(size=shape)).astype(np.float32)
        theirs = ChartDecoder(
            {f"L{i}" if i else "": i for i in range(shape[-1])}, force_root_constituent=True
        )
        oracle = theirs.charts_from_pytorch_scores_batched(
            torch.from_numpy(charts), torch.from_numpy(lengths)
        )
        # Packed, and without the null label, which benepar subtracts.
        rows = [charts[b, i, j] for b, n in enumerate(lengths) for i in range(n) for j in range(i, n)]
        scores = np.ascontiguousarray(np.array(rows)[:, 1:] - np.array(rows)[:, :1])
        labelled, offsets = np.zeros(len(rows), np.bool_), span_offsets(lengths)
        labelled[offsets[:-1] + lengths - 1] = True
        best, label = np.empty(len(rows), np.float32), np.empty(len(rows), np.int32)
        best_labels(scores, np.zeros(len(rows), np.int32), 0.0, labelled, best, label)
        *columns, counts = decode_batch(best, label, lengths)
        ours = np.split(np.stack(columns, 1), np.cumsum(counts)[:-1])
        for chart, spans in zip(oracle, ours, strict=True):
            expected = theirs.compressed_output_from_chart(chart)
            kept = np.asarray(expected.labels) != 0
            kept[0] = True
            found = np.stack([expected.starts, expected.ends, expected.labels], 1)[kept]
            np.testing.assert_array_equal(spans, found)


def random_parse(rng, n, n_labels):
    """A random tree of labelled spans; the whole sentence has a label."""
    spans = []

    def grow(start, end, whole=False):
        if whole or rng.random() < 0.6:
            spans.append((start, end, int(rng.integers(1, n_labels + 1))))
        if end - start > 1:
            k = int(rng.integers(start + 1, end))
            grow(start, k)
            grow(k, end)

    grow(0, n, whole=True)
    starts, ends, labels = (np.array(column, np.int32) for column in zip(*spans, strict=True))
    return ConstituencyParse(tags=np.zeros(n, np.int32), starts=starts, ends=ends, labels=labels)


def plain_loss(head, posts, lengths, parses):
    """benepar's: every span of a padded chart, CKY in the graph."""
    longest = max(lengths)
    padded = torch.zeros(len(lengths), longest + 1, posts.shape[1])
    gold = torch.full((len(lengths), longest, longest), -100)
    base = 0
    for b, (n, parse) in enumerate(zip(lengths, parses, strict=True)):
        padded[b, : n + 1] = posts[base : base + n + 1]
        base += n + 1
        gold[b, :n, :n] = torch.tril(torch.full((n, n), -100), -1)
        for i, j, label in zip(parse.starts, parse.ends, parse.labels, strict=True):
            gold[b, int(i), int(j) - 1] = int(label)
    scores = head((padded[:, None] - padded[:, :, None])[:, :-1, 1:])
    scores = torch.cat([scores.new_zeros((*scores.shape[:-1], 1)), scores], -1)
    return SpanClassificationMarginLoss(force_root_constituent=True, reduction="none")(scores, gold)


@pytest.mark.parametrize("seed", range(5))
def test_loss_and_gradient_equal_the_plain_formulation(seed) -> None:
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    head = SpanHead(12, 16, 5)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    lengths = rng.integers(1, 12, size=6).tolist()
    parses = [random_parse(rng, n, 5) for n in lengths]
    posts = torch.randn(sum(lengths) + 6, 12, requires_grad=True)
    weights = torch.rand(6)
    results = []
    for loss_of in (margin_loss, plain_loss):
        loss = loss_of(head, posts, lengths, parses)
        gradients = torch.autograd.grad((loss * weights).sum(), [posts, *head.parameters()])
        results.append((loss.detach(), gradients))
    (ours, our_gradients), (plain, plain_gradients) = results
    assert ours.sum() > 0
    torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-4)
    for a, b in zip(our_gradients, plain_gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


def test_spans_are_scored_alike_on_a_device(monkeypatch) -> None:
    torch.manual_seed(0)
    head, lengths = SpanHead(12, 16, 5), np.array([1, 4, 9, 2])
    projected = torch.randn(int((lengths + 1).sum()), 16)
    gold = np.random.default_rng(0).integers(0, 4, (lengths * (lengths + 1) // 2).sum()).astype(np.int32)
    monkeypatch.setattr("parsing.networks.constituency.DEVICE_CHUNK_SPANS", 7)
    for given in (None, gold):
        best, label = head.best_spans(projected, lengths, given)()
        with monkeypatch.context() as on_device:
            on_device.setattr(SpanHead, "_best_on_cpu", SpanHead._best_on_device)
            found, found_label = head.best_spans(projected, lengths, given)()
        np.testing.assert_array_equal(found_label, label)
        np.testing.assert_allclose(found, best, rtol=1e-4, atol=1e-4)
    assert (label == 0).any()
