"""Matrix products by the fastest library: :func:`products_for` chooses one of four classes for an input.

- :class:`TorchProducts`: torch's own ``mm``, which calls MKL on a CPU and cuBLAS on a GPU.
- :class:`OneDnnProducts`: float32 on a CPU with AVX-512. MKL uses only AVX2 on processors of other makers
  than Intel: 100 GFLOP/s per core, where oneDNN has 200 (measured at k = 100, 300, 1200 and n ≥ 16).
- :class:`AutocastProducts`: bf16 or float16 operands, within ``torch.autocast``.
- :class:`Int8Products`: integers of eight bits, at inference on a CPU, within ``products_in("int8")``.

Legend of dimension suffixes: n rows, k inner dimension, m columns.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from runtime.errors import UserError

if TYPE_CHECKING:
    from runtime.int8 import Arrange, Int8Matrix

ONEDNN_ROWS = 8
"""The fewest rows for which oneDNN is used. With fewer, MKL is as fast, because most of the time is spent on
reading the weights, and a call of oneDNN costs more."""
BLOCK_BYTES = 16 * 2**20
"""The largest result of oneDNN that is computed at once and then copied to its place."""

ProductKind = Literal["int8", "float32"]
"""How weights are multiplied at inference on a CPU; elsewhere, and in training, in float32."""
_kind: ContextVar[ProductKind | None] = ContextVar("kind of products", default=None)


def chosen_products() -> ProductKind:
    """Return the kind that :func:`products_in` has set in this thread, by default float32."""
    return _kind.get() or "float32"


@contextlib.contextmanager
def products_in(kind: ProductKind | None) -> Iterator[None]:
    """Set the kind of products in this thread; None leaves it as it is.

    ``int8`` takes effect in inference mode on a CPU only. Raises UserError if the kind is unknown.
    """
    if kind not in (None, "int8", "float32"):
        raise UserError(f"products={kind!r:.40}: must be int8 or float32")
    token = _kind.set(kind or _kind.get())
    try:
        yield
    finally:
        _kind.reset(token)


def products_for(x: Tensor) -> Products:
    """Choose the products for inputs of the device and type of ``x``, in the current torch mode."""
    kind = x.device.type
    is_float32 = x.dtype == torch.float32
    is_on_cpu = kind == "cpu" and is_float32
    if is_on_cpu and torch.is_inference_mode_enabled() and chosen_products() == "int8":
        return Int8Products()
    if is_float32 and torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        return AutocastProducts(torch.get_autocast_dtype(kind))
    return OneDnnProducts() if is_on_cpu and _onednn_is_faster() else TorchProducts()


@cache
def _onednn_is_faster() -> bool:
    """Tell whether the CPU has AVX-512, and torch the operator that passes float32 tensors to oneDNN."""
    return (
        torch.backends.mkldnn.is_available()
        and torch.backends.cpu.get_cpu_capability() == "AVX512"
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


class Products(ABC):
    """Multiplies matrices with one library.

    The right operand of a product is a *factor*: a weight in the form that the library takes, which is made
    once (:meth:`factor`) and used in many products.
    """

    @abstractmethod
    def factor(self, weight: Tensor) -> Any:
        """Return the factor [k, m] of a weight [m, k]."""

    @abstractmethod
    def mm(self, a: Tensor, b: Any, out: Tensor) -> Tensor:
        """Compute ``out = a @ b`` of [n, k] and a factor [k, m]; ``out`` [n, m] must not overlap either."""

    @abstractmethod
    def addmm(self, a: Tensor, b: Any, out: Tensor) -> Tensor:
        """Add ``a @ b`` to ``out`` [n, m], for [n, k] and a factor [k, m]."""

    @abstractmethod
    def new_mm(self, a: Tensor, b: Any) -> Tensor:
        """Return ``a @ b`` [n, m] as a new tensor of the type of ``a``."""

    @abstractmethod
    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return ``x @ weight.T + bias`` [..., m] of inputs [..., k], a weight [m, k] and a bias [m]."""

    def multiply_words(
        self, words: Tensor, token: Tensor, weight: Tensor, word_products: Tensor, out: Tensor
    ) -> None:
        """Compute ``out[i] = words[token[i]] @ weight.T``, where each distinct word is multiplied once.

        Two fifths of the tokens of 200 sentences are distinct, and these products are half of a tree view's
        work.

        Args:
            words: the vectors [U, E] of the distinct words.
            token: the word's row at each of N tokens, int64 [N].
            weight: [K, E].
            word_products: memory for the products of the distinct words, [U, K].
            out: [N, K].
        """
        self.mm(words, self.factor(weight), word_products)
        torch.index_select(word_products, 0, token, out=out)


