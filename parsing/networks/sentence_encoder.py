"""The encoder under both parsers: a BiLSTM over words and their characters.

x_t = [word embedding ; character BiLSTM's last states], then L bidirectional LSTM layers, as in
Dozat & Manning (2017); weights map one to one onto supar's ``CharLSTM`` and ``VariationalLSTM``.

The character LSTM runs once per word *type* (and at inference once per type of the corpus:
:class:`TypeVectors`). The two directions of a layer are separate LSTMs, the backward one over sentences
reversed within their length: padded input then gives exact states and keeps oneDNN's fused LSTM, which packed
sequences do not (half the time in training). Without gradients, on the CPU,
:meth:`BidirectionalLayer.packed_states` runs the same weights without padding or reversal, in 0.71 of the
time of torch's LSTM:

    i, f, o = σ(W x_t + U h + b)   g = tanh(W x_t + U h + b)   c ← f∘c + i∘g   h ← o∘tanh(c)

Positions are packed in the order of time, the longest sentence first, so that the sentences that still run
at one time are the first rows. W x is computed for all times at once, once for each word type; what is left
of a step is one product U h and one compiled pass over its rows. For few sentences all steps are compiled,
which takes a third of the time.

Shapes: B sentences, T positions, U types, C characters, N packed positions, E input, D hidden (both
directions), H hidden of one.
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
from runtime.compiled import FEW_SEQUENCES, add_products, compiled, sigmoid, tanh
from runtime.int8 import int8_matrix, quantise_row, quantised
from runtime.process import cached_property
from runtime.products import Int8Products, products_for

Recurrent = Sequence[Sequence[NDArray[np.floating]]]  # of each layer and direction


@dataclass(frozen=True, slots=True)
class Packing:
    """The order of a batch's positions by time; ``shape`` is B, T of the padded batch."""

    shape: tuple[int, int]
    index_N: Tensor
    """int64, where each packed position is in the padded batch, ``sentence * T + time``."""
    starts: Int64
    """The first packed position of each time, and one past the last; times of padding alone are left out."""

    @classmethod
    def of(cls, lengths_B: Tensor, positions: int) -> Packing:
        """Order a batch of T positions, given the lengths of its sentences, each at least 1, on the host."""
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
        """List the first packed position of each time, and one past its last."""
        times = list(itertools.pairwise(self.starts.tolist()))
        return times[::-1] if reverse else times

    def pack(self, x_BT: Tensor) -> Tensor:
        """Leave out padding: [B, T, ...] becomes [N, ...]."""
        return x_BT.flatten(0, 1).index_select(0, self.index_N)

    def unpack(self, x_NE: Tensor) -> Tensor:
        """Put padding, zeros, back in: [N, E] becomes [B, T, E]."""
        x_BTE = x_NE.new_zeros(*self.shape, x_NE.shape[1])
        x_BTE.flatten(0, 1).index_copy_(0, self.index_N, x_NE)
        return x_BTE


def runs_packed(module: nn.Module) -> bool:
    """Tell whether LSTM layers can run without padding now: no gradients, no dropout, on the CPU."""
    on_cpu = next(module.parameters()).is_cpu
    return on_cpu and not (module.training or torch.is_grad_enabled())


