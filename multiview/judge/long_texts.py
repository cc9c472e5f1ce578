"""Leave out of a pair of long texts the sentences that both have: they hide where the two differ.

Judges are fitted on pairs of sentences, whose numbers are shares of their words: of two pages alike but for
one sentence nearly all is shared, and beyond some words there is neither a tree nor a comparison.
"""

import re
from collections import Counter
from collections.abc import Sequence

from corpora.characters import normalise_text
from multiview.judge.typed import asked_alike, in_one_form
from runtime.cli import warn_once

Text = str | tuple[str, ...]
LONG = 64
"""Words, by white space, from which on a text is long; the sentences that judges are fitted on have fewer."""
MAX_OTHER_WORDS = 120
"""Words that the parsers surely take."""
_END = re.compile(r".*[.!?][\"'”’)\]]*")


def as_read(a: Text, b: Text) -> tuple[Text, Text]:
    """Return two texts in one form, tokens as they are; of long ones the sentences in which they differ."""
    a, b = (in_one_form(text) if isinstance(text, str) else text for text in (a, b))
    if isinstance(a, str) and isinstance(b, str):
        a, b = asked_alike(a, b)
    return where_they_differ(a, b)


def where_they_differ(a: Text, b: Text) -> tuple[Text, Text]:
    """Return a pair without the sentences that both have, each as often as both, if a text is long.

    Texts of the same sentences stay as they are. What still is long is said once, for roles in it are not
    compared.
    """
    if max(len(text) // (2 if isinstance(text, str) else 1) for text in (a, b)) < LONG:
        return a, b
    words = [text.split() if isinstance(text, str) else text for text in (a, b)]
    if max(map(len, words)) < LONG:
        return a, b
    sides = list(map(_sentences, words))
    keys = [[normalise_text(" ".join(sentence)).casefold() for sentence in side] for side in sides]
    shared = Counter(keys[0]) & Counter(keys[1])
    rests = [_without(side, own_keys, Counter(shared)) for side, own_keys in zip(sides, keys, strict=True)]
    if not any(rests):
        return a, b
    if max(map(len, rests)) > MAX_OTHER_WORDS:
        warn_once(
            f"two texts differ over more than {MAX_OTHER_WORDS} words: the judge compares neither roles "
            "in them nor what comes after the first 400 words; give it sentences"
        )
    first, second = (
        " ".join(rest) if isinstance(text, str) else tuple(rest)
        for text, rest in zip((a, b), rests, strict=True)
    )
    return first, second


def _sentences(words: Sequence[str]) -> list[Sequence[str]]:
    """Cut after words that end in a full stop, a question or an exclamation mark, perhaps in quotes."""
    ends = [position for position, word in enumerate(words, 1) if _END.fullmatch(word)]
    starts = [0, *ends]
    return [words[first:end] for first, end in zip(starts, [*ends, len(words)], strict=True) if first < end]


def _without(side: Sequence[Sequence[str]], keys: Sequence[str], shared: Counter[str]) -> list[str]:
    """Return the words of the sentences that are left when the shared ones have been taken out."""
    rest: list[str] = []
    for sentence, key in zip(side, keys, strict=True):
        if shared[key]:
            shared[key] -= 1
        else:
            rest += sentence
    return rest
