"""The fast margin loss equals benepar's plain one: values and gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from benepar.decode_chart import SpanClassificationMarginLoss
from parsing.constituency.decode import span_offsets
from parsing.constituency.loss import gold_labels, margin_loss
from parsing.constituency.span_head import SpanHead

from parsing.trees.parsers import ConstituencyParse

# torch-struct's, under today's torch.
pytestmark = pytest.mark.filterwarnings("ignore:.*arg_constraints:UserWarning")


def random_parse(rng, n, n_labels, *, root):
    """A random tree of labelled spans; with ``root`` the whole sentence has a label."""
    spans = []

    def grow(start, end, whole=False):
        if whole or rng.random() < 0.6:
            low = 0 if whole and not root else 1
            spans.append((start, end, int(rng.integers(low, n_labels + 1))))
        if end - start > 1:
            k = int(rng.integers(start + 1, end))
            grow(start, k)
            grow(k, end)

    grow(0, n, whole=True)
    starts, ends, labels = (np.array(column, np.int32) for column in zip(*spans, strict=True))
    return ConstituencyParse(tags=np.zeros(n, np.int32), starts=starts, ends=ends, labels=labels)


def plain_loss(head, posts, lengths, parses, *, force):
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
    features = (padded[:, None] - padded[:, :, None])[:, :-1, 1:]
    scores = head(features)
    scores = torch.cat([scores.new_zeros((*scores.shape[:-1], 1)), scores], -1)
    return SpanClassificationMarginLoss(force_root_constituent=force, reduction="none")(scores, gold)


@pytest.mark.parametrize("force", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_loss_and_gradient_equal_the_plain_formulation(seed, force) -> None:
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    head = SpanHead(12, 16, 5)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    lengths = rng.integers(1, 12, size=6).tolist()
    parses = [random_parse(rng, n, 5, root=force) for n in lengths]
    posts = torch.randn(sum(lengths) + 6, 12, requires_grad=True)
    weights = torch.rand(6)
    results = []
    for loss_of in (margin_loss, plain_loss):
        loss = loss_of(head, posts, lengths, parses, force=force)
        gradients = torch.autograd.grad((loss * weights).sum(), [posts, *head.parameters()])
        results.append((loss.detach(), gradients))
    (ours, our_gradients), (plain, plain_gradients) = results
    assert ours.sum() > 0
    torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-4)
    for a, b in zip(our_gradients, plain_gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


def test_gold_labels_lie_at_their_spans() -> None:
    parse = ConstituencyParse(
        tags=np.zeros(3, np.int32),
        starts=np.array([0, 0, 1], np.int32),
        ends=np.array([3, 1, 3], np.int32),
        labels=np.array([1, 2, 3], np.int32),
    )
    assert gold_labels([parse, parse], span_offsets([3, 3])).tolist() == [2, 0, 1, 0, 3, 0] * 2
