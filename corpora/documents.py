"""The data that flows from a corpus to a parser, and a corpus that is read while it is iterated."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Protocol

from corpora.support.errors import UserError

MAX_PIECE = 8192
"""Most sentences per :class:`Document`; longer documents arrive in pieces to bound memory."""

_UNITS = {"": 1, "k": 10**3, "m": 10**6}


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of ``n`` tokens; the optional fields hold gold annotation."""

    tokens: tuple[str, ...]
    """Word forms, ``n`` of them; an empty line of a corpus is one empty token."""
    tags: tuple[str, ...] | None = None
    """Part-of-speech tag per token."""
    heads: tuple[int, ...] | None = None
    """1-based head per token, 0 for the root."""
    relations: tuple[str, ...] | None = None
    """Dependency relation of each token to its head."""
    tree: str | None = None
    """Constituency tree in PTB brackets, one line."""
    replaced_bytes: bool = False
    """Whether undecodable bytes or NULs were replaced in this sentence."""
    truncated: bool = False
    """Whether the line was cut at the reader's length limit."""


@dataclass(frozen=True, slots=True)
class Document:
    """Sentences in running order, with an identifier unique within the corpus."""

    id: str
    sentences: tuple[Sentence, ...]
    continued: bool = False
    """Whether this continues the previous document (same id), which was too long to hold at once."""


class Corpus(Protocol):
    """An iterable of documents in running order, the same at every iteration."""

    name: str
    """Short name, used for the cache's folder."""

    @property
    def identity(self) -> dict[str, str]:
        """What decides the content: reader, format, tokenizer, versions, input hash (JSON values)."""
        ...

    def __iter__(self) -> Iterator[Document]: ...


@dataclass
class StreamCorpus:
    """A corpus whose documents are read again by every iteration."""

    name: str
    """Short name, used for the cache's folder."""
    documents: Callable[[], Iterator[Document]]
    """Yields the documents."""
    _: KW_ONLY
    about: dict[str, str]
    """What decides the content besides the input, e.g. format and tokenizer."""
    hash_input: Callable[[], str]
    """Computes the input's hash; called at most once, on first use of the identity."""
    limit: int | None = None
    """Number of sentences to keep; None keeps all."""
    path: Path | None = None
    """The file or folder, for messages."""

    @functools.cached_property
    def identity(self) -> dict[str, str]:
        """What decides the content: reader, format, tokenizer, limit, and the hash of the input."""
        limit = {} if self.limit is None else {"first_sentences": str(self.limit)}
        return {**self.about, **limit, "input_sha256": self.hash_input()}

    def describe(self) -> str:
        """One line that states how the input is read, defaults included."""
        return f"{self.name}: " + ", ".join(f"{key} {value}" for key, value in self.about.items())

    def __iter__(self) -> Iterator[Document]:
        read = 0
        for document in self.documents():
            if self.limit is not None:
                document = replace(document, sentences=document.sentences[: self.limit - read])
            yield document
            read += len(document.sentences)
            if read == self.limit:
                return
        if not read:
            about = self.describe().partition(": ")[2]
            where = self.path or f"corpus {self.name}"
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
