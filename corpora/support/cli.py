"""The entry point of every command: options from a frozen dataclass, exit codes, a log file.

Exit codes: 0 done; 2 bad input (one line on stderr); 1 a bug (traceback);
130 stopped by Ctrl-C (one line that says what is kept).
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpora.support.config import check
from corpora.support.errors import UserError
from corpora.support.files import LOCK, NO_ROOM, sweep
from corpora.support.lock import locked
from corpora.support.plugins import HELP, import_plugins
from corpora.support.terminal import printable

LOGGER = "multiview_project"
"""The logger of every package."""

PATH_MISTAKES = (NotADirectoryError, IsADirectoryError, FileExistsError, PermissionError)
"""Raised for a bad path: a file where a folder is needed, the reverse, or a missing permission."""


@dataclass(frozen=True)
class Command:
    """A command: calling it parses the options, runs it, and returns the exit code.

    Every module that runs as ``python -m`` has one named ``cli``; its console script calls the same object::

        cli = Command(ParseConfig, main, "parsing.run", "Parse a corpus into a cache of trees.")
    """

    config: type[Any]
    """Frozen keyword-only dataclass; attribute docstrings are help texts, annotated ranges are checked."""
    main: Callable[[Any], int | None]
    """The work; returns an exit code, or None for 0. Imports heavy packages itself."""
    module: str
    """The words after ``python -m``, including the subcommand."""
    description: str
    """Shown by ``--help``."""
    owns: Callable[[Any], Path | None] = lambda config: None
    """The folder that a configuration writes to. One run at a time may own it; a dry run does not."""
    kept: str = "what was finished is kept; the same command resumes"
    """What survives Ctrl-C, as one clause of the message."""
    defaults: Callable[[Sequence[str]], Any] | None = None
    """Maps the command line to a configuration that holds the defaults (a preset)."""
    plugins: bool = False
    """Takes ``--plugin MODULE``: the command opens models, whose views may be of another package."""

    def __call__(self, args: Sequence[str] | None = None) -> int:
        """Run with ``args`` (by default the process's own) and return the exit code."""
        prog = typed_name(f"python -m {self.module}")
        # Before torch is imported: its threads sleep while they wait. Spinning, they take the core that the
        # thread they wait for needs (parsing/networks/threads.py).
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        try:
            with _own_interrupts(ends=args is None):
                import tyro

                words = list(sys.argv[1:] if args is None else args)
                about = self.description
                if self.plugins:
                    words, about = import_plugins(words), f"{about}\n\n{HELP}"
                given: dict[str, Any] = {}
                if self.defaults is not None:
                    given["default"] = self.defaults(words)
                try:
                    config = tyro.cli(self.config, prog=prog, description=about, args=words, **given)
                except SystemExit as stop:  # --help (0) or a usage error (2)
                    return int(stop.code or 0)
                check(config)
                with self._owned(config):
                    return int(self.main(config) or 0)
        except UserError as error:
            print(f"{prog}: {printable(str(error))}", file=sys.stderr)
            return 2
        except BrokenPipeError:
            sys.stderr.close()
            return 0
        except OSError as error:
            if out_of_space(error):
                return full_disk(prog, error, self.kept)
            if out_of_memory(error):
                return no_memory(prog, self.kept)
            # Unless a path that the user gave is wrong, this is a bug and keeps its traceback.
            if error.filename is None or not (isinstance(error, PATH_MISTAKES) or error.errno == errno.EROFS):
                raise
            where = printable(str(error.filename))
            print(f"{prog}: {where}: {error.strerror}; give another path", file=sys.stderr)
            return 2
        except Exception as error:
            if out_of_memory(error):
                return no_memory(prog, self.kept)
            if not out_of_space(error):
                raise
            return full_disk(prog, error, self.kept)
        except KeyboardInterrupt:
            print(f"{prog}: interrupted; {self.kept}", file=sys.stderr)
            return 130

    @contextlib.contextmanager
    def _owned(self, config: object) -> Iterator[None]:
        """Hold the folder's lock, and remove the temporary files that killed runs left there."""
        folder = self.owns(config)
        if folder is None or getattr(config, "dry_run", False):
            yield
            return
        new = not folder.exists()
        with locked(folder):
            sweep(folder)
            try:
                yield
            finally:
                if new and [path.name for path in folder.iterdir()] == [LOCK]:  # nothing was written
                    shutil.rmtree(folder)


@dataclass(frozen=True)
class Commands:
    """A command whose first word names a variant, as in ``python -m parsing.train dep ...``."""

    variants: Mapping[str, Command]
    """Commands by their first word; each one's ``module`` ends in that word."""
    module: str
    """The word after ``python -m``."""
    description: str
    """Shown by ``--help``."""

    def __call__(self, args: Sequence[str] | None = None) -> int:
        """Run the variant that the first word names and return the exit code."""
        words = list(sys.argv[1:] if args is None else args)
        if words and words[0] in self.variants:
            return self.variants[words[0]](words[1:])
        asked = words[:1] in (["-h"], ["--help"])
        prog = typed_name(f"python -m {self.module}")
        lines = [
            f"usage: {prog} {{{','.join(self.variants)}}} [OPTIONS]   (--help after the word shows them)"
        ]
        if asked:
            lines += ["", self.description, ""]
            lines += [f"  {word:6}{command.description}" for word, command in self.variants.items()]
        print("\n".join(lines), file=sys.stdout if asked else sys.stderr)
        return 0 if asked else 2


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while a command runs.

    Once a plain KeyboardInterrupt has passed through ``exec`` of a source string, CPython ends ``python -m``
    by SIGINT whatever the exit code, even if it was caught; numba and dataclasses run such strings. CPython
    compares the type alone, so a subclass escapes that.
    """


@contextlib.contextmanager
def _own_interrupts(*, ends: bool) -> Iterator[None]:
    """Ctrl-C raises :class:`Interrupted`, unless someone else handles or ignores it.

    Args:
        ends: the process ends with the command. Ctrl-C is then ignored while libraries clean up: it would
            give a finished command the exit code of a killed one.
    """
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def interrupt(_number: int, _frame: object) -> None:
        raise Interrupted

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN if ends else signal.default_int_handler)


def out_of_space(error: BaseException) -> bool:
    """Whether a file did not fit. HDF5 and safetensors report it only in the message text."""
    words = [os.strerror(number) for number in NO_ROOM]
    return getattr(error, "errno", None) in NO_ROOM or any(word in str(error) for word in words)


NO_MEMORY = (
    "Cannot allocate memory",
    "can't allocate memory",  # torch's allocator
    "out of memory",  # CUDA
    "memory allocation failed",  # HDF5
    "could not create a primitive",  # oneDNN, which names no reason
    "could not execute a primitive",
    "failed to map segment from shared object",  # a library that is loaded
    "can't start new thread",
    "std::bad_alloc",
)


def out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out. Libraries report it by errors of all types, told apart by the text."""
    return isinstance(error, MemoryError) or any(words in str(error) for words in NO_MEMORY)


def no_memory(prog: str, kept: str) -> int:
    """Print that memory ran out and what is kept; return the exit code."""
    print(f"{prog}: out of memory; {kept}", file=sys.stderr)
    return 2


def full_disk(prog: str, error: Exception, kept: str) -> int:
    """Print which file did not fit and what is kept; return the exit code."""
    where = getattr(error, "filename", None)
    limited = getattr(error, "errno", None) == errno.EFBIG or os.strerror(errno.EFBIG) in str(error)
    what = "the file is larger than its limit (ulimit -f)" if limited else "no space left on the disk"
    print(f"{prog}: {f'{where}: ' if where else ''}{what}; {kept}", file=sys.stderr)
    return 2


def script_name(prog: str) -> str:
    """Name of a module's console script: ``senteval-build-probing`` for ``senteval_runner.build_probing``."""
    module = prog.removeprefix("python -m ").replace("senteval_runner.", "senteval.", 1)
    return module.replace(".", "-").replace("_", "-")


def typed_name(prog: str) -> str:
    """``prog`` as the user typed it: its console script's name when that is what runs."""
    command, _, rest = prog.removeprefix("python -m ").partition(" ")
    script = script_name(command)
    return f"{script} {rest}".rstrip() if Path(sys.argv[0]).stem == script else prog


class _LogFile(logging.FileHandler):
    """A log file whose write errors end the run; logging itself would only print a traceback."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Raise the write error; logging calls this inside its ``except`` block."""
        error = sys.exc_info()[1]
        assert error is not None
        raise error


def log_to(folder: Path, name: str = "log.txt") -> logging.Logger:
    """Send INFO and above to ``folder/name`` (appended) and to stderr; return the logger."""
    folder.mkdir(parents=True, exist_ok=True)
    logger = logging.getLogger(LOGGER)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
        with contextlib.suppress(OSError):  # closing an earlier log fails on a full disk
            handler.close()
    to_file = _LogFile(folder / name, encoding="utf-8")
    to_file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    to_screen = logging.StreamHandler(sys.stderr)
    to_screen.setFormatter(logging.Formatter("%(message)s"))
    logger.addHandler(to_file)
    logger.addHandler(to_screen)
    return logger
