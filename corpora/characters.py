"""Normalise characters, so that texts that look the same are the same to parsers and encoders.

Words are stored as they are written. Code that looks up a word, reads its letters or compares it with a list
calls :func:`normalise_text` first. Trees and vectors therefore do not depend on decomposed accents,
characters without width, and typographic forms of apostrophe, hyphen and ligatures. ASCII is not changed,
except for a backtick in place of an apostrophe (don`t). Compatibility characters such as ² and ½ are not
changed.

Two kinds of characters without width have a meaning and are kept: the joiner and the tags inside emoji, and
joiners between two letters of scripts that use them (Arabic, scripts of India and South East Asia).
"""

import re
from collections.abc import Iterable
from unicodedata import normalize

VERSION = 2
"""The version of these rules, which is part of the identity of parsers and vectors."""
_EMOJI = "\u2190-\u2bff\U0001f000-\U0001faff"
_JOINING = "\u0600-\u109f\u1780-\u18af"
_TAGS = "\U000e0000-\U000e007f"
_WIDTHLESS = re.compile(
    # spaCy makes separate words of the joiner and the tags inside an emoji.
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
"""Matches a backtick within a word or before a separate ending (`s, `ll); others are quotation marks."""


def normalise_text(text: str) -> str:
    """Return a text in NFC, without zero-width characters, and with ASCII in place of typographic forms."""
    if not text.isascii():
        text = normalize("NFC", _WIDTHLESS.sub("", text).translate(_PLAIN_FORMS))
    return _BACKTICK.sub("'", text) if "`" in text else text


def original_words(text: str, words: Iterable[str]) -> list[str]:
    """Return, for the words of ``normalise_text(text)`` in their order, the forms that ``text`` has.

    Characters without width before and after a word are left out.
    """
    plain_text = normalise_text(text)
    if plain_text == text:
        return list(words)
    widthless = {position for match in _WIDTHLESS.finditer(text) for position in range(*match.span())}
    # In NFD every character of the normalised text comes from one position in the written text.
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
    """Return the index of each word, also by its normalised form, unless that is another word of the list."""
    index_of_word = {word: index for index, word in enumerate(words, first)}
    for word, index in list(index_of_word.items()):
        if plain_word := normalise_text(word):
            index_of_word.setdefault(plain_word, index)
    return index_of_word
