"""A bidirectional LSTM layer without gradients, on the CPU: no padding, no reversal.

    i, f, o = σ(W x_t + U h + b)   g = tanh(W x_t + U h + b)   c ← f∘c + i∘g   h ← o∘tanh(c)

Positions are packed in the order of time, the longest sentence first, so that the sentences that still run
at one time are the first rows. The inputs' products W x are made for all times at once, or once for each
word type. What is left of a step is one product U h and one compiled pass over its rows. The parsers' encoder
takes 0.71 of the time that torch's LSTM takes (docs/results-speed.md).

Shapes: N positions of all sentences, B sentences, T times, E input, K distinct inputs, H hidden of one
direction.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from parsing.networks.activations import compiled, sigmoid, tanh
from parsing.networks.products import Products
from parsing.trees.batch import Int


@dataclass(frozen=True, slots=True)
class Packing:
    """The order of a batch's positions by time."""

    shape: tuple[int, int]
    """B, T of the padded batch."""
    index_N: Tensor
    """int64, where each packed position is in the padded batch, ``sentence * T + time``."""
    starts: Int
    """int64: the positions of time t are ``starts[t]:starts[t + 1]``; times of padding alone are left out."""

    @classmethod
    def of(cls, lengths_B: Tensor, positions: int) -> Packing:
        """Of sentences of these lengths, each at least 1, on the host, in a batch of T positions."""
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
        """[B, T, ...] -> [N, ...]."""
        return x_BT.flatten(0, 1).index_select(0, self.index_N)

    def unpack(self, x_NE: Tensor) -> Tensor:
        """[N, E] -> [B, T, E]; padding is 0."""
        x_BTE = x_NE.new_zeros(*self.shape, x_NE.shape[1])
        x_BTE.flatten(0, 1).index_copy_(0, self.index_N, x_NE)
        return x_BTE


def applies_to(module: nn.Module) -> bool:
    """Whether LSTM layers can run here now: no gradients, no dropout, on the CPU, in float32 or wider."""
    weight = next(module.parameters())
    wide = weight.dtype in (torch.float32, torch.float64)
    return wide and weight.device.type == "cpu" and not (module.training or torch.is_grad_enabled())


def states(lstms: Sequence[nn.LSTM], x_KE: Tensor, row_N: Tensor | None, packing: Packing) -> Tensor:
    """States [N, 2H] of the LSTM that runs ahead and of that which runs back.

    ``row_N``, int64, is the input of each packed position, so that equal ones are multiplied once; None if
    there is one input for each, in order.
    """
    products = Products.of(x_KE)
    out = x_KE.new_empty(len(packing.index_N), 2 * lstms[0].hidden_size)
    times = list(itertools.pairwise(packing.starts.tolist()))
    for direction, lstm in enumerate(lstms):
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


@compiled
def _step(gates, bias, h, c, out, low, high, direction):  # type: ignore[no-untyped-def]
    """Gates, cells and states of the sentences that run at one time, positions low to high.

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
