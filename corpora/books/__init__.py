"""Read the corpus of the package: parts of 34 English books by ten authors, in the public domain.

    python -m parsing.run books                    # the 28,000 sentences to train on
    python -m parsing.run books --split heldout    # 5,928 sentences of other books by the same authors

``books.txt.xz`` has a sentence per line and a blank line after each book; ``books.tsv`` names the books in
the same order. Each author has one or two books in ``train`` and two others in ``heldout``, so that a model
of ``train`` can be tested on whole books that it has not seen. SOURCES.md names the sources of the text.

:func:`author_rows` returns sentences with the author as label. Names and numerals are masked, because they
identify the book rather than its author. A word is a name if it is capitalised inside sentences, and in lower
case at most a tenth as often in the same book.
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
ROWS_PER_AUTHOR = {"train": 400, "heldout": 300}
TOKEN_COUNTS = range(6, 41)
"""The lengths of sentences that :func:`author_rows` returns."""
_OPENING_TOKEN = re.compile(r"[\"'“‘(\[*—-]|--+|[.!?:;]+")
"""Matches tokens after which a capital may begin a sentence."""


@dataclass(frozen=True)
class Book:
    """The part of one book that the corpus has."""

    split: str
    author: str
    title: str
    year: int
    """Year of the first publication."""
    sentences: tuple[str, ...]
    """Text that is not tokenised."""


def books(split: str = "all") -> Iterator[Book]:
    """Yield the books of a split in the order of the corpus."""
    if split not in SPLITS:
        raise UserError(f"--split {split}: must be {', '.join(SPLITS[:-1])} or {SPLITS[-1]}")
    texts = lzma.decompress(TEXT.read_bytes()).decode("utf-8").rstrip("\n").split("\n\n")
    with (FOLDER / "books.tsv").open(encoding="utf-8", newline="") as stream:
        for row, text in zip(csv.DictReader(stream, delimiter="\t"), texts, strict=True):
            if split in ("all", row["part"]):
                sentences = tuple(text.split("\n"))
                yield Book(row["part"], row["author"], row["title"], int(row["year"]), sentences)


def books_corpus(*, split: str = "train", tokenize: str = "spacy", limit: int | None = None) -> Corpus:
    """Return the books as a corpus; a book is a document."""
    tokenizer = Tokenizer(tokenize, running=False)
    books_of_split = tuple(books(split))

    def documents() -> Iterator[Document]:
        for book in books_of_split:
            name = f"{book.author}: {book.title}"
            yield Document(name, tuple(Sentence(tokenizer.tokenize(text)) for text in book.sentences))

    settings = {"reader": "books-1", "format": "lines", "tokenizer": tokenizer.identity, "split": split}
    return Corpus(
        "books",
        documents,
        settings=settings,
        hash_input=lambda: sha256_file(TEXT),
        limit=limit,
        length=sum(len(book.sentences) for book in books_of_split),
    )


def author_rows(split: str) -> tuple[list[list[str]], list[int], tuple[str, ...]]:
    """Return sentences of a split, the number of the author of each, and the names of the authors.

    The sentences of an author are taken in equal numbers from the author's books, evenly over each book.
    """
    books_of_split = list(books(split))
    books_by_author = Counter(book.author for book in books_of_split)
    authors = tuple(sorted(books_by_author))
    rows: list[list[str]] = []
    labels: list[int] = []
    tokenizer = Tokenizer("spacy", running=False)
    for book in books_of_split:
        masked = masked_sentences(book, tokenizer)
        candidates = [tokens for tokens in masked if len(tokens) in TOKEN_COUNTS]
        count = min(ROWS_PER_AUTHOR[split] // books_by_author[book.author], len(candidates))
        rows += [candidates[index * len(candidates) // count] for index in range(count)]
        labels += [authors.index(book.author)] * count
    return rows, labels, authors


def masked_sentences(book: Book, tokenizer: Tokenizer) -> Iterator[list[str]]:
    """Yield the tokens of each sentence of a book, with names and numerals masked."""
    sentences = [tokenizer.tokenize(text) for text in book.sentences]
    token_counts = Counter(token for tokens in sentences for token in tokens)
    capitalised_counts = Counter(
        token
        for tokens in sentences
        for previous_token, token in pairwise(tokens)
        if token[:1].isupper() and not _OPENING_TOKEN.fullmatch(previous_token)
    )
    names = {word for word, count in capitalised_counts.items() if 10 * token_counts[word.lower()] <= count}
    masks = dict.fromkeys(names - {"I"}, NAME)
    for tokens in sentences:
        yield [masks.get(token, NUMBER if any(map(str.isdigit, token)) else token) for token in tokens]
