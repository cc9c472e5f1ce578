"""The biaffine model against its equations word by word; heads against all trees and supar's decoder."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from supar.structs import MatrixTree
from supar.utils.transform import CoNLL
from torch.nn import functional

from parsing.networks.dependency import BiaffineParser, decode_heads, is_tree, spanning_tree
from parsing.networks.features import TypeTable, make_batch
from tests.parsing.examples import ODD, SENTENCES, as_lists, random_arcs

# supar pads with an index that torch is about to read differently.
pytestmark = pytest.mark.filterwarnings("ignore:Using a non-tuple sequence:UserWarning")
TOKENS = [list(s.tokens) for s in SENTENCES] + ODD


def states(model, sentences):
    """States and positions of a batch, as in parsing and training."""
    batch = make_batch(TypeTable(model.vocabulary), sentences, end_boundary=model.encoder.config.end_boundary)
    return model.encoder(batch), batch.lengths_B


def slow_scores(model, tokens):
    """s(i, j) and s(i, j, r) of one sentence from the equations, one pair of words at a time."""
    x = states(model, [tokens])[0][0]

    def mlp(layer, v):
        return functional.leaky_relu(layer.weight @ v + layer.bias, 0.1)

    one = torch.ones(1)
    size, r = len(tokens) + 1, len(model.relations)
    arcs, relations = torch.empty(size, size), torch.empty(size, size, r)
    for i in range(size):
        d, rd = mlp(model.arc_dependent, x[i]), mlp(model.relation_dependent, x[i])
        for j in range(size):
            h, rh = mlp(model.arc_head, x[j]), mlp(model.relation_head, x[j])
            arcs[i, j] = torch.cat([d, one]) @ model.arc_weight @ h
            for k in range(r):
                relations[i, j, k] = torch.cat([rd, one]) @ model.relation_weight[k] @ torch.cat([rh, one])
    return arcs, relations


def slow_loss(model, sentences):
    """Mean of −log p(head) − log p(relation | head), one word at a time."""
    ids = {name: i for i, name in enumerate(model.relations)}
    total, words = 0.0, 0
    for sentence in sentences:
        arcs, relations = slow_scores(model, sentence.tokens)
        for i, (head, relation) in enumerate(zip(sentence.heads, sentence.relations, strict=True), 1):
            total -= float(arcs[i].log_softmax(0)[head] + relations[i, head].log_softmax(0)[ids[relation]])
            words += 1
    return total / words


@pytest.mark.parametrize("end_boundary", [False, True])
@torch.no_grad()
def test_scores_equal_the_equations(end_boundary):
    model = random_arcs(end_boundary=end_boundary)
    x, positions = states(model, TOKENS)
    mask = torch.arange(x.shape[1]) < positions[:, None] - int(end_boundary)
    scores = model.arc_scores(x, mask)
    for b, tokens in enumerate(TOKENS):
        n = len(tokens)
        arcs, relations = slow_scores(model, tokens)
        torch.testing.assert_close(scores[b, : n + 1, : n + 1], arcs, rtol=1e-4, atol=1e-4)
        assert (scores[b, :, n + 1 :] == -torch.inf).all()
        heads = torch.tensor([(3 * i) % (n + 1) for i in range(n)])
        words = torch.arange(1, n + 1)
        found = model.relation_scores(x, (torch.full_like(heads, b), words), heads)
        torch.testing.assert_close(found, relations[words, heads], rtol=1e-4, atol=1e-4)


def test_parses_do_not_depend_on_the_batch_and_keep_the_order():
    model = random_arcs()
    parser, alone = BiaffineParser(model, {}), BiaffineParser(model, {})
    alone.positions = 1
    together = as_lists(parser.parse(TOKENS))
    assert together == as_lists(alone.parse(TOKENS)) and parser.parse([]) == []
    assert [len(heads) for heads, _ in together] == [len(tokens) for tokens in TOKENS]


def trees(n):
    """All head sequences over n tokens that are trees with one root: n steps up from any token end there."""
    for heads in itertools.product(range(n + 1), repeat=n):
        up = np.array((0, *heads))
        at = np.arange(n + 1)
        for _ in range(n):
            at = up[at]
        if heads.count(0) == 1 and not at.any():
            yield heads


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_the_tree_check_accepts_exactly_the_trees(n):
    expected = set(trees(n))
    assert len(expected) == n ** (n - 1)  # Cayley
    for heads in itertools.product(range(n + 1), repeat=n):
        assert is_tree(np.array((0, *heads))) == (heads in expected)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_the_best_tree_is_found_when_the_unconstrained_one_has_one_root(n):
    """By enumeration of all n^(n-1) trees."""
    generator = np.random.default_rng(n)
    candidates = np.array(list(trees(n)))
    tried = 0
    for _ in range(200):
        scores = generator.normal(size=(n + 1, n + 1)).astype(np.float32)
        scores[1:, 0] -= 3  # roots are made dear, or half of the unconstrained trees have several
        totals = scores[np.arange(1, n + 1), candidates].sum(1)
        heads = decode_heads(scores[None], np.array([n]))
        if spanning_tree(np.where(np.arange(n + 1) > 0, scores, scores - 100))[1:].tolist().count(0) == 1:
            found = totals[np.flatnonzero((candidates == heads).all(1))[0]]
            assert found == pytest.approx(totals.max(), abs=1e-5)
            tried += 1
    assert tried > 50


def supar_heads(scores, lengths):
    """supar's decode: argmax where it is a tree, MatrixTree's argmax elsewhere."""
    heads = scores.argmax(-1)
    bad = [not CoNLL.istree(row[1 : n + 1]) for n, row in zip(lengths, heads.tolist(), strict=True)]
    if any(bad):
        heads[bad] = MatrixTree(scores[bad], torch.tensor(lengths)[bad]).argmax
    return [row[1 : n + 1] for n, row in zip(lengths, heads.tolist(), strict=True)]


@pytest.mark.parametrize("width", [3, 8, 30])
@pytest.mark.parametrize("root_bias", [-4.0, 0.0, 4.0])
def test_heads_equal_supars(width, root_bias):
    generator = torch.Generator().manual_seed(width)
    lengths = torch.randint(1, width + 1, (60,), generator=generator).tolist()
    scores = torch.randn(60, width + 1, width + 1, generator=generator)
    scores[:, :, 0] += root_bias
    scores.masked_fill_(torch.arange(width + 1) > torch.tensor(lengths)[:, None, None], -1e32)
    heads = decode_heads(scores.numpy(), np.array(lengths))
    assert [h.tolist() for h in np.split(heads, np.cumsum(lengths)[:-1])] == supar_heads(scores, lengths)


@settings(deadline=None)
@given(
    st.integers(1, 7).flatmap(
        lambda n: st.lists(st.integers(-2, 2), min_size=(n + 1) ** 2, max_size=(n + 1) ** 2)
    )
)
def test_ties_are_broken_as_supar_breaks_them(values):
    size = round(len(values) ** 0.5)
    scores = torch.tensor(values, dtype=torch.float32).view(1, size, size)
    heads = decode_heads(scores.numpy(), np.array([size - 1]))
    assert heads.tolist() == supar_heads(scores.clone(), [size - 1])[0]
    assert is_tree(np.append(0, heads))
