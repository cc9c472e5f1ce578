"""Gives words that have opposites a pole and a sign.

Each pair of antonyms in ``opposites.tsv`` is a pole of its own, with a nearness: the cosine of their vectors
in per cent, or a set value, 45 (529 of the 1,637 pairs) or 50 (173). *Light* is opposed to *dark* and to
*heavy*, by their nearness, and those two share nothing. A form is read as its base. A word with a prefix of
negation, or with -less, is read as its stem with the other sign if the stem is listed: *unhappy* is minus
*happy*.

1,510 pairs are WordNet's antonyms in the list of Mrkšić et al. (2016), without kinship, gender, colours,
directions and converses (buy | sell); 127 are our own. English only.

Legend of dimension suffixes: U distinct words, S width.
"""

import csv
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from multiview.encoders.weightless import sign_vectors, spellings

POLE_SHARE = 0.7
"""The share of its poles in the squared length of a word that has opposites; its spelling has the rest."""
Poles = dict[str, float]
"""Pairs of antonyms, each with a word's weight in it; the first of a pair has the sign +."""


def _read_table(name: str) -> list[dict[str, str]]:
    with open(Path(__file__).with_name(name), encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t"))


BASE_OF_IRREGULAR = {
    form: row["base"] for row in _read_table("irregular_verbs.tsv") for form in row["forms"].split()
}
"""The base of each form of an irregular verb."""
_ENDINGS = {
    **dict.fromkeys(("ies", "ied", "ier", "iest"), ("y",)),
    "es": ("", "e"),
    "s": ("",),
    **dict.fromkeys(("ed", "ing", "er", "est"), ("", "e")),
}
"""Endings of forms, and the letters that a base may have in their place."""
_PREFIXES = ("non-", "un-", "non", "un", "dis", "in", "im", "ir", "il")
_ADJECTIVE_ENDINGS = tuple(
    ["able", "ible", "ent", "ant", "al", "ate", "ary", "ic", "ive", "ous", "ite", "ect", "ure", "ly"]
)
"""Only before such stems are in-, im-, ir-, il- and dis- negations where the list has no such pair."""
_WORDS_WITHOUT_PREFIX = ("unless", "invaluable", "impassive", "indifferent")
"""Words that only seem to have a prefix of negation."""


_OPPOSITES = [tuple(row.values()) for row in _read_table("opposites.tsv")]
TABLES = (_OPPOSITES, BASE_OF_IRREGULAR, _ENDINGS, _PREFIXES, _ADJECTIVE_ENDINGS, _WORDS_WITHOUT_PREFIX)
"""The tables by which words get their base, sign and poles."""


@cache
def antonyms() -> dict[str, set[str]]:
    """Return the antonyms of each word."""
    antonyms_of_word: dict[str, set[str]] = {}
    for row in _read_table("opposites.tsv"):
        antonyms_of_word.setdefault(row["one"], set()).add(row["other"])
        antonyms_of_word.setdefault(row["other"], set()).add(row["one"])
    return antonyms_of_word


def possible_bases(word: str) -> list[str]:
    """List what a word in lower case may be a form of: itself, its irregular base, it without endings."""
    bases = [word]
    if word in BASE_OF_IRREGULAR:
        bases.append(BASE_OF_IRREGULAR[word])
    for ending, replacements in _ENDINGS.items():
        stem = word.removesuffix(ending)
        if stem == word or len(stem) < 3:
            continue
        bases += [stem + letters for letters in replacements]
        if len(ending) > 1 and stem[-1] == stem[-2]:
            bases.append(stem[:-1])  # bigger, stopping
    return bases


def _listed_base(word: str) -> str:
    """Return the first possible base of a word that has antonyms; "" if there is none."""
    return next((base for base in possible_bases(word) if base in antonyms()), "")


@cache
def base_and_sign(word: str) -> tuple[str, int]:
    """Find the base of a word and its sign: (happy, -1) of *unhappier*; other words keep their form."""
    base = _listed_base(word)
    for form in [base] if base else possible_bases(word):
        stem = _negated_stem(form)
        if stem:
            return stem, -1
    return base or BASE_OF_IRREGULAR.get(word, word), 1


def _negated_stem(word: str) -> str:
    """Return the listed word that ``word`` negates by a prefix or by -less; "" if there is none."""
    if word in _WORDS_WITHOUT_PREFIX:
        return ""
    opposites = antonyms().get(word, set())
    for prefix in _PREFIXES:
        stem = word.removeprefix(prefix)
        if stem == word or len(stem) < 3:
            continue
        is_adjective = len(stem) > 4 and stem.endswith(_ADJECTIVE_ENDINGS)
        may_negate = not opposites and (prefix.startswith(("un", "non")) or is_adjective)
        if stem in opposites or (may_negate and _listed_base(stem)):
            return _listed_base(stem)
    root = word.removesuffix("less")
    if root != word:
        return next((stem for stem in (root + "ful", root) if stem in opposites), "")
    return ""


@cache
def _poles_by_base() -> dict[str, Poles]:
    """Collect the pairs of each base, its own and those of the words that negate it, with their nearness."""
    poles_by_base: dict[str, Poles] = {}
    for row in _read_table("opposites.tsv"):
        first, first_sign = base_and_sign(row["one"])
        second, second_sign = base_and_sign(row["other"])
        if first != second:
            pole = f"{row['one']}|{row['other']}"
            nearness = int(row["nearness"]) / 100
            poles_by_base.setdefault(first, {})[pole] = first_sign * nearness
            poles_by_base.setdefault(second, {})[pole] = -second_sign * nearness
    return poles_by_base


@cache
def poles(base: str) -> Poles:
    """Return the poles of a base, with its weight in each; the squares of all weights sum to 1."""
    nearness_by_pole = _poles_by_base().get(base, {})
    length = sum(nearness**2 for nearness in nearness_by_pole.values()) ** 0.5
    return {pole: nearness / length for pole, nearness in nearness_by_pole.items()}


def has_opposite(word: str) -> bool:
    """Tell whether a word in lower case has an opposite."""
    base, sign = base_and_sign(word)
    return sign < 0 or base in antonyms()


def agreement(first: str, second: str) -> int:
    """Return -1 for words in lower case that are opposed, 1 if they share a pole otherwise, else 0."""
    first_base, first_sign = base_and_sign(first)
    second_base, second_sign = base_and_sign(second)
    if first_base == second_base:
        return first_sign * second_sign
    second_weights = poles(second_base)
    product = sum(weight * second_weights.get(pole, 0.0) for pole, weight in poles(first_base).items())
    return int(np.sign(product)) * first_sign * second_sign


def signed_spellings(types: Sequence[str], width: int) -> NDArray[np.float32]:
    """Return vectors of words at length 1, [U, S]: their spelling, and the poles of those with opposites."""
    bases_and_signs = [base_and_sign(word.lower()) for word in types]
    vectors_US = spellings([base for base, _ in bases_and_signs], width)
    vectors_US /= np.maximum(np.linalg.norm(vectors_US, axis=1, keepdims=True), 1e-12)
    vectors_US *= np.array([sign for _, sign in bases_and_signs], np.float32).reshape(-1, 1)
    column_of_pole: dict[str, int] = {}
    entries = [
        (row, column_of_pole.setdefault(pole, len(column_of_pole)), sign * weight * POLE_SHARE**0.5)
        for row, (base, sign) in enumerate(bases_and_signs)
        for pole, weight in poles(base).items()
    ]
    if entries:
        rows, columns, weights = (np.array(values) for values in zip(*entries, strict=True))
        vectors_US[np.unique(rows)] *= (1 - POLE_SHARE) ** 0.5
        pole_vectors = sign_vectors(list(column_of_pole), width)[columns]
        np.add.at(vectors_US, rows, weights.astype(np.float32)[:, None] * pole_vectors)
    return vectors_US
