"""Characters of one word: texts that read the same are the same text to parsers and encoders.

Words are kept as they are written. Whoever looks a word up, spells it or compares it with a list asks
:func:`plain` first, so that decomposed accents, characters without width and the print forms of apostrophe,
hyphen and ligatures change neither trees nor vectors. ASCII is plain, but for a backtick that stands for an
apostrophe (don`t). There is no compatibility mapping: ² and ½ stay.

Two kinds of characters without width carry meaning and stay: the joiner and the tags inside emoji, and
joiners between two letters of scripts that write with them (Arabic, those of India and South East Asia).
"""

import re
from collections.abc import Iterable
from unicodedata import normalize

VERSION = 2
"""The version of the rules is part of what decides trees and vectors."""
_EMOJI = "\u2190-\u2bff\U0001f000-\U0001faff"
_JOINING = "\u0600-\u109f\u1780-\u18af"
_TAGS = "\U000e0000-\U000e007f"
_HIDDEN = re.compile(
    # spaCy makes words of their own of the joiner and the tags inside an emoji.
    rf"(?!\A(?:\u200d|[{_TAGS}]+)\Z)(?:"
    # Soft hyphen, grapheme joiner, marks and isolates of direction, variation selectors, zero-width spaces,
    # the word joiner and invisible operators, byte-order marks, anchors of annotations.
    "[\u00ad\u034f\u061c\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    "\ufff9-\ufffb\U000e0100-\U000e01ef]+"
    # Tags; after a black flag they name another flag.
    rf"|(?<![\U0001f3f4{_TAGS}])[{_TAGS}]+"
    rf"|[\u200c\u200d](?!(?<=[{_JOINING}].)[{_JOINING}]"
    rf"|(?:(?<=[{_EMOJI}]\u200d)|(?<=[{_EMOJI}]\ufe0f\u200d))[{_EMOJI}]))"
)
_PRINTED = str.maketrans({
    **dict.fromkeys("\u2018\u2019\u201b\u02bb\u02bc\u00b4\u1ffd\u2032\uff07", "'"),
    **dict.fromkeys("\u2010\u2011", "-"),
    "\ufb00": "ff", "\ufb01": "fi", "\ufb02": "fl", "\ufb03": "ffi", "\ufb04": "ffl",
    "\ufb05": "st", "\ufb06": "st",
})  # fmt: skip
_BACKTICK = re.compile(r"(?<=[^\W\d_])`(?=[^\W\d_])|\A`(?=(s|m|d|ll|re|ve)\Z)", re.IGNORECASE)
"""Within a word, or where one that was cut off begins; elsewhere it is a quotation mark."""


def plain(text: str) -> str:
    """Return a text without characters that have no width, composed (NFC), in plain print forms."""
    if not text.isascii():
        text = normalize("NFC", _HIDDEN.sub("", text).translate(_PRINTED))
    return _BACKTICK.sub("'", text) if "`" in text else text


def as_written(text: str, words: Iterable[str]) -> list[str]:
    """Return words of ``plain(text)``, in order, as ``text`` has them without hidden characters around."""
    seen = plain(text)
    if seen == text:
        return list(words)
    hidden = {place for match in _HIDDEN.finditer(text) for place in range(*match.span())}
    # Decomposed, every character stands for itself.
    origin = [
        p for p, c in enumerate(text) if p not in hidden for _ in normalize("NFD", c.translate(_PRINTED))
    ]
    apart, end, written = normalize("NFD", seen), 0, []
    for word in (normalize("NFD", word) for word in words):
        start = apart.index(word, end)
        end = start + len(word)
        written.append(text[origin[start] : origin[end - 1] + 1])
    return written


def places_of(words: Iterable[str], *, first: int = 0) -> dict[str, int]:
    """Map each word to its place, and its plain form unless that is a word of the list itself."""
    place_of = {word: place for place, word in enumerate(words, first)}
    for word, place in list(place_of.items()):
        if seen := plain(word):
            place_of.setdefault(seen, place)
    return place_of
