"""Commands under bad conditions: killed, two at once, without space, without memory, without permission.

Every attempt ends by running the same command once more, undisturbed: the results must be the bytes of the
uninterrupted run, and nothing half-written may be left.
"""

from __future__ import annotations

import contextlib
import random
import resource
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tools.hammer.campaign import Fault, Target
from tools.hammer.jobs import JOBS, Job, Whole, whole
from tools.hammer.processes import COMMAND_S, memory_in_use
from tools.hammer.world import World

MOST_KILLS = 16


def targets() -> list[Target]:
    """``kill.*``, ``pair.*``, ``full.*``, ``filesize.*``, ``memory.*`` and ``readonly.*``."""
    kinds = {
        "kill": _kill,
        "pair": _pair,
        "full": _full,
        "filesize": _file_size,
        "memory": _memory,
        "readonly": _read_only,
    }
    found = []
    for kind, attempt in kinds.items():
        for job in JOBS:
            found.append(Target(f"{kind}.{job.name}", partial(attempt, job), sandboxed=False))
    return found


def _finish(job: Job, cwd: Path, world: World, expected: Whole) -> dict[str, int]:
    """Run it undisturbed and compare."""
    ended = job.start(cwd, world).wait()
    fault = ended.fault(job.ends)
    if fault:
        raise Fault(f"does not go on: {fault}")
    found = job.digest(cwd)
    if found != expected.results:
        names = [name for name, data in expected.results.items() if found.get(name) != data]
        raise Fault(f"lost: other bytes in {names[:4] or sorted(found)[:4]}")
    left = job.left_over(cwd)
    if left:
        raise Fault(f"left over: {', '.join(left[:4])}")
    return {"same": 1}


def _kill(job: Job, rng: random.Random, folder: Path, world: World) -> dict[str, int]:
    """SIGKILL (seldom SIGTERM or SIGINT) at random instants, often early ones, until it ends; then finish."""
    expected, kills = whole(job, world), 0
    for _ in range(rng.randint(1, MOST_KILLS)):
        child = job.start(folder, world)
        share = rng.uniform(0, 1.05) * rng.choice([0.2, 0.5, 1])
        number = rng.choice([signal.SIGKILL] * 8 + [signal.SIGTERM, signal.SIGINT])
        ended = child.runs_on(share * expected.seconds)
        if not ended:
            child.kill(number)
            kills += 1
        fault = child.wait().fault([*job.ends, 130, 143, -signal.SIGKILL, -signal.SIGTERM])
        if fault:
            raise Fault(f"after {kills} kills: {fault}")
        if ended:
            break
    return {"kills": kills, **_finish(job, folder, world, expected)}


def _pair(job: Job, rng: random.Random, folder: Path, world: World) -> dict[str, int]:
    """The same command twice at once; sometimes the first is killed. One may refuse, nothing may be lost."""
    expected = whole(job, world)
    first = job.start(folder, world)
    first.runs_on(rng.choice([0.0, rng.uniform(0, expected.seconds)]))
    second = job.start(folder, world)
    if rng.random() < 0.3:
        first.runs_on(rng.uniform(0, expected.seconds))
        first.kill()
    ends = [child.wait() for child in (second, first)]
    for ended in ends:
        fault = ended.fault([0, 2, -signal.SIGKILL])
        if fault:
            raise Fault(f"two at once: {fault}")
    seen = {"pairs": 1, "refused": sum(ended.code == 2 for ended in ends)}
    return {**seen, **_finish(job, folder, world, expected)}


def _limited(
    job: Job, folder: Path, world: World, limits: dict[int, int], expected: Whole, what: str
) -> dict[str, int]:
    """Run under limits, which may end in one line; then finish without."""
    ended = job.start(folder, world, limits).wait()
    fault = ended.fault([0, 2])
    if fault:
        raise Fault(f"{what}: {fault}")
    return {"limits": 1, "refused": int(ended.code == 2), **_finish(job, folder, world, expected)}


def _file_size(job: Job, rng: random.Random, folder: Path, world: World) -> dict[str, int]:
    """A limit on the size of a file (EFBIG), as ``ulimit -f`` sets it."""
    expected = whole(job, world)
    largest = max(map(len, expected.results.values()))
    limit = rng.choice([0, 100, rng.randrange(largest + 1), rng.randrange(largest + 1)])
    return _limited(
        job, folder, world, {resource.RLIMIT_FSIZE: limit}, expected, f"files of {limit} bytes at most"
    )


def _memory(job: Job, rng: random.Random, folder: Path, world: World) -> dict[str, int]:
    """A limit on memory, as ``ulimit -v`` sets it."""
    expected = whole(job, world)
    more = int(2 ** rng.uniform(16, 30))
    limits = {resource.RLIMIT_AS: memory_in_use() + more}
    return _limited(job, folder, world, limits, expected, f"{more >> 10} KiB of memory")


@contextlib.contextmanager
def mounted(folder: Path, options: str) -> Iterator[None]:
    """A file system of its own on ``folder``.

    Raises:
        OSError: mounting is not allowed here.
    """
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(done.stderr.strip())
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def _full(job: Job, rng: random.Random, folder: Path, world: World) -> dict[str, int]:
    """A disk that is full after a random number of bytes; then it is enlarged.

    Where mounting is not allowed, the limit on a file's size stands for it.
    """
    expected = whole(job, world)
    pages = rng.randint(1, 2 + expected.size // 4096)
    (folder / "out").mkdir()
    try:
        with mounted(folder / "out", f"size={pages * 4}k"):
            ended = job.start(folder, world).wait()
            fault = ended.fault([0, 2])
            if fault:
                raise Fault(f"disk of {pages * 4} KiB: {fault}")
            if ended.code == 2 and "space" not in ended.text:
                raise Fault(f"disk of {pages * 4} KiB: not named: {ended.text.splitlines()[-1][:200]}")
            enlarge = ["mount", "-o", "remount,size=1g", str(folder / "out")]
            subprocess.run(enlarge, check=True, capture_output=True)
            finished = _finish(job, folder, world, expected)
    except OSError:
        return {"no mounting": 1, **_file_size(job, rng, folder, world)}
    return {"disks": 1, "refused": int(ended.code == 2), **finished}


def _read_only(job: Job, rng: random.Random, folder: Path, world: World) -> dict[str, int]:
    """A folder, empty or begun, that cannot be written."""
    expected = whole(job, world)
    out = folder / "out"
    out.mkdir()
    if rng.random() < 0.5:  # begun in vain: what is there does not show through the mount
        child = job.start(folder, world)
        child.runs_on(rng.uniform(0, expected.seconds))
        child.kill()
        child.wait()
    try:
        with mounted(out, "size=4k,ro"):
            ended = job.start(folder, world).wait(COMMAND_S)
            fault = ended.fault([2])
            if fault:
                raise Fault(f"read-only folder: {fault}")
    except OSError:
        return {"no mounting": 1}
    return {"read-only": 1, **_finish(job, folder, world, expected)}
