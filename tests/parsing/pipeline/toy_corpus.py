"""A corpus made of a seed: documents of every length, odd tokens included."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from corpora.documents import Document, Sentence

WORDS = ("a", "of", "tree", "parser", "日本語", "née", "\u202eשלום", "🙂", "constituency", "\x07", "x\x00y")


@dataclass
class ToyCorpus:
    """``n`` sentences in documents of 1 to 40."""

    n: int
    seed: int = 0
    name: str = "toy"

    @property
    def identity(self) -> dict[str, str]:
        return {"reader": "toy", "input_sha256": f"{self.n}/{self.seed}"}

    def __iter__(self) -> Iterator[Document]:
        random = np.random.default_rng(self.seed)
        left, number = self.n, 0
        while left:
            size = min(left, int(random.integers(1, 41)))
            left -= size
            sentences = [
                tuple(random.choice(WORDS, size=random.integers(1, 15)).tolist()) for _ in range(size)
            ]
            yield Document(f"d{number}", tuple(Sentence(tokens) for tokens in sentences))
            number += 1


@dataclass
class ListCorpus:
    """Given sentences, one document."""

    sentences: list[Sentence]
    name: str = "list"

    @property
    def identity(self) -> dict[str, str]:
        return {"reader": "list"}

    def __iter__(self) -> Iterator[Document]:
        yield Document("only", tuple(self.sentences))
