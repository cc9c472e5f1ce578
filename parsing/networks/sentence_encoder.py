"""The encoder under both parsers: a BiLSTM over words and their characters.

The input of word t is x_t = [word embedding ; last states of the character BiLSTM]. L bidirectional LSTM
layers follow, as in Dozat & Manning (2017). The weights correspond one to one to those of supar's
``CharLSTM`` and ``VariationalLSTM``.

The character LSTM runs once per word *type* of a batch, and at inference once per type of the corpus
(:class:`TypeVectors`). The two directions of a layer are separate LSTMs, and the backward one reads each
sentence reversed within its length. With that, padded input gives exact states, and torch uses oneDNN's fused
LSTM, which it does not use for packed sequences; training takes half the time. Without gradients on a CPU,
:meth:`BidirectionalLayer.packed_states` computes the same states without padding or reversal, in 0.71 of the
time of torch's LSTM:

    i, f, o = σ(W x_t + U h + b)   g = tanh(W x_t + U h + b)   c ← f∘c + i∘g   h ← o∘tanh(c)

Positions are packed in the order of time and, within a time, by falling length of their sentences, so that
the sentences that have not ended are the first rows. W x is computed before the first step, once for each
word type, so that a step is one product U h and one compiled pass over its rows. For few sentences all steps
are one compiled call, which takes a third of the time.

Legend of dimension suffixes: B sentences, T positions, U types, C characters, N packed positions, E input, H
hidden of one direction, D = 2H of both.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from parsing.networks.config import EncoderSizes
from parsing.networks.features import PAD, TABLE_LOCK, ParserVocabulary, TypeTable, WordBatch, make_batch
from parsing.trees.batch import Int64, offsets_of
from runtime.compiled import compiled
from runtime.compiled_math import FEW_SEQUENCES, add_products, sigmoid, tanh
from runtime.int8 import int8_matrix, quantise_row, quantised
from runtime.process import cached_property
from runtime.products import Int8Products, products_for

Recurrent = Sequence[Sequence[NDArray[np.floating]]]  # U of each layer and direction, transposed


@dataclass(frozen=True, slots=True)
class Packing:
    """The order of the positions of a batch by time, without padding."""

    shape: tuple[int, int]
    """B and T of the padded batch."""
    index_N: Tensor
    """The index of each packed position in the padded batch, ``sentence * T + time``: int64."""
    starts: Int64
    """The first packed position of each time, then one past the last; times without a word are left out."""

    @classmethod
    def of(cls, lengths_B: Tensor, positions: int) -> Packing:
        """Return the order for sentences of lengths [B], at least 1, on the host, padded to ``positions``."""
        lengths = lengths_B.numpy()
        longest_first = np.argsort(-lengths, kind="stable")
        is_word = np.arange(lengths.max())[:, None] < lengths[longest_first]
        time_N, sorted_N = np.nonzero(is_word)
        return cls(
            shape=(len(lengths), positions),
            index_N=torch.from_numpy(longest_first[sorted_N] * positions + time_N),
            starts=offsets_of(is_word.sum(1)),
        )

    def times(self, *, reverse: bool) -> list[tuple[int, int]]:
        """Return the first packed position of each time, and one past its last, in the order of the steps."""
        times = list(itertools.pairwise(self.starts.tolist()))
        return times[::-1] if reverse else times

    def pack(self, x_BT: Tensor) -> Tensor:
        """Return values [B, T, ...] without padding, [N, ...]."""
        return x_BT.flatten(0, 1).index_select(0, self.index_N)

    def unpack(self, x_NE: Tensor) -> Tensor:
        """Return packed values [N, E] with zeros as padding, [B, T, E]."""
        x_BTE = x_NE.new_zeros(*self.shape, x_NE.shape[1])
        x_BTE.flatten(0, 1).index_copy_(0, self.index_N, x_NE)
        return x_BTE


def runs_packed(module: nn.Module) -> bool:
    """Tell whether the LSTM layers of a module can run packed: without gradients or dropout, on a CPU."""
    on_cpu = next(module.parameters()).is_cpu
    return on_cpu and not (module.training or torch.is_grad_enabled())


@compiled
def _steps(gates, bias, h, c, out, starts, weight, direction):  # type: ignore[no-untyped-def]
    """Compute the states of one direction at successive times.

    Args:
        gates: W x in torch's order i, f, g, o, [N, 4H], which is overwritten; at the first time W x + U h.
        bias: the sum of both biases, [4H].
        h: the states [B, H], which are updated; the sentences of a time are the first rows.
        c: the cells [B, H], likewise.
        out: memory for the states of both directions, [N, 2H].
        starts: the first packed position of each time, and one past the last.
        weight: Uᵀ, [H, 4H].
        direction: 0 for the LSTM ahead, 1 for the one back: which half of ``out`` is written.
    """
    hidden = h.shape[1]
    previous = 0
    for step in range(len(starts) - 1):
        time = len(starts) - 2 - step if direction else step
        low, high = starts[time], starts[time + 1]
        running = min(previous, high - low)  # as in :meth:`BidirectionalLayer.packed_states`
        add_products(h[:running], weight, gates[low : low + running], step % 2)
        previous = high - low
        for k in range(high - low):
            row, state, cell = gates[low + k], h[k], c[k]
            i_f, b_if = row[: 2 * hidden], bias[: 2 * hidden]
            g, b_g = row[2 * hidden : 3 * hidden], bias[2 * hidden : 3 * hidden]
            o, b_o = row[3 * hidden :], bias[3 * hidden :]
            for j in range(2 * hidden):
                i_f[j] = sigmoid(i_f[j] + b_if[j])
            for j in range(hidden):
                g[j] = tanh(g[j] + b_g[j])
            for j in range(hidden):
                o[j] = sigmoid(o[j] + b_o[j])
            i, f = i_f[:hidden], i_f[hidden:]
            for j in range(hidden):
                cell[j] = f[j] * cell[j] + i[j] * g[j]
            for j in range(hidden):
                state[j] = o[j] * tanh(cell[j])
            half = out[low + k, direction * hidden : (direction + 1) * hidden]
            for j in range(hidden):
                half[j] = state[j]


@compiled
def _int8_step(  # type: ignore[no-untyped-def]
    inputs, row_N, x_scale, input_scale, bias, recurrent, running, h, h_scale, recurrent_scale, c, out, low,
    high, direction
):  # fmt: skip
    """Compute the states of one direction at one time, with products in eight bits (:mod:`runtime.int8`).

    Args:
        inputs: W x in torch's order i, f, g, o, [K, 4H], as sums to be multiplied by two scales.
        row_N: the row of ``inputs`` at each packed position.
        x_scale: the scale of each row of ``inputs``, [K].
        input_scale: the scale of each column of ``inputs``, [4H].
        bias: the sum of both biases, [4H].
        recurrent: U h of the first ``running`` sentences, as sums, [running, 4H].
        running: the number of sentences that have a state from the time before.
        h: the states [B, H], which are updated, as integers; the sentences of a time are the first rows.
        h_scale: the scale of each row of ``h``, [B], which is updated.
        recurrent_scale: the scale of each column of ``recurrent``, [4H].
        c: the cells [B, H], which are updated.
        out: memory for the states of both directions, [N, 2H].
        low: the first packed position of the time.
        high: one past its last.
        direction: 0 for the LSTM ahead, 1 for the one back: which half of ``out`` is written.
    """
    hidden = c.shape[1]
    gates = np.empty(4 * hidden, out.dtype)
    i_f, g, o = gates[: 2 * hidden], gates[2 * hidden : 3 * hidden], gates[3 * hidden :]
    i, f = i_f[:hidden], i_f[hidden:]
    for k in range(high - low):
        cell = c[k]
        n = row_N[low + k]
        row, scale = inputs[n], x_scale[n]
        for j in range(4 * hidden):
            gates[j] = row[j] * scale * input_scale[j] + bias[j]
        if k < running:
            row, scale = recurrent[k], h_scale[k]
            for j in range(4 * hidden):
                gates[j] += row[j] * scale * recurrent_scale[j]
        for j in range(2 * hidden):
            i_f[j] = sigmoid(i_f[j])
        for j in range(hidden):
            g[j] = tanh(g[j])
        for j in range(hidden):
            o[j] = sigmoid(o[j])
        for j in range(hidden):
            cell[j] = f[j] * cell[j] + i[j] * g[j]
        half = out[low + k, direction * hidden : (direction + 1) * hidden]
        for j in range(hidden):
            half[j] = o[j] * tanh(cell[j])
        quantise_row(half, h[k], h_scale, k)


def shared_dropout(x_BTD: Tensor, rate: float) -> Tensor:
    """Apply variational dropout, whose mask is the same at every position of a sentence."""
    if rate == 0:
        return x_BTD
    return x_BTD * (torch.empty_like(x_BTD[:, :1]).bernoulli_(1 - rate) / (1 - rate))


def reverse_within(x_BTD: Tensor, lengths_B: Tensor) -> Tensor:
    """Reverse the first ``lengths_B[b]`` positions of each row; padding stays where it is."""
    positions_T = torch.arange(x_BTD.shape[1], device=lengths_B.device)
    index_BT = lengths_B[:, None] - 1 - positions_T
    index_BT = torch.where(index_BT >= 0, index_BT, positions_T)
    starts_B1 = torch.arange(len(lengths_B), device=lengths_B.device)[:, None] * x_BTD.shape[1]
    # Whole rows are copied, which is three times as fast as gather.
    return x_BTD.flatten(0, 1).index_select(0, (index_BT + starts_B1).flatten()).view_as(x_BTD)


class BidirectionalLayer(nn.Module):
    """A bidirectional LSTM layer over padded sequences; padding does not change other states."""

    def __init__(self, input_dim: int, hidden: int) -> None:
        super().__init__()
        self.ahead = nn.LSTM(input_dim, hidden, batch_first=True)
        self.back = nn.LSTM(input_dim, hidden, batch_first=True)
        for parameter in self.parameters():
            (nn.init.orthogonal_ if parameter.dim() > 1 else nn.init.zeros_)(parameter)

    def forward(self, x_BTE: Tensor, lengths_B: Tensor) -> Tensor:
        """Return the states [B, T, D] of inputs [B, T, E], those of the direction ahead first."""
        ahead_BTH, _ = self.ahead(x_BTE)
        back_BTH, _ = self.back(reverse_within(x_BTE, lengths_B))
        return torch.cat([ahead_BTH, reverse_within(back_BTH, lengths_B)], -1)

    def recurrent_weights(self) -> list[NDArray[np.floating]]:
        """Return copies of U of both directions, transposed, [H, 4H]."""
        return [lstm.all_weights[0][1].detach().t().contiguous().numpy() for lstm in (self.ahead, self.back)]

    def packed_states(
        self,
        x_KE: Tensor,
        row_N: Tensor | None,
        packing: Packing,
        recurrent: Sequence[NDArray[np.floating]] = (),
    ) -> Tensor:
        """Return packed states [N, D], computed by the loop that the module's docstring describes.

        Args:
            x_KE: the distinct inputs, each of which is multiplied once.
            row_N: the row of ``x_KE`` at each packed position, int64; None if the rows are the positions.
            packing: the order of the positions.
            recurrent: :meth:`recurrent_weights`, with which all steps are one compiled call; may be empty.
        """
        products = products_for(x_KE)
        if isinstance(products, Int8Products):
            return self._int8_states(x_KE, packing, row_N)
        out_ND = x_KE.new_empty(len(packing.index_N), 2 * self.ahead.hidden_size)
        for direction, lstm in enumerate((self.ahead, self.back)):
            input_weight, hidden_weight, input_bias, hidden_bias = lstm.all_weights[0]
            gates = products.new_mm(x_KE, input_weight.t())
            if row_N is not None:
                gates = gates.index_select(0, row_N)
            h_BH = x_KE.new_zeros(packing.shape[0], lstm.hidden_size)
            c_BH = torch.zeros_like(h_BH)
            arrays = [tensor.numpy() for tensor in (gates, input_bias + hidden_bias, h_BH, c_BH, out_ND)]
            if recurrent:
                _steps(*arrays, packing.starts, recurrent[direction], direction)
                continue
            previous = 0
            for low, high in packing.times(reverse=bool(direction)):
                # Ahead, some sentences have ended; back, some begin now, with a state of zeros.
                running = min(previous, high - low)
                if running:
                    products.addmm(h_BH[:running], hidden_weight.t(), gates[low : low + running])
                _steps(*arrays, np.array([low, high]), hidden_weight.detach().numpy(), direction)
                previous = high - low
        return out_ND

    def _int8_states(self, x_KE: Tensor, packing: Packing, row_N: Tensor | None) -> Tensor:
        """Return what :meth:`packed_states` returns, with products in eight bits."""
        out_ND = x_KE.new_empty(len(packing.index_N), 2 * self.ahead.hidden_size)
        rows = np.arange(len(out_ND)) if row_N is None else row_N.numpy()
        rows_KE, x_scale = quantised(x_KE)
        for direction, lstm in enumerate((self.ahead, self.back)):
            weights = dict(lstm.named_parameters())
            input_factor, hidden_factor = (int8_matrix(weights[f"weight_{i}h_l0"]) for i in "ih")
            bias = (weights["bias_ih_l0"] + weights["bias_hh_l0"]).numpy()
            inputs = input_factor.sums(rows_KE).numpy()
            h_BH = x_KE.new_zeros(packing.shape[0], lstm.hidden_size)
            h_scale, c, out = np.ones(len(h_BH), np.float32), np.zeros_like(h_BH.numpy()), out_ND.numpy()
            of_inputs = inputs, rows, x_scale, input_factor.column_scale, bias
            of_states = h_BH.numpy(), h_scale, hidden_factor.column_scale, c, out
            previous = 0
            for low, high in packing.times(reverse=bool(direction)):
                # Ahead, some sentences have ended; back, some begin now, with a state of zeros.
                running = min(previous, high - low)
                recurrent = hidden_factor.sums(h_BH[:running]).numpy() if running else inputs[:0]
                _int8_step(*of_inputs, recurrent, running, *of_states, low, high, direction)
                previous = high - low
        return out_ND


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
        """Return the inputs of a batch, [B, T, E]; if word or characters are dropped, the rest is doubled."""
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
