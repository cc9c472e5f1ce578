"""How many threads torch computes with.

OpenMP splits an operation into equal parts and waits for the last one. torch's build waits by spinning, so on
a machine with other work the waiting thread takes the core that the late one needs. Measured on two cores
beside other processes: a sentence took 62 ms with one thread and 923 ms with two, a training step at D = 128
1.2 s and 8.8 s. With threads that sleep instead, two were on a par with one at D = 128, but at D = 1200 still
0.85 times as fast on a full machine.

So several threads are taken only for large products and only as many as there are idle cores, and commands
let them sleep while they wait (:mod:`corpora.support.cli`). The number is chosen once for a run, because the
last bits may depend on it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

LARGE_FLOP = 2e9
"""Work of a product that pays for several threads: some tens of milliseconds on one core."""
WORDS = 20
"""Words of a sentence, about."""
SAMPLE_S = 0.1
"""How long to watch the cores."""
_STAT = Path("/proc/stat")


def chosen_threads(sentences: int, dim: int, device: torch.device) -> int:
    """Threads for encoding sentences together.

    One unless the products are large and more cores are idle; never more than torch takes by itself
    (OMP_NUM_THREADS, else the cores).

    Args:
        sentences: number of them.
        dim: hidden size of a view.
        device: of the weights; on a GPU there are no large products left for the CPU.
    """
    most = torch.get_num_threads()
    # The widest weights of a cell: five gates from two children.
    largest = 2.0 * sentences * WORDS * (5 * dim) * (2 * dim)
    if most == 1 or device.type != "cpu" or largest < LARGE_FLOP:
        return 1
    return max(1, min(most, idle_cores()))


def idle_cores() -> int:
    """Cores that nobody used in the last moment; one that is a quarter in use counts as idle."""
    before = _idle_ticks()
    if not before:  # no Linux: the mean of the last minute is all there is
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
        return int((os.cpu_count() or 1) - load + 0.25)
    began = time.perf_counter()
    time.sleep(SAMPLE_S)
    after = _idle_ticks()
    ticks = (time.perf_counter() - began) * os.sysconf("SC_CLK_TCK")
    idle = sum(min(1.0, (after[core] - ticks_then) / ticks) for core, ticks_then in before.items())
    return int(idle + 0.25)


def _idle_ticks() -> dict[int, int]:
    """Clock ticks that each core this process may use has been idle; empty where the system does not say."""
    if not _STAT.exists():
        return {}
    ours = os.sched_getaffinity(0)
    ticks = {}
    for line in _STAT.read_text(encoding="ascii").splitlines():
        name, *counts = line.split()
        if name.startswith("cpu") and name != "cpu" and int(name[3:]) in ours:
            ticks[int(name[3:])] = int(counts[3]) + int(counts[4])  # idle, and waiting for a disk
    return ticks


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Compute with ``count`` threads, then with as many as before; a switch takes under a microsecond."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
