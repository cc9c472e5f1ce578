"""The inflected forms of English words: the possible bases of a form, and a stem that forms share."""

import csv
from collections.abc import Iterator
from pathlib import Path

_VERBS = Path(__file__).with_name("irregular_verbs.tsv")
with open(_VERBS, encoding="utf-8", newline="") as _lines:
    BASE_OF_IRREGULAR = {
        form: row["base"] for row in csv.DictReader(_lines, delimiter="\t") for form in row["forms"].split()
    }
"""The base of each form of an irregular verb."""
_COMPARISON = ("ier", "iest", "er", "est")
ENDINGS = {
    **dict.fromkeys(("ies", "ied", "ier", "iest"), ("y",)),
    "es": ("", "e"),
    "s": ("",),
    **dict.fromkeys(("ed", "ing", "er", "est"), ("", "e")),
}
"""For each ending of a form, the letters that its base may have in place of the ending."""
INFLECTIONS = {ending: letters[0] for ending, letters in ENDINGS.items() if ending not in _COMPARISON}
"""The endings that :func:`stem` replaces. Many bases end like a comparative, so -er and -est stay."""


def _cuts(word: str) -> Iterator[tuple[str, str]]:
    """Yield each ending of a word with the letters before it, if those are at least three."""
    for ending in ENDINGS:
        rest = word.removesuffix(ending)
        if rest != word and len(rest) >= 3:
            yield ending, rest


def possible_bases(word: str) -> list[str]:
    """Return possible bases of a word in lower case: itself, its irregular verb, itself without an ending."""
    bases = [word]
    if word in BASE_OF_IRREGULAR:
        bases.append(BASE_OF_IRREGULAR[word])
    for ending, rest in _cuts(word):
        bases += [rest + letters for letters in ENDINGS[ending]]
        if len(ending) > 1 and rest[-1] == rest[-2]:
            bases.append(rest[:-1])  # bigger, stopping
    return bases


def stem(word: str) -> str:
    """Return a stem that the forms of an unlisted word share, such as shar of sharing, shared and share."""
    if not word.endswith(("ss", "us", "is")):
        for ending, rest in _cuts(word):
            if ending in INFLECTIONS:
                word = rest + INFLECTIONS[ending]
                if ending in ("ed", "ing") and word[-1] == word[-2] and word[-1] not in "sl":
                    word = word[:-1]  # stopping
                break
    return word.removesuffix("e") if len(word) > 3 else word
