"""Checks of the sentences that are passed to functions; every function that takes sentences uses them."""

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from corpora.inputs import NOT_UTF8, is_encodable
from runtime.errors import UserError

NOT_LISTS = (str, bytes, bytearray, memoryview, Mapping, set, frozenset)
"""Types whose elements are not sentences, or have no order."""


def read_sentences(
    inputs: object, caller: str, *, strings: bool = True, spaces: bool = False
) -> list[str | tuple[str, ...]]:
    """Return the sentences of a list, tuple, generator, array or column of a table, as strings or tokens.

    Args:
        inputs: the sentences.
        caller: the name of the function that was called, for messages.
        strings: whether a sentence may be a string; otherwise it must be a list of tokens.
        spaces: whether all tokens of a sentence may contain white space, as in a treebank; otherwise such a
            sentence is refused, because it seems to be a list of sentences.

    Raises UserError if ``inputs`` is a single string, a mapping, a set, a table or an array of several
    dimensions. Raises UserError with the number of the element if one is not a sentence or not UTF-8.
    """
    values = read_elements(inputs, caller, "sentences")
    for number, value in enumerate(values):
        if fault := _find_fault(value, strings, spaces):
            raise UserError(f"{caller}: input {number}, {describe_value(value)}, {fault}")
    return [value if isinstance(value, str) else tuple(value) for value in values]


def read_pairs(pairs: object, caller: str) -> list[tuple[str | tuple[str, ...], str | tuple[str, ...]]]:
    """Return the pairs of sentences of a list or array [n, 2]. Raises UserError if an element is no pair."""
    values = read_elements(pairs.tolist() if isinstance(pairs, np.ndarray) else pairs, caller, "pairs")
    for number, pair in enumerate(values):
        if not _is_list(pair) or len(pair) != 2:
            raise UserError(f"{caller}: pair {number}, {describe_value(pair)}, is not a pair of sentences")
    first = read_sentences([pair[0] for pair in values], f"{caller}, first sentences")
    second = read_sentences([pair[1] for pair in values], f"{caller}, second sentences")
    return list(zip(first, second, strict=True))


def read_elements(inputs: object, caller: str, kind: str) -> list[Any]:
    """Return the elements of a list, tuple, generator, array or column. Raises UserError for other types."""
    shape = getattr(inputs, "shape", (0,))
    if isinstance(inputs, NOT_LISTS) or not isinstance(inputs, Iterable) or len(shape) != 1:
        raise UserError(f"{caller}: {describe_value(inputs)} is no list of {kind}")
    # A column of pyarrow would yield its own type of string.
    return inputs.to_pylist() if hasattr(inputs, "to_pylist") else list(inputs)


def describe_value(value: object) -> str:
    """Return one line with the type, the shape and the beginning of a value."""
    shape = f" of shape {value.shape}" if hasattr(value, "shape") else ""
    return f"a {type(value).__name__}{shape} ({' '.join(reprlib.repr(value).split())})"


def _is_list(value: object) -> bool:
    """Tell whether a value is a list, a tuple or an array of one dimension."""
    is_sequence = isinstance(value, Sequence | np.ndarray) and not isinstance(value, NOT_LISTS)
    return is_sequence and len(getattr(value, "shape", (0,))) == 1


def _find_fault(value: Any, strings: bool, spaces: bool) -> str:
    """Return why a value is not a sentence, or "" if it is one."""
    if isinstance(value, str):
        if not strings:
            return "is a string; give a list of its tokens (corpora.text.Tokenizer makes them)"
        return "" if is_encodable(value) else NOT_UTF8
    if not _is_list(value):
        return "is neither a string nor a list of tokens"
    for token in value:
        if not isinstance(token, str):
            return f"is neither a string nor a list of tokens: it holds {describe_value(token)}"
    if len(value) and not spaces and all(len(token.split()) > 1 for token in value):
        return "holds sentences, not tokens; put them all in one list"
    return "" if is_encodable("".join(value)) else NOT_UTF8
