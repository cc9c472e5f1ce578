"""The encoder under both parsers: a BiLSTM over words and their characters.

The input of word t is x_t = [word embedding ; last states of the character BiLSTM]. L bidirectional LSTM
layers follow (:mod:`parsing.networks.lstm`), as in Dozat & Manning (2017). The weights correspond one to one
to those of supar's ``CharLSTM`` and ``VariationalLSTM``.

The character LSTM runs once per word *type* of a batch, and at inference once per type of the corpus
(:class:`TypeVectors`).

Legend of dimension suffixes: B sentences, T positions, U types, C characters, N packed positions, E input, D
size of a state, of both directions.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from parsing.networks.config import EncoderSizes
from parsing.networks.features import PAD, TABLE_LOCK, ParserVocabulary, TypeTable, WordBatch, make_batch
from parsing.networks.lstm import BidirectionalLayer, Packing, runs_packed, shared_dropout
from runtime.compiled_math import FEW_SEQUENCES
from runtime.process import cached_property

Recurrent = Sequence[Sequence[NDArray[np.floating]]]  # U of each layer and direction, transposed


class CharacterEncoder(nn.Module):
    """A BiLSTM over the characters of words; the vector of a word is the last states of both directions."""

    # In training, words run in groups of similar length, so that short ones are not padded to long ones.
    GROUP_LENGTHS = (2, 4, 6, 9, 13)

    def __init__(self, n_characters: int, dim: int, hidden: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_characters, dim)
        self.lstm = BidirectionalLayer(dim, hidden // 2)
        self.output_dim = 2 * (hidden // 2)

    def forward(self, characters_UC: Tensor, counts_U: Tensor) -> Tensor:
        """Return the vectors of words [U, E], given character ids [U, C] and counts [U], both on the host."""
        if runs_packed(self.lstm):
            packing = Packing.of(counts_U, characters_UC.shape[1])
            recurrent = self.lstm.recurrent_weights() if len(counts_U) <= FEW_SEQUENCES else ()
            inputs = self.embedding.weight, packing.pack(characters_UC)
            states_NE = self.lstm.packed_states(*inputs, packing, recurrent)
            return _last_states(packing.unpack(states_NE), counts_U)
        device = self.embedding.weight.device
        group_U = torch.bucketize(counts_U, torch.tensor(self.GROUP_LENGTHS))
        groups = [(group_U == group).nonzero()[:, 0] for group in group_U.unique()]
        vectors = []
        for words in groups:
            counts = counts_U[words].to(device)
            characters = characters_UC[words, : int(counts_U[words].max())].to(device)
            vectors.append(_last_states(self.lstm(self.embedding(characters), counts), counts))
        return torch.cat(vectors)[torch.argsort(torch.cat(groups)).to(device)]


def _last_states(states_UCE: Tensor, counts_U: Tensor) -> Tensor:
    """Return the last state of each direction, [U, E]; back, the last one is at the first character."""
    ahead_UCH, back_UCH = states_UCE.chunk(2, -1)
    rows = torch.arange(len(counts_U), device=counts_U.device)
    return torch.cat([ahead_UCH[rows, counts_U - 1], back_UCH[:, 0]], -1)


class SentenceEncoder(nn.Module):
    """Computes the contextual states of the words of a batch; the module's docstring describes the network.

    :attr:`dropout` is the rate in training. The embedding of a token's word is dropped as a whole, and
    independently of it the vector of its characters. In the inputs of layers and in the output, the same
    components are dropped at all positions of a sentence.
    """

    def __init__(self, n_words: int, n_characters: int, config: EncoderSizes) -> None:
        super().__init__()
        self.config, self.dropout = config, 0.0
        self.words = nn.Embedding(n_words, config.word_dim)
        self.characters = CharacterEncoder(n_characters, config.character_dim, config.character_hidden)
        self.input_dim = config.word_dim + self.characters.output_dim
        self.output_dim = 2 * config.hidden
        widths = [self.input_dim, *[self.output_dim] * (config.layers - 1)]
        self.layers = nn.ModuleList(BidirectionalLayer(width, config.hidden) for width in widths)
        with torch.no_grad():
            self.words.weight[PAD].zero_()

    def type_vectors(self, words_U: Tensor, characters_UC: Tensor, counts_U: Tensor) -> Tensor:
        """Return the input vectors of word types, [U, E], without dropout."""
        words_UE = self.words(words_U.to(self.words.weight.device))
        return torch.cat([words_UE, self.characters(characters_UC, counts_U)], -1)

    def _training_inputs(self, batch: WordBatch) -> Tensor:
        """Return the inputs [B, T, E]; if dropout removes the word or its characters, the rest is doubled."""
        types_BT = batch.types_BT.to(self.words.weight.device)
        words_U, characters_UC, counts_U = batch.table.features(batch.rows_U)
        words_BT = words_U.to(types_BT.device)[types_BT]
        characters_UE = self.characters(characters_UC, counts_U)
        # By embedding(), whose backward pass is a sum by row, much faster than the index_put of indexing.
        inputs = [self.words(words_BT), nn.functional.embedding(types_BT, characters_UE)]
        if self.dropout:
            masks = [torch.empty_like(x[..., :1]).bernoulli_(1 - self.dropout) for x in inputs]
            scale = 2 / (masks[0] + masks[1]).clamp(min=1)
            inputs = [x * (mask * scale) for x, mask in zip(inputs, masks, strict=True)]
        return torch.cat(inputs, -1)

    def forward(self, batch: WordBatch, x_UE: Tensor | None = None, recurrent: Recurrent = ()) -> Tensor:
        """Return the states [B, T, D] of all positions, boundaries included.

        The first half of D are the states of the direction ahead.

        Args:
            batch: the sentences, with an end boundary if the config has one.
            x_UE: at inference the input vectors of the batch's types, if they are known.
            recurrent: each layer's :meth:`~BidirectionalLayer.recurrent_weights`, for few sentences.
        """
        if not self.training and x_UE is None:
            x_UE = self.type_vectors(*batch.table.features(batch.rows_U))
        if x_UE is not None and runs_packed(self):
            packing = Packing.of(batch.lengths_B, batch.types_BT.shape[1])
            row_N: Tensor | None = packing.pack(batch.types_BT)
            for layer, weights in itertools.zip_longest(self.layers, recurrent, fillvalue=()):
                assert isinstance(layer, BidirectionalLayer)
                x_UE, row_N = layer.packed_states(x_UE, row_N, packing, weights), None
            return packing.unpack(x_UE)
        x_BTE = self._training_inputs(batch) if x_UE is None else x_UE[batch.types_BT.to(x_UE.device)]
        rate = self.dropout if self.training else 0.0
        lengths_B = batch.lengths_B.to(x_BTE.device)
        for layer in self.layers:
            x_BTE = layer(shared_dropout(x_BTE, rate), lengths_B)
        return shared_dropout(x_BTE, rate)


class TypeVectors(TypeTable):
    """A table that also stores the input vectors of word types, so that inference computes each once.

    All threads share it. Memory is bounded: with more than ``max_types`` types the table starts anew. 60,000
    types take 54 MB; a larger table saves no time, because most types of a corpus occur once.
    """

    def __init__(
        self, vocabulary: ParserVocabulary, encoder: SentenceEncoder, max_types: int = 60_000
    ) -> None:
        self.encoder, self.max_types = encoder, max_types
        super().__init__(vocabulary)

    def __reduce__(self) -> tuple[type[TypeTable], tuple[Any, ...]]:
        return type(self), (self.vocabulary, self.encoder, self.max_types)

    def clear(self) -> None:
        """Remove all types and vectors; new vectors are on the device where the encoder is now."""
        with TABLE_LOCK:
            super().clear()
            self._finished = 0  # rows that have a vector
            vars(self).pop("_recurrent_weights", None)
            self._vectors = self.encoder.words.weight.new_zeros(0, self.encoder.input_dim)

    @torch.inference_mode()
    def batch_with_vectors(self, sentences: Sequence[Sequence[str]]) -> tuple[WordBatch, Tensor]:
        """Return a padded batch and the vectors [U, E] of its types, under one lock for both."""
        with TABLE_LOCK:
            if len(self) > self.max_types:
                self.clear()
            batch = make_batch(self, sentences, end_boundary=self.encoder.config.end_boundary)
            size = len(self)
            if size > len(self._vectors):
                spare_vectors = self._vectors.new_zeros(size, self.encoder.input_dim)
                self._vectors = torch.cat([self._vectors, spare_vectors])
            if size > self._finished:
                new_vectors = self.encoder.type_vectors(*self.features(np.arange(self._finished, size)))
                self._vectors[self._finished : size] = new_vectors
                self._finished = size  # last, so that an exception leaves no type without a vector
            return batch, self._vectors[torch.from_numpy(batch.rows_U).to(self._vectors.device)]

    def states(self, sentences: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """Return the states [B, T, D] of a batch and, on the host, the numbers of positions [B]."""
        batch, x_UE = self.batch_with_vectors(sentences)
        is_small = x_UE.is_cpu and len(sentences) <= FEW_SEQUENCES
        return self.encoder(batch, x_UE, self._recurrent_weights if is_small else ()), batch.lengths_B

    @cached_property
    def _recurrent_weights(self) -> list[list[NDArray[np.floating]]]:
        return [layer.recurrent_weights() for layer in self.encoder.layers]  # type: ignore[operator]
