"""Where networks compute: devices, threads, and matrix products by the device's fastest library.

On CPUs with AVX-512, float32 products go to oneDNN. torch's ``mm`` calls MKL, which uses only AVX2 on
processors of other makers than Intel: 100 GFLOP/s per core, where oneDNN has 200 (measured at D = 100, 300,
1200 and 16 rows or more). docs/scaling.md says on which GPU the
code for CUDA ran.

Shapes: n rows, k inner dimension, m columns.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from runtime.errors import UserError

if TYPE_CHECKING:
    from runtime.int8 import Arrange, Int8Matrix

# GNU's OpenMP would wait for ever for threads that a fork did not copy.
os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))

DRAWING_FACTORIES: set[Any] = {torch.rand, torch.randn}
FACTORIES: set[Any] = {torch.empty, torch.zeros, torch.ones, torch.eye, torch.linspace, *DRAWING_FACTORIES}
"""Functions that make tensors of torch's default type."""
DRAWS: set[Any] = {
    *(Tensor.uniform_, Tensor.normal_, nn.init.uniform_, nn.init.normal_),
    *(nn.init.kaiming_uniform_, nn.init.kaiming_normal_),
}
"""Functions that draw into a tensor; other ones of ``nn.init`` call these."""
LARGE_FLOP = 2e9
"""Work of a product for which several threads pay: some tens of milliseconds on one core."""
WORDS_PER_SENTENCE = 20
"""The usual length of a sentence."""
ONEDNN_ROWS = 8
"""With fewer rows MKL is as fast: reading the weights takes the time, and oneDNN's call costs more."""
BLOCK_BYTES = 16 * 2**20
"""The largest result of oneDNN that is computed at once and then copied to its place."""


def pick_device(device: str | torch.device | None = None, local_rank: int = 0) -> torch.device:
    """Return the device of a name: cpu, cuda, cuda:1, ...; None or ``auto`` is a GPU if there is one.

    ``local_rank``, the number of this process on the machine, chooses the GPU if the name does not. A name of
    no device, or of one that is not here, is refused.
    """
    if not isinstance(device, str | int | torch.device | None):
        raise UserError(f"device {device!r:.60} cannot be used: it is no name of one")
    if device is None or device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and local_rank:
        device = f"cuda:{local_rank}"
    try:
        torch_device = torch.empty(1, device=device).device
        if torch_device.type == "meta":
            raise RuntimeError("tensors there have no numbers")
        if torch_device.type == "cuda":  # or cuDNN's LSTM would round the factors of products to ten bits
            torch.backends.cudnn.allow_tf32 = False
        return torch_device
    except (RuntimeError, AssertionError, TypeError, ValueError) as error:  # torch asserts that it has CUDA
        reason = str(error).splitlines()[0]
        raise UserError(f"device {str(device)!r} cannot be used ({reason}); --device takes another") from None


def to_host(tensor: Tensor) -> Callable[[], NDArray[np.generic]]:
    """Queue the copy of a tensor to the host; the returned function waits for this copy, and no more."""
    tensor = tensor.detach()
    if tensor.device.type != "cuda":
        return tensor.cpu().numpy
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    host.copy_(tensor, non_blocking=True)
    end_of_copy = torch.cuda.Event()
    end_of_copy.record()

    def wait() -> NDArray[np.generic]:
        end_of_copy.synchronize()
        return host.numpy()

    return wait


def pick_masked(values_BTD: Tensor, mask_BT: Tensor) -> Tensor:
    """Return ``values_BTD[mask_BT]`` [N, D]; if the mask is on the host, the device need not count."""
    if values_BTD.device == mask_BT.device:
        return values_BTD[mask_BT]
    sentence_N, position_N = mask_BT.nonzero(as_tuple=True)
    return values_BTD[sentence_N.to(values_BTD.device), position_N.to(values_BTD.device)]


def chosen_threads(sentences: int, dim: int, device: torch.device) -> int:
    """Choose the number of threads for views of hidden size ``dim``: torch's for large products, else one.

    OpenMP waits for the last of an operation's equal parts, which is late on a machine with other work, and
    a second thread makes small products slower. The number is chosen once for a run, because the last bits
    may depend on it. With a GPU no large products are left for the CPU.
    """
    # The widest weights of a cell: five gates from two children.
    largest_product = 2.0 * sentences * WORDS_PER_SENTENCE * (5 * dim) * (2 * dim)
    return torch.get_num_threads() if device.type == "cpu" and largest_product >= LARGE_FLOP else 1


@contextlib.contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Compute with ``count`` threads, then with as many as before; a switch takes under a microsecond."""
    count_before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(count_before)


@contextlib.contextmanager
def with_torch_defaults() -> Iterator[None]:
    """Compute without the autocast or the default device that the caller's code has set in this thread."""
    with contextlib.ExitStack() as stack:
        for kind in ("cpu", "cuda"):
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        if torch.get_default_device().type != "cpu":
            stack.enter_context(torch.device("cpu"))
        yield


