"""What Python callers give for sentences: the rows of the list, or one bounded line with type and place."""

from collections import deque

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
        *(kind(TEXTS) for kind in (list, tuple, deque, iter, np.array, pd.Series)),
        dict(enumerate(TEXTS)).values(),
        np.array(TEXTS, np.dtypes.StringDType()),
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
        *(
            (odd, LIST)
            for odd in ("Dogs bark.", b"x", 7, float("nan"), pd.NA, {"a": "b"}, {"a"}, Unprintable())
        ),
        (TABLE, r"^encode: a DataFrame of shape \(150, 1\) .* is no list of sentences$"),
        *((np.array(TEXTS).reshape(shape), r"a ndarray of shape \(") for shape in ((-1, 1), (1, -1))),
        *((["a", odd], rf"input 1, .*, {SENTENCE}") for odd in (None, pd.NA, pd.NaT, 3, b"x")),
        *(
            (["a", odd], rf"input 1, .*, {SENTENCE}")
            for odd in ({"a": "b"}, iter("ab"), Unprintable(), TABLE)
        ),
        ([np.array("a")], rf"input 0, a ndarray of shape \(\) .*, {SENTENCE}"),
        (pd.Series(["a", np.nan]), r"input 1, a float \(nan\)"),
        (np.array([1.0, 2.0]), r"input 0, a float64 "),
        ([["a", None]], r"it holds a NoneType \(None\)"),
        ([[["a"]]], r"it holds a list \(\['a'\]\)"),
        ([["Dogs bark.", "It rains."]] * 900, "input 0, .* holds sentences, not tokens; put them all in one"),
        (["a", "b\ud800"], "input 1, .*lone surrogate"),
        ([["b\ud800"]], "input 0, .*lone surrogate"),
    ],
)
def test_anything_else_is_one_bounded_line(inputs: object, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        read_sentences(inputs, "encode")
    assert str(caught.value).startswith("encode: ")
    assert len(str(caught.value)) < 320