@compiled
def _steps(gates, bias, h, c, out, starts, weight, direction):  # type: ignore[no-untyped-def]
    """Compute gates, cells and states at successive times, with their products but for the first time's.

    The packed positions of a time go from one of ``starts`` to the next. ``gates`` [N, 4H] are W x, at the
    first time W x + U h, in torch's order i, f, g, o, and are overwritten; ``weight`` [H, 4H] is Uᵀ. The
    sentences that run at a time are the first rows of ``h`` and ``c`` [B, H], which are updated. The
    states are written to the half of ``out`` [N, 2H] that belongs to ``direction``, 0 ahead or 1 back.
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
    """Compute gates, cells and states at one time, whose packed positions are ``low`` to ``high - 1``.

    ``inputs`` [K, 4H] are W x in torch's order i, f, g, o, and ``row_N`` the row of each position. The
    ``running`` first sentences have rows of ``recurrent``, U h. Both are sums times a scale of the row and of
    the column (:mod:`runtime.int8`). The sentences at this time are the first rows of ``h`` and ``c``
    [B, H], which are updated. The states are written to the half of ``out`` [N, 2H] that belongs to
    ``direction``, 0 ahead or 1 back; ``h`` gets them too, as integers.
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
    """Apply variational dropout: one mask per sentence, the same at every position."""
    if rate == 0:
        return x_BTD
    return x_BTD * (torch.empty_like(x_BTD[:, :1]).bernoulli_(1 - rate) / (1 - rate))


def reverse_within(x_BTD: Tensor, lengths_B: Tensor) -> Tensor:
    """Reverse the first ``lengths_B[b]`` positions of each row; padding stays where it is."""
    positions_T = torch.arange(x_BTD.shape[1], device=lengths_B.device)
    index_BT = lengths_B[:, None] - 1 - positions_T
    index_BT = torch.where(index_BT >= 0, index_BT, positions_T)
    starts_B1 = torch.arange(len(lengths_B), device=lengths_B.device)[:, None] * x_BTD.shape[1]
    # Rows are copied whole, three times as fast as gather.
    return x_BTD.flatten(0, 1).index_select(0, (index_BT + starts_B1).flatten()).view_as(x_BTD)


