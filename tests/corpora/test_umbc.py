"""UMBC WebBase."""

from __future__ import annotations

from pathlib import Path

import pytest

from corpora.registry import open_corpus
from corpora.support.errors import UserError

PARAGRAPHS = "He came. He saw!\n\nNobody knew why, e.g. because of it. Caf\xe9.\n"


def umbc(folder: Path, *, plain: bool = True, tagged: bool = True) -> Path:
    """Two files made in the distribution's format."""
    (folder / "webbase_all").mkdir()
    if plain:
        for name in ("b.com_x.pages_1", "a.com_x.pages_0"):
            (folder / "webbase_all" / f"{name}.txt").write_bytes(PARAGRAPHS.encode("latin-1"))
    if tagged:
        (folder / "webbase_all" / "a.com_x.pages_0.possf2").write_text(
            "The_DT snake_case_NN ran_VBD ._. It_PRP hid_VBD odd ._.\n\nEnd_NN _SYM\n"
        )
    return folder


def test_umbc_paragraphs_are_documents(tmp_path: Path) -> None:
    corpus = open_corpus("umbc", data=umbc(tmp_path))
    documents = list(corpus)
    assert [document.id for document in documents] == [
        "a.com_x.pages_0.txt#0",
        "a.com_x.pages_0.txt#1",
        "b.com_x.pages_1.txt#0",
        "b.com_x.pages_1.txt#1",
    ]
    sentences = documents[1].sentences
    assert [s.tokens[0] for s in sentences] == ["Nobody", "Caf"]
    assert [s.replaced_bytes for s in sentences] == [False, True]
    assert corpus.identity["variant"] == "plain"
    limited = open_corpus("umbc", data=tmp_path / "webbase_all", limit="3")
    assert sum(len(document.sentences) for document in limited) == 3


def test_umbc_tagged_words_are_taken_as_they_are(tmp_path: Path) -> None:
    corpus = open_corpus("umbc", data=umbc(tmp_path, plain=False))  # only tagged files: no option needed
    first, second = list(corpus)
    assert [s.tokens for s in first.sentences] == [
        ("The", "snake_case", "ran", "."),
        ("It", "hid", "odd", "."),
    ]
    assert second.sentences[0].tokens == ("End", "SYM")
    assert corpus.identity["variant"] == "word_TAG"


def test_umbc_says_where_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"UMBC WebBase is not in .*umbc_webbase_corpus.tar.gz .*webbase_all"):
        open_corpus("umbc", data=tmp_path)
    with pytest.raises(UserError, match=r"no \.possf2 files"):
        open_corpus("umbc", data=umbc(tmp_path, tagged=False), tokenize="space")
    with pytest.raises(UserError, match="--format pages: must be lines or running"):
        open_corpus("umbc", data=tmp_path, format="pages")
