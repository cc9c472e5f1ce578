"""The corpus in the package: parts of 34 English books by ten authors, in the public domain.

    python -m parsing.run books                    # the 28,000 sentences to train on
    python -m parsing.run books --split heldout    # 5,928 sentences of other books by the same authors

``books.txt.xz`` has a sentence per line and a blank line after each book; ``books.tsv`` names the books in
the same order. Each author has one or two books in ``train`` and two others in ``heldout``, so that what is
learned from ``train`` can be tested on whole books that nothing has seen. SOURCES.md says where the text is
from.

Who wrote it? :func:`author_rows` has sentences with the author as label. Names and numerals tell the book
more than its author, so they are masked: a word is a name if it is capitalised inside a sentence, and in
lower case at most a tenth as often in the same book.
"""

import csv
import lzma
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from corpora.text import Corpus, Document, Sentence, Tokenizer
from runtime.errors import UserError
from runtime.files import sha256_file

FOLDER = Path(__file__).parent
TEXT = FOLDER / "books.txt.xz"
SPLITS = ("train", "heldout", "all")
NAME, NUMBER = "Name", "0"
"""The words that replace a name and a numeral."""
ROWS = {"train": 400, "heldout": 300}
"""Sentences of each author."""
TOKENS = range(6, 41)
"""Lengths of the sentences that are taken."""
_OPENING = re.compile(r"[\"'“‘(\[*—-]|--+|[.!?:;]+")
"""Tokens after which a capital begins a sentence."""


@dataclass(frozen=True, kw_only=True)
class Book:
    """One book, of which the corpus has a part: year of its first publication, text that is not tokenised."""

    split: str
    author: str
    title: str
    year: int
    sentences: tuple[str, ...]


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


def author_rows(split: str) -> tuple[list[list[str]], list[int], tuple[str, ...]]:
    """Return the sentences of a split, the number of each one's author, and the authors' names.

    The rows of an author are shared out equally among the author's books and spread evenly over each book.
    """
    chosen = list(books(split))
    authors = tuple(sorted({book.author for book in chosen}))
    rows: list[list[str]] = []
    labels: list[int] = []
    for book in chosen:
        number_of_books = sum(other.author == book.author for other in chosen)
        fitting = [tokens for tokens in masked_sentences(book) if len(tokens) in TOKENS]
        wanted = min(ROWS[split] // number_of_books, len(fitting))
        rows += [fitting[place * len(fitting) // wanted] for place in range(wanted)]
        labels += [authors.index(book.author)] * wanted
    return rows, labels, authors


def masked_sentences(book: Book) -> Iterator[list[str]]:
    """Yield the tokens of each sentence of a book, names and numerals masked."""
    tokenizer = Tokenizer("spacy", running=False)
    sentences = [tokenizer.line(text) for text in book.sentences]
    written = Counter(token for tokens in sentences for token in tokens)
    inside = Counter(
        token
        for tokens in sentences
        for before, token in pairwise(tokens)
        if token[:1].isupper() and not _OPENING.fullmatch(before)
    )
    names = {word for word, count in inside.items() if 10 * written[word.lower()] <= count} - {"I"}
    for tokens in sentences:
        yield [
            NAME if token in names else NUMBER if any(map(str.isdigit, token)) else token for token in tokens
        ]
