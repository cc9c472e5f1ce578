"""Errors that the user can fix. Any other error is a bug and keeps its traceback."""

import errno
import os
import re
from collections.abc import Callable, Iterable

LONGEST = 1500
"""Most characters of a message; values of files have any length."""
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""A full disk, a full quota, a file above the size limit of the user or file system."""
NO_MEMORY = re.compile(
    r"out of memory|allocate memory|memory allocation failed|bad_alloc|start new thread"
    "|could not (create|execute) a primitive"  # oneDNN, which names no reason
)
"""Libraries report a lack of memory by errors of all types, told apart by the text."""
LONE_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a character of UTF-16, which no UTF-8 text holds."""


class UserError(Exception):
    """Bad input: one line that names the file, the row and the value, and what to do.

    Command lines print it and exit with code 2. The middle of a very long message is left out.
    """

    def __init__(self, message: str) -> None:
        message = " ".join(message.splitlines())
        if len(message) > LONGEST:
            message = f"{message[: LONGEST - 500]} [...] {message[-400:]}"
        super().__init__(message)


class MissingExtraError(UserError):
    """An optional dependency is not installed.

    ``package`` is the import that failed, ``extra`` the extra of this project that brings it.
    """

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed: pip install 'multiview-embeddings[{extra}]'")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``did you mean dep? `` when one of the known names is close to what was typed."""
    from difflib import get_close_matches

    folded = {one.lower(): one for one in known}
    near = get_close_matches(name.lower(), folded, n=1, cutoff=0.6)
    return f"did you mean {folded[near[0]]}? " if near else ""


def collect_refusals(*needed: Callable[[], object]) -> list[str]:
    """Return the line of each of ``needed`` that raises :class:`UserError`."""
    lines = []
    for need in needed:
        try:
            need()
        except UserError as error:
            lines.append(str(error))
    return lines


def printable(text: str) -> str:
    """Replace control characters, line breaks and lone surrogates by U+FFFD; the joiner of emoji stays."""
    return "".join(c if c.isprintable() or c == "\u200d" else "\ufffd" for c in text)


def out_of_memory(error: BaseException) -> bool:
    """Tell whether memory ran out."""
    return isinstance(error, MemoryError) or NO_MEMORY.search(str(error)) is not None


def out_of_space(error: BaseException) -> bool:
    """Tell whether a file did not fit. HDF5 and safetensors report it only in the message text."""
    named = any(os.strerror(number) in str(error) for number in NO_ROOM)
    return named or getattr(error, "errno", None) in NO_ROOM


def explain(error: Exception, *, kept_work: str) -> str | None:
    """Explain in one line an error that the user can mend, with what is kept; None stands for a bug."""
    where = getattr(error, "filename", None)
    at = "" if where is None else f"{where}: "
    if isinstance(error, UserError):
        return str(error)
    if out_of_memory(error):
        return f"out of memory; {kept_work}"
    if out_of_space(error):
        return f"{at}no space left on the disk, or the file is above its limit; {kept_work}"
    if isinstance(error, OSError) and error.strerror:  # the system's own words: the library's have none
        return f"{at}{error.strerror}{'; give another path' if at else ''}"
    return None
