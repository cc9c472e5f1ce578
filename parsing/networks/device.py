"""Devices and threads: where networks compute, and how a parser's batches run there."""

from __future__ import annotations

import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from corpora.support.cli import LOGGER
from corpora.support.errors import UserError, out_of_memory
from parsing.networks.features import length_batches
from parsing.trees.batch import DeviceLost

CPU_POSITIONS, DEVICE_POSITIONS = 2_000, 32_768
"""Padded positions run at once: few that stay in a core's cache, or many that fill a GPU."""

LARGE_FLOP = 2e9
"""Work of a product that pays for several threads: some tens of milliseconds on one core."""
WORDS = 20
"""Words of a sentence, about."""

Parse = TypeVar("Parse")
Stages = Generator[None, None, Sequence[Parse]]
"""The work on a batch, which yields whenever it has queued work on the device and is about to wait."""
log = logging.getLogger(LOGGER)


def pick_device(device: str | torch.device | None = None, local_rank: int = 0) -> torch.device:
    """The device that a name stands for: cpu, cuda, cuda:1, ...; None or ``auto`` take a GPU if there is one.

    ``local_rank``, the number of this process on the machine, chooses the GPU if the name does not.

    Raises:
        UserError: there is no such device here.
    """
    if device is None or device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and local_rank:
        device = f"cuda:{local_rank}"
    try:
        chosen = torch.empty(1, device=device).device
        if chosen.type == "cuda":  # fp32 is fp32: cuDNN would round what its LSTM multiplies to ten bits
            torch.backends.cudnn.allow_tf32 = False
        return chosen
    except (RuntimeError, AssertionError) as error:  # torch asserts that it was built with CUDA
        reason = str(error).splitlines()[0]
        raise UserError(f"device {str(device)!r} cannot be used ({reason}); --device takes another") from None


def devices_of(name: str) -> list[str]:
    """The devices that a name stands for, ``cuda`` for all GPUs of this machine; raises as the above."""
    device = pick_device(name)
    if device.type == "cuda" and name in ("auto", "cuda"):
        return [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    return [str(device)]


def identity_on(identity: dict[str, str], device: torch.device) -> dict[str, str]:
    """A parser's identity on a device; it names the type of the device unless that is the CPU.

    The rule: whatever may change a tree is part of the identity. On a CPU the trees do not depend on the
    processor, the batches or the number of workers. A GPU adds in another order, so they may.
    """
    kept = {key: value for key, value in identity.items() if key != "device"}
    return kept if device.type == "cpu" else {**kept, "device": device.type}


def to_host(tensor: Tensor) -> Callable[[], NDArray[np.generic]]:
    """Queue the copy of a tensor to the host; the result waits for this copy, not for what follows it."""
    tensor = tensor.detach()
    if tensor.device.type != "cuda":
        return tensor.cpu().numpy
    host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    host.copy_(tensor, non_blocking=True)
    done = torch.cuda.Event()
    done.record()

    def wait() -> NDArray[np.generic]:
        done.synchronize()
        return host.numpy()

    return wait


def pick(values_BTD: Tensor, mask_BT: Tensor) -> Tensor:
    """``values_BTD[mask_BT]`` [N, D]; a mask on the host spares the device from counting."""
    if values_BTD.device == mask_BT.device:
        return values_BTD[mask_BT]
    sentence_N, position_N = mask_BT.nonzero(as_tuple=True)
    return values_BTD[sentence_N.to(values_BTD.device), position_N.to(values_BTD.device)]


class BatchRunner:
    """Runs a parser's batches on its device, of ``positions`` sentences x the longest one's positions.

    On a CPU a batch is finished before the next one begins. On a GPU some are in flight: while the device
    scores one, the host decodes another. If the GPU's memory is too small, batches are halved, once and for
    all.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.on_gpu = device.type != "cpu"
        self.positions = DEVICE_POSITIONS if self.on_gpu else CPU_POSITIONS

    def run(
        self, sizes: Sequence[int] | NDArray[np.integer], start: Callable[[list[int]], Stages[Parse]]
    ) -> list[Parse]:
        """One result per sentence, in order; ``start`` maps the indices of a batch to the work on them.

        Raises:
            DeviceLost: the GPU failed.
        """
        results: dict[int, Parse] = {}
        while left := [i for i in range(len(sizes)) if i not in results]:
            try:
                for members, parses in self._finished(left, [sizes[i] for i in left], start):
                    results.update(zip(members, parses, strict=True))
            except Exception as error:
                if not self.on_gpu:
                    raise
                if out_of_memory(error):
                    if self.positions <= max(sizes):
                        raise
                    self.positions //= 2
                    torch.cuda.empty_cache()
                    log.warning("%s: too little memory; batches of %d words now", self.device, self.positions)
                elif type(error).__name__ == "AcceleratorError" or "CUDA error" in str(error):
                    reason = str(error).strip().splitlines()[0]
                    raise DeviceLost(
                        f"{self.device} was lost ({reason}); the same command goes on from what is done"
                    ) from None
                else:
                    raise
        return [results[i] for i in range(len(sizes))]

    def _finished(
        self, names: list[int], sizes: Sequence[int], start: Callable[[list[int]], Stages[Parse]]
    ) -> Iterator[tuple[list[int], Sequence[Parse]]]:
        """Members and results of each batch, as they are done."""
        batches = iter(length_batches(sizes, self.positions))
        running: list[tuple[list[int], Stages[Parse]]] = []
        batch = next(batches, None)
        while batch or running:
            newest = []
            if batch:
                members = [names[i] for i in batch]
                newest = [(members, start(members))]
                next(newest[0][1])
            # The device has the new batch; meanwhile each older one goes on by a stage.
            waiting = []
            for members, stages in running:
                try:
                    next(stages)
                    waiting.append((members, stages))
                except StopIteration as end:
                    yield members, end.value
            running = waiting + newest
            batch = next(batches, None) if self.on_gpu or not running else None


class DeviceParser(ABC):
    """A parser that runs on a device: that of its network until :meth:`to` moves it.

    Its identity is the name, version and sha256 of the weights.
    """

    def __init__(self, module: nn.Module, identity: dict[str, str]) -> None:
        self._module = module.eval()
        self.identity = identity
        self.runner = BatchRunner(next(module.parameters()).device)

    def to(self, device: torch.device) -> None:
        """Encode and score on a device from now on; trees are still decoded on the host."""
        self._module.to(device)
        self.runner = BatchRunner(device)
        self.identity = identity_on(self.identity, device)

    @abstractmethod
    def use_bfloat16(self) -> None:
        """Run the encoder in bfloat16 from now on; the identity says so, because trees may differ."""
        self.identity = {**self.identity, "arithmetic": "bf16"}


def chosen_threads(sentences: int, dim: int, device: torch.device) -> int:
    """Threads for encoding sentences by views of hidden size ``dim``: torch's for large products, else one.

    OpenMP waits for the last of an operation's equal parts; on a machine with other work that one is late,
    and a second thread makes small products slower. The number is chosen once for a run, because the last
    bits may depend on it. On a GPU there are no large products left for the CPU.
    """
    # The widest weights of a cell: five gates from two children.
    largest = 2.0 * sentences * WORDS * (5 * dim) * (2 * dim)
    return torch.get_num_threads() if device.type == "cpu" and largest >= LARGE_FLOP else 1


@contextlib.contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Compute with ``count`` threads, then with as many as before; a switch takes under a microsecond."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
