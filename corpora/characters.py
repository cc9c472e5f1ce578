"""Make texts that read the same the same text to parsers and encoders.

Words are kept as they are written. Code that looks a word up, spells it or compares it with a list calls
:func:`normalise_text` first, so that decomposed accents, characters without width and the print forms of
apostrophe, hyphen and ligatures change neither trees nor vectors. ASCII stays, except for a backtick that
stands for an apostrophe (don`t). There is no compatibility mapping: ² and ½ stay.

Two kinds of characters without width carry meaning and stay: the joiner and the tags inside emoji, and
joiners between two letters of scripts that write with them (Arabic, those of India and South East Asia).
"""

import re
from collections.abc import Iterable
from unicodedata import normalize

VERSION = 2
"""Version of these rules, which are part of what decides trees and vectors."""
_EMOJI = "\u2190-\u2bff\U0001f000-\U0001faff"
_JOINING = "\u0600-\u109f\u1780-\u18af"
_TAGS = "\U000e0000-\U000e007f"
_WIDTHLESS = re.compile(
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
_PLAIN_FORMS = str.maketrans({
    **dict.fromkeys("\u2018\u2019\u201b\u02bb\u02bc\u00b4\u1ffd\u2032\uff07", "'"),
    **dict.fromkeys("\u2010\u2011", "-"),
    "\ufb00": "ff", "\ufb01": "fi", "\ufb02": "fl", "\ufb03": "ffi", "\ufb04": "ffl",
    "\ufb05": "st", "\ufb06": "st",
})  # fmt: skip
_BACKTICK = re.compile(r"(?<=[^\W\d_])`(?=[^\W\d_])|\A`(?=(s|m|d|ll|re|ve)\Z)", re.IGNORECASE)
"""A backtick within a word or before a split-off ending (`s, `ll); elsewhere it is a quotation mark."""


def normalise_text(text: str) -> str:
    """Return a text composed (NFC), without characters of no width, and with ASCII for print forms."""
    if not text.isascii():
        text = normalize("NFC", _WIDTHLESS.sub("", text).translate(_PLAIN_FORMS))
    return _BACKTICK.sub("'", text) if "`" in text else text


def original_words(text: str, words: Iterable[str]) -> list[str]:
    """Return how words of ``normalise_text(text)``, given in their order, are written in ``text``.

    Characters without width that stand around a word are left out.
    """
    plain_text = normalise_text(text)
    if plain_text == text:
        return list(words)
    widthless = {position for match in _WIDTHLESS.finditer(text) for position in range(*match.span())}
    # Decomposed, every character of the plain text comes from one place in the written text.
    written_positions: list[int] = []
    for position, character in enumerate(text):
        if position not in widthless:
            written_positions += [position] * len(normalize("NFD", character.translate(_PLAIN_FORMS)))
    decomposed_text = normalize("NFD", plain_text)
    written_words = []
    end = 0
    for word in words:
        decomposed_word = normalize("NFD", word)
        first = decomposed_text.index(decomposed_word, end)
        end = first + len(decomposed_word)
        written_words.append(text[written_positions[first] : written_positions[end - 1] + 1])
    return written_words


def index_of_words(words: Iterable[str], *, first: int = 0) -> dict[str, int]:
    """Map each word, and its normalised form unless that is itself in the list, to the word's index."""
    index_of_word = {word: index for index, word in enumerate(words, first)}
    for word, index in list(index_of_word.items()):
        if plain_word := normalise_text(word):
            index_of_word.setdefault(plain_word, index)
    return index_of_word
