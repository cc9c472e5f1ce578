"""Training sentences as an encoder reads them: read once, encoded batch by batch.

Shape suffixes: B sentences of a batch, T positions (boundaries included), D states.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from parsing.networks.features import ParserVocabulary, TypeTable, make_batch
from parsing.networks.sentence_encoder import SentenceEncoder
from parsing.networks.subwords import SubwordEncoder, SubwordTable


class TrainingSentences(Protocol):
    """Sentences and the encoder that is trained on them."""

    def states(self, sentences: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Contextual states [B, T, D] and number of positions [B] of the sentences with these indices."""
        ...


class WordSentences:
    """For the word and character BiLSTM."""

    def __init__(
        self, encoder: SentenceEncoder, vocabulary: ParserVocabulary, sentences: Sequence[Sequence[str]]
    ) -> None:
        self._encoder = encoder
        self._table = TypeTable(vocabulary)
        self._rows = [self._table.rows(tokens) for tokens in sentences]

    def states(self, sentences: Sequence[int]) -> tuple[Tensor, Tensor]:
        """See :class:`TrainingSentences`."""
        rows = [self._rows[i] for i in sentences]
        batch = make_batch(self._table, rows, end_boundary=self._encoder.config.end_boundary)
        return self._encoder(batch), batch.lengths_B


class PieceSentences:
    """For a pretrained transformer."""

    def __init__(
        self, encoder: SubwordEncoder, tokenizer: dict[str, object], sentences: Sequence[Sequence[str]]
    ) -> None:
        self._encoder = encoder
        self._table = SubwordTable(json.dumps(tokenizer), encoder.config)
        self._pieces = [self._table.pieces(tokens) for tokens in sentences]

    def states(self, sentences: Sequence[int]) -> tuple[Tensor, Tensor]:
        """See :class:`TrainingSentences`."""
        batch = self._table.batch([self._pieces[i] for i in sentences])
        return self._encoder(batch), batch.lengths_B
