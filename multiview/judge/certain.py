"""Limits of probabilities, whatever the numbers of a pair are: by a rule, or since only one thing differs.

Legend of dimension suffixes: n pairs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from corpora.characters import normalise_text
from multiview.judge.long_texts import Text
from multiview.judge.weights import Floats

if TYPE_CHECKING:  # it imports torch
    from multiview.judge.comparison import Comparison

MAX_PROBABILITY = 0.25
"""The greatest probability of a pair with such a difference."""
_FROM_TO = re.compile(
    r"\bfrom ((?:(?:the|my|our|a) )?[\w-]+) to ((?:(?:the|my|our|a) )?[\w-]+)", re.IGNORECASE
)
_STOP = re.compile(r"\b(stop|avoid) ([a-z]+?)ing\b")
_ENDING_E = re.compile(r"e\b")
_ONLY = re.compile(r"\bonly ", re.IGNORECASE)
_OUTER_QUOTES = re.compile(r"['\"“”„«»](?:(?<!\w.)|(?!\w))")
Difference = tuple[str, str, str]
"""Kind of reason, and what the first and the second sentence have."""


class Limits(NamedTuple):
    """Between which probabilities pairs are, and which differences their texts have."""

    least_n: Floats
    most_n: Floats
    """[n]; the same as ``least_n`` where a rule settles the pair."""
    differences: list[Sequence[Difference]]
    """The differences of each pair that its texts tell without their trees."""

    @classmethod
    def of(cls, pairs: Sequence[tuple[Text, Text]], comparison: Comparison) -> Self:
        """Find the limits of pairs: 1 for a sentence and itself, 0 where one has no words."""
        texts = [(_string_of(a), _string_of(b)) for a, b in pairs]
        differences = [exchanged_or_limited(a, b) for a, b in texts]
        is_same_n = np.array([_normalise(a) == _normalise(b) for a, b in texts], bool)
        has_no_words_n = (comparison.pairs.facts.word_count[comparison.pairs.row_n2] == 0).any(axis=1)
        is_certain_n = comparison.differ_in_one_thing | np.array([bool(each) for each in differences], bool)
        most_n = np.select([is_same_n, has_no_words_n, is_certain_n], [1, 0, MAX_PROBABILITY], 1.0)
        return cls(is_same_n.astype(np.float64), most_n, differences)

    def limit(self, probability_n: Floats) -> Floats:
        """Return probabilities within the limits, [n]."""
        return np.clip(probability_n, self.least_n, self.most_n)

    def settle(self, similarity_n: Floats) -> Floats:
        """Return similarities, [n], of settled pairs as the rule says it."""
        return np.where(self.least_n == self.most_n, self.most_n, similarity_n)


def _string_of(text: Text) -> str:
    return " ".join(text.split() if isinstance(text, str) else text)


def _normalise(text: str) -> str:
    """Take off capitals, print forms, quotation marks and a full stop or ! at the end."""
    words = normalise_text(text).casefold()
    return _OUTER_QUOTES.sub("", words).rstrip(" .!") or words


def exchanged_or_limited(a: str, b: str) -> Sequence[Difference]:
    """Return kind and words of what differs: from and to exchanged; *only*, or *stop*, on one side."""
    differences: list[Difference] = []
    lower_texts = a.casefold(), b.casefold()
    if not any(word in text for word in ("from ", "only ", "stop ", "avoid ") for text in lower_texts):
        return differences  # as most pairs do
    way_a, way_b = _FROM_TO.search(a), _FROM_TO.search(b)
    if way_a and way_b and way_a[1].lower() == way_b[2].lower() != way_a[2].lower() == way_b[1].lower():
        differences.append(("roles", f"{way_a[1]} to {way_a[2]}", f"{way_b[1]} to {way_b[2]}"))
    bare_a, bare_b = (_ONLY.sub("", text).strip(" .!?").casefold() for text in (a, b))
    if bare_a == bare_b and bool(_ONLY.search(a)) != bool(_ONLY.search(b)):
        differences.append(("missing", "only" if _ONLY.search(a) else "", "only" if _ONLY.search(b) else ""))
    first, second = (_ENDING_E.sub("", text.strip(" .!?")) for text in lower_texts)  # share, sharing: shar
    for a_stops, stopped, other in ((True, first, second), (False, second, first)):
        if (found := _STOP.search(stopped)) and _STOP.sub(found[2], stopped) == other:
            differences.append(("missing", found[1] if a_stops else "", "" if a_stops else found[1]))
    return differences
