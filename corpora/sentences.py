"""Sentences as callers in Python have them: the one reader behind every function that takes any."""

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from corpora.inputs import NOT_UTF8, is_encodable
from runtime.errors import UserError

NO_LIST = (str, bytes, bytearray, memoryview, Mapping, set, frozenset)
"""What can be iterated over, but not by sentence, or in no order."""


def read_sentences(
    inputs: object, caller: str, *, strings: bool = True, spaces: bool = False
) -> list[str | tuple[str, ...]]:
    """Return the sentences, as strings or tokens, of a list, tuple, generator, array or column of a table.

    Messages name the ``caller``. Without ``strings`` a sentence must be tokens; with ``spaces`` all of them
    may hold white space, as a treebank's, and are else taken for sentences in a list too many.
    Anything else is refused (one string, a mapping, a set, a table, an array of other than one dimension);
    so is an element, by its number, that is no sentence or has a lone surrogate.
    """
    values = listed(inputs, caller, "sentences")
    for number, value in enumerate(values):
        if fault := _fault(value, strings, spaces):
            raise UserError(f"{caller}: input {number}, {described(value)}, {fault}")
    return [value if isinstance(value, str) else tuple(value) for value in values]


def read_pairs(pairs: object, caller: str) -> list[tuple[str | tuple[str, ...], str | tuple[str, ...]]]:
    """Return the pairs of sentences of a list or an array [n, 2]; refuse by its number what is no pair."""
    values = listed(pairs.tolist() if isinstance(pairs, np.ndarray) else pairs, caller, "pairs")
    for number, pair in enumerate(values):
        is_list = isinstance(pair, Sequence | np.ndarray) and not isinstance(pair, NO_LIST)
        if not is_list or len(getattr(pair, "shape", (2,))) != 1 or len(pair) != 2:
            raise UserError(f"{caller}: pair {number}, {described(pair)}, is no two sentences")
    first, second = (
        read_sentences([pair[side] for pair in values], f"{caller}, {name} sentences")
        for side, name in enumerate(("first", "second"))
    )
    return list(zip(first, second, strict=True))


def listed(inputs: object, caller: str, what: str) -> list[Any]:
    """Return the elements of a list, tuple, generator, array or column of a table; all else is refused."""
    shape = getattr(inputs, "shape", (0,))
    if isinstance(inputs, NO_LIST) or not isinstance(inputs, Iterable) or len(shape) != 1:
        raise UserError(f"{caller}: {described(inputs)} is no list of {what}")
    return inputs.to_pylist() if hasattr(inputs, "to_pylist") else list(inputs)  # pyarrow's are no strings


def described(value: object) -> str:
    """Return the type, shape and the beginning of a value, on one line."""
    shape = f" of shape {value.shape}" if hasattr(value, "shape") else ""
    return f"a {type(value).__name__}{shape} ({' '.join(reprlib.repr(value).split())})"


def _fault(value: Any, strings: bool, spaces: bool) -> str:
    """Say what keeps a value from being a sentence; "" if nothing does."""
    if isinstance(value, str):
        if not strings:
            return "is a string; give a list of its tokens (corpora.text.Tokenizer makes them)"
        return "" if is_encodable(value) else NOT_UTF8
    listed = isinstance(value, Sequence | np.ndarray) and getattr(value, "ndim", 1) == 1
    if isinstance(value, NO_LIST) or not listed:
        return "is neither a string nor a list of tokens"
    if odd := [token for token in value if not isinstance(token, str)]:
        return f"is neither a string nor a list of tokens: it holds {described(odd[0])}"
    if len(value) and not spaces and all(len(token.split()) > 1 for token in value):
        return "holds sentences, not tokens; put them all in one list"
    return "" if is_encodable("".join(value)) else NOT_UTF8
