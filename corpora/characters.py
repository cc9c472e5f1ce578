"""Characters of one word: texts that read the same are the same text to parsers and encoders.

Words are kept as they are written. Whoever looks a word up, spells it or compares it with a list asks
:func:`plain` first, so that decomposed accents, characters without width and the print forms of apostrophe,
hyphen and ligatures change neither trees nor vectors. ASCII is plain. There is no compatibility mapping: ²
and ½ stay.

Two kinds of characters without width carry meaning and stay: the joiner and the tags inside emoji, and
joiners between two letters of scripts that write with them (Arabic, those of India and South East Asia).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from unicodedata import category, normalize

VERSION = 1
"""Of the rules; part of what decides trees and vectors."""
_EMOJI = "\u2190-\u2bff\U0001f000-\U0001faff"
_JOINING = "\u0600-\u109f\u1780-\u18af"
# Soft hyphen, grapheme joiner, marks and isolates of direction, variation selectors, zero-width spaces, the
# word joiner and invisible operators, byte-order marks, anchors of annotations.
_HIDDEN = re.compile(
    "[\u00ad\u034f\u061c\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    "\ufff9-\ufffb\U000e0100-\U000e01ef]+"
    # Tags; after a black flag they name another flag.
    "|(?<![\U0001f3f4\U000e0000-\U000e007f])[\U000e0000-\U000e007f]+"
    # Joiners; spaCy makes a word of its own of the one inside an emoji.
    rf"|[\u200c\u200d](?!(?<=[{_JOINING}].)[{_JOINING}]|(?<=\A\u200d)\Z"
    rf"|(?:(?<=[{_EMOJI}]\u200d)|(?<=[{_EMOJI}]\ufe0f\u200d))[{_EMOJI}])"
)
_PRINTED = str.maketrans({
    **dict.fromkeys("\u2018\u2019\u201b\u02bb\u02bc\u00b4\u1ffd", "'"),
    **dict.fromkeys("\u2010\u2011", "-"),
    "\ufb00": "ff", "\ufb01": "fi", "\ufb02": "fl", "\ufb03": "ffi", "\ufb04": "ffl",
    "\ufb05": "st", "\ufb06": "st",
})  # fmt: skip


def plain(text: str) -> str:
    """A word or text without characters that have no width, composed (NFC), in plain print forms."""
    return text if text.isascii() else _composed(_HIDDEN.sub("", text))


def _composed(text: str) -> str:
    return normalize("NFC", text.translate(_PRINTED))


def places_of(words: Iterable[str], *, first: int = 0) -> dict[str, int]:
    """The place of each word, and of its plain form unless that is a word of the list itself."""
    place_of = {word: place for place, word in enumerate(words, first)}
    for word, place in [pair for pair in place_of.items() if not pair[0].isascii()]:
        if seen := plain(word):
            place_of.setdefault(seen, place)
    return place_of


def as_written(text: str, words: Iterable[str]) -> list[str]:
    """Words of ``plain(text)``, in order, as ``text`` has them, hidden characters around them left out."""
    hidden = {place for found in _HIDDEN.finditer(text) for place in range(*found.span())}
    pieces: list[list[int]] = []  # a character and the marks on it, as places in the text
    for place, character in enumerate(text):
        if place not in hidden:
            if pieces and _joins(character) and not text[pieces[-1][0]].isspace():
                pieces[-1].append(place)
            else:
                pieces.append([place])
    seen, spans = "", []  # the plain text, and where in the text each of its characters comes from
    for places in pieces:
        made = _composed("".join(text[place] for place in places))
        seen += made
        if len(made) == len(places):
            spans += [(place, place + 1) for place in places]
        else:
            spans += [(places[0], places[-1] + 1)] * len(made)
    written, end = [], 0
    for word in words:
        start = seen.index(word, end)
        end = start + len(word)
        written.append(text[spans[start][0] : spans[end - 1][1]])
    return written


def _joins(character: str) -> bool:
    """Whether a character may be composed with the one before it: a mark, or a later part of a syllable."""
    return category(character)[0] == "M" or "\u1160" <= character <= "\u11ff"