@contextlib.contextmanager
def build_in_float32(seed: int = 0) -> Iterator[None]:
    """Make networks in float32 on the CPU, with weights drawn by a generator of their own."""
    with torch.device("cpu"), _OwnDefaults(torch.Generator("cpu").manual_seed(seed)):
        yield


@contextlib.contextmanager
def build_without_weights() -> Iterator[None]:
    """Make networks in float32 without memory for their weights."""
    with torch.device("meta"), _OwnDefaults(None):
        yield


class _OwnDefaults(TorchFunctionMode):
    """Stands in for torch's default type and generator in this thread; torch's own serve all threads.

    Without a generator nothing is drawn into weights: on the device ``meta`` a normal distribution would
    import torch's compiler, for a second.
    """

    def __init__(self, generator: torch.Generator | None) -> None:
        super().__init__()
        self.generator = generator

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func in FACTORIES:
            kwargs["dtype"] = kwargs.get("dtype") or torch.float32
        if func in DRAWS and self.generator is None:
            return args[0] if args else kwargs["tensor"]
        if func in DRAWS or (func in DRAWING_FACTORIES and self.generator is not None):
            kwargs["generator"] = kwargs.get("generator") or self.generator
        return func(*args, **kwargs)


ProductKind = Literal["int8", "float32"]
"""How weights are multiplied at inference on a CPU; elsewhere, and in training, in float32."""
_kind: ContextVar[ProductKind | None] = ContextVar("kind of products", default=None)


def chosen_products() -> ProductKind:
    """Return how a parser or an encoder that is made now multiplies: in float32 unless asked otherwise."""
    return _kind.get() or "float32"


@contextlib.contextmanager
def products_in(kind: ProductKind | None) -> Iterator[None]:
    """Multiply so in this thread, where it is in inference mode on a CPU; None changes nothing."""
    if kind not in (None, "int8", "float32"):
        raise UserError(f"products={kind!r:.40}: int8 or float32")
    token = _kind.set(kind or _kind.get())
    try:
        yield
    finally:
        _kind.reset(token)


