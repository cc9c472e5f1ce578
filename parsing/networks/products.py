"""Matrix products of the engines, with a fixed precision and by the device's fastest library.

On CPUs with AVX-512, float32 products go to oneDNN. torch's ``mm`` calls MKL, which only uses AVX2 on
processors that are not Intel's: 100 GFLOP/s a core against oneDNN's 200 (measured at D = 100, 300, 1200 and
16 rows or more).

Shapes: n rows, k inner dimension, m columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

FEW_ROWS = 8
"""Below this many rows MKL is as fast: reading the weights takes the time, and oneDNN's call costs more."""
BLOCK_BYTES = 16 * 2**20
"""Largest result of oneDNN that is computed at once and then copied to its place."""


@dataclass(frozen=True)
class Products:
    """Products with operands cast to ``dtype`` and float32 (or wider) results.

    Under bf16 autocast the products read bf16, while states, gates and gradients stay float32. Results are
    written with ``out=``, which autocast ignores.
    """

    dtype: torch.dtype | None
    """Type of the operands; None leaves them as they are."""
    onednn: bool
    """Whether products of many rows go to oneDNN."""

    @classmethod
    def of(cls, x: Tensor) -> Products:
        """The precision that the current autocast region asks for, and the library for inputs like ``x``."""
        kind = x.device.type
        if torch.is_autocast_enabled(kind) and x.dtype == torch.float32:
            return cls(torch.get_autocast_dtype(kind), onednn=False)
        return cls(None, onednn=kind == "cpu" and x.dtype == torch.float32 and _onednn_is_faster())

    def cast(self, operand: Tensor) -> Tensor:
        """The operand, of any shape, in the products' type, so that weights are cast once per sweep."""
        return operand if self.dtype is None else operand.to(self.dtype)

    def mm(self, a: Tensor, b: Tensor, out: Tensor) -> Tensor:
        """``out = a @ b`` for [n, k] and [k, m]; ``out`` [n, m] must not overlap an operand."""
        if self.dtype is None and not (self.onednn and len(a) >= FEW_ROWS):
            return torch.mm(a, b, out=out)
        for rows in self._blocks(a, out):
            out[rows] = self._product(a[rows], b)
        return out

    def addmm(self, a: Tensor, b: Tensor, out: Tensor) -> Tensor:
        """``out += a @ b`` for [n, k] and [k, m]."""
        if self.dtype is None and not (self.onednn and len(a) >= FEW_ROWS):
            return torch.addmm(out, a, b, out=out)
        for rows in self._blocks(a, out):
            out[rows] += self._product(a[rows], b)
        return out

    def of_words(self, words: Tensor, token: Tensor, weight: Tensor, once: Tensor, out: Tensor) -> None:
        """``out[n] = words[token[n]] @ weight.T``, with one product, kept in ``once``, a distinct word.

        Shapes: words [U, E], token int64 [N], weight [K, E], once [U, K], out [N, K]. Two fifths of the
        tokens of 200 sentences are distinct, and the inputs are half of a tree view's work.
        """
        self.mm(self.cast(words), self.cast(weight).t(), once)
        torch.index_select(once, 0, token, out=out)

    def new_mm(self, a: Tensor, b: Tensor) -> Tensor:
        """``a @ b`` [n, m] as a new tensor of the type of ``a``."""
        if not len(b):  # oneDNN refuses it; a batch of single words has no internal nodes
            return a.new_zeros(a.shape[0], b.shape[1])
        if self.onednn and len(a) >= FEW_ROWS:
            return self._product(a, b)
        return self.mm(a, b, a.new_empty(a.shape[0], b.shape[1]))

    def gradient(self, rows: Tensor, inputs: Tensor) -> Tensor:
        """Gradient [m, k] of a weight: ``rows.t() @ inputs`` for rows [n, m] and inputs [n, k] of a batch.

        oneDNN copies its first operand if it is not contiguous, so ``inputs``, the narrower, comes first.
        """
        if self.onednn and len(rows) >= FEW_ROWS:
            return self._product(inputs.t(), rows).t()
        return self.new_mm(rows.t(), inputs)

    def sum_by_word(self, gradient: Tensor, token: Tensor, words: int) -> Tensor:
        """Sums [U, K] of the tokens' gradients [N, K]; ``token`` int64 [N] as in :meth:`of_words`."""
        # embedding's backward pass: it adds whole rows, in a fixed order on every device.
        summed: Tensor = torch.ops.aten.embedding_dense_backward(gradient, token, words, -1, False)
        return summed

    def _blocks(self, a: Tensor, out: Tensor) -> Iterator[slice]:
        """Ranges of rows: oneDNN allocates its results, and they should stay in cache until copied."""
        step = max(BLOCK_BYTES // (out.shape[1] * out.element_size()), 256) if self.onednn else max(len(a), 1)
        return (slice(start, start + step) for start in range(0, len(a), step))

    def _product(self, a: Tensor, b: Tensor) -> Tensor:
        if self.onednn:
            result: Tensor = torch.ops.mkldnn._linear_pointwise(a, b.t(), None, "none", [], "")
            return result
        with torch.autocast(a.device.type, enabled=False):
            return torch.mm(self.cast(a), self.cast(b))


@cache
def _onednn_is_faster() -> bool:
    """Whether the CPU has AVX-512 and torch the operator that passes plain float32 tensors to oneDNN."""
    return (
        torch.backends.mkldnn.is_available()
        and torch.backends.cpu.get_cpu_capability() == "AVX512"
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )
