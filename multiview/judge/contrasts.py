"""Finds, in the words of two texts, one contrast that settles a pair: all | some, must | can, will | did.

The words of ``contrasts.tsv`` are function words and adverbs, which features hardly show. They are decisive
only if both texts are the same otherwise, apart from articles, auxiliaries and inflection.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from corpora.characters import normalise_text
from multiview.judge.one_form import in_one_form
from multiview.structure.forms import BASE_OF_IRREGULAR, stem

Difference = tuple[str, str, str]
"""The kind of a reason, the words of the first sentence, and those of the second."""
Mark = tuple[int, str]
"""The value of a kind of contrast, and the phrase that has it."""
CONTRASTS = Path(__file__).with_name("contrasts.tsv")
"""A table of contrasts.

Each row has a kind of contrast, whether a text without any of its phrases contrasts too, and its values. Two
values contrast; a value is a list of phrases that mean the same. The last columns are an example.
"""
MAX_CHARACTERS = 2000
"""Longer texts are not read, because nearly all of them differ in more than one thing."""
MAX_OTHER_WORDS = 12
"""The most words that only one of two texts has; texts with more are not read, which takes longer."""
_WORD = re.compile(r"\w+?(?=n't\b)|n't|'\w+|\w+(?:[-.:,/@]\w+)*|[<>=!]+|[^\w\s'.,;:!?\"()]")
_SPELLINGS = {"n't": "not", "wo": "will", "ca": "can", "sha": "shall", "'ll": "will", "'ve": "have"}
_PRESENT = {"am", "is", "are", "be", "being", "'m", "'re", "'s"}
_PAST = {"was", "were", "been", "did", "had"}
_DO, _ARTICLES = {"do", "does", "did"}, {"a", "an", "the"}
_DROPPED = _PRESENT | _PAST | _DO | _ARTICLES | {"have", "has", "still"}
_AUXILIARIES = (_DROPPED | {"can", "could", "will", "would", "should", "may", "must"}) - _ARTICLES - {"still"}
_QUESTION_WORDS = {"who", "what", "which", "how", "where", "when", "why", "whose", "whom"}
_OPEN_QUESTIONS = {"how", "what", "where", "which"}
_ENDING_OF_PAST = re.compile(r"(?:(?<!e)|gre|fre|cre|nte)ed$")  # not that of need, feed, succeed
_PAST_VALUE = -1
"""The value of the kind *time* of a text in the past, which has no phrase."""


class _Reading(NamedTuple):
    """A text as it is compared: its marks, and its other words."""

    words: list[str]
    """All words, in lower case."""
    marks: dict[str, list[Mark]]
    """The values of each kind of contrast, in the order of the text, with their phrases."""
    others: list[str]
    """The words that are in no phrase, without articles and auxiliaries."""
    bases: list[str]
    """The base of each of ``others``."""
    is_question: bool | None
    """None if the text has only one of two signs of a question, the auxiliary before it and "?"."""


@lru_cache(1 << 16)
def _base(word: str) -> str:
    return stem(BASE_OF_IRREGULAR.get(word, word))


with open(CONTRASTS, encoding="utf-8", newline="") as _stream:
    _ROWS = list(csv.DictReader(_stream, delimiter="\t", quoting=csv.QUOTE_NONE))
_CONTRASTS_WITH_NONE = {row["kind"] for row in _ROWS if row["left out"] == "yes"}
_LISTED = [
    (phrase, (row["kind"], value))
    for row in _ROWS
    for value, phrases in enumerate(row["values"].split(" / "))
    for phrase in phrases.split(",")
]
_PHRASES = {_base(phrase): found for phrase, found in reversed(_LISTED) if " " not in phrase} | dict(_LISTED)
"""The kind and the value of each phrase, and of the base of a phrase of one word."""
_LENGTHS = {
    first: sorted({len(words) for words in phrases}, reverse=True)
    for first, phrases in groupby(sorted(phrase.split() for phrase, _ in _LISTED), itemgetter(0))
}
"""The numbers of words of the phrases that begin with a word, the longest first."""


def _phrase_at(words: Sequence[str], position: int) -> tuple[int, tuple[str, int] | None]:
    """Return the number of words, and the kind and value, of the longest phrase at a position; 1, None."""
    for length in _LENGTHS.get(words[position], ()):
        if found := _PHRASES.get(" ".join(words[position : position + length])):
            return length, found
    return 1, _PHRASES.get(_base(words[position]))


@lru_cache(1 << 12)
def _read(text: str) -> _Reading:
    plain = normalise_text(in_one_form(text)).casefold().replace("cannot", "can not")
    words = [_SPELLINGS.get(word, word) for word in _WORD.findall(plain)]
    marks: dict[str, list[Mark]] = {}
    others: list[str] = []
    position = 0
    while position < len(words):
        length, found = _phrase_at(words, position)
        if found:
            phrase = " ".join(words[position : position + length])
            marks.setdefault(found[0], []).append((found[1], phrase))
        elif words[position] not in _DROPPED:
            others.append(words[position])
        position += length
    signs = text.rstrip().endswith("?"), bool(words) and words[0] in _AUXILIARIES | _QUESTION_WORDS
    return _Reading(
        words, marks, others, list(map(_base, others)), signs[0] if signs[0] == signs[1] else None
    )


def contrasts_of(a: str, b: str) -> Sequence[Difference]:
    """Return the contrasts of two texts that are the same otherwise, none for other texts.

    Besides those of the table, they are future and past (it will rain | it rained), a question and a
    statement, and a question for who does something against one for whom it is done to (who called Tom? |
    who did Tom call?).
    """
    if max(len(a), len(b)) > MAX_CHARACTERS:
        return []
    if len({*a.lower().split()} ^ {*b.lower().split()}) > MAX_OTHER_WORDS:
        return []
    first, second = _read(a), _read(b)
    if not (first.words and second.words):
        return []
    if first.bases == second.bases:
        return list(_differences(first, second))
    return _turned_question(first, second) if sorted(first.bases) == sorted(second.bases) else []


def _differences(first: _Reading, second: _Reading) -> Iterator[Difference]:
    """Yield the contrasts of two texts with the same bases."""
    if {first.is_question, second.is_question} == {True, False} and first.marks == second.marks:
        names = {True: "question", False: "statement"}
        yield "contrast", names[bool(first.is_question)], names[bool(second.is_question)]
    marks_a, marks_b = _with_past(first, second), _with_past(second, first)
    for kind in dict.fromkeys((*marks_a, *marks_b)):
        own, others = marks_a.get(kind, []), marks_b.get(kind, [])
        if _says_little(kind, first) or _says_little(kind, second):
            continue
        if len(own) == len(others):
            is_contrast = [value for value, _ in own] != [value for value, _ in others]
        else:
            is_contrast = kind in _CONTRASTS_WITH_NONE and len(own + others) == 1
        if is_contrast:
            yield "contrast" if own and others else "missing", _phrases_of(own), _phrases_of(others)


def _says_little(kind: str, reading: _Reading) -> bool:
    """Tell whether a contrast changes little in such a text: how should I pay, how can I pay."""
    if kind in ("modal", "amount"):
        return reading.words[0] in _OPEN_QUESTIONS
    if kind == "joined":  # no milk and sugar, no milk or sugar
        return reading.is_question is not False or not {"not", "no", "without"}.isdisjoint(reading.words)
    return False


def _phrases_of(marks: Sequence[Mark]) -> str:
    return ", ".join(phrase for _, phrase in marks)


def _with_past(reading: _Reading, other: _Reading) -> dict[str, list[Mark]]:
    """Return the marks of a text, with that of the past if it has no other mark of time."""
    past: dict[str, list[Mark]] = {"time": [(_PAST_VALUE, "")]} if _is_past(reading, other) else {}
    return past | reading.marks


def _is_past(reading: _Reading, other: _Reading) -> bool:
    """Tell whether a text is in the past: by its auxiliary, or by a verb of which the other has the base."""
    if not _PRESENT.isdisjoint(reading.words):
        return "been" in reading.words
    forms = {word for word, form in zip(reading.others, other.others, strict=True) if word != form}
    return not _PAST.isdisjoint(reading.words) or any(
        word in BASE_OF_IRREGULAR or _ENDING_OF_PAST.search(word) for word in forms
    )


def _turned_question(first: _Reading, second: _Reading) -> list[Difference]:
    """Return a difference if one text asks who does something, and the other to whom it is done."""
    if first.bases[0] not in ("who", "what", "which") or first.marks != second.marks:
        return []
    if _DO.isdisjoint(first.words) == _DO.isdisjoint(second.words):
        return []
    a, b = first.bases, second.bases
    begin = next(index for index in range(len(a)) if a[index] != b[index])
    end = next(index for index in range(len(a), 0, -1) if a[index - 1] != b[index - 1])
    (a_1, *a_rest), (b_1, *b_rest) = a[begin:end], b[begin:end]
    if begin and ([*a_rest, a_1] == b[begin:end] or [*b_rest, b_1] == a[begin:end]):
        return [("roles", " ".join(first.others[begin:end]), " ".join(second.others[begin:end]))]
    return []
