"""Heads against enumeration of all trees and against supar's decoder, ties included."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from parsing.dependency.decode import decode_heads, is_tree, spanning_tree
from supar.structs import MatrixTree
from supar.utils.transform import CoNLL

# supar pads with an index that torch is about to read differently.
pytestmark = pytest.mark.filterwarnings("ignore:Using a non-tuple sequence:UserWarning")


def trees(n):
    """All head sequences over n tokens that are trees with one root, by walking up from every token."""
    for heads in itertools.product(range(n + 1), repeat=n):
        if heads.count(0) != 1:
            continue
        for i in range(1, n + 1):
            seen, j = set(), i
            while j and j not in seen:
                seen.add(j)
                j = heads[j - 1]
            if j:
                break
        else:
            yield heads


@pytest.mark.parametrize(("n", "number"), [(1, 1), (2, 2), (3, 9), (4, 64)])
def test_the_tree_check_accepts_exactly_the_trees(n, number):
    expected = set(trees(n))
    assert len(expected) == number  # Cayley: n^(n-1)
    for heads in itertools.product(range(n + 1), repeat=n):
        assert is_tree(np.array((0, *heads))) == (heads in expected)
        assert is_tree(np.array((0, *heads))) == CoNLL.istree(list(heads))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_the_best_tree_is_found_when_the_unconstrained_one_has_one_root(n):
    """By enumeration of all n^(n-1) trees."""
    generator = np.random.default_rng(n)
    candidates = np.array(list(trees(n)))
    tried = 0
    for _ in range(200):
        scores = generator.normal(size=(n + 1, n + 1)).astype(np.float32)
        # Roots are made dear, or half of the unconstrained trees have several.
        scores[1:, 0] -= 3
        totals = scores[np.arange(1, n + 1), candidates].sum(1)
        heads, _ = decode_heads(scores[None], np.array([n]))
        if spanning_tree(np.where(np.arange(n + 1) > 0, scores, scores - 100))[1:].tolist().count(0) == 1:
            assert totals[np.flatnonzero((candidates == heads).all(1))[0]] == pytest.approx(
                totals.max(), abs=1e-5
            )
            tried += 1
    assert tried > 50


def supar_heads(scores, lengths):
    """supar's decode: argmax where it is a tree, MatrixTree's argmax elsewhere."""
    heads = scores.argmax(-1)
    bad = [not CoNLL.istree(row[1 : n + 1]) for n, row in zip(lengths, heads.tolist(), strict=True)]
    if any(bad):
        heads[bad] = MatrixTree(scores[bad], torch.tensor(lengths)[bad]).argmax
    return [row[1 : n + 1] for n, row in zip(lengths, heads.tolist(), strict=True)]


def masked(scores, lengths):
    positions = torch.arange(scores.shape[-1])
    return scores.masked_fill(positions > torch.tensor(lengths)[:, None, None], -1e32)


@pytest.mark.parametrize("width", [3, 8, 30])
@pytest.mark.parametrize("root_bias", [-4.0, 0.0, 4.0])
def test_heads_equal_supars(width, root_bias):
    generator = torch.Generator().manual_seed(width)
    lengths = torch.randint(1, width + 1, (60,), generator=generator).tolist()
    scores = torch.randn(60, width + 1, width + 1, generator=generator)
    scores[:, :, 0] += root_bias
    heads, repaired = decode_heads(masked(scores, lengths).numpy(), np.array(lengths))
    assert repaired > 0
    assert [h.tolist() for h in np.split(heads, np.cumsum(lengths)[:-1])] == supar_heads(
        masked(scores, lengths), lengths
    )


@settings(deadline=None)
@given(
    st.integers(1, 7).flatmap(
        lambda n: st.lists(st.integers(-2, 2), min_size=(n + 1) ** 2, max_size=(n + 1) ** 2)
    )
)
def test_ties_are_broken_as_supar_breaks_them(values):
    size = round(len(values) ** 0.5)
    scores = torch.tensor(values, dtype=torch.float32).view(1, size, size)
    heads, _ = decode_heads(scores.numpy(), np.array([size - 1]))
    assert heads.tolist() == supar_heads(scores.clone(), [size - 1])[0]
    assert is_tree(np.append(0, heads))
