"""The data that flows from a corpus to a parser."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol


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
