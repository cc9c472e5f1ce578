"""Limits the probabilities of pairs by rules that hold whatever weights a judge has.

A sentence says the same as itself, a sentence without words says the same as no other, and a pair that
differs in one decisive thing has a low probability.

Legend of dimension suffixes: n pairs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from corpora.characters import normalise_text
from multiview.judge.long_texts import Text
from multiview.judge.one_form import in_one_form
from multiview.judge.weights import Floats
from runtime.process import loading

if TYPE_CHECKING:  # these modules import torch
    from multiview.judge.comparison import Comparison
    from multiview.judge.contrasts import Difference

MAX_PROBABILITY = 0.25
"""The greatest probability of a pair that differs in one decisive thing.

Such pairs are those of :attr:`Comparison.differ_in_one_thing` and of :func:`textual_differences`.
"""
_FROM_TO = re.compile(
    r"\bfrom ((?:(?:the|my|our|a) )?[\w-]+) to ((?:(?:the|my|our|a) )?[\w-]+)", re.IGNORECASE
)
_STOP = re.compile(r"\b(stop|avoid) ([a-z]+?)ing\b")
_ENDING_E = re.compile(r"e\b")
_QUOTED = re.compile(r"(?<!\w)[\"“„«]([^\"“”„«»]+)[\"“”»](?!\w)")
_OUTER_QUOTES = re.compile(r"['\"“”„«»](?:(?<!\w.)|(?<!\d.)(?!\w))")
"""Quotation marks at the edge of a word; after a digit they are feet and inches."""


class Limits(NamedTuple):
    """The least and the greatest probability of each pair, and the differences found in its texts."""

    least_n: Floats
    most_n: Floats
    """[n]; equal to ``least_n`` if a rule settles the pair."""
    differences: list[Sequence[Difference]]
    """The differences of each pair that are found without its trees, by :func:`textual_differences`."""

    @classmethod
    def of(cls, pairs: Sequence[tuple[Text, Text]], comparison: Comparison) -> Self:
        """Return the limits of pairs.

        The probability of texts that are identical, perhaps after they are written in one form, is 1. That of
        a pair in which a text has no words is 0, and that of a pair that differs in one decisive thing is at
        most :data:`MAX_PROBABILITY`.
        """
        texts = [(_string_of(a), _string_of(b)) for a, b in pairs]
        differences = [textual_differences(a, b) for a, b in texts]
        is_same_n = np.array([_normalise(a) == _normalise(b) for a, b in texts], bool)
        has_no_words_n = (comparison.pairs.facts.word_count[comparison.pairs.row_n2] == 0).any(axis=1)
        is_certain_n = comparison.differ_in_one_thing | np.array([bool(each) for each in differences], bool)
        most_n = np.select([is_same_n, has_no_words_n, is_certain_n], [1, 0, MAX_PROBABILITY], 1.0)
        return cls(is_same_n.astype(np.float64), most_n, differences)

    def limit(self, probability_n: Floats) -> Floats:
        """Return the probabilities clipped to the limits, [n]."""
        return np.clip(probability_n, self.least_n, self.most_n)

    def settle(self, similarity_n: Floats) -> Floats:
        """Return the similarities, with 1 or 0 for the pairs that a rule settles: [n]."""
        return np.where(self.least_n == self.most_n, self.most_n, similarity_n)


def _string_of(text: Text) -> str:
    return " ".join(text.split() if isinstance(text, str) else text)


def _normalise(text: str) -> str:
    """Return a text in one form, in lower case, without quotation marks and "." or "!" at its end."""
    words = normalise_text(in_one_form(text)).casefold()
    return _OUTER_QUOTES.sub("", _QUOTED.sub(r"\1", words)).rstrip(" .!") or words


def textual_differences(a: str, b: str) -> Sequence[Difference]:
    """Return the decisive differences that two texts show without their trees.

    Decisive are "from X to Y" against "from Y to X" and, if the texts are the same otherwise, the contrasts
    of :mod:`multiview.judge.contrasts`, and *stop* or *avoid* before a verb (stop sharing it | share it).
    """
    with loading():
        from multiview.judge.contrasts import contrasts_of

    differences = list(contrasts_of(a, b))
    lower_texts = a.casefold(), b.casefold()
    if not any(word in text for word in ("from ", "stop ", "avoid ") for text in lower_texts):
        return differences  # most pairs need no search by patterns
    way_a, way_b = _FROM_TO.search(a), _FROM_TO.search(b)
    if way_a and way_b and way_a[1].lower() == way_b[2].lower() != way_a[2].lower() == way_b[1].lower():
        differences.append(("roles", f"{way_a[1]} to {way_a[2]}", f"{way_b[1]} to {way_b[2]}"))
    first, second = (_ENDING_E.sub("", text.strip(" .!?")) for text in lower_texts)
    stop_a, stop_b = _added_stop(first, second), _added_stop(second, first)
    if stop_a or stop_b:
        differences.append(("missing", stop_a, stop_b))
    return differences


def _added_stop(text: str, other: str) -> str:
    """Return *stop* or *avoid* if it, and *ing* at a verb, are all that ``text`` adds to ``other``, else "".

    Neither text has an e at the end of a word, because sharing and share have shar in common.
    """
    found = _STOP.search(text)
    if not found:
        return ""
    verb = found[2]
    verbs = [verb, verb[:-1]] if verb[-1:] == verb[-2:-1] else [verb]  # running: runn and run
    others = [text[: found.start()] + each + text[found.end() :] for each in verbs]
    return found[1] if other in others else ""
