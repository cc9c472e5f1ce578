"""Where networks compute: on which device, with how many threads, and with which of torch's defaults.

docs/scaling.md names the GPU on which the code for CUDA ran.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from runtime.errors import UserError

# In a forked child GNU's OpenMP would wait for ever for threads, which a fork does not copy.
os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))

DRAWING_FACTORIES: set[Any] = {torch.rand, torch.randn}
FACTORIES: set[Any] = {torch.empty, torch.zeros, torch.ones, torch.eye, torch.linspace, *DRAWING_FACTORIES}
"""Functions that return tensors of torch's default type."""
DRAWS: set[Any] = {
    *(Tensor.uniform_, Tensor.normal_, nn.init.uniform_, nn.init.normal_),
    *(nn.init.kaiming_uniform_, nn.init.kaiming_normal_),
}
"""Functions that fill a tensor with random numbers; the other functions of ``nn.init`` call these."""
LARGE_FLOP = 2e9
"""The work of a product from which several threads are faster: some tens of milliseconds on one core."""
WORDS_PER_SENTENCE = 20
"""The usual length of a sentence."""


def pick_device(device: str | torch.device | None = None, local_rank: int = 0) -> torch.device:
    """Return the device of a name: cpu, cuda, cuda:1, ...; None or ``auto`` is a GPU if there is one.

    ``local_rank``, the number of this process on its machine, chooses the GPU if the name does not. Raises
    UserError if there is no such device.
    """
    if not isinstance(device, str | int | torch.device | None):
        raise UserError(f"device {device!r:.60} is not the name of a device; give cpu, cuda or cuda:N")
    if device is None or device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and local_rank:
        device = f"cuda:{local_rank}"
    try:
        torch_device = torch.empty(1, device=device).device
        if torch_device.type == "meta":
            raise RuntimeError("tensors there have no numbers")
        if torch_device.type == "cuda":  # otherwise cuDNN's LSTM rounds the factors of products to ten bits
            torch.backends.cudnn.allow_tf32 = False
        return torch_device
    except (RuntimeError, AssertionError, TypeError, ValueError) as error:  # Assertion: without CUDA
        reason = str(error).splitlines()[0]
        raise UserError(f"device {str(device)!r} cannot be used ({reason}); give another") from None


def to_host(tensor: Tensor) -> Callable[[], NDArray[np.generic]]:
    """Queue a copy of a tensor to the host; return a function that waits for the copy and returns it."""
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
    """Return ``values_BTD[mask_BT]`` [N, D], without waiting for the device if the mask is on the host."""
    if values_BTD.device == mask_BT.device:
        return values_BTD[mask_BT]
    sentence_N, position_N = mask_BT.nonzero(as_tuple=True)
    return values_BTD[sentence_N.to(values_BTD.device), position_N.to(values_BTD.device)]


def chosen_threads(sentences: int, dim: int, device: torch.device) -> int:
    """Return the number of threads for views of hidden size ``dim``: torch's for large products, else one.

    A second thread makes small products slower: OpenMP divides an operation into equal parts and waits for
    the last one, which is late on a machine with other work. The number is chosen once for a run, because the
    last bits may depend on it. With a GPU the CPU has no large products.
    """
    # The largest weight of a cell is that of five gates and two children.
    largest_product = 2.0 * sentences * WORDS_PER_SENTENCE * (5 * dim) * (2 * dim)
    return torch.get_num_threads() if device.type == "cpu" and largest_product >= LARGE_FLOP else 1


@contextlib.contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let torch use ``count`` threads in the ``with`` block; a switch takes less than a microsecond."""
    count_before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(count_before)


@contextlib.contextmanager
def with_torch_defaults() -> Iterator[None]:
    """Switch off any autocast and default device that the caller has set in this thread."""
    with contextlib.ExitStack() as stack:
        for kind in ("cpu", "cuda"):
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        if torch.get_default_device().type != "cpu":
            stack.enter_context(torch.device("cpu"))
        yield


@contextlib.contextmanager
def build_in_float32(seed: int = 0) -> Iterator[None]:
    """Make networks in float32 on the CPU, with random weights from a generator with this seed."""
    with torch.device("cpu"), _OwnDefaults(torch.Generator("cpu").manual_seed(seed)):
        yield


@contextlib.contextmanager
def build_without_weights() -> Iterator[None]:
    """Make networks in float32 on the device ``meta``, without memory for their weights."""
    with torch.device("meta"), _OwnDefaults(None):
        yield


class _OwnDefaults(TorchFunctionMode):
    """Replaces torch's default type and random generator in this thread; torch's own are for all threads.

    Without a generator, weights are not filled with random numbers, because a normal distribution on the
    device ``meta`` would import torch's compiler, which takes a second.
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
