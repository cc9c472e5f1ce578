"""Errors that the user can fix. Any other error is a bug and keeps its traceback."""

import errno
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from numbers import Integral, Real

MAX_LENGTH = 1500
"""The largest number of characters of a message, which may quote a long value of a file."""
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Error numbers of a full disk, a full quota, and a file above the size limit of the user or file system."""
MEMORY_MESSAGE = re.compile(
    r"out of memory|allocate memory|memory allocation failed|bad_alloc|start new thread"
    "|failed to map segment"  # of a library that is imported
    "|could not (create|execute) a primitive"  # of oneDNN, whose message has no reason
)
"""Matches the messages by which libraries report a lack of memory, in errors of many types."""
LONE_SURROGATE = re.compile("[\ud800-\udfff]")
"""Matches half of a UTF-16 surrogate pair, which UTF-8 cannot encode."""


class UserError(Exception):
    """An error that the user can correct; the message is one line with file, row, value and what to do.

    Commands print the line and exit with code 2. The middle of a very long message is cut out.
    """

    def __init__(self, message: str) -> None:
        message = " ".join(message.splitlines())
        if len(message) > MAX_LENGTH:
            message = f"{message[: MAX_LENGTH - 500]} [...] {message[-400:]}"
        super().__init__(message)


class MissingExtraError(UserError):
    """Raised if an optional package is not installed; the message names the extra that installs it."""


@contextmanager
def extra(name: str, package: str = "") -> Iterator[None]:
    """Raise a MissingExtraError if an import in the ``with`` block fails because a package is missing.

    ``name`` is the extra that installs the package, ``package`` its name if the module is called otherwise.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = package or (error.name or "").partition(".")[0]
        advice = f"in a clone of this project, pip install -c constraints.txt '.[{name}]'"
        raise MissingExtraError(f"{package} is not installed: {advice}") from None


def check_count(value: object, subject: str, least: int = 1, most: int | None = None) -> int:
    """Return a whole number from ``least`` to ``most``, as an int.

    Raises UserError, which begins with ``subject``, for any other value.
    """
    if isinstance(value, Integral) and not isinstance(value, bool):
        number = int(value)
        if number >= least and (most is None or number <= most):
            return number
    limits = f"from {least}" + ("" if most is None else f" to {most}")
    raise UserError(f"{subject}={value!r:.40}: must be a whole number {limits}")


def is_number(value: object, least: float, most: float) -> bool:
    """Return whether a value is a number, not a truth value, from ``least`` to ``most``."""
    return isinstance(value, Real) and not isinstance(value, bool) and least <= float(value) <= most


def did_you_mean(name: str, known_names: Iterable[str]) -> str:
    """Return ``did you mean dep? `` if a known name is close to the given one, else an empty string."""
    from difflib import get_close_matches

    names_by_lower_case = {known_name.lower(): known_name for known_name in known_names}
    matches = get_close_matches(name.lower(), names_by_lower_case, n=1, cutoff=0.6)
    return f"did you mean {names_by_lower_case[matches[0]]}? " if matches else ""


def collect_refusals(*checks: Callable[[], object]) -> list[str]:
    """Call all checks, and return the message of each that raises a :class:`UserError`."""
    messages = []
    for check in checks:
        try:
            check()
        except UserError as error:
            messages.append(str(error))
    return messages


def printable(text: str) -> str:
    """Replace control characters, line breaks and lone surrogates by U+FFFD; the joiner of emoji stays."""
    return "".join(c if c.isprintable() or c == "\u200d" else "\ufffd" for c in text)


def out_of_memory(error: BaseException) -> bool:
    """Tell whether an error means that memory ran out, perhaps while a library was loaded."""
    if isinstance(error, MemoryError) or MEMORY_MESSAGE.search(str(error)):
        return True
    hidden = error.__context__ if isinstance(error, OSError | ImportError) else None
    return hidden is not None and out_of_memory(hidden)  # for example, llvmlite reports a missing file


def out_of_space(error: BaseException) -> bool:
    """Tell whether an error means that the disk is full; some libraries say so only in the message."""
    is_in_message = any(os.strerror(number) in str(error) for number in DISK_FULL)
    return is_in_message or getattr(error, "errno", None) in DISK_FULL


def explain(error: Exception, *, kept_work: str) -> str | None:
    """Return a line about an error that the user can correct, with the work that is kept; None for a bug."""
    if isinstance(error, UserError):
        return str(error)
    path = getattr(error, "filename", None)
    at = "" if path is None else f"{path}: "
    if out_of_memory(error):
        return f"out of memory; {kept_work}"
    if out_of_space(error):
        return f"{at}no space left on the disk, or the file is above its limit; {kept_work}"
    if isinstance(error, OSError) and error.strerror:  # an error of the system, not of a library
        return f"{at}{error.strerror}{'; give another path' if at else ''}"
    return None
