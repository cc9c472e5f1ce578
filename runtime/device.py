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
