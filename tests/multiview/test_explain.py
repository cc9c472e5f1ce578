"""Nodes are their words as sentences of their own; matches are chosen as the rules say; what is shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview import explain
from multiview.matches import best_matches, covers_of, nodes_of
from multiview.model import MultiViewEncoder
from parsing.text_parser import load_parser
from parsing.trees.batch import ConstituencyParse, DependencyParse
from runtime.errors import UserError
from tests.multiview.engines.trees import random_heads

Span = tuple[int, int]
A = 'He said : " ( Well , it \'s fine ) , [ sic ] " .'
B = '" It \'s fine , " he said & left .'


class GivenTrees:
    """Random trees, made up before; words are distinct, so that a part of a sentence names its subtree."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.heads: dict[tuple[str, ...], list[int]] = {}
        self.spans: dict[tuple[str, ...], list[Span]] = {}

    def sentence(self, words: Sequence[str]) -> tuple[str, ...]:
        """Make up both trees of a sentence."""
        tokens = tuple(words)
        self.heads[tokens] = random_heads(len(tokens), self.rng)
        self.spans[tokens] = self._split(0, len(tokens), top=True)
        return tokens

    def _split(self, start: int, end: int, *, top: bool = False) -> list[Span]:
        """A random n-ary tree in preorder."""
        spans = [(start, end)] if top or self.rng.random() < 0.6 else []
        if end - start > 1:
            inner = np.arange(start + 1, end)
            count = self.rng.integers(1, min(3, len(inner)) + 1)
            cuts = sorted(self.rng.choice(inner, count, replace=False).tolist())
            for low, high in zip([start, *cuts], [*cuts, end], strict=True):
                spans += self._split(low, high)
        return spans

    def part(self, tokens: tuple[str, ...], positions: Sequence[int]) -> tuple[str, ...]:
        """The words at some positions as a sentence of its own, with the trees they have in the whole."""
        words = tuple(tokens[position] for position in positions)
        place = {position: index for index, position in enumerate(positions)}
        heads = [place.get(self.heads[tokens][position] - 1, -1) + 1 for position in positions]
        self.heads[words] = heads
        first, last = positions[0], positions[-1] + 1
        inside = [(a - first, b - first) for a, b in self.spans[tokens] if first <= a and b <= last]
        if (0, len(words)) not in inside:
            inside.insert(0, (0, len(words)))
        self.spans[words] = inside
        return words


class GivenDependency:
    relations = ("root", "any")
    identity: ClassVar = {"name": "given-dep", "version": "1", "sha256": "2" * 64}

    def __init__(self, trees: GivenTrees) -> None:
        self.trees = trees

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[DependencyParse]:
        heads = [np.array(self.trees.heads[tuple(tokens)], np.int32) for tokens in sentences]
        return [DependencyParse(heads=h, relations=(h > 0).astype(np.int32)) for h in heads]


class GivenConstituency(GivenDependency):
    labels, tags = ("", "X"), ("T",)
    identity: ClassVar = {"name": "given-const", "version": "1", "sha256": "3" * 64}

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[ConstituencyParse]:  # type: ignore[override]
        found = []
        for tokens in sentences:
            starts, ends = np.array(self.trees.spans[tuple(tokens)], np.int32).T
            tags, ones = np.zeros(len(tokens), np.int32), np.ones(len(starts), np.int32)
            found.append(ConstituencyParse(tags=tags, starts=starts, ends=ends, labels=ones))
        return found


def encoder_of(views: str, dep: object, const: object) -> MultiViewEncoder:
    """An untrained model with these parsers."""
    encoder = MultiViewEncoder.untrained(views, dim=8, word_dim=6, device="cpu", start="bag")
    encoder.reader.parsers |= {"dep": dep, "const": const}
    return encoder


@pytest.mark.parametrize("view", ["dep", "const"])
@pytest.mark.parametrize("seed", range(3))
def test_a_node_s_vector_is_that_of_its_words_alone(view: str, seed: int) -> None:
    """Also where binarisation made the node, and where a dependency subtree is discontinuous."""
    trees = GivenTrees(seed)
    encoder = encoder_of("dep,const", GivenDependency(trees), GivenConstituency(trees))
    sentences = [trees.sentence([f"w{i}{j}" for j in range(n)]) for i, n in enumerate((7, 1, 12, 2))]
    batch = encoder.reader.parse(sentences, {view})
    (nodes,) = nodes_of(batch, encoder.inputs(batch, [view]))
    parts = []
    for row, sentence in enumerate(sentences):
        cover_NW, named_N = covers_of(batch, row, nodes.tree, encoder.reader.inventories().dummy_label)
        places = [np.flatnonzero(cover_W).tolist() for cover_W in cover_NW]
        assert len(places) == len(nodes.states[row])
        parts += [trees.part(sentence, positions) for positions in places]
        if view == "const":  # the nodes that are named are those that the parser gave
            found = {(p[0], p[-1] + 1) for p, named in zip(places, named_N, strict=True) if named}
            assert found == {(i, i + 1) for i in range(len(sentence))} | set(trees.spans[sentence])
    assert len({*map(len, parts)}) > 3
    np.testing.assert_allclose(np.concatenate(nodes.states), encoder.encode(parts, views=[view]), atol=1e-6)


