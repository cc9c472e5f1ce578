"""One way to be a command: options from a frozen dataclass, exit codes, a log file.

Exit codes: 0 done; 2 bad input (one line on stderr); 1 a fault of ours (traceback);
130 stopped by Ctrl-C (one line that says what is kept).
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from corpora.support.errors import UserError

Config = TypeVar("Config")

LOGGER = "multiview_project"
"""The logger of every package."""

FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
PATH_MISTAKES = (NotADirectoryError, IsADirectoryError, FileExistsError, PermissionError)
"""What a path of the wrong kind raises: a file where a folder is needed, the reverse, or no right to it."""


def run_command(
    config_type: type[Config],
    main: Callable[[Config], int | None],
    *,
    prog: str,
    description: str,
    args: Sequence[str] | None = None,
    default: Config | None = None,
    kept: str = "what was finished is kept; the same command resumes",
) -> int:
    """Parse options into ``config_type``, call ``main``, map errors to exit codes.

    Args:
        config_type: frozen keyword-only dataclass; its attribute docstrings are the help texts.
        main: the command; returns an exit code or None for 0. Imports heavy packages itself.
        prog: how it is typed, e.g. ``"python -m parsing.run"``.
        description: shown by ``--help``.
        args: command line without the program, default ``sys.argv[1:]``.
        default: values of the options that are not given, instead of the dataclass's own (a preset).
        kept: what Ctrl-C leaves, in one clause.
    """
    prog = typed_name(prog)
    given: dict[str, Any] = {} if default is None else {"default": default}
    try:
        with _own_interrupts(ends=args is None):
            import tyro

            try:
                config = tyro.cli(config_type, prog=prog, description=description, args=args, **given)
            except SystemExit as stop:  # --help (0) or a usage error (2)
                return int(stop.code or 0)
            return int(main(config) or 0)
    except UserError as error:
        print(f"{prog}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except OSError as error:
        if out_of_space(error):
            return full_disk(prog, error, kept)
        # No path of the user's, or another cause: a fault of ours keeps its traceback.
        if error.filename is None or not (isinstance(error, PATH_MISTAKES) or error.errno == errno.EROFS):
            raise
        print(f"{prog}: {error.filename}: {error.strerror}; give another path", file=sys.stderr)
        return 2
    except Exception as error:
        if not out_of_space(error):
            raise
        return full_disk(prog, error, kept)
    except KeyboardInterrupt:
        print(f"{prog}: interrupted; {kept}", file=sys.stderr)
        return 130


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
        ends: the process ends with the command; what libraries do on their way out is not interrupted,
            since a Ctrl-C there would turn a finished command's exit code into that of a killed one.
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
    """Whether a disk or quota is full: HDF5 and safetensors say so in their text alone."""
    return getattr(error, "errno", None) in FULL_DISK or "No space left on device" in str(error)


def full_disk(prog: str, error: Exception, kept: str) -> int:
    """Say which file did not fit, and what is kept; the exit code."""
    where = getattr(error, "filename", None)
    print(f"{prog}: {f'{where}: ' if where else ''}no space left on the disk; {kept}", file=sys.stderr)
    return 2


def script_name(prog: str) -> str:
    """The console script beside a module: ``senteval-build-probing`` of ``senteval_runner.build_probing``."""
    module = prog.removeprefix("python -m ").replace("senteval_runner.", "senteval.", 1)
    return module.replace(".", "-").replace("_", "-")


def typed_name(prog: str) -> str:
    """``prog`` as the user typed it: its console script's name when that is what runs."""
    command, _, rest = prog.removeprefix("python -m ").partition(" ")
    script = script_name(command)
    return f"{script} {rest}".rstrip() if Path(sys.argv[0]).stem == script else prog


def config_to_json(config: Any) -> dict[str, Any]:
    """A dataclass as plain JSON values (paths as strings, tuples as lists)."""
    value: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(config), default=str))
    return value


def config_from_json(config_type: type[Config], values: dict[str, Any], *, where: Path | str) -> Config:
    """Rebuild a flat dataclass from :func:`config_to_json`'s output.

    Raises:
        UserError: an unknown or missing key; the message names the file and the key.
    """
    fields = {field.name: field for field in dataclasses.fields(config_type)}  # type: ignore[arg-type]
    for key in values:
        if key not in fields:
            raise UserError(f"{where}: unknown key {key!r} (known: {', '.join(sorted(fields))})")
    converted = {
        key: tuple(tuple(v) if isinstance(v, list) else v for v in value)
        if isinstance(value, list)
        else value
        for key, value in values.items()
    }
    try:
        return config_type(**converted)
    except TypeError as error:
        raise UserError(f"{where}: {error}") from None


class _LogFile(logging.FileHandler):
    """A log that cannot be written ends the run as any other file does, instead of printing a traceback."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Raise what stopped the writing; logging calls this while handling it."""
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
        with contextlib.suppress(OSError):  # the end of an earlier log, on a disk that was full
            handler.close()
    to_file = _LogFile(folder / name, encoding="utf-8")
    to_file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    to_screen = logging.StreamHandler(sys.stderr)
    to_screen.setFormatter(logging.Formatter("%(message)s"))
    logger.addHandler(to_file)
    logger.addHandler(to_screen)
    return logger
