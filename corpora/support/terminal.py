"""Text that is safe to show: on a terminal, in XML, in a log."""

from __future__ import annotations


def printable(text: str) -> str:
    """``text`` with control characters, line breaks and lone surrogates replaced by U+FFFD.

    The zero-width joiner stays: emoji are joined by it.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\u200d" else "\ufffd" for c in text)
