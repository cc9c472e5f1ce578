"""What Python callers give for sentences: the rows of the list, or one bounded line with type and place."""

from __future__ import annotations

from collections import OrderedDict, deque

import numpy as np
import pandas as pd
import pytest

from corpora.sentences import read_sentences
from runtime.errors import UserError

TEXTS = ["Dogs bark.", "It rains in the valley.", ""]


class Arrow:
    """An array of pyarrow's: its elements are no strings."""

    shape = (3,)

    def __iter__(self):
        return iter([object()] * 3)

    def to_pylist(self) -> list[str]:
        return TEXTS


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    "inputs",
    [
        *(kind(TEXTS) for kind in (list, tuple, deque, iter, np.array, pd.Series, pd.Index)),
        (text for text in TEXTS),
        dict(enumerate(TEXTS)).values(),
        np.array(TEXTS, object),
        np.array(TEXTS, np.dtypes.StringDType()),
        np.array(TEXTS[::-1])[::-1],
        pd.array(TEXTS, dtype="string"),
        pd.Series(TEXTS, dtype="category"),
        pd.DataFrame({"text": TEXTS}, index=[5, 5, 5])["text"],
        Arrow(),
    ],
    ids=lambda inputs: type(inputs).__name__,
)
def test_every_list_of_strings_has_the_rows_of_the_list(inputs: object) -> None:
    assert read_sentences(inputs, "encode") == TEXTS


def test_tokens_stay_tokens() -> None:
    rows = [["Dogs", "bark"], ("New York", "rocks"), np.array(["x"]), [], [""], [" "]]
    assert read_sentences(rows, "encode") == [tuple(row) for row in rows]
    assert read_sentences([["two words"]], "parse", strings=False, spaces=True) == [("two words",)]


LIST, SENTENCE = "is no list of sentences", "is neither a string nor a list of tokens"
TABLE = pd.DataFrame({"text": TEXTS * 50})


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        *((odd, LIST) for odd in ("Dogs bark.", b"x", bytearray(b"x"), 7, float("nan"), pd.NA, object())),
        *((odd, LIST) for odd in ({"a": "b"}, OrderedDict(a="b"), {"a"}, frozenset("a"), Unprintable())),
        (TABLE, r"^encode: a DataFrame of shape \(150, 1\) .* is no list of sentences$"),
        (np.array("Dogs bark."), r"a ndarray of shape \(\) "),
        (np.array(TEXTS).reshape(-1, 1), r"a ndarray of shape \(3, 1\) "),
        (TABLE["text"].to_numpy().reshape(2, -1), r"shape \(2, 75\)"),
        *((["a", odd], rf"input 1, .*, {SENTENCE}") for odd in (None, float("nan"), pd.NA, pd.NaT, 3, b"x")),
        *(
            (["a", odd], rf"input 1, .*, {SENTENCE}")
            for odd in ({"a": "b"}, {"a"}, iter("ab"), Unprintable())
        ),
        (["a", TABLE], rf"input 1, a DataFrame of shape \(150, 1\) .*, {SENTENCE}"),
        (["a", TABLE["text"]], rf"input 1, a Series of shape \(150,\) .*, {SENTENCE}"),
        ([np.array("a")], rf"input 0, a ndarray of shape \(\) .*, {SENTENCE}"),
        (pd.Series(["a", np.nan]), r"input 1, a float \(nan\)"),
        (pd.array(["a", None], dtype="string"), r"input 1, a NAType \(<NA>\)"),
        (np.array([1.0, 2.0]), r"input 0, a float64 "),
        ([["a", None]], r"it holds a NoneType \(None\)"),
        ([[["a"]]], r"it holds a list \(\['a'\]\)"),
        ([["Dogs bark."]], "holds sentences, not tokens; put them all in one list"),
        ([["Dogs bark.", "It rains."]] * 900, "input 0, .* holds sentences"),
        (["a", "b\ud800"], "input 1, .*lone surrogate"),
        ([["b\ud800"]], "input 0, .*lone surrogate"),
    ],
)
def test_anything_else_is_one_bounded_line(inputs: object, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        read_sentences(inputs, "encode")
    assert str(caught.value).startswith("encode: ")
    assert len(str(caught.value)) < 320 and "\n" not in str(caught.value)
