"""Binding: does a vector know who did what to whom? Triplets of sentences from frames and words of our own.

A triplet is an anchor, the same said otherwise, and the same words bound otherwise::

    The lawyer praised the doctor. | The doctor was praised by the lawyer. | The doctor praised the lawyer.

Right is an anchor that is nearer to the second than to the third by more than 1e-6; a tie is wrong. The test
part shares no frame and no content word with the development part.
"""

from __future__ import annotations

import csv
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
SLOTS = {
    **dict.fromkeys("pqr", "person"),
    **dict.fromkeys("tu", "thing"),
    **dict.fromkeys("xy", "place"),
    **dict.fromkeys("ab", "adjective"),
    **dict.fromkeys("vw", "verb"),
    **dict.fromkeys("nm", "number"),
}
"""The class of words of each slot of a frame; slots of one class get different words."""
FORMS = {"verb": {"base": 0, "": 1, "part": 2}, **{c: {"": 0, "s": 1} for c in ("person", "thing")}}
"""Which form of a word a slot such as ``{v:part}`` takes: ``words.tsv`` lists base, past and participle of a
verb, singular and plural of a noun."""


@dataclass(frozen=True)
class Triplet:
    """Three sentences of one frame."""

    kind: str
    """What is said otherwise: passive, cleft, relative, ..."""
    frame: int
    """Line of ``frames.tsv``; intervals are taken over frames."""
    anchor: str
    same: str
    """Means the same."""
    other: str
    """Has the anchor's words in other places."""


def triplets(part: str, fillings: int = 20, seed: int = 0) -> list[Triplet]:
    """The triplets of a part, every frame filled with words at random.

    Args:
        part: ``development`` or ``test``.
        fillings: sentences of each frame.
        seed: of the choice of words.
    """
    drawn = random.Random(f"{part} {seed}")
    words = {row["class"]: _lexemes(row["words"]) for row in _rows("words.tsv", part)}
    found = []
    for number, row in enumerate(_rows("frames.tsv", part)):
        texts = (row["anchor"], row["same"], row["other"])
        for _ in range(fillings):
            filled = _filled(texts, words, drawn)
            found.append(Triplet(row["kind"], number, *filled))
    return found


def _rows(file: str, part: str) -> Iterator[dict[str, str]]:
    with open(HERE / file, encoding="utf-8", newline="") as lines:
        yield from (row for row in csv.DictReader(lines, delimiter="\t") if row["split"] == part)


def _lexemes(words: str) -> list[list[str]]:
    """``boy boys; girl girls`` as lists of forms."""
    return [lexeme.split() for lexeme in words.split("; ")]


def _filled(texts: Sequence[str], words: dict[str, list[list[str]]], drawn: random.Random) -> list[str]:
    """The texts of a frame with one word for each slot; capitals and articles are put right."""
    slots = sorted({slot for text in texts for slot in re.findall(r"\{(\w)", text)})
    chosen: dict[str, list[str]] = {}
    for slot in slots:
        used = list(chosen.values())
        chosen[slot] = drawn.choice([word for word in words[SLOTS[slot]] if word not in used])

    def form(match: re.Match[str]) -> str:
        forms = FORMS.get(SLOTS[match[1]], {"": 0})
        return chosen[match[1]][forms[match[2] or ""]]

    filled = (re.sub(r"\{(\w)(?::(\w+))?\}", form, text) for text in texts)
    articles = (re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", text) for text in filled)
    return [text[0].upper() + text[1:] for text in articles]
