"""Errors that the user can fix. Any other error is a bug and keeps its traceback."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST = 1500
"""Most characters of a message; values of files have any length."""


class UserError(Exception):
    """Bad input: one line that names the file, the row and the value, and what to do.

    Command lines print it and exit with code 2.

    Args:
        message: the line; its middle is left out if it is very long.
    """

    def __init__(self, message: str) -> None:
        if len(message) > LONGEST:
            message = f"{message[: LONGEST - 500]} [...] {message[-400:]}"
        super().__init__(message)


class MissingExtraError(UserError):
    """An optional dependency is not installed.

    Args:
        package: the import that failed, e.g. ``"ray"``.
        extra: the extra of this project that brings it, e.g. ``"ray"``.
    """

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed: pip install 'multiview-embeddings[{extra}]'")


def did_you_mean(name: str, known: Iterable[str], *, alike: float = 0.6) -> str:
    """``did you mean dep? `` before a list of choices, when one of them is close to what was typed.

    Args:
        name: what was typed.
        known: the choices.
        alike: how close, from 0 to 1, as :mod:`difflib` measures it; letter case does not count.
    """
    from difflib import get_close_matches

    folded = {one.lower(): one for one in known}
    near = get_close_matches(name.lower(), folded, n=1, cutoff=alike)
    return f"did you mean {folded[near[0]]}? " if near else ""
