"""Nearest phrases against going through every constituent of every sentence."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import torch

from corpora.support.errors import UserError
from multiview import search
from multiview.folder.reading import Reader
from multiview.model import MultiViewEncoder
from multiview.nodes.phrases import NearestPhrases, PhraseHit
from multiview.search import phrase_search
from parsing.cache.reader import TreeCache
from parsing.sentences import cached_sentences
from tests.fixtures.trees import toy_corpus
from tests.multiview.nodes.given_trees import GivenTrees, given_encoder
from tests.parsing.pipeline.toy_parsers import ToyConstituencyParser, ToyDependencyParser

QUERIES = ["the cat rained", "bank shares fell", "salt"]


@pytest.fixture
def encoder() -> MultiViewEncoder:
    encoder = MultiViewEncoder.untrained("seq,dep,const", dim=8, word_dim=6, device="cpu", forget_bias=1.0)
    encoder.reader.corpus = {"tokenizer": "space"}
    encoder.reader.use_parser("dep", ToyDependencyParser())
    encoder.reader.use_parser("const", ToyConstituencyParser())
    return encoder


def by_hand(
    encoder: MultiViewEncoder, cache: TreeCache, query: str, view: str, max_words: int
) -> list[tuple[float, int, tuple[int, ...], str]]:
    """Score, row, positions and words of every phrase, best first; each sentence encoded alone."""
    target = encoder.encode(query, views=[view])
    best: dict[str, tuple[float, int, tuple[int, ...], str]] = {}
    for row, sentence in enumerate(cached_sentences(cache, 0, len(cache))):
        (nodes,) = encoder.node_states([sentence.words], views=[view], trees=cache)
        h_ND, n = nodes.views[0].h_ND.numpy(), len(sentence.words)
        phrases: dict[tuple[int, ...], np.ndarray] = {}
        if view == "dep":
            for word in range(n):
                under = {word}
                for _ in range(n):
                    under |= {k for k, head in enumerate(sentence.heads or ()) if head - 1 in under}
                phrases[tuple(sorted(under))] = h_ND[word]
        else:
            words = [(i,) for i in range(n)]
            for left, right in zip(nodes.batch.left, nodes.batch.right, strict=True):
                words.append(words[left] + words[right])
            constituents = {tuple(range(start, end)) for start, end, _ in sentence.spans or ()}
            phrases = {p: h for p, h in zip(words, h_ND, strict=True) if p in constituents}
        for positions, h_D in phrases.items():
            if 2 <= len(positions) <= max_words:
                text = " ".join(sentence.words[i] for i in positions)
                cosine = float(h_D @ target / np.linalg.norm(h_D) / np.linalg.norm(target))
                found = (-round(cosine, 6), row, positions, text)
                best[text.lower()] = min(found, best.get(text.lower(), found))
    return [(-score, row, positions, text) for score, row, positions, text in sorted(best.values())]


@pytest.mark.parametrize(("view", "max_words"), [("const", 12), ("const", 3), ("dep", 4)])
def test_equals_going_through_every_phrase(
    encoder: MultiViewEncoder, toy_trees: Path, view: str, max_words: int, monkeypatch
) -> None:
    monkeypatch.setattr("multiview.folder.reading.CHUNK_SENTENCES", 100)
    cache = TreeCache.open(toy_trees)
    for batch_size in (1, 64):
        found = phrase_search(
            *(encoder, QUERIES, cache), top_k=15, max_words=max_words, views=[view], batch_size=batch_size
        )
        for query, hits in zip(QUERIES, found, strict=True):
            expected = by_hand(encoder, cache, query, view, max_words)[:15]
            assert [hit.score for hit in hits] == pytest.approx([e[0] for e in expected], abs=2e-6)
            assert [hit.phrase for hit in hits] == [text for _, _, _, text in expected]
            for hit in hits:  # words and positions fit, whichever of equal phrases was taken
                assert (
                    list(hit.sentence)
                    == next(cached_sentences(cache, hit.corpus_id, hit.corpus_id + 1)).words
                )


def test_a_text_and_its_cache_give_the_same(encoder: MultiViewEncoder, toy_trees: Path) -> None:
    lines = [" ".join(tokens) for tokens in toy_corpus()[0]]
    texts = phrase_search(encoder, QUERIES, lines, top_k=5)
    assert texts == phrase_search(encoder, QUERIES, lines, top_k=5, views=["const"])  # the first choice
    cache = phrase_search(encoder, QUERIES, TreeCache.open(toy_trees), top_k=5)
    for one, other in zip(texts, cache, strict=True):
        assert [hit.phrase for hit in one] == [hit.phrase for hit in other]
        np.testing.assert_allclose([hit.score for hit in one], [hit.score for hit in other], atol=1e-5)


def test_a_phrase_of_the_corpus_is_its_own_nearest() -> None:
    trees = GivenTrees(3)
    encoder = given_encoder(trees, "const")
    sentences = [trees.sentence([f"w{i}{j}" for j in range(9)]) for i in range(6)]
    start, end = next((a, b) for a, b in trees.spans[sentences[4]][1:] if b - a > 1)
    query = " ".join(trees.part(sentences[4], range(start, end)))
    ((hit, *_),) = phrase_search(encoder, [query], [" ".join(s) for s in sentences])
    assert (hit.corpus_id, hit.phrase, hit.positions) == (4, query, tuple(range(start, end)))
    assert hit.score == pytest.approx(1, abs=1e-6)


def test_only_the_best_are_kept_and_equal_words_once(encoder: MultiViewEncoder) -> None:
    lines = ["The cat rained", "the cat rained", "a mouse", "A mouse in our garden"] * 30
    (nodes,) = encoder.node_states(["the cat rained"], views=["const"])
    nearest = NearestPhrases(nodes.views[0].h_ND[-1:], top_k=2, max_words=12)
    for batch in encoder.node_states(lines, views=["const"], batch_size=7):
        nearest.add(batch, encoder.reader.inventories().dummy_label)
        assert len(nearest.hits()[0]) <= 2
    first, second = nearest.hits()[0]
    assert (first.phrase, first.corpus_id) == ("The cat rained", 0) and first.score > second.score
    assert second.phrase.lower() != first.phrase.lower()


def test_sentences_that_no_parser_took_have_no_phrases(encoder: MultiViewEncoder) -> None:
    lines = ["cat " * 300, "", "a cat"]
    for view in ("dep", "const"):
        (hits,) = phrase_search(encoder, ["cat cat"], lines, views=[view])
        assert [hit.corpus_id for hit in hits] == [2]


def test_a_phrase_is_marked_in_its_sentence() -> None:
    assert str(PhraseHit(0, 1.0, (1, 2), ("a", "b", "c", "d"))) == "a «b c» d"
    assert str(PhraseHit(0, 1.0, (0, 2, 3), ("a", "b\x1b", "c", "d"))) == "«a» b\ufffd «c d»"
    assert PhraseHit(0, 1.0, (0, 2, 3), ("a", "b", "c", "d")).phrase == "a … c d"


def test_models_without_trees_are_refused() -> None:
    encoder = MultiViewEncoder.untrained("seq", dim=4, word_dim=4, device="cpu")
    with pytest.raises(UserError, match="no phrases in seq: only the views const and dep have them"):
        phrase_search(encoder, ["a"], ["a b"])


def test_no_queries_have_no_answers(encoder: MultiViewEncoder) -> None:
    assert phrase_search(encoder, [], ["a b"]) == []


def test_command(
    toy_trees: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    toys = {"dep": ToyDependencyParser(), "const": ToyConstituencyParser()}
    monkeypatch.setattr(Reader, "parser", lambda self, need: self._parsers.setdefault(need, toys[need]))
    model = tmp_path / "model"
    torch.manual_seed(0)
    MultiViewEncoder.untrained("seq,dep,const", dim=8, word_dim=6, device="cpu").save(model)
    phrase = ["--unit", "phrase", "--top", "3"]
    assert search.cli([str(model), str(toy_trees), "the cat rained", *phrase]) == 0
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    assert len(lines) == 3 and all("«" in line and "»" in line for line in lines)
    assert shown.err.startswith(f"next: python -m multiview.explain {model}")
    (hits,) = phrase_search(
        MultiViewEncoder.load(model), ["the cat rained"], TreeCache.open(toy_trees), top_k=3
    )
    assert lines == [f"{hit.score:.4f}  {hit.corpus_id:>7}  {hit}" for hit in hits]
    # Several queries, from standard input: the corpus is read once, the answers come in order.
    monkeypatch.setattr("sys.stdin", io.StringIO("the cat rained\n\nbank shares\n"))
    assert search.cli([str(model), str(toy_trees), *phrase]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[:4] == ["the cat rained", *lines] and out[4] == "bank shares" and len(out) == 8
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert search.cli([str(model), str(toy_trees), *phrase]) == 0
    for message, more in {
        "--vectors: these are vectors of sentences": ["--vectors", "v.npy"],
        "no phrases in seq": ["--views", "seq"],
        "--max-words 1": ["--max-words", "1"],
    }.items():
        capsys.readouterr()
        assert search.cli([str(model), str(toy_trees), "q", *phrase, *more]) == 2
        errors = capsys.readouterr().err
        assert message in errors and len(errors.strip().splitlines()) == 1, errors