class TorchProducts(Products):
    """Multiplies with ``torch.mm`` in the type of the operands, for gradients too; its factors are tensors.

    Results are written with ``out=``, which autocast ignores.
    """

    def cast(self, operand: Tensor) -> Tensor:
        """Cast an operand of any shape to the type of the products, which here is its own."""
        return operand

    def factor(self, weight: Tensor) -> Tensor:
        """Return the transposed weight [k, m], cast to the type of the products."""
        return self.cast(weight).t()

    def mm(self, a: Tensor, b: Tensor, out: Tensor) -> Tensor:
        """Compute ``out = a @ b``."""
        return torch.mm(a, b, out=out)

    def addmm(self, a: Tensor, b: Tensor, out: Tensor) -> Tensor:
        """Add ``a @ b`` to ``out``."""
        return torch.addmm(out, a, b, out=out)

    def new_mm(self, a: Tensor, b: Tensor) -> Tensor:
        """Return ``a @ b`` as a new tensor."""
        return self.mm(a, b, a.new_empty(a.shape[0], b.shape[1]))

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return ``x @ weight.T + bias``; autocast applies where it is on."""
        return nn.functional.linear(x, weight, bias)

    def gradient(self, rows: Tensor, inputs: Tensor) -> Tensor:
        """Return the gradient [m, k] of a weight, ``rows.T @ inputs``, for rows [n, m] and inputs [n, k]."""
        return self.new_mm(rows.t(), inputs)


class AutocastProducts(TorchProducts):
    """Multiplies operands cast to ``dtype``; results are float32, and so are states, gates and gradients."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype

    def cast(self, operand: Tensor) -> Tensor:
        """Cast an operand of any shape; a weight is cast once for all levels of trees."""
        return operand.to(self.dtype)

    def mm(self, a: Tensor, b: Tensor, out: Tensor) -> Tensor:
        """Compute ``out = a @ b`` of both operands cast."""
        return out.copy_(self._product(a, b))

    def addmm(self, a: Tensor, b: Tensor, out: Tensor) -> Tensor:
        """Add ``a @ b`` of both operands cast."""
        return out.add_(self._product(a, b))

    def _product(self, a: Tensor, b: Tensor) -> Tensor:
        with torch.autocast(a.device.type, enabled=False):
            return torch.mm(self.cast(a), self.cast(b))


class OneDnnProducts(TorchProducts):
    """Multiplies float32 on a CPU with oneDNN, and with ``torch.mm`` where there are few rows."""

    def mm(self, a: Tensor, b: Tensor, out: Tensor) -> Tensor:
        """Compute ``out = a @ b``, block by block."""
        if len(a) < ONEDNN_ROWS:
            return super().mm(a, b, out)
        for rows in self._blocks(a, out):
            out[rows] = self.product(a[rows], b)
        return out

    def addmm(self, a: Tensor, b: Tensor, out: Tensor) -> Tensor:
        """Add ``a @ b`` to ``out``, block by block."""
        if len(a) < ONEDNN_ROWS:
            return super().addmm(a, b, out)
        for rows in self._blocks(a, out):
            out[rows] += self.product(a[rows], b)
        return out

    def new_mm(self, a: Tensor, b: Tensor) -> Tensor:
        """Return ``a @ b`` as a new tensor, in one block."""
        if not len(b):  # oneDNN refuses it; a batch of single words has no internal nodes
            return a.new_zeros(a.shape[0], b.shape[1])
        return self.product(a, b) if len(a) >= ONEDNN_ROWS else super().new_mm(a, b)

    def gradient(self, rows: Tensor, inputs: Tensor) -> Tensor:
        """Return ``rows.T @ inputs``; ``inputs`` come first, because oneDNN copies a transposed operand.

        They have fewer columns than ``rows``.
        """
        return (
            self.product(inputs.t(), rows).t() if len(rows) >= ONEDNN_ROWS else super().gradient(rows, inputs)
        )

    def product(self, a: Tensor, b: Tensor) -> Tensor:
        """Return ``a @ b`` by oneDNN, for any sizes but an inner dimension of 0."""
        result: Tensor = torch.ops.mkldnn._linear_pointwise(a, b.t(), None, "none", [], "")
        return result

    def _blocks(self, a: Tensor, out: Tensor) -> Iterator[slice]:
        """Cut rows into ranges of a size at which oneDNN's results stay in cache until they are copied."""
        step = max(BLOCK_BYTES // (out.shape[1] * out.element_size()), 256)
        return (slice(first, first + step) for first in range(0, len(a), step))


class Int8Products(Products):
    """Multiplies with weights in eight bits (:mod:`runtime.int8`), without gradients."""

    def factor(self, weight: Tensor, arrange: Arrange | None = None) -> Int8Matrix:
        """Return the factor of a weight, or of the matrix [m, k] that ``arrange`` makes of a parameter."""
        from runtime.int8 import int8_matrix  # it imports numba, which takes time

        return int8_matrix(weight, arrange)

    def mm(self, a: Tensor, b: Int8Matrix, out: Tensor) -> Tensor:
        """Compute ``out = a @ b``, where ``a`` is quantised row by row."""
        return b.product(a, out)

    def addmm(self, a: Tensor, b: Int8Matrix, out: Tensor) -> Tensor:
        """Add ``a @ b`` to ``out``."""
        return b.product(a, out, add=True)

    def new_mm(self, a: Tensor, b: Int8Matrix) -> Tensor:
        """Return ``a @ b`` as a new tensor."""
        return b.product(a, a.new_empty(len(a), len(b.column_scale)))

    def linear(
        self, x: Tensor, weight: Tensor, bias: Tensor | None = None, arrange: Arrange | None = None
    ) -> Tensor:
        """Return ``x @ weight.T + bias`` [..., m] for a weight as in :meth:`factor`."""
        out = self.new_mm(x.flatten(0, -2), self.factor(weight, arrange)).view(*x.shape[:-1], -1)
        return out if bias is None else out.add_(bias)


def sum_by_word(gradient: Tensor, token: Tensor, words: int) -> Tensor:
    """Sum the gradients [N, K] of tokens by word, [words, K], given each token's word, int64 [N]."""
    # The backward pass of an embedding adds whole rows, in a fixed order on every device.
    sums: Tensor = torch.ops.aten.embedding_dense_backward(gradient, token, words, -1, False)
    return sums
