"""Word + character BiLSTM over sentences: the encoder under both parsers.

x_t = [word embedding ; character BiLSTM's last states], then L bidirectional LSTM layers, as in
Dozat & Manning (2017); weights map one to one onto supar's ``CharLSTM`` and ``VariationalLSTM``.

Two choices make it fast on a CPU. The character LSTM runs once per word *type* (and at
inference once per type of the corpus: :class:`TypeVectors`). The two directions of a layer are
separate LSTMs, the backward one over sentences reversed within their length: padded input then
gives exact states and keeps oneDNN's fused LSTM, which packed sequences do not (one thread,
3 x 192, 64 sentences of 20 words: 11,000 against 5,500 words/s in training). Without gradients
:mod:`parsing.networks.recurrence` runs the same weights without padding.

Shape suffixes: B sentences, T positions, U types, C characters, E input, D hidden (both directions).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from parsing.networks import recurrence
from parsing.networks.config import EncoderConfig
from parsing.networks.features import PAD, TypeTable, WordBatch, make_batch
from parsing.networks.recurrence import Packing


def kept(like: Tensor, rate: float) -> Tensor:
    """1 with the probability ``1 - rate``, else 0, in the shape of ``like``."""
    return torch.empty_like(like).bernoulli_(1 - rate)


def shared_dropout(x_BTD: Tensor, rate: float) -> Tensor:
    """Variational dropout: one mask per sentence, the same at every position."""
    if rate == 0:
        return x_BTD
    mask_B1D = kept(x_BTD[:, :1], rate) / (1 - rate)
    return x_BTD * mask_B1D


def independent_dropout(word_BTE: Tensor, character_BTE: Tensor, rate: float) -> tuple[Tensor, Tensor]:
    """Drop a token's whole word or character vector; if one is dropped, the other is doubled."""
    if rate == 0:
        return word_BTE, character_BTE
    masks = [kept(x[..., :1], rate) for x in (word_BTE, character_BTE)]
    scale = 2 / (masks[0] + masks[1]).clamp(min=1)
    return word_BTE * (masks[0] * scale), character_BTE * (masks[1] * scale)


def reversal(lengths_B: Tensor, positions: int) -> Tensor:
    """Flat index [B·T] that reverses the first ``lengths_B[b]`` positions of each row.

    Padding stays where it is, so the index is its own inverse.
    """
    positions_T = torch.arange(positions, device=lengths_B.device)
    index_BT = lengths_B[:, None] - 1 - positions_T
    index_BT = torch.where(index_BT >= 0, index_BT, positions_T)
    starts_B = torch.arange(len(lengths_B), device=lengths_B.device) * positions
    return (index_BT + starts_B[:, None]).flatten()


def reverse_within(x_BTD: Tensor, index: Tensor) -> Tensor:
    """Apply a :func:`reversal`: rows are copied whole, three times as fast as ``gather``."""
    return x_BTD.flatten(0, 1).index_select(0, index).view_as(x_BTD)


class BidirectionalLayer(nn.Module):
    """One bidirectional LSTM layer over padded sequences, exact at every unpadded position."""

    def __init__(self, input_dim: int, hidden: int) -> None:
        super().__init__()
        self.ahead = nn.LSTM(input_dim, hidden, batch_first=True)
        self.back = nn.LSTM(input_dim, hidden, batch_first=True)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.orthogonal_(parameter)
            else:
                nn.init.zeros_(parameter)

    def forward(self, x_BTE: Tensor, lengths_B: Tensor) -> Tensor:
        """[B, T, E] -> [B, T, D]: states of both directions, ahead first."""
        index = reversal(lengths_B, x_BTE.shape[1])
        ahead_BTH, _ = self.ahead(x_BTE)
        back_BTH, _ = self.back(reverse_within(x_BTE, index))
        return torch.cat([ahead_BTH, reverse_within(back_BTH, index)], -1)


class CharacterEncoder(nn.Module):
    """Last states of a BiLSTM over a word's characters."""

    # Words are run in groups of similar length, so that short words are not padded to long ones.
    GROUPS = (2, 4, 6, 9, 13)

    def __init__(self, n_characters: int, dim: int, hidden: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_characters, dim)
        self.lstm = BidirectionalLayer(dim, hidden // 2)
        self.output_dim = 2 * (hidden // 2)

    def forward(self, characters_UC: Tensor, counts_U: Tensor) -> Tensor:
        """Character ids [U, C] and their number [U], both on the host -> [U, E]."""
        if recurrence.applies_to(self.lstm):
            packing = Packing.of(counts_U, characters_UC.shape[1])
            lstms, character_N = [self.lstm.ahead, self.lstm.back], packing.pack(characters_UC)
            states_NE = recurrence.states(lstms, self.embedding.weight, character_N, packing)
            return _ends(packing.unpack(states_NE), counts_U)
        device = self.embedding.weight.device
        group_U = torch.bucketize(counts_U, torch.tensor(self.GROUPS))
        members = [index for g in range(len(self.GROUPS) + 1) if len(index := (group_U == g).nonzero()[:, 0])]
        parts = []
        for index in members:
            counts = counts_U[index].to(device)
            characters = characters_UC[index, : int(counts_U[index].max())].to(device)
            parts.append(_ends(self.lstm(self.embedding(characters), counts), counts))
        return torch.cat(parts)[torch.argsort(torch.cat(members)).to(device)]


def _ends(states_UCE: Tensor, counts_U: Tensor) -> Tensor:
    """The last state of each direction, [U, E]."""
    ahead_UCH, back_UCH = states_UCE.chunk(2, -1)
    rows = torch.arange(len(counts_U), device=counts_U.device)
    return torch.cat([ahead_UCH[rows, counts_U - 1], back_UCH[:, 0]], -1)


class SentenceEncoder(nn.Module):
    """Batches of words to contextual states; see the module's docstring."""

    def __init__(self, n_words: int, n_characters: int, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.words = nn.Embedding(n_words, config.word_dim)
        self.characters = CharacterEncoder(n_characters, config.character_dim, config.character_hidden)
        self.input_dim = config.word_dim + self.characters.output_dim
        widths = [self.input_dim, *[2 * config.hidden] * (config.layers - 1)]
        self.layers = nn.ModuleList(BidirectionalLayer(width, config.hidden) for width in widths)
        self.output_dim = 2 * config.hidden
        with torch.no_grad():
            self.words.weight[PAD].zero_()

    def type_vectors(self, words_U: Tensor, characters_UC: Tensor, counts_U: Tensor) -> Tensor:
        """Input vectors of word types without dropout, [U, E]: what does not depend on context."""
        words_UE = self.words(words_U.to(self.words.weight.device))
        return torch.cat([words_UE, self.characters(characters_UC, counts_U)], -1)

    def _training_inputs(self, batch: WordBatch) -> Tensor:
        """Input vectors of a batch with dropout, [B, T, E]."""
        types_BT = batch.types_BT.to(self.words.weight.device)
        words_BT = batch.words_U.to(types_BT.device)[types_BT]
        characters_UE = self.characters(batch.characters_UC, batch.character_counts_U)
        # embedding() rather than indexing: its backward is a sum by row, much faster than index_put.
        character_BTE = nn.functional.embedding(types_BT, characters_UE)
        word, character = independent_dropout(
            self.words(words_BT), character_BTE, self.config.embedding_dropout
        )
        return torch.cat([word, character], -1)

    def _without_padding(self, x_UE: Tensor, row_BT: Tensor, lengths_B: Tensor) -> Tensor:
        """The states of ``x_UE[row_BT]`` without gradients; the first layer's inputs once a row."""
        packing = Packing.of(lengths_B, row_BT.shape[1])
        x_NE = x_UE.to(next(self.layers.parameters()).dtype)
        row_N: Tensor | None = packing.pack(row_BT)
        for layer in self.layers:
            assert isinstance(layer, BidirectionalLayer)
            x_NE, row_N = recurrence.states([layer.ahead, layer.back], x_NE, row_N, packing), None
        return packing.unpack(x_NE).float()

    def forward(self, batch: WordBatch, vectors: TypeVectors | None = None) -> Tensor:
        """States [B, T, D] of every position, boundaries included; the first half of D runs ahead.

        The batch has an end boundary if the config has one; ``vectors`` are used at inference.
        """
        if self.training:
            x_BTE = self._training_inputs(batch)
        else:
            parts = batch.words_U, batch.characters_UC, batch.character_counts_U
            x_UE = self.type_vectors(*parts) if vectors is None else vectors.of_types(batch)
            if recurrence.applies_to(self.layers):
                return self._without_padding(x_UE, batch.types_BT, batch.lengths_B)
            x_BTE = x_UE[batch.types_BT.to(x_UE.device)]
        rate = self.config.dropout if self.training else 0.0
        x_BTE, lengths_B = x_BTE.to(next(self.layers.parameters()).dtype), batch.lengths_B.to(x_BTE.device)
        for layer in self.layers:
            x_BTE = layer(shared_dropout(x_BTE, rate), lengths_B)
        return shared_dropout(x_BTE, rate).float()


class TypeVectors:
    """Cache of input vectors by word type, for inference: each type is computed once.

    Memory is bounded: past ``max_types`` the table and the cache start anew (60,000 take 54 MB; most types of
    a corpus occur once, so that more save no time).
    """

    def __init__(self, encoder: SentenceEncoder, table: TypeTable, *, max_types: int = 60_000) -> None:
        self.encoder, self.table, self.max_types = encoder, table, max_types
        self.forget()

    def forget(self) -> None:
        """Start anew, on the device where the encoder is now; earlier batches are then invalid."""
        self.table.clear()
        self._known = np.zeros(0, dtype=bool)
        self._vectors = torch.zeros((0, self.encoder.input_dim), device=self.encoder.words.weight.device)

    def batch(self, sentences: Sequence[Sequence[str]]) -> WordBatch:
        """A padded batch of tokenised sentences, with the boundaries that the encoder expects."""
        if len(self.table) > self.max_types:
            self.forget()
        rows = [self.table.rows(tokens) for tokens in sentences]
        return make_batch(self.table, rows, end_boundary=self.encoder.config.end_boundary)

    @torch.inference_mode()
    def of_types(self, batch: WordBatch) -> Tensor:
        """Input vectors of a batch's types, [U, E], on the encoder's device."""
        if len(self.table) > len(self._known):
            more = max(len(self.table), 2 * len(self._known)) - len(self._known)
            self._known = np.append(self._known, np.zeros(more, dtype=bool))
            self._vectors = torch.cat([self._vectors, self._vectors.new_zeros(more, self.encoder.input_dim)])
        device = self._vectors.device
        missing = np.flatnonzero(~self._known[batch.rows_U])
        if len(missing):
            index, rows = torch.from_numpy(missing), batch.rows_U[missing]
            self._vectors[torch.from_numpy(rows).to(device)] = self.encoder.type_vectors(
                batch.words_U[index], batch.characters_UC[index], batch.character_counts_U[index]
            )
            self._known[rows] = True
        return self._vectors[torch.from_numpy(batch.rows_U).to(device)]
