"""Word + character BiLSTM over sentences: the encoder under both parsers.

x_t = [word embedding ; character BiLSTM's last states], then L bidirectional LSTM layers, as in
Dozat & Manning (2017); weights map one to one onto supar's ``CharLSTM`` and ``VariationalLSTM``.

The character LSTM runs once per word *type* (and at inference once per type of the corpus:
:class:`TypeVectors`). The two directions of a layer are separate LSTMs, the backward one over sentences
reversed within their length: padded input then gives exact states and keeps oneDNN's fused LSTM, which packed
sequences do not (half the time in training). Without gradients, on the CPU, :func:`states` runs the same
weights without padding or reversal, in 0.71 of the time of torch's LSTM:

    i, f, o = σ(W x_t + U h + b)   g = tanh(W x_t + U h + b)   c ← f∘c + i∘g   h ← o∘tanh(c)

Positions are packed in the order of time, the longest sentence first, so that the sentences that still run
at one time are the first rows. W x is made for all times at once, once for each word type; what is left of a
step is one product U h and one compiled pass over its rows.

Shapes: B sentences, T positions, U types, C characters, N packed positions, E input, D hidden (both
directions), H hidden of one.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from parsing.networks.config import EncoderSizes
from parsing.networks.features import FILLING, PAD, TypeTable, WordBatch, make_batch
from parsing.trees.batch import Int
from runtime.compiled import compiled, sigmoid, tanh
from runtime.device import Products


@dataclass(frozen=True, slots=True)
class Packing:
    """The order of a batch's positions by time; ``shape`` is B, T of the padded batch."""

    shape: tuple[int, int]
    index_N: Tensor
    """int64, where each packed position is in the padded batch, ``sentence * T + time``."""
    starts: Int
    """int64: the positions of time t are ``starts[t]:starts[t + 1]``; times of padding alone are left out."""

    @classmethod
    def of(cls, lengths_B: Tensor, positions: int) -> Packing:
        """Order a batch of T positions; its sentences have these lengths, each at least 1, on the host."""
        lengths = lengths_B.numpy()
        order = np.argsort(-lengths, kind="stable")
        runs = np.arange(lengths.max())[:, None] < lengths[order]
        time, place = np.nonzero(runs)
        return cls(
            shape=(len(lengths), positions),
            index_N=torch.from_numpy(order[place] * positions + time),
            starts=np.concatenate([[0], np.cumsum(runs.sum(1))]),
        )

    def pack(self, x_BT: Tensor) -> Tensor:
        """Leave out padding: [B, T, ...] becomes [N, ...]."""
        return x_BT.flatten(0, 1).index_select(0, self.index_N)

    def unpack(self, x_NE: Tensor) -> Tensor:
        """Put padding, zeros, back in: [N, E] becomes [B, T, E]."""
        x_BTE = x_NE.new_zeros(*self.shape, x_NE.shape[1])
        x_BTE.flatten(0, 1).index_copy_(0, self.index_N, x_NE)
        return x_BTE


def runs_packed(module: nn.Module) -> bool:
    """Tell whether LSTM layers can run without padding here now: no gradients, no dropout, on the CPU."""
    on_cpu = next(module.parameters()).is_cpu
    return on_cpu and not (module.training or torch.is_grad_enabled())


@compiled
def _step(gates, bias, h, c, out, low, high, direction):  # type: ignore[no-untyped-def]
    """Compute gates, cells and states of the sentences that run at one time, positions low to high.

    ``gates`` [N, 4H], W x + U h in torch's order i, f, g, o, are overwritten, ``h`` and ``c`` [B, H] updated
    (the sentences that run come first); the half of ``out`` [N, 2H] for ``direction`` (1 is back) is written.
    """
    hidden = h.shape[1]
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
        to = out[low + k, direction * hidden : (direction + 1) * hidden]
        for j in range(hidden):
            to[j] = state[j]


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
    """One bidirectional LSTM layer over padded sequences, exact at every unpadded position."""

    def __init__(self, input_dim: int, hidden: int) -> None:
        super().__init__()
        self.ahead = nn.LSTM(input_dim, hidden, batch_first=True)
        self.back = nn.LSTM(input_dim, hidden, batch_first=True)
        for parameter in self.parameters():
            (nn.init.orthogonal_ if parameter.dim() > 1 else nn.init.zeros_)(parameter)

    def forward(self, x_BTE: Tensor, lengths_B: Tensor) -> Tensor:
        """Return, of [B, T, E], the states [B, T, D] of both directions, ahead first."""
        ahead_BTH, _ = self.ahead(x_BTE)
        back_BTH, _ = self.back(reverse_within(x_BTE, lengths_B))
        return torch.cat([ahead_BTH, reverse_within(back_BTH, lengths_B)], -1)

    def packed(self, x_KE: Tensor, row_N: Tensor | None, packing: Packing) -> Tensor:
        """Return states [N, D] by our own loop; see the module's docstring.

        ``row_N``, int64, is the input of each packed position, so that equal ones are multiplied once; None
        if there is one input for each, in order.
        """
        products = Products.of(x_KE)
        out = x_KE.new_empty(len(packing.index_N), 2 * self.ahead.hidden_size)
        times = list(itertools.pairwise(packing.starts.tolist()))
        for direction, lstm in enumerate((self.ahead, self.back)):
            weights = dict(lstm.named_parameters())
            gates = products.new_mm(x_KE, weights["weight_ih_l0"].t())
            if row_N is not None:
                gates = gates.index_select(0, row_N)
            weight, bias = weights["weight_hh_l0"].t(), weights["bias_ih_l0"] + weights["bias_hh_l0"]
            h = x_KE.new_zeros(times[0][1], lstm.hidden_size)
            arrays = gates.numpy(), bias.numpy(), h.numpy(), np.zeros_like(h.numpy()), out.numpy()
            running = 0
            for low, high in reversed(times) if direction else times:
                running = min(running, high - low)  # ahead, sentences end; back, they begin, from nothing
                if running:
                    products.addmm(h[:running], weight, gates[low : low + running])
                _step(*arrays, low, high, direction)
                running = high - low
        return out


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
        """Encode words [U, E], given character ids [U, C] and their number [U], both on the host."""
        if runs_packed(self.lstm):
            packing = Packing.of(counts_U, characters_UC.shape[1])
            states_NE = self.lstm.packed(self.embedding.weight, packing.pack(characters_UC), packing)
            return _last_states(packing.unpack(states_NE), counts_U)
        device = self.embedding.weight.device
        group_U = torch.bucketize(counts_U, torch.tensor(self.GROUPS))
        members = [index for g in range(len(self.GROUPS) + 1) if len(index := (group_U == g).nonzero()[:, 0])]
        parts = []
        for index in members:
            counts = counts_U[index].to(device)
            characters = characters_UC[index, : int(counts_U[index].max())].to(device)
            parts.append(_last_states(self.lstm(self.embedding(characters), counts), counts))
        return torch.cat(parts)[torch.argsort(torch.cat(members)).to(device)]


def _last_states(states_UCE: Tensor, counts_U: Tensor) -> Tensor:
    """Return the last state of each direction, [U, E]."""
    ahead_UCH, back_UCH = states_UCE.chunk(2, -1)
    rows = torch.arange(len(counts_U), device=counts_U.device)
    return torch.cat([ahead_UCH[rows, counts_U - 1], back_UCH[:, 0]], -1)


