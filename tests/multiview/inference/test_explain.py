"""Nodes are their words as sentences of their own; matches are chosen as the rules say; what is shown."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview import explain
from multiview.inference.matches import best_matches, covers_of, nodes_of
from multiview.model import MultiViewEncoder
from runtime.errors import UserError
from tests.multiview.engines.trees import random_batch, random_heads

A = 'He said : " ( Well , it \'s fine ) , [ sic ] " .'
B = '" It \'s fine , " he said & left .'


def words_below(heads: list[int]) -> list[set[int]]:
    """The words under each word of a dependency tree, itself included."""

    def below(word: int) -> set[int]:
        return {word}.union(*(below(k) for k, head in enumerate(heads) if head == word + 1))

    return [below(word) for word in range(len(heads))]


@pytest.mark.parametrize("seed", range(3))
def test_a_node_covers_the_words_below_it(seed: int) -> None:
    """Also where a dependency subtree is discontinuous; nodes that binarisation made are not named."""
    batch, random = random_batch([7, 1, 12, 2], seed), np.random.default_rng(seed)
    batch.flags, batch.label = np.zeros(4, int), random.integers(2, size=len(batch.left))
    for row, (first, stop) in enumerate(pairwise(batch.sentence_offsets.tolist())):
        cover_NW, named_N = covers_of(batch, row, "dep", 0)
        assert covers(words_below(batch.head[first:stop].tolist())).tolist() == cover_NW.tolist()
        assert named_N.all()
        inner = slice(first - row, stop - row - 1)
        under = [{word} for word in range(stop - first)]
        for left, right in zip(batch.left[inner], batch.right[inner], strict=True):
            under.append(under[left] | under[right])
        cover_NW, named_N = covers_of(batch, row, "const", 0)
        assert [set(np.flatnonzero(cover_W).tolist()) for cover_W in cover_NW] == under
        assert named_N.tolist() == [True] * (stop - first) + (batch.label[inner] != 0).tolist()


def covers(word_sets: list[set[int]]) -> np.ndarray:
    return np.array([[word in words for word in range(len(word_sets))] for words in word_sets])


@given(st.integers(1, 7), st.integers(1, 7), st.integers(0, 10_000), st.integers(1, 9))
@settings(deadline=None, max_examples=60)
def test_matches_equal_going_through_all_pairs(n: int, m: int, seed: int, top: int) -> None:
    rng = np.random.default_rng(seed)
    one, other = (words_below(random_heads(size, rng)) for size in (n, m))
    cosine = rng.uniform(-0.5, 1, (n, m))
    trivial = rng.random((n, m)) < 0.2
    pairs = sorted(
        ((i, j) for i in range(n) for j in range(m)),
        key=lambda p: -cosine[p] * min(len(one[p[0]]), len(other[p[1]])) ** 0.5,
    )
    expected: list[tuple[int, int]] = []
    for i, j in pairs:
        whole = len(one[i]) == n and len(other[j]) == m
        used = any(i == a or j == b for a, b in expected)
        nested = any(one[i] <= one[a] and other[j] <= other[b] for a, b in expected)
        if cosine[i, j] > 0 and not (whole or used or nested or trivial[i, j]):
            expected.append((i, j))
    before = cosine.copy()
    assert best_matches(cosine, covers(one), covers(other), trivial, top) == expected[:top]
    np.testing.assert_array_equal(cosine, before)


@pytest.fixture(scope="module")
def encoder() -> MultiViewEncoder:
    return MultiViewEncoder.untrained("dep,const,seq", dim=8, word_dim=6, device="cpu", init="bag")


def test_every_cosine_is_that_of_the_vectors(encoder: MultiViewEncoder) -> None:
    explanation = encoder.explain(A, B)
    assert list(explanation.cosines) == ["dep", "const", "seq"]
    cosine_of_views = [(explanation.cosine, None), *((c, [view]) for view, c in explanation.cosines.items())]
    for cosine, chosen in cosine_of_views:
        one, other = encoder.view_vectors([A, B], chosen)
        assert cosine == pytest.approx(float(encoder.similarity(one, other)), abs=1e-6)
    assert explanation.trees == {"dep": "dep", "const": "const"}
    sentences = [encoder.reader.tokens(sentence) for sentence in (A, B)]
    batch, dummy = encoder.reader.parse(sentences, {"dep", "const"}), encoder.reader.inventories().dummy_label
    for nodes in nodes_of(batch, encoder.network, [0, 1]):
        vectors = encoder.view_vectors([A, B], [nodes.name])
        for states, vector in zip(nodes.states, vectors, strict=True):  # the root's is one of them
            assert np.abs(states - vector).max(axis=1).min() < 1e-5
        sides = []
        for row in range(2):
            cover_NW, named_N = covers_of(batch, row, nodes.tree, dummy)
            covers = [tuple(np.flatnonzero(cover_W).tolist()) for cover_W in cover_NW[named_N]]
            sides.append(dict(zip(covers, nodes.states[row][named_N], strict=True)))
        matches = [match for match in explanation.matches if match.view == nodes.name]
        assert matches
        for match in matches:
            one, other = (side[part.positions] for side, part in zip(sides, (match.a, match.b), strict=True))
            assert match.cosine == pytest.approx(float(encoder.similarity(one, other)), abs=1e-5)


def test_it_starts_with_the_cosine_of_the_vectors_then_its_parts(packaged_encoder: MultiViewEncoder) -> None:
    explanation, vectors = packaged_encoder.explain(A, B), packaged_encoder.encode([A, B])
    assert explanation.cosine == pytest.approx(float(packaged_encoder.similarity(*vectors)), abs=1e-6)
    assert list(explanation.cosines)[:3] == ["meaning", "structure", "dep"]
    share = packaged_encoder.structure
    mixed = (1 - share) * explanation.cosines["meaning"] + share * explanation.cosines["structure"]
    assert explanation.cosine == pytest.approx(mixed, abs=1e-5)


def test_short_sentences_and_what_has_no_trees(encoder: MultiViewEncoder) -> None:
    for text in ("", "Word", "!"):
        for pair in ((text, A), (A, text), (text, text)):
            explanation = encoder.explain(*pair)
            assert str(explanation) and all(m.a.positions and m.b.positions for m in explanation.matches)
        assert "no subtrees match" in str(explanation) and not explanation.matches
    with pytest.raises(UserError, match=r"explain: no trees in seq; it needs a model with the view dep or"):
        encoder.explain(A, B, view="seq")
    with pytest.raises(UserError, match=r"'word word .* has 200 words, too many for the parsers"):
        encoder.explain(A, "word " * 200)


def test_the_command_shows_the_view_that_is_asked_for(encoder, monkeypatch, capsys, refusal) -> None:
    monkeypatch.setattr(explain.ExplainConfig, "load", lambda config: encoder)
    assert explain.cli(["builtin", A, B, "--view", "dep", "--top", "2"]) == 0
    output = capsys.readouterr()
    assert "A, dep\n" in output.out and "const" not in output.out and "[3]" not in output.out
    assert "no trees in seq" in refusal(explain.cli, "builtin", A, B, "--view", "seq")


def test_a_choice_of_views_within_the_name_is_refused(seq_model: Path, refusal) -> None:
    assert "is read whole here; leave out ?views" in refusal(explain.cli, f"{seq_model}?views=seq", A, B)


def test_bindings_are_named(packaged_encoder: MultiViewEncoder) -> None:
    explanation = packaged_encoder.explain("The lawyer praised the doctor.", "The doctor praised the lawyer.")
    assert "≠ agent of praised: lawyer | doctor" in str(explanation)
    assert [(b.role, b.a, b.b) for b in explanation.bindings] == [
        ("agent", ("lawyer",), ("doctor",)),
        ("patient", ("doctor",), ("lawyer",)),
    ]
    explanation = packaged_encoder.explain("The film is good.", "The film is not bad.")
    assert "≠ attr of film: good | not bad" in str(explanation)
