"""The device of every command that takes ``--device``."""

from __future__ import annotations

import contextlib
import logging
import threading
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
from parsing.trees.parsers import DeviceLost

CPU_POSITIONS, DEVICE_POSITIONS = 2_000, 32_768
"""Padded positions run at once: few that stay in a core's cache, or many that fill a GPU."""

Parse = TypeVar("Parse")
Stages = Generator[None, None, Sequence[Parse]]
"""The work on a batch, which yields whenever it has queued work on the device and is about to wait."""
log = logging.getLogger(LOGGER)


def pick_device(device: str | torch.device | None = None, local_rank: int = 0) -> torch.device:
    """The device that a name stands for.

    Args:
        device: cpu, cuda, cuda:1, ...; None or ``auto`` takes a GPU if there is one.
        local_rank: number of this process on the machine; it chooses the GPU if the name does not.

    Raises:
        UserError: there is no such device here.
    """
    if device is None or device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and local_rank:
        device = f"cuda:{local_rank}"
    try:
        chosen = torch.empty(1, device=device).device
        if (
            chosen.type == "cuda"
        ):  # fp32 is fp32: cuDNN would round what its LSTM and GRU multiply to ten bits
            torch.backends.cudnn.allow_tf32 = False
        return chosen
    except (RuntimeError, AssertionError) as error:  # torch asserts that it was built with CUDA
        reason = str(error).splitlines()[0]
        raise UserError(f"device {str(device)!r} cannot be used ({reason}); --device takes another") from None


def devices_of(name: str) -> list[str]:
    """The devices that a name stands for, ``cuda`` for all GPUs of this machine.

    Raises:
        UserError: there is no such device here.
    """
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
    """Runs a parser's batches on its device, in any thread.

    On a CPU a batch is finished before the next one begins. On a GPU some are in flight: while the device
    scores one, the host decodes another. If the device's memory is too small, batches are halved, once and
    for all.

    Args:
        device: of the parser.
        positions: sentences x the longest one's positions of a batch; None takes the device's default.
    """

    def __init__(self, device: torch.device, positions: int | None = None) -> None:
        self.device = device
        cpu = device.type == "cpu"
        self.positions = positions or (CPU_POSITIONS if cpu else DEVICE_POSITIONS)
        self.overlaps = self.halves = not cpu
        # Caches of word types are filled in the first stage of a batch.
        self._first_stage = threading.Lock()

    def run(
        self, sizes: Sequence[int] | NDArray[np.integer], start: Callable[[list[int]], Stages[Parse]]
    ) -> list[Parse]:
        """One result per sentence, in order.

        Args:
            sizes: [n], positions of each sentence, boundaries included.
            start: maps the indices of a batch's sentences to the work on them.

        Raises:
            DeviceLost: the device failed.
        """
        results: dict[int, Parse] = {}
        while len(results) < len(sizes):
            left = [i for i in range(len(sizes)) if i not in results]
            positions = self.positions
            try:
                with _device_errors(self.device):
                    for members, parses in self._finished([sizes[i] for i in left], positions, start, left):
                        results.update(zip(members, parses, strict=True))
            except Exception as error:
                if not (self.halves and out_of_memory(error)) or positions <= max(sizes):
                    raise
                self._halve(positions)
        return [results[i] for i in range(len(sizes))]

    def _finished(
        self,
        sizes: Sequence[int],
        positions: int,
        start: Callable[[list[int]], Stages[Parse]],
        names: list[int],
    ) -> Iterator[tuple[list[int], Sequence[Parse]]]:
        """Members and results of each batch, as they are done."""
        running: list[tuple[list[int], Stages[Parse]]] = []
        for batch in length_batches(sizes, positions):
            members = [names[i] for i in batch]
            stages = start(members)
            with self._first_stage:
                next(stages)
            # The device has the new batch; meanwhile each older one goes on by a stage.
            older = running if self.overlaps else [*running, (members, stages)]
            running = [(members, stages)] if self.overlaps else []
            waiting = []
            for entry in older:
                done = _advance(entry[1], to_end=not self.overlaps)
                if done is None:
                    waiting.append(entry)
                else:
                    yield entry[0], done
            running = waiting + running
        for members, stages in running:
            done = _advance(stages, to_end=True)
            assert done is not None
            yield members, done

    def _halve(self, positions: int) -> None:
        with self._first_stage:
            if self.positions < positions:  # another thread has done it
                return
            self.positions = positions // 2
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        log.warning("%s: too little memory; going on in batches of %d words", self.device, self.positions)


class DeviceParser(ABC):
    """A parser that runs on a device: that of its network until :meth:`to` moves it.

    Args:
        module: its network; put into eval mode.
        identity: name, version and sha256 of the weights.
        batch_positions: padded positions run at once; None takes the device's default.
    """

    def __init__(self, module: nn.Module, identity: dict[str, str], batch_positions: int | None) -> None:
        self._module = module.eval()
        self.identity = identity
        self.runner = BatchRunner(next(module.parameters()).device, batch_positions)

    def to(self, device: torch.device) -> None:
        """Encode and score on a device from now on; trees are still decoded on the host."""
        self._module.to(device)
        self.runner = BatchRunner(device)
        self.identity = identity_on(self.identity, device)

    def use_bfloat16(self) -> None:
        """Run the encoder in bfloat16 from now on; the identity says so, because trees may differ."""
        self.reduce_precision()
        self.identity = {**self.identity, "arithmetic": "bf16"}

    @abstractmethod
    def reduce_precision(self) -> None:
        """Make the encoder compute in bfloat16."""


def _advance(stages: Stages[Parse], *, to_end: bool) -> Sequence[Parse] | None:
    """Run to the next wait or to the end; the results if the work is done."""
    try:
        next(stages)
        while to_end:
            next(stages)
    except StopIteration as end:
        result: Sequence[Parse] = end.value
        return result
    return None


@contextlib.contextmanager
def _device_errors(device: torch.device) -> Iterator[None]:
    """Tell the loss of a device from the fault of a parser."""
    try:
        yield
    except Exception as error:
        lost = type(error).__name__ == "AcceleratorError" or "CUDA error" in str(error)
        if device.type == "cpu" or not lost or out_of_memory(error):
            raise
        reason = str(error).strip().splitlines()[0]
        raise DeviceLost(
            f"{device} was lost ({reason}); the same command goes on from what is done"
        ) from None
