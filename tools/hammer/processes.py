"""Children: commands as forks of a process that has imported everything, and a sandbox for readers."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

HANG_S = 20.0
"""An input that takes a reader longer hangs."""
COMMAND_S = 240.0
"""A command on the hammer's tiny inputs that takes longer hangs."""
ROOM = 3 << 30
"""Bytes a sandboxed reader may take beyond what Python and its libraries have."""


@dataclass(frozen=True)
class Finished:
    """How a child ended."""

    code: int
    """Its exit code; the negative signal if it was killed."""
    text: str
    """What it printed."""
    seconds: float
    hung: bool = False

    def fault(self, allowed: Sequence[int]) -> str | None:
        """What is wrong with this ending, if anything."""
        lines = [line for line in self.text.replace("\r", "\n").splitlines() if line.strip()]
        last = lines[-1][:240] if lines else "(nothing printed)"
        if self.hung:
            return f"hang: no end after {self.seconds:.0f} s; {last}"
        if "Traceback (most recent call last)" in self.text:
            return f"traceback {last}"
        if self.code < 0 and self.code not in allowed:
            return f"ended by signal {-self.code}; {last}"
        if self.code not in allowed:
            return f"exit code {self.code}, expected one of {list(allowed)}; {last}"
        return None


class Child:
    """A fork of this process.

    Args:
        call: what it does; returns its exit code.
        cwd: its folder.
        limits: of ``resource``, by number.
        stdin: what it can read.
    """

    def __init__(
        self, call: Callable[[], int], cwd: Path, limits: Mapping[int, int] | None = None, stdin: bytes = b""
    ) -> None:
        self.began = time.monotonic()
        reading, writing = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(reading)
            _be_child(call, cwd, limits or {}, writing, stdin)
        os.close(writing)
        self.pipe, self.text, self.status = reading, bytearray(), None if self.pid else 0

    def wait(self, seconds: float = COMMAND_S) -> Finished:
        """Wait for its end; after ``seconds`` it is killed and counts as hung."""
        hung = not self.runs_on(seconds)
        if hung:
            self.kill()
            self.runs_on(30)
        os.close(self.pipe)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)  # workers that outlive it
        assert self.status is not None
        text = self.text.decode("utf-8", "replace")
        return Finished(os.waitstatus_to_exitcode(self.status), text, time.monotonic() - self.began, hung)

    def runs_on(self, seconds: float) -> bool:
        """Let it run for up to ``seconds``; whether it has ended."""
        until = time.monotonic() + seconds
        while self.status is None:
            left = until - time.monotonic()
            if left <= 0:
                return False
            if select.select([self.pipe], [], [], min(left, 0.02))[0]:
                self.text += os.read(self.pipe, 1 << 16)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = status
        while select.select([self.pipe], [], [], 0)[0] and (rest := os.read(self.pipe, 1 << 16)):
            self.text += rest
        return True

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal to the command alone, not to its workers."""
        if self.status is None:
            os.kill(self.pid, number)


def _be_child(
    call: Callable[[], int], cwd: Path, limits: Mapping[int, int], writing: int, stdin: bytes
) -> None:
    code = 1
    try:
        os.setsid()
        reading, feed = os.pipe()
        os.write(feed, stdin)
        os.close(feed)
        os.dup2(reading, 0)
        os.dup2(writing, 1)
        os.dup2(writing, 2)
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 (the child ends without closing)
        # Not those of the parent, which a test or a log may have replaced.
        sys.stdout, sys.stderr = (open(n, "w", encoding="utf-8", closefd=False) for n in (1, 2))  # noqa: SIM115
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(cwd)
        for limit, value in limits.items():
            resource.setrlimit(limit, (value, value))
        code = call()
    except SystemExit as stop:
        code = int(stop.code or 0)
    except BaseException as error:
        if type(error) is KeyboardInterrupt:
            code = 130  # before or after the command's own handling: there the interpreter would end
        else:
            traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


PRELOADED = (
    *("corpora", "parsing", "multiview", "senteval_runner", "studies", "torch", "sklearn", "scipy", "spacy"),
    *("numba", "h5py", "matplotlib", "safetensors", "transformers", "tokenizers", "sentence_transformers"),
    *("tyro", "pydantic", "jinja2", "tqdm", "datasets", "accelerate", "ir_measures", "bm25s", "tensorboard"),
)
"""Libraries worth importing once for all forks."""


def preload(modules: Sequence[str]) -> None:
    """Import modules before the first fork; a fork needs one thread, so torch gets no pool of its own."""
    os.environ["OMP_NUM_THREADS"] = "1"
    for name in modules:
        if name.split(".")[0] in PRELOADED and name not in sys.modules:
            with contextlib.suppress(Exception):  # some parts of libraries can only be imported by others
                importlib.import_module(name)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def command(module: str, words: Sequence[str]) -> Callable[[], int]:
    """A call of the command ``module``; ``studies.burt`` is ``studies.burt.__main__``."""

    def call() -> int:
        try:
            found = importlib.import_module(f"{module}.__main__")
        except ModuleNotFoundError as error:
            if error.name != f"{module}.__main__":
                raise
            found = importlib.import_module(module)
        sys.argv = [module, *words]
        return int(found.cli(list(words)))

    return call


def memory_in_use() -> int:
    """Bytes of address space of this process."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


class Sandbox:
    """A child that answers ``(name, seed)`` with counts or a fault; a hang or a crash costs it its life.

    Args:
        serve: answers in the child.
    """

    def __init__(self, serve: Callable[[str, int], dict[str, int] | str]) -> None:
        self.serve = serve
        self.pid = 0
        self.known: set[str] = set()
        self.asks: IO[str] | None = None
        self.answers: IO[str] | None = None

    def ask(self, name: str, seed: int, seconds: float = HANG_S) -> dict[str, int] | str:
        """The answer; a fault if there is none within ``seconds``."""
        if not self.pid:
            self._start()
        if name not in self.known:
            self.known.add(name)
            seconds += 100  # libraries are imported, inputs are made
        assert self.asks is not None and self.answers is not None
        self.asks.write(json.dumps([name, seed]) + "\n")
        self.asks.flush()
        if not select.select([self.answers], [], [], seconds)[0]:
            self.close()
            return f"hang: no end after {seconds:.0f} s"
        line = self.answers.readline()
        if line:
            answer: dict[str, int] | str = json.loads(line)
            return answer
        return f"crash: ended by signal {-os.waitstatus_to_exitcode(self.close())}"

    def close(self) -> int:
        """Kill the child; its status."""
        if not self.pid:
            return 0
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        status = os.waitpid(self.pid, 0)[1]
        for pipe in (self.asks, self.answers):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        self.pid = 0
        return status

    def _start(self) -> None:
        asks, to_child = os.pipe()
        from_child, answers = os.pipe()
        self.known.clear()
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            os.close(to_child)
            os.close(from_child)
            null = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1, 2):
                os.dup2(null, number)
            self._loop(asks, answers)
            os._exit(0)
        os.close(asks)
        os.close(answers)
        self.asks = open(to_child, "w", encoding="utf-8")  # noqa: SIM115 (closed with the child)
        self.answers = open(from_child, encoding="utf-8")  # noqa: SIM115

    def _loop(self, asks: int, answers: int) -> None:
        with open(asks, encoding="utf-8") as questions, open(answers, "w", encoding="utf-8") as replies:
            for line in questions:
                limit = memory_in_use() + ROOM
                with contextlib.suppress(ValueError, OSError):
                    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
                replies.write(json.dumps(self.serve(*json.loads(line))) + "\n")
                replies.flush()
