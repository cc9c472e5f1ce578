"""Gives words that have opposites a sign, and a vector that is minus that of the opposite.

Each pair of antonyms in ``opposites.tsv`` is a pole, with a nearness: the cosine of the two word vectors in
per cent, or a set value, 45 (529 of the 1,637 pairs) or 50 (173). A word in several pairs has several poles,
weighted by nearness: *light* is opposed to *dark* and to *heavy*, which share no pole. An inflected form is
read as its base. A word with a negating prefix, or with -less, is read as its stem with the other sign if the
stem is listed: *unhappy* is minus *happy*.

1,510 pairs are WordNet's antonyms in the list of Mrkšić et al. (2016), without kinship, gender, colours,
directions and converses (buy | sell); 127 are our own. English only.

Legend of dimension suffixes: U distinct words, S width.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from multiview.encoders.weightless import sign_vectors, spellings
from multiview.structure.forms import BASE_OF_IRREGULAR, ENDINGS, possible_bases

POLE_SHARE = 0.7
"""The share of the poles in the squared length of a word's vector; its spelling has the rest."""
Poles = dict[str, float]
"""The weight of a word in each of its poles, by ``one|other``; positive for the first word of the pair."""
_PREFIXES = ("non-", "un-", "non", "un", "dis", "in", "im", "ir", "il")
_ADJECTIVE_ENDINGS = tuple(
    ["able", "ible", "ent", "ant", "al", "ate", "ary", "ic", "ive", "ous", "ite", "ect", "ure", "ly"]
)
"""Endings of stems before which in-, im-, ir-, il- and dis- negate, if no listed pair says so already."""
_WORDS_WITHOUT_PREFIX = ("unless", "invaluable", "impassive", "indifferent")
"""Words that begin or end like a negation and are none."""
TABLES = (BASE_OF_IRREGULAR, ENDINGS, _PREFIXES, _ADJECTIVE_ENDINGS, _WORDS_WITHOUT_PREFIX)
"""All tables, beside the list of opposites, that decide the base and the sign of a word."""


class Opposites:
    """A list of antonyms, and the base, the sign and the poles of words that follow from it.

    ``rows`` are the two words of each pair and their nearness in per cent.
    """

    def __init__(self, rows: Iterable[tuple[str, ...]]) -> None:
        self.rows = list(rows)
        self.antonyms: dict[str, set[str]] = {}
        """The antonyms of each word."""
        for one, other, _ in self.rows:
            self.antonyms.setdefault(one, set()).add(other)
            self.antonyms.setdefault(other, set()).add(one)
        self.base_and_sign: Callable[[str], tuple[str, int]] = cache(self._base_and_sign)
        """Returns the base and the sign of a word in lower case: (happy, -1) for *unhappier*."""
        self._poles = self._poles_by_base()

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a table of tab-separated values: a header, and rows of two words and their nearness."""
        with open(path, encoding="utf-8", newline="") as lines:
            return cls(tuple(row.values()) for row in csv.DictReader(lines, delimiter="\t"))

    def poles(self, base: str) -> Poles:
        """Return the weight of a base in each of its poles; the squares of the weights sum to 1."""
        return self._poles.get(base, {})

    def has_opposite(self, word: str) -> bool:
        """Tell whether a word in lower case has an opposite."""
        base, sign = self.base_and_sign(word)
        return sign < 0 or base in self.antonyms

    def agreement(self, first: str, second: str) -> int:
        """Return -1 for two opposed words in lower case, 1 for two that share a pole or a base, else 0."""
        first_base, first_sign = self.base_and_sign(first)
        second_base, second_sign = self.base_and_sign(second)
        if first_base == second_base:
            return first_sign * second_sign
        return (
            int(np.sign(nearness(self.poles(first_base), self.poles(second_base)))) * first_sign * second_sign
        )

    def _listed_base(self, word: str) -> str:
        """Return the first possible base of a word that has antonyms, or "" if none has."""
        return next((base for base in possible_bases(word) if base in self.antonyms), "")

    def _base_and_sign(self, word: str) -> tuple[str, int]:
        base = self._listed_base(word)
        for form in [base] if base else possible_bases(word):
            stem = self._negated_stem(form)
            if stem:
                return stem, -1
        return base or BASE_OF_IRREGULAR.get(word, word), 1  # an unlisted regular form is its own base

    def _negated_stem(self, word: str) -> str:
        """Return the listed word that ``word`` negates by a prefix or by -less, or "" if there is none."""
        if word in _WORDS_WITHOUT_PREFIX:
            return ""
        opposites = self.antonyms.get(word, set())
        for prefix in _PREFIXES:
            stem = word.removeprefix(prefix)
            if stem == word or len(stem) < 3:
                continue
            is_adjective = len(stem) > 4 and stem.endswith(_ADJECTIVE_ENDINGS)
            may_negate = not opposites and (prefix.startswith(("un", "non")) or is_adjective)
            if stem in opposites or (may_negate and self._listed_base(stem)):
                return self._listed_base(stem)
        root = word.removesuffix("less")
        if root != word:
            return next((stem for stem in (root + "ful", root) if stem in opposites), "")
        return ""

    def _poles_by_base(self) -> dict[str, Poles]:
        """Return the poles of each base: its own pairs, and those of words that are read as its negation."""
        poles_by_base: dict[str, Poles] = {}
        for one, other, per_cent in self.rows:
            first, first_sign = self.base_and_sign(one)
            second, second_sign = self.base_and_sign(other)
            if first != second:
                poles_by_base.setdefault(first, {})[f"{one}|{other}"] = first_sign * (int(per_cent) / 100)
                poles_by_base.setdefault(second, {})[f"{one}|{other}"] = -second_sign * (int(per_cent) / 100)
        for base, poles in poles_by_base.items():
            length = sum(weight**2 for weight in poles.values()) ** 0.5
            poles_by_base[base] = {pole: weight / length for pole, weight in poles.items()}
        return poles_by_base


@cache
def known_opposites() -> Opposites:
    """Return the opposites that the package lists."""
    return Opposites.read(Path(__file__).with_name("opposites.tsv"))


def nearness(one: Poles, other: Poles) -> float:
    """Return the inner product of the weights of two words in their poles."""
    return sum(weight * other.get(pole, 0.0) for pole, weight in one.items())


def signed_spellings(types: Sequence[str], width: int, opposites: Opposites) -> NDArray[np.float32]:
    """Return the vectors of words, [U, S] of length 1: spelling and, if a word has opposites, its poles."""
    bases_and_signs = [opposites.base_and_sign(word.lower()) for word in types]
    vectors_US = spellings([base for base, _ in bases_and_signs], width)
    vectors_US /= np.maximum(np.linalg.norm(vectors_US, axis=1, keepdims=True), 1e-12)
    vectors_US *= np.array([sign for _, sign in bases_and_signs], np.float32).reshape(-1, 1)
    column_of_pole: dict[str, int] = {}
    entries = [
        (row, column_of_pole.setdefault(pole, len(column_of_pole)), sign * weight * POLE_SHARE**0.5)
        for row, (base, sign) in enumerate(bases_and_signs)
        for pole, weight in opposites.poles(base).items()
    ]
    if entries:
        rows, columns, weights = (np.array(values) for values in zip(*entries, strict=True))
        vectors_US[np.unique(rows)] *= (1 - POLE_SHARE) ** 0.5
        pole_vectors = sign_vectors(list(column_of_pole), width)[columns]
        np.add.at(vectors_US, rows, weights.astype(np.float32)[:, None] * pole_vectors)
    return vectors_US
