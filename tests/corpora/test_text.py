"""Text corpora: documents, rows, marks, tokenizers, limits."""

from pathlib import Path

import numpy as np
import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora import inputs
from corpora.characters import normalise_text
from corpora.registry import open_corpus
from corpora.text import MAX_RUN, Corpus, Tokenizer, text_corpus
from runtime.errors import UserError
from tests.fixtures.files import PACK


def rows(corpus: Corpus) -> list[tuple[str, list[str]]]:
    return [(doc.id, [" ".join(s.tokens) for s in doc.sentences]) for doc in corpus]


@pytest.mark.parametrize(
    ("text", "options", "documents"),
    [
        ("\n\nOne two.\nThree.\n \t\n\nFour", {}, [["One two .", "Three ."], ["Four"]]),
        ("One’s cat\u200b.\n\u200b\nCafe\u0301s\u00ad!\n", {}, [["One ’s cat ."], ["Cafe\u0301s !"]]),
        (
            "He left. She asked twice, e.g. today! And then\nnothing more\n\nThe end.",
            {"format": "running"},
            [["He left .", "She asked twice , e.g. today !", "And then", "nothing more"], ["The end ."]],
        ),
        (
            "do n't  (split) me . Now what\n",
            {"format": "running", "tokenize": "space"},
            [["do n't (split) me .", "Now what"]],
        ),
    ],
)
def test_a_line_ends_a_sentence_and_a_blank_line_a_document(text, options, documents, tmp_path: Path) -> None:
    """Characters without width leave a line blank; running text is cut within its lines."""
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    corpus = text_corpus(tmp_path / "a.txt", **options)
    for _ in range(2):
        assert rows(corpus) == [(f"a.txt#{number}", lines) for number, lines in enumerate(documents)]
    assert ("sentencizer of spacy" in corpus.identity["tokenizer"]) == ("tokenize" in options)


def test_bad_bytes_and_long_lines_are_marked_and_shift_nobody(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"good one\nb\xffd\nnul\0\n" + b"word " * 60_000 + b"\nlast line\n")
    (document,) = text_corpus(path, tokenize="space")
    marks = [(s.has_replaced_bytes, s.is_truncated) for s in document.sentences]
    assert marks == [(False, False), (True, False), (True, False), (False, True), (False, False)]
    assert document.sentences[-1].tokens == ("last", "line")
    assert len(document.sentences[3].tokens) == 256 * 1024 // 5 + 1


def test_only_the_touched_sentences_of_running_text_are_marked(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"All is well here. But \xff this is not. Fine again.\n" + b"Go on. " * 40_000)
    pieces = list(text_corpus(path, format="running"))
    sentences = [sentence for piece in pieces for sentence in piece.sentences]
    assert [s.has_replaced_bytes for s in sentences[:3]] == [False, True, False]
    assert [s.is_truncated for s in sentences] == [False] * (len(sentences) - 1) + [True]
    assert [piece.is_continuation for piece in pieces] == [False] + [True] * (len(pieces) - 1)


