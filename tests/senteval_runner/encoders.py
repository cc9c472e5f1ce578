"""Encoders the tests evaluate."""

import zlib
from string import ascii_lowercase

import numpy as np


class RandomBag:
    """Mean of fixed random vectors of the lower-cased tokens: the encoder of the reference points."""

    pretokenized = True

    def __init__(self, dim: int = 300) -> None:
        self.dim = dim
        self.words: dict[str, np.ndarray] = {}
        self.calls: list[int] = []

    def word(self, token: str) -> np.ndarray:
        token = token.lower()
        if token not in self.words:
            self.words[token] = np.random.RandomState(zlib.crc32(token.encode())).randn(self.dim)
        return self.words[token]

    def encode(self, sentences: list[str] | list[list[str]]) -> np.ndarray:
        self.calls.append(len(sentences))
        sentences = [s.split() if isinstance(s, str) else s for s in sentences]
        return np.stack([np.mean([self.word(t) for t in s], axis=0) for s in sentences]).astype(np.float32)


class Letters:
    """How often a sentence has each letter."""

    def encode(self, sentences: list[str]) -> np.ndarray:
        return np.array([[text.lower().count(letter) for letter in ascii_lowercase] for text in sentences])
