"""Drops from a pair of long texts the sentences that both have, because they hide where the two differ.

Many features of a pair are shares of its words. If two pages differ in one sentence, nearly all their words
are shared, and the features hardly show the difference. Besides, the parsers and the comparison read a
limited number of words.
"""

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from corpora.characters import normalise_text
from multiview.judge.one_form import in_one_form, without_statement
from runtime.cli import warn_once

Text = str | tuple[str, ...]
LONG_TEXT_WORDS = 64
"""A text of this many words, split at white space, or more is long; judges are fitted on shorter ones."""
MAX_WORDS = 400
"""The number of words of a text that are compared; words after them are ignored."""
SURELY_PARSED_WORDS = 120
"""A text of at most this many words is surely parsed; in a longer one roles may not be compared."""
_END = re.compile(r".*[.!?][\"'”’)\]]*")


def as_read(a: Text, b: Text) -> tuple[Text, Text]:
    """Return two texts as the judge reads them: written in one form, and without what long texts share.

    Texts that are lists of tokens are not written in another form.
    """
    a, b = (in_one_form(text) if isinstance(text, str) else text for text in (a, b))
    if isinstance(a, str) and isinstance(b, str):
        a, b = without_statement(a, b)
    return where_they_differ(a, b)


def distinct_texts(pairs: Sequence[tuple[Text, Text]]) -> tuple[list[Text], NDArray[np.int64]]:
    """Return the distinct texts of pairs, as the judge reads them, and where the texts of each pair are.

    The second value, int64 [n, 2], has the indices of a pair's texts among the distinct ones.
    """
    order: dict[Text, int] = {}
    rows = [[order.setdefault(text, len(order)) for text in as_read(*pair)] for pair in pairs]
    return list(order), np.array(rows, np.int64)


def where_they_differ(a: Text, b: Text) -> tuple[Text, Text]:
    """Return a pair of texts without the sentences that both have, if one of the texts is long.

    A sentence that one text has twice and the other once is dropped once from each. If both texts have the
    same sentences, they are returned as they are. A warning is logged, once, if more than
    :data:`SURELY_PARSED_WORDS` words are left, because their roles may not be compared.
    """
    # A word and a blank are two characters at least, so short texts are found before they are split.
    if max(len(text) // (2 if isinstance(text, str) else 1) for text in (a, b)) < LONG_TEXT_WORDS:
        return a, b
    words = [text.split() if isinstance(text, str) else text for text in (a, b)]
    if max(map(len, words)) < LONG_TEXT_WORDS:
        return a, b
    sides = list(map(_sentences, words))
    keys = [[normalise_text(" ".join(sentence)).casefold() for sentence in side] for side in sides]
    shared = Counter(keys[0]) & Counter(keys[1])
    rests = [_without(side, own_keys, Counter(shared)) for side, own_keys in zip(sides, keys, strict=True)]
    if not any(rests):
        return a, b
    if max(map(len, rests)) > SURELY_PARSED_WORDS:
        warn_once(
            f"two texts differ over more than {SURELY_PARSED_WORDS} words: the judge compares neither roles "
            f"in them nor what comes after the first {MAX_WORDS} words; give it sentences"
        )
    first, second = (
        " ".join(rest) if isinstance(text, str) else tuple(rest)
        for text, rest in zip((a, b), rests, strict=True)
    )
    return first, second


def _sentences(words: Sequence[str]) -> list[Sequence[str]]:
    """Split words into sentences, after each word that ends in ".", "!" or "?", perhaps in quotes."""
    ends = [position for position, word in enumerate(words, 1) if _END.fullmatch(word)]
    starts = [0, *ends]
    return [words[first:end] for first, end in zip(starts, [*ends, len(words)], strict=True) if first < end]


def _without(side: Sequence[Sequence[str]], keys: Sequence[str], shared: Counter[str]) -> list[str]:
    """Return the words of a text, whose sentences are ``side``, without its shared sentences.

    ``keys`` are those of the sentences. ``shared`` says how many to drop of each key, and is counted down.
    """
    rest: list[str] = []
    for sentence, key in zip(side, keys, strict=True):
        if shared[key]:
            shared[key] -= 1
        else:
            rest += sentence
    return rest
