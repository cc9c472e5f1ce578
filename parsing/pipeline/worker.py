"""A worker process: load the parsers, then parse parts of shards until the driver ends.

Imports nothing heavy: whatever does not fit into memory fails inside :func:`work`, which tells the driver.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import traceback
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from corpora.support.errors import UserError, out_of_memory

if TYPE_CHECKING:
    from parsing.cache.format import ShardResult
    from parsing.pipeline.parse_shard import ShardOptions
    from parsing.pipeline.split import ShardSpec
    from parsing.pipeline.workers import LoadedParsers, Messages, ParserDescription


@dataclass(frozen=True, slots=True)
class Ready:
    """The parsers are loaded."""

    description: ParserDescription


@dataclass(frozen=True, slots=True)
class Refused:
    """The parsers cannot be loaded, or their device is lost, and the user can fix that."""

    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """Loading or parsing raised an error."""

    reason: str
    out_of_memory: bool
    lines: list[str] = field(default_factory=list)
    """What was logged."""


@dataclass(frozen=True, slots=True)
class Done:
    """A part is parsed."""

    result: ShardResult
    lines: list[str]


Message = Ready | Refused | Failed | Done
"""What a worker sends."""


def work(pipe: Connection) -> None:
    """Main function of the process: receives the parsers' factories, then parts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver handles Ctrl-C
    die_with_parent()
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        try:
            factories = pipe.recv()  # imports what they name
            from parsing.pipeline.workers import LoadedParsers, Messages

            messages = Messages.install()
            parsers = LoadedParsers.make(factories)
            pipe.send(Ready(parsers.describe()))
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return
        except UserError as error:
            pipe.send(Refused(str(error)))
            return
        except Exception as error:
            pipe.send(Failed(traceback.format_exc(), out_of_memory(error)))
            return
        while True:
            options, spec = pipe.recv()
            pipe.send(_parse(options, spec, parsers, messages))
            give_memory_back()


def _parse(options: ShardOptions, spec: ShardSpec, parsers: LoadedParsers, messages: Messages) -> Message:
    from parsing.pipeline.parse_shard import parse_shard

    try:
        result = parse_shard(spec, parsers.dependency, parsers.constituency, options)
        return Done(result, messages.take())
    except UserError as error:  # a lost device: no part would fare better
        return Refused(str(error))
    except Exception as error:
        return Failed(traceback.format_exc(), out_of_memory(error), messages.take())


def give_memory_back() -> None:
    """Return freed memory to the system: glibc keeps the fragments left by batches of changing shapes.

    Takes milliseconds per part and saves a worker 70 MB after three shards.
    """
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def die_with_parent() -> None:
    """Ask Linux to end this process with its parent, even if that is killed."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
        if os.getppid() == 1:  # the parent had ended before the call
            os._exit(1)