def test_a_path_may_be_a_string(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("A cat sat.\n")
    assert len(list(text_corpus(str(tmp_path / "in.txt")))) == 1
    with pytest.raises(UserError, match="corpus: a int is no path"):
        text_corpus(3)  # type: ignore[arg-type]


def test_errors_are_one_line(tmp_path: Path) -> None:
    empty = tmp_path / "empty.txt"
    empty.write_text("\n \n")
    with pytest.raises(UserError, match=r"empty\.txt: holds no sentences \(empty: reader text-1"):
        list(open_corpus(empty))
    with pytest.raises(UserError, match=r"nowhere\.txt: no such corpus, file or folder"):
        open_corpus(tmp_path / "nowhere.txt")
    with pytest.raises(UserError, match=r"--tokenize moses: must be spacy or space"):
        open_corpus(empty, tokenize="moses")


def test_a_limit_cuts_the_stream_exactly(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n\nthree\nfour\n")
    whole = text_corpus(path, tokenize="space")
    sentences = [s.tokens for doc in whole for s in doc.sentences]
    for limit in (1, 2, 3, 9):
        part = text_corpus(path, tokenize="space", limit=limit)
        for _ in range(2):
            assert [s.tokens for doc in part for s in doc.sentences] == sentences[:limit]
        assert part.identity == {**whole.identity, "first_sentences": str(limit)}


SPACY, SPACE = Tokenizer("spacy"), Tokenizer("space")


@settings(deadline=None, max_examples=40)
@given(st.text(max_size=300))
def test_tokens_hold_every_character_but_white_space(text: str) -> None:
    bare = normalise_text("".join(normalise_text(text).split()))
    for tokenizer in (SPACY, SPACE):
        tokens = tokenizer.tokenize(text)
        assert normalise_text("".join("".join(tokens).split())) == bare
        assert tokens == ("",) or not any(not token or token.isspace() for token in tokens)
        cut = tokenizer.sentences(text)
        assert all(cut) and normalise_text("".join("".join("".join(s) for s in cut).split())) == bare


@pytest.mark.timeout(60)
@pytest.mark.parametrize("text", ["(" * 100_000, "'s" * 50_000, "a." * 50_000, "http://" + "a/" * 50_000])
def test_a_run_without_white_space_costs_linear_time(text: str) -> None:
    tokens = SPACY.tokenize(text)
    assert "".join(tokens) == text
    assert max(map(len, tokens)) <= MAX_RUN
    assert "".join(token for sentence in SPACY.sentences(text) for token in sentence) == text


PIECES = ["Mr.", "Brontë", "can't", "e.g.", "3,000.50", "(", ")", "“", "”", "»", "...", "!", "?", "U.S."]
PIECES += ["co-op", ":-)", "http://a.b/c", "—", "10km", "x.Y", ";", "。", "end.", "\u00a0", "\t", ""]
UNTOUCHED = spacy.blank("en")
UNTOUCHED.add_pipe("sentencizer")


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join))
def test_words_and_sentences_are_those_of_an_untouched_spacy(text: str) -> None:
    words = [t.text for t in UNTOUCHED.tokenizer(text) if not t.is_space]
    assert list(SPACY.tokenize(text)) == (words or [""])
    spans = [tuple(t.text for t in span if not t.is_space) for span in UNTOUCHED(text).sents]
    assert SPACY.sentences(text) == [span for span in spans if span]


PARAGRAPHS = "He came. He saw!\n\nNobody knew why, e.g. because of it. Caf\xe9.\n"
TAGGED = "The_DT snake_case_NN ran_VBD ._. It_PRP hid_VBD odd ._.\n\nEnd_NN _SYM\n"


def test_umbc_paragraphs_are_documents_and_tagged_words_are_taken_as_they_are(tmp_path: Path) -> None:
    folder, files = tmp_path / "webbase_all", ("a.com_x.pages_0", "b.com_x.pages_1")
    folder.mkdir()
    for name in files:  # as distributed
        (folder / f"{name}.possf2").write_text(TAGGED)
    corpus = open_corpus("umbc", data=tmp_path)  # only tagged files: no option needed
    first, second, *_ = corpus
    assert [" ".join(s.tokens) for s in first.sentences] == ["The snake_case ran .", "It hid odd ."]
    assert second.sentences[0].tokens == ("End", "SYM") and corpus.identity["variant"] == "word_TAG"
    for name in files:
        (folder / f"{name}.txt").write_bytes(PARAGRAPHS.encode("latin-1"))
    corpus = open_corpus("umbc", data=tmp_path)
    documents = list(corpus)
    assert [document.id for document in documents] == [f"{name}.txt#{i}" for name in files for i in (0, 1)]
    sentences = documents[1].sentences
    assert [s.tokens[0] for s in sentences] == ["Nobody", "Caf"] and corpus.identity["variant"] == "plain"
    assert [s.has_replaced_bytes for s in sentences] == [False, True]


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_an_estimate_reads_nothing_twice(suffix: str, tmp_path: Path, monkeypatch) -> None:
    random = np.random.default_rng(0)
    words = ["".join(map(chr, 97 + random.integers(0, 26, 40))) for _ in range(9000)]
    for name in ("a", "b"):
        lines = (word + "\n\n" * (i % 7 == 0) for i, word in enumerate(words))
        (tmp_path / f"{name}.txt{suffix}").write_bytes(PACK[suffix]("\n".join(lines).encode()))
    opened: list[Path] = []
    real = inputs._unbuffered
    monkeypatch.setattr(inputs, "_unbuffered", lambda path: opened.append(path) or real(path))
    corpus = text_corpus(tmp_path, tokenize="space")
    guesses = [corpus.estimate_length() for _ in corpus]
    assert guesses[1000] == pytest.approx(18_000, rel=0.1)
    assert guesses[2000] == pytest.approx(18_000, rel=0.02)
    assert corpus.estimate_length() == corpus.sentences_read == 18_000
    assert opened == sorted(tmp_path.iterdir())
    limited = text_corpus(tmp_path, tokenize="space", limit=50)
    assert limited.estimate_length() == 50 and len(list(limited)) < 50 and limited.estimate_length() == 50