class BidirectionalLayer(nn.Module):
    """A bidirectional LSTM layer over padded sequences, exact at every position that is not padding."""

    def __init__(self, input_dim: int, hidden: int) -> None:
        super().__init__()
        self.ahead = nn.LSTM(input_dim, hidden, batch_first=True)
        self.back = nn.LSTM(input_dim, hidden, batch_first=True)
        for parameter in self.parameters():
            (nn.init.orthogonal_ if parameter.dim() > 1 else nn.init.zeros_)(parameter)

    def forward(self, x_BTE: Tensor, lengths_B: Tensor) -> Tensor:
        """Compute the states of both directions, ahead first: [B, T, E] becomes [B, T, D]."""
        ahead_BTH, _ = self.ahead(x_BTE)
        back_BTH, _ = self.back(reverse_within(x_BTE, lengths_B))
        return torch.cat([ahead_BTH, reverse_within(back_BTH, lengths_B)], -1)

    def recurrent_weights(self) -> list[NDArray[np.floating]]:
        """Copy U of both directions, transposed."""
        return [lstm.all_weights[0][1].detach().t().contiguous().numpy() for lstm in (self.ahead, self.back)]

    def packed_states(
        self,
        x_KE: Tensor,
        row_N: Tensor | None,
        packing: Packing,
        recurrent: Sequence[NDArray[np.floating]] = (),
    ) -> Tensor:
        """Compute packed states [N, D] by our own loop; see the module's docstring.

        ``row_N``, int64, is the row of ``x_KE`` at each packed position, so that equal inputs are multiplied
        once; None if the rows are the positions. With ``recurrent``, :meth:`recurrent_weights`, all steps are
        compiled.
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
    """A BiLSTM over the characters of words; a word's vector is the last state of each direction."""

    # In training, words run in groups of similar length, so that short ones are not padded to long ones.
    GROUP_LENGTHS = (2, 4, 6, 9, 13)

    def __init__(self, n_characters: int, dim: int, hidden: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(n_characters, dim)
        self.lstm = BidirectionalLayer(dim, hidden // 2)
        self.output_dim = 2 * (hidden // 2)

    def forward(self, characters_UC: Tensor, counts_U: Tensor) -> Tensor:
        """Encode words [U, E], given character ids [U, C] and their number [U], both on the host."""
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
    ahead_UCH, back_UCH = states_UCE.chunk(2, -1)
    rows = torch.arange(len(counts_U), device=counts_U.device)
    return torch.cat([ahead_UCH[rows, counts_U - 1], back_UCH[:, 0]], -1)


class SentenceEncoder(nn.Module):
    """Turns batches of words into contextual states; see the module's docstring.

    :attr:`dropout` is the rate in training. It drops a token's word, and independently its characters, as a
    whole; in layer inputs and in the output, the same components at all positions of a sentence.
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
        """Compute the input vectors of word types, [U, E], without dropout."""
        words_UE = self.words(words_U.to(self.words.weight.device))
        return torch.cat([words_UE, self.characters(characters_UC, counts_U)], -1)

    def _training_inputs(self, batch: WordBatch) -> Tensor:
        """Compute the inputs of a batch, [B, T, E]; word or characters double if the other is dropped."""
        types_BT = batch.types_BT.to(self.words.weight.device)
        words_U, characters_UC, counts_U = batch.table.features(batch.rows_U)
        words_BT = words_U.to(types_BT.device)[types_BT]
        characters_UE = self.characters(characters_UC, counts_U)
        # embedding() rather than indexing: its backward is a sum by row, much faster than index_put.
        inputs = [self.words(words_BT), nn.functional.embedding(types_BT, characters_UE)]
        if self.dropout:
            masks = [torch.empty_like(x[..., :1]).bernoulli_(1 - self.dropout) for x in inputs]
            scale = 2 / (masks[0] + masks[1]).clamp(min=1)
            inputs = [x * (mask * scale) for x, mask in zip(inputs, masks, strict=True)]
        return torch.cat(inputs, -1)

    def forward(self, batch: WordBatch, x_UE: Tensor | None = None, recurrent: Recurrent = ()) -> Tensor:
        """Compute states [B, T, D] of all positions, boundaries included; the first half of D runs ahead.

        The batch has an end boundary if the config has one. At inference ``x_UE`` may give the vectors of the
        batch's types, and ``recurrent`` each layer's :meth:`~BidirectionalLayer.recurrent_weights`.
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
    """A table that keeps the input vectors of word types for inference: all threads compute each once.

    Memory is bounded: past ``max_types`` it starts anew (60,000 take 54 MB; most types of a corpus occur
    once, so that more save no time).
    """

    def __init__(
        self, vocabulary: ParserVocabulary, encoder: SentenceEncoder, max_types: int = 60_000
    ) -> None:
        self.encoder, self.max_types = encoder, max_types
        super().__init__(vocabulary)

    def __reduce__(self) -> tuple[type[TypeTable], tuple[Any, ...]]:
        return type(self), (self.vocabulary, self.encoder, self.max_types)

    def clear(self) -> None:
        """Start anew, on the device where the encoder is now."""
        with TABLE_LOCK:
            super().clear()
            self._finished = 0  # rows that have a vector
            vars(self).pop("_recurrent_weights", None)
            self._vectors = self.encoder.words.weight.new_zeros(0, self.encoder.input_dim)

    @torch.inference_mode()
    def batch_with_vectors(self, sentences: Sequence[Sequence[str]]) -> tuple[WordBatch, Tensor]:
        """Make a padded batch, and the vectors [U, E] of its types; no other thread comes between the two."""
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
                self._finished = size  # last: no exception in between leaves a word without a vector
            return batch, self._vectors[torch.from_numpy(batch.rows_U).to(self._vectors.device)]

    def states(self, sentences: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """Return the states [B, T, D] of a batch and, on the host, its sentences' positions [B]."""
        batch, x_UE = self.batch_with_vectors(sentences)
        is_small = x_UE.is_cpu and len(sentences) <= FEW_SEQUENCES
        return self.encoder(batch, x_UE, self._recurrent_weights if is_small else ()), batch.lengths_B

    @cached_property
    def _recurrent_weights(self) -> list[list[NDArray[np.floating]]]:
        return [layer.recurrent_weights() for layer in self.encoder.layers]  # type: ignore[operator]
