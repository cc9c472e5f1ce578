"""Who wrote it? Sentences of books with the author as label: training books here, whole held-out books there.

Names and numerals tell the book more than its author, so they are masked: a word is a name if it is
capitalised inside a sentence, and in lower case at most a tenth as often in the same book.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from corpora.books import Book, books
from corpora.text import Tokenizer

NAME, NUMBER = "Name", "0"
"""What stands in place of a name and of a numeral."""
ROWS = {"train": 400, "heldout": 300}
"""Sentences of each author."""
TOKENS = range(6, 41)
"""Lengths of the sentences that are taken."""
_OPENING = re.compile(r"[\"'“‘(\[*—-]|--+|[.!?:;]+")
"""Tokens after which a capital begins a sentence."""


def author_rows(split: str) -> tuple[list[list[str]], list[int], list[str]]:
    """Return the sentences of a split, the number of each one's author, and the authors' names.

    The rows of an author are shared out equally among the author's books and spread evenly over each book.
    """
    chosen = list(books(split))
    authors = sorted({book.author for book in chosen})
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
    """The tokens of each sentence of a book, names and numerals masked."""
    tokenizer = Tokenizer("spacy", running=False)
    sentences = [tokenizer.line(text) for text in book.sentences]
    names = names_in(sentences)
    for tokens in sentences:
        yield [
            NAME if token in names else NUMBER if any(map(str.isdigit, token)) else token for token in tokens
        ]


def names_in(sentences: Sequence[Sequence[str]]) -> set[str]:
    """The words that are capitalised inside a sentence, and in lower case at most a tenth as often."""
    written = Counter(token for tokens in sentences for token in tokens)
    inside = Counter(
        token
        for tokens in sentences
        for before, token in pairwise(tokens)
        if token[:1].isupper() and not _OPENING.fullmatch(before)
    )
    return {word for word, count in inside.items() if 10 * written[word.lower()] <= count} - {"I"}