@dataclass(frozen=True)
class Products:
    """Computes matrix products with operands of type ``dtype`` and results of float32 or wider.

    Under bf16 autocast the products read bf16, while states, gates and gradients stay float32. Results are
    written with ``out=``, which autocast ignores.
    """

    dtype: torch.dtype | None
    """The type to which operands are cast; None leaves them as they are."""
    onednn: bool
    """Whether products of many rows go to oneDNN."""
    int8: bool = False
    """Whether products with weights are those of integers (:mod:`runtime.int8`)."""

    @classmethod
    def of(cls, x: Tensor) -> Products:
        """Choose the precision of the current region, and the library for inputs like ``x``."""
        kind = x.device.type
        is_inference = kind == "cpu" and x.dtype == torch.float32 and torch.is_inference_mode_enabled()
        if is_inference and _kind.get() == "int8":
            return cls(None, onednn=False, int8=True)
        has_autocast = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
        if has_autocast and x.dtype == torch.float32:
            return cls(torch.get_autocast_dtype(kind), onednn=False)
        return cls(None, onednn=kind == "cpu" and x.dtype == torch.float32 and _onednn_is_faster())

    def cast(self, operand: Tensor) -> Tensor:
        """Cast an operand of any shape to the products' type, so that weights are cast once per sweep."""
        return operand if self.dtype is None else operand.to(self.dtype)

    def factor(self, weight: Tensor, arrange: Arrange | None = None) -> Tensor | Int8Matrix:
        """Return the right factor of products with a weight [m, k], or with one that ``arrange`` makes so."""
        if self.int8:
            from runtime.int8 import int8_matrix

            return int8_matrix(weight, arrange)
        return self.cast(arrange(weight) if arrange else weight).t()

    def mm(self, a: Tensor, b: Tensor | Int8Matrix, out: Tensor) -> Tensor:
        """Compute ``out = a @ b`` for [n, k] and [k, m]; ``out`` [n, m] must not overlap an operand."""
        if not isinstance(b, Tensor):
            return b.product(a, out)
        if self._is_for_torch(a):
            return torch.mm(a, b, out=out)
        for rows in self._blocks(a, out):
            out[rows] = self.product(a[rows], b)
        return out

    def addmm(self, a: Tensor, b: Tensor | Int8Matrix, out: Tensor) -> Tensor:
        """Add ``a @ b`` to ``out``, for [n, k] and [k, m]."""
        if not isinstance(b, Tensor):
            return b.product(a, out, add=True)
        if self._is_for_torch(a):
            return torch.addmm(out, a, b, out=out)
        for rows in self._blocks(a, out):
            out[rows] += self.product(a[rows], b)
        return out

    def multiply_words(
        self, words: Tensor, token: Tensor, weight: Tensor, word_products: Tensor, out: Tensor
    ) -> None:
        """Compute ``out[n] = words[token[n]] @ weight.T``; each word is multiplied once.

        Shapes: words [U, E], token int64 [N], weight [K, E], word_products [U, K] (it is overwritten), out
        [N, K]. Two fifths of the tokens of 200 sentences are distinct; inputs are half of a tree view's work.
        """
        self.mm(self.cast(words), self.factor(weight), word_products)
        torch.index_select(word_products, 0, token, out=out)

    def linear(
        self, x: Tensor, weight: Tensor, bias: Tensor | None = None, arrange: Arrange | None = None
    ) -> Tensor:
        """Return ``x @ weight.T + bias`` for inputs [..., k] and a weight as in :meth:`factor`."""
        if not self.int8:
            return nn.functional.linear(x, arrange(weight) if arrange else weight, bias)
        out = self.new_mm(x.flatten(0, -2), self.factor(weight, arrange)).view(*x.shape[:-1], -1)
        return out if bias is None else out.add_(bias)

    def rows(self, x: Tensor) -> tuple[Tensor, NDArray[np.float32]]:
        """Return the left factor of :meth:`sums` for inputs [n, k], and the scale [n] of its rows."""
        if not self.int8:
            return x, np.ones(len(x), np.float32)
        from runtime.int8 import quantised

        return quantised(x)

    def sums(self, rows: Tensor, factor: Tensor | Int8Matrix) -> Tensor:
        """Return products [n, m] without the scales of the rows and of the factor's columns."""
        return self.new_mm(rows, factor) if isinstance(factor, Tensor) else factor.sums(rows)

    def scale(self, factor: Tensor | Int8Matrix) -> NDArray[np.float32]:
        """Return the scale [m] of a factor's columns."""
        if not isinstance(factor, Tensor):
            return factor.column_scale
        return np.ones(factor.shape[1], np.float32)

    def new_mm(self, a: Tensor, b: Tensor | Int8Matrix) -> Tensor:
        """Return ``a @ b`` [n, m] as a new tensor of the type of ``a``."""
        if not isinstance(b, Tensor):
            return b.product(a, a.new_empty(len(a), len(b.column_scale)))
        if not len(b):  # oneDNN refuses it; a batch of single words has no internal nodes
            return a.new_zeros(a.shape[0], b.shape[1])
        if self.onednn and len(a) >= ONEDNN_ROWS:
            return self.product(a, b)
        return self.mm(a, b, a.new_empty(a.shape[0], b.shape[1]))

    def gradient(self, rows: Tensor, inputs: Tensor) -> Tensor:
        """Return the gradient [m, k] of a weight, ``rows.t() @ inputs``, for rows [n, m] and inputs [n, k].

        oneDNN copies its first operand if it is not contiguous, so ``inputs``, the narrower, comes first.
        """
        if self.onednn and len(rows) >= ONEDNN_ROWS:
            return self.product(inputs.t(), rows).t()
        return self.new_mm(rows.t(), inputs)

    def sum_by_word(self, gradient: Tensor, token: Tensor, words: int) -> Tensor:
        """Sum the tokens' gradients [N, K] to [U, K]; ``token`` int64 [N] as in :meth:`multiply_words`."""
        # The backward pass of an embedding adds whole rows, in a fixed order on every device.
        sums: Tensor = torch.ops.aten.embedding_dense_backward(gradient, token, words, -1, False)
        return sums

    def _is_for_torch(self, a: Tensor) -> bool:
        """Tell whether torch multiplies ``a`` as it is: nothing is cast, and oneDNN has too few rows."""
        return self.dtype is None and not (self.onednn and len(a) >= ONEDNN_ROWS)

    def _blocks(self, a: Tensor, out: Tensor) -> Iterator[slice]:
        """Cut rows into ranges of a size at which oneDNN's results stay in cache until they are copied."""
        step = max(BLOCK_BYTES // (out.shape[1] * out.element_size()), 256) if self.onednn else max(len(a), 1)
        return (slice(first, first + step) for first in range(0, len(a), step))

    def product(self, a: Tensor, b: Tensor) -> Tensor:
        """Return ``a @ b`` of any sizes, by oneDNN, else by torch with both operands cast."""
        if self.onednn:
            result: Tensor = torch.ops.mkldnn._linear_pointwise(a, b.t(), None, "none", [], "")
            return result
        with torch.autocast(a.device.type, enabled=False):
            return torch.mm(self.cast(a), self.cast(b))


@cache
def _onednn_is_faster() -> bool:
    """Tell whether the CPU has AVX-512, and torch the operator that passes float32 tensors to oneDNN."""
    return (
        torch.backends.mkldnn.is_available()
        and torch.backends.cpu.get_cpu_capability() == "AVX512"
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )
