"""A corpus that is read while it is iterated: documents in order, a sentence limit, counts."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path

from corpora.documents import Document, Sentence
from corpora.support.errors import UserError

MAX_PIECE = 8192
"""Most sentences per :class:`Document`; longer documents arrive in pieces to bound memory."""

_UNITS = {"": 1, "k": 10**3, "m": 10**6}


@dataclass
class Counts:
    """What one pass over a corpus found."""

    documents: int = 0
    sentences: int = 0
    tokens: int = 0
    empty_sentences: int = 0
    """Rows without text, kept as one empty token."""
    replaced_bytes: int = 0
    """Sentences in which undecodable bytes or NULs became U+FFFD."""
    truncated: int = 0
    """Sentences cut at the reader's line limit."""
    other: Counter[str] = field(default_factory=Counter)
    """Counts of a particular reader by name, e.g. ``blank lines``."""

    def add(self, document: Document) -> None:
        """Count one document, or one piece of it."""
        self.documents += not document.continued
        self.sentences += len(document.sentences)
        for sentence in document.sentences:
            self.tokens += len(sentence.tokens)
            self.empty_sentences += sentence.tokens == ("",)
            self.replaced_bytes += sentence.replaced_bytes
            self.truncated += sentence.truncated

    def summary(self) -> str:
        """One line: what was read, and what was unusual."""
        parts = [f"{self.documents:,} documents", f"{self.sentences:,} sentences", f"{self.tokens:,} tokens"]
        unusual = {
            "empty": self.empty_sentences,
            "with replaced bytes": self.replaced_bytes,
            "truncated": self.truncated,
            **self.other,
        }
        return ", ".join(parts + [f"{number:,} {what}" for what, number in unusual.items() if number])


class StreamCorpus:
    """A corpus whose documents are read again by every iteration.

    Args:
        name: short name, used for the cache's folder.
        documents: yields the documents and adds its own counts to the given ``Counts``.
        about: what decides the content besides the input, e.g. format and tokenizer.
        hash_input: computes the input's hash; called at most once, on first use of the identity.
        limit: number of sentences to keep; None keeps all.
        path: the file or folder, for messages.
    """

    def __init__(
        self,
        name: str,
        documents: Callable[[Counts], Iterator[Document]],
        *,
        about: dict[str, str],
        hash_input: Callable[[], str],
        limit: int | None = None,
        path: Path | None = None,
    ) -> None:
        self.name = name
        self.counts = Counts()
        """Counts of the latest iteration; complete when it has ended."""
        self._documents = documents
        self._about = about
        self._hash_input = hash_input
        self._limit = limit
        self._path = path

    @functools.cached_property
    def identity(self) -> dict[str, str]:
        """What decides the content: reader, format, tokenizer, limit, and the hash of the input."""
        limit = {} if self._limit is None else {"first_sentences": str(self._limit)}
        return {**self._about, **limit, "input_sha256": self._hash_input()}

    def describe(self) -> str:
        """One line that states how the input is read, defaults included."""
        return f"{self.name}: " + ", ".join(f"{key} {value}" for key, value in self._about.items())

    def __iter__(self) -> Iterator[Document]:
        self.counts = Counts()
        for document in self._documents(self.counts):
            if self._limit is not None:
                left = self._limit - self.counts.sentences
                document = replace(document, sentences=document.sentences[:left])
            self.counts.add(document)
            yield document
            if self.counts.sentences == self._limit:
                return
        if not self.counts.sentences:
            about = self.describe().partition(": ")[2]
            where = self._path or f"corpus {self.name}"
            raise UserError(f"{where}: holds no sentences ({about}); give another file or --format")


def parse_limit(text: str | int | None) -> int | None:
    """``"40M"`` -> 40,000,000; ``"1.5k"`` -> 1,500; None -> None.

    Raises:
        UserError: not a positive whole number of sentences.
    """
    if text is None:
        return None
    found = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)([km]?)", str(text).lower())
    number = Decimal(found[1]) * _UNITS[found[2]] if found else Decimal(0)
    if number < 1 or number != int(number):
        raise UserError(f"--limit {text}: expected a number of sentences such as 5000, 1.5k or 40M")
    return int(number)


def in_pieces(identifier: str, sentences: Iterable[Sentence]) -> Iterator[Document]:
    """One document in pieces of at most :data:`MAX_PIECE` sentences; none if it has no sentences."""
    piece: list[Sentence] = []
    continued = False
    for sentence in sentences:
        if len(piece) == MAX_PIECE:
            yield Document(identifier, tuple(piece), continued)
            piece, continued = [], True
        piece.append(sentence)
    if piece:
        yield Document(identifier, tuple(piece), continued)