class SentenceEncoder(nn.Module):
    """Batches of words to contextual states; see the module's docstring.

    :attr:`dropout` is the rate in training: of a token's word, and independently its characters, as a whole;
    of layer inputs and of the output, one mask per sentence.
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
        """Return the input vectors of word types without dropout, [U, E]: what does not depend on context."""
        words_UE = self.words(words_U.to(self.words.weight.device))
        return torch.cat([words_UE, self.characters(characters_UC, counts_U)], -1)

    def _training_inputs(self, batch: WordBatch) -> Tensor:
        """Return the inputs of a batch, [B, T, E]; a word without its spelling is doubled, and vice versa."""
        types_BT = batch.types_BT.to(self.words.weight.device)
        words_U, *characters = batch.table.features(batch.rows_U)
        words_BT, characters_UE = words_U.to(types_BT.device)[types_BT], self.characters(*characters)
        # embedding() rather than indexing: its backward is a sum by row, much faster than index_put.
        inputs = [self.words(words_BT), nn.functional.embedding(types_BT, characters_UE)]
        if self.dropout:
            masks = [torch.empty_like(x[..., :1]).bernoulli_(1 - self.dropout) for x in inputs]
            scale = 2 / (masks[0] + masks[1]).clamp(min=1)
            inputs = [x * (mask * scale) for x, mask in zip(inputs, masks, strict=True)]
        return torch.cat(inputs, -1)

    def forward(self, batch: WordBatch, x_UE: Tensor | None = None) -> Tensor:
        """Return states [B, T, D] of every position, boundaries included; the first half of D runs ahead.

        The batch has an end boundary if the config has one; ``x_UE`` are its types' vectors, at inference.
        """
        if self.training:
            x_BTE = self._training_inputs(batch)
        else:
            x_UE = self.type_vectors(*batch.table.features(batch.rows_U)) if x_UE is None else x_UE
            if runs_packed(self):
                packing = Packing.of(batch.lengths_B, batch.types_BT.shape[1])
                row_N: Tensor | None = packing.pack(batch.types_BT)
                for layer in self.layers:
                    assert isinstance(layer, BidirectionalLayer)
                    x_UE, row_N = layer.packed(x_UE, row_N, packing), None
                return packing.unpack(x_UE)
            x_BTE = x_UE[batch.types_BT.to(x_UE.device)]
        rate, lengths_B = self.dropout if self.training else 0.0, batch.lengths_B.to(x_BTE.device)
        for layer in self.layers:
            x_BTE = layer(shared_dropout(x_BTE, rate), lengths_B)
        return shared_dropout(x_BTE, rate)


class TypeVectors:
    """Cache of input vectors by word type, for inference: each type is computed once, whichever thread asks.

    Memory is bounded: past ``max_types`` the table and the cache start anew (60,000 take 54 MB; most types of
    a corpus occur once, so that more save no time).
    """

    def __init__(self, encoder: SentenceEncoder, table: TypeTable, *, max_types: int = 60_000) -> None:
        self.encoder, self.table, self.max_types = encoder, table, max_types
        self.forget()

    def __reduce__(self) -> tuple[partial[TypeVectors], tuple[SentenceEncoder, TypeTable]]:
        return partial(type(self), max_types=self.max_types), (self.encoder, self.table)

    def forget(self) -> None:
        """Start anew, on the device where the encoder is now."""
        with FILLING:
            self._known = np.zeros(0, dtype=bool)
            self._vectors = self.encoder.words.weight.new_zeros(0, self.encoder.input_dim)
            self.table.clear()

    @torch.inference_mode()
    def read(self, sentences: Sequence[Sequence[str]]) -> tuple[WordBatch, Tensor]:
        """Make a padded batch of sentences and the vectors [U, E] of its types, on the encoder's device.

        It is one step: what another thread adds or forgets comes before it or after. The batch has the
        boundaries that the encoder expects.
        """
        with FILLING:
            if len(self.table) > self.max_types:
                self.forget()
            batch = make_batch(self.table, sentences, end_boundary=self.encoder.config.end_boundary)
            if len(self.table) > len(self._known):
                before = len(self._known)
                more = max(len(self.table), 2 * before) - before
                # The vectors first: no exception in between leaves a word without one.
                new = self._vectors.new_zeros(more, self.encoder.input_dim)
                self._vectors = torch.cat([self._vectors[:before], new])
                self._known = np.append(self._known, np.zeros(more, dtype=bool))
            device, missing = self._vectors.device, batch.rows_U[~self._known[batch.rows_U]]
            if len(missing):
                missing_UE = self.encoder.type_vectors(*self.table.features(missing))
                self._vectors[torch.from_numpy(missing).to(device)] = missing_UE
                self._known[missing] = True
            return batch, self._vectors[torch.from_numpy(batch.rows_U).to(device)]
