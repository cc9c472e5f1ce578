"""Turns words and characters into integers: vocabularies, word types and padded batches.

A *type* is a distinct word form. The id of the word and its characters depend on the form alone. They are
computed once per type and stored in a row of a table, so that neither the lookup of ids nor the character
encoder runs twice on the same word.

Legend of dimension suffixes: B sentences, T positions (boundaries included), U distinct types of a batch, C
characters of a type (cut at ``ParserVocabulary.max_characters``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from corpora.characters import normalise_text
from parsing.trees.batch import Int64
from runtime.cli import Count, configuration
from runtime.process import shared_lock

SPECIALS = ("<pad>", "<unk>", "<bos>", "<eos>")
"""The first entries of both vocabularies. In a text, ``<pad>`` is an unknown word."""
PAD, UNKNOWN, BEGIN, END = range(4)
TABLE_LOCK = shared_lock()
"""The lock for adding words to a table and for reading their vectors; without it two threads might add
different words to one row."""


@configuration
class ParserVocabulary:
    """The words (lower-cased) and characters that a model knows, ``SPECIALS`` first."""

    words: tuple[str, ...]
    characters: tuple[str, ...]
    max_characters: Count = 20
    """The number of characters of a word that are read."""

    @classmethod
    def build(cls, sentences: Iterable[Sequence[str]], *, min_count: int = 2) -> ParserVocabulary:
        """Collect words and characters of training sentences; words rarer than ``min_count`` are left out."""
        counts: Counter[str] = Counter()
        characters: set[str] = set()
        for tokens in sentences:
            words = [normalise_text(token) for token in tokens]
            counts.update(word.lower() for word in words)
            characters.update(*words)
        frequent_words = sorted(w for w, count in counts.items() if count >= min_count and w not in SPECIALS)
        return cls(words=(*SPECIALS, *frequent_words), characters=(*SPECIALS, *sorted(characters)))


class TypeTable:
    """A growing table of word types: one row of integer features for each type.

    The first three rows are padding, the begin boundary and the end boundary.
    """

    PAD_ROW, BEGIN_ROW, END_ROW = 0, 1, 2

    def __init__(self, vocabulary: ParserVocabulary) -> None:
        self.vocabulary = vocabulary
        self._word_ids = {w: i for i, w in enumerate(vocabulary.words) if i >= len(SPECIALS)}
        self._character_ids = {c: i for i, c in enumerate(vocabulary.characters) if i >= len(SPECIALS)}
        self.clear()

    def clear(self) -> None:
        """Forget every type."""
        features = np.zeros((1024, 2 + self.vocabulary.max_characters), dtype=np.int64)
        for row, special in enumerate((PAD, BEGIN, END)):
            features[row, :3] = special, 1, special
        with TABLE_LOCK:
            self._row_of_type: dict[str, int] = {}
            self._features = features

    def __len__(self) -> int:
        return 3 + len(self._row_of_type)

    def __reduce__(self) -> tuple[type[TypeTable], tuple[Any, ...]]:
        return type(self), (self.vocabulary,)

    def knows(self, word: str) -> bool:
        """Tell whether a word is in the vocabulary."""
        return normalise_text(word).lower() in self._word_ids

    def rows(self, tokens: Iterable[str]) -> Int64:
        """Return the row of each token, int64 [tokens]; new types get the next rows."""
        with TABLE_LOCK:
            rows = self._row_of_type
            return np.array([rows[t] if t in rows else self._add(t) for t in tokens], dtype=np.int64)

    def features(self, rows_U: Int64) -> tuple[Tensor, Tensor, Tensor]:
        """Return word ids [U], character ids [U, C], padded with 0, and character counts [U], on the host."""
        features = torch.from_numpy(self._features[rows_U])
        counts_U = features[:, 1].contiguous()
        return features[:, 0], features[:, 2 : 2 + int(counts_U.max())], counts_U

    def _add(self, token: str) -> int:
        """Add a type and return its row; the caller holds the lock."""
        word, row = normalise_text(token), len(self)
        ids = [self._character_ids.get(c, UNKNOWN) for c in word[: self.vocabulary.max_characters]]
        ids = ids or [UNKNOWN]  # an empty token has one unknown character
        if row == len(self._features):
            self._features = np.concatenate([self._features, np.zeros_like(self._features)])
        self._features[row, : 2 + len(ids)] = [self._word_ids.get(word.lower(), UNKNOWN), len(ids), *ids]
        self._row_of_type[token] = row  # last, so that an exception leaves no type without features
        return row


@dataclass(frozen=True, slots=True)
class WordBatch:
    """B sentences with boundary positions, padded at the end to T positions."""

    lengths_B: Tensor  # number of tokens and boundaries
    types_BT: Tensor  # indices in ``rows_U``
    rows_U: Int64  # rows of the table, ascending, padding first
    table: TypeTable


def make_batch(table: TypeTable, sentences: Sequence[Sequence[str]], *, end_boundary: bool) -> WordBatch:
    """Make a padded batch of tokenised sentences.

    Each sentence begins with a boundary, which is the dependency parser's root. With ``end_boundary`` it ends
    with another one.
    """
    lengths_B = np.array([len(tokens) + 1 + end_boundary for tokens in sentences], dtype=np.int64)
    rows_BT = np.full((len(sentences), int(lengths_B.max())), TypeTable.PAD_ROW, dtype=np.int64)
    rows_BT[:, 0] = TypeTable.BEGIN_ROW
    for b, tokens in enumerate(sentences):
        rows_BT[b, 1 : 1 + len(tokens)] = table.rows(tokens)
    if end_boundary:
        rows_BT[np.arange(len(sentences)), lengths_B - 1] = TypeTable.END_ROW
    # The padding row is always a type of the batch, so that type 0 is padding.
    rows_U, flat = np.unique(np.append(rows_BT, TypeTable.PAD_ROW), return_inverse=True)
    types_BT = torch.from_numpy(flat[:-1].reshape(rows_BT.shape))
    return WordBatch(torch.from_numpy(lengths_B), types_BT, rows_U, table)
