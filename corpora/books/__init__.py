"""The corpus in the package: parts of 34 English books by ten authors, in the public domain.

    python -m parsing.run books                    # the 28,000 sentences to train on
    python -m parsing.run books --split heldout    # 5,928 sentences of other books by the same authors

``books.txt.xz`` has a sentence per line and a blank line after each book; ``books.tsv`` names the books in
the same order. Each author has one or two books in ``train`` and two others in ``heldout``, so that what is
learned from ``train`` can be tested on whole books that nothing has seen. SOURCES.md says where the text is
from.
"""

from __future__ import annotations

import csv
import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from corpora.text import Corpus, Document, Sentence, Tokenizer
from runtime.errors import UserError
from runtime.files import sha256_file

FOLDER = Path(__file__).parent
TEXT = FOLDER / "books.txt.xz"
SPLITS = ("train", "heldout", "all")


@dataclass(frozen=True, kw_only=True)
class Book:
    """One book, of which the corpus has a part."""

    split: str
    """``train`` or ``heldout``."""
    author: str
    title: str
    year: int
    """The year of its first publication."""
    sentences: tuple[str, ...]
    """Its text, not tokenised."""


def books(split: str = "all") -> Iterator[Book]:
    """Yield the books of a split in the order of the corpus."""
    if split not in SPLITS:
        raise UserError(f"--split {split}: must be {', '.join(SPLITS[:-1])} or {SPLITS[-1]}")
    texts = lzma.decompress(TEXT.read_bytes()).decode("utf-8").rstrip("\n").split("\n\n")
    with (FOLDER / "books.tsv").open(encoding="utf-8", newline="") as stream:
        for row, text in zip(csv.DictReader(stream, delimiter="\t"), texts, strict=True):
            if split in ("all", row["part"]):
                named = {"split": row["part"], "author": row["author"], "title": row["title"]}
                yield Book(**named, year=int(row["year"]), sentences=tuple(text.split("\n")))


def books_corpus(*, split: str = "train", tokenize: str = "spacy", limit: int | None = None) -> Corpus:
    """Return the books as a corpus; a book is a document."""
    tokenizer = Tokenizer(tokenize, running=False)
    chosen = tuple(books(split))

    def documents() -> Iterator[Document]:
        for book in chosen:
            name = f"{book.author}: {book.title}"
            yield Document(name, tuple(Sentence(tokenizer.line(text)) for text in book.sentences))

    about = {"reader": "books-1", "format": "lines", "tokenizer": tokenizer.identity, "split": split}
    return Corpus(
        "books",
        documents,
        about=about,
        hash_input=lambda: sha256_file(TEXT),
        limit=limit,
        length=sum(len(book.sentences) for book in chosen),
    )