def yields(n: int, rng: np.random.Generator) -> list[set[int]]:
    """The words under each word of a random dependency tree."""
    head = random_heads(n, rng)

    def below(word: int) -> set[int]:
        return {word}.union(*(below(k) for k in range(n) if head[k] == word + 1))

    return [below(word) for word in range(n)]


def covers(sets: list[set[int]]) -> np.ndarray:
    return np.array([[word in found for word in range(len(sets))] for found in sets])


@given(st.integers(1, 7), st.integers(1, 7), st.integers(0, 10_000), st.integers(1, 9))
@settings(deadline=None, max_examples=60)
def test_matches_equal_going_through_all_pairs(n: int, m: int, seed: int, top: int) -> None:
    rng = np.random.default_rng(seed)
    one, other = yields(n, rng), yields(m, rng)
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
    """Untrained, with the parsers that ship."""
    return encoder_of("dep,const,seq", load_parser("dep"), load_parser("const"))


def test_every_cosine_is_that_of_the_vectors(encoder: MultiViewEncoder) -> None:
    found = encoder.explain(A, B)
    assert list(found.cosines) == ["dep", "const", "seq"]
    for cosine, chosen in ((found.cosine, None), *((found.cosines[view], [view]) for view in found.cosines)):
        one, other = encoder.encode([A, B], views=chosen)
        assert cosine == pytest.approx(float(encoder.similarity(one, other)), abs=1e-6)
    assert found.trees == {"dep": "dep", "const": "const"}
    sentences = [encoder.reader.tokens(sentence) for sentence in (A, B)]
    batch, dummy = encoder.reader.parse(sentences, {"dep", "const"}), encoder.reader.inventories().dummy_label
    for nodes in nodes_of(batch, encoder.inputs(batch, ["dep", "const"])):
        sides = []
        for row in range(2):
            cover_NW, named_N = covers_of(batch, row, nodes.tree, dummy)
            covers = [tuple(np.flatnonzero(cover_W).tolist()) for cover_W in cover_NW[named_N]]
            sides.append(dict(zip(covers, nodes.states[row][named_N], strict=True)))
        matches = [match for match in found.matches if match.view == nodes.name]
        assert matches
        for match in matches:
            vectors = [side[part.positions] for side, part in zip(sides, (match.a, match.b), strict=True)]
            cosine = np.dot(*vectors) / np.linalg.norm(vectors[0]) / np.linalg.norm(vectors[1])
            assert match.cosine == pytest.approx(cosine, abs=1e-5)


def test_it_starts_with_the_cosine_of_the_vectors_then_its_parts() -> None:
    builtin = MultiViewEncoder.load("builtin", "cpu")
    found, vectors = builtin.explain(A, B), builtin.encode([A, B])
    assert found.cosine == pytest.approx(float(builtin.similarity(*vectors)), abs=1e-6)
    assert list(found.cosines)[:3] == ["meaning", "structure", "dep"]
    share = builtin.structure
    mixed = (1 - share) * found.cosines["meaning"] + share * found.cosines["structure"]
    assert found.cosine == pytest.approx(mixed, abs=1e-5)


def test_short_sentences_and_what_has_no_trees(encoder: MultiViewEncoder) -> None:
    for text in ("", "Word", "!"):
        for pair in ((text, A), (A, text), (text, text)):
            found = encoder.explain(*pair)
            assert str(found) and all(m.a.positions and m.b.positions for m in found.matches)
        assert "no subtrees match" in str(found) and not found.matches
    with pytest.raises(UserError, match=r"explain: no trees in seq; it needs a model with the view dep or"):
        encoder.explain(A, B, view="seq")
    with pytest.raises(UserError, match=r"'word word .* has 200 words, too many for the parsers"):
        encoder.explain(A, "word " * 200)


def test_command(
    encoder: MultiViewEncoder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(explain.ExplainConfig, "load", lambda config: encoder)
    assert explain.cli(["builtin", A, B, "--view", "dep", "--top", "2"]) == 0
    shown = capsys.readouterr()
    assert "A, dep\n" in shown.out and "const" not in shown.out and "[3]" not in shown.out
    assert explain.cli(["builtin", A, B, "--view", "seq"]) == 2
    assert "no trees in seq" in capsys.readouterr().err


def test_bindings_are_named() -> None:
    builtin = MultiViewEncoder.load("builtin", "cpu")
    found = builtin.explain("The lawyer praised the doctor.", "The doctor praised the lawyer.")
    assert "≠ agent of praised: lawyer | doctor" in str(found)
    assert [(b.role, b.a, b.b) for b in found.bindings] == [
        ("agent", ("lawyer",), ("doctor",)),
        ("patient", ("doctor",), ("lawyer",)),
    ]
    found = builtin.explain("The film is good.", "The film is not bad.")
    assert "≠ attr of film: good | not bad" in str(found)
