"""Find contexts of words: constituents and sentences of a tree cache with a slot, and paraphrases.

A frame is a text with one slot and a paraphrase of it with the same slot:

    left   the streets of _        right   the roads of _

Slots are found by their tags and relations:

    place      a name of the lexicon after a preposition
    person     a subject before a past-tense verb or a modal (no agreement of number)
    verb       the main verb, after a plural subject and before a preposition or adverb
    adjective  between "the", "this", ... and a noun
    predicate  the sentence's head, after a copula

A phrase is the smallest constituent of 3 to 7 words around the slot; sentences have 5 to 18 words. The
paraphrase replaces every word that has a synonym (``synonyms.tsv``): at least one in a phrase, two in a
sentence. If there is no cache or it gives too few frames, ``frames.tsv`` adds hand-made ones.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from corpora.inputs import read_table
from parsing.trees.cache import TreeCache
from parsing.trees.sentences import ParsedSentence, cached_sentences
from runtime.progress import progress

FOLDER = Path(__file__).parent
SLOT = "_"
LENGTHS = {"phrase": (3, 7), "sentence": (5, 18)}
REPLACED = {"phrase": 1, "sentence": 2}
ENOUGH = 12
"""Frames per kind and level below which the hand-made ones are added."""
WORD = re.compile(r"[A-Za-z]+(-[A-Za-z]+)*|[A-Za-z]*'[a-z]+|,|\.")
_THE = "the|this|that|these|those|my|our|their|its|your"
_NOUN = rf"(?:{_THE}|an?|his|her)/\S+ (?:\S+/JJ/\S+ )?\S+/NNS?"
_PREPOSITION = "in|from|to|near|of|through|across|around|toward|outside"
START = re.compile(f"{_THE}|{_PREPOSITION}|an?|his|her|he|she|it|they|we|you")
"""Words that lose the capital of a sentence's first word."""
SLOTS = {
    "place": rf"(?:{_PREPOSITION})/\S+ (?P<slot>\S+/NNP/\S+) \S+/(?!NNP|POS|,)",
    "person": rf"(?P<slot>(?:{_NOUN}|(?:he|she|they|we|i)/PRP)/nsubj) (?!was|were)\S+/(?:VBD|MD)/",
    "verb": r"(?:\S+/NNS|(?:they|we|you)/PRP)/nsubj (?P<slot>\S+/VB[DP]/root) \S+/(?:IN|RB)/",
    "adjective": rf"(?:{_THE})/\S+ (?P<slot>\S+/JJ/\S+) \S+/NNS?/",
    "predicate": r"\S+/VB[ZDP]/cop (?P<slot>\S+/JJ/root) \S+/(?:IN|RB|\.)/",
}
"""Patterns of slots by kind, over a sentence of word/tag/relation."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A context and its paraphrase, each with one slot."""

    left: tuple[str, ...]
    right: tuple[str, ...]
    source: str
    """``cache:NUMBER`` of the sentence, or ``frames:LINE`` of the hand-made file."""


Frames = Mapping[tuple[str, str], list[Frame]]
"""Contexts by kind and level."""


def fill(frame: tuple[str, ...], filler: str) -> str:
    """Put ``filler`` into the slot; the text is capitalised if it ends in a full stop."""
    text = " ".join(filler if word == SLOT else word for word in frame)
    return text[0].upper() + text[1:] if frame[-1] == "." else text


@cache
def _synonyms() -> dict[str, str]:
    rows = read_table(FOLDER / "synonyms.tsv", ("word", "synonym"), unique=True)
    return {row.cells[0]: row.cells[1] for row in rows}


def paraphrase(words: tuple[str, ...]) -> tuple[tuple[str, ...], int]:
    """Replace words by their synonyms and adjust "a" and "an"; count the replaced words."""
    out: list[str] = []
    replaced = 0
    for place, word in enumerate(words):
        # A capital inside a sentence is a name: "the Opera House" stays.
        new = _synonyms().get(word.lower()) if place == 0 or word.islower() else None
        replaced += new is not None
        if new is not None and out and out[-1] in ("a", "an"):
            out[-1] = "an" if new[0] in "aeiou" else "a"
        out += [word] if new is None else new.split()
    return tuple(out), replaced


def frames_of(
    sentence: ParsedSentence, number: int, taken: Collection[str]
) -> Iterator[tuple[str, str, Frame]]:
    """Yield all frames of one sentence of a cache, by its number there, as (kind, level, frame).

    A sentence that a parser could not take gives none. ``taken`` are lower-case words of the questions, which
    no context may hold outside its slot.
    """
    if sentence.flags or sentence.spans is None or len(sentence.words) > 60:
        return
    shortest, longest = LENGTHS["phrase"]
    columns = (sentence.words, sentence.tags or (), sentence.relations or ())
    text = " ".join(f"{word.lower()}/{tag}/{relation}" for word, tag, relation in zip(*columns, strict=True))
    matches = ((kind, match) for kind in SLOTS for match in re.finditer(rf"(?<!\S){SLOTS[kind]}", text))
    for kind, match in matches:
        start = text.count(" ", 0, match.start("slot"))
        stop = start + 1 + match["slot"].count(" ")
        if kind == "place" and sentence.words[start].lower() not in taken:
            continue
        around = [(b - a, a, b) for a, b, _ in sentence.spans if a <= start and stop <= b]
        phrases = [("phrase", a, b) for size, a, b in sorted(around) if shortest <= size <= longest][:1]
        for level, a, b in [*phrases, ("sentence", 0, len(sentence.words))]:
            before, after = sentence.words[a:start], sentence.words[stop:b]
            if not _is_clean(before, after, level, taken):
                continue
            first = before[0].lower() if before and level == "phrase" else ""
            if START.fullmatch(first):
                before = [first, *before[1:]]
            left = (*before, SLOT, *after)
            right, replaced = paraphrase(left)
            if replaced >= REPLACED[level]:
                yield kind, level, Frame(left, right, f"cache:{number}")


def _is_clean(before: list[str], after: list[str], level: str, taken: Collection[str]) -> bool:
    """Tell whether what stands around a slot is plain English of the right length."""
    shortest, longest = LENGTHS[level]
    if not shortest <= len(before) + 1 + len(after) <= longest or (level == "sentence") != (
        after[-1:] == ["."]
    ):
        return False
    if level == "phrase" and {",", "."} & {*before[:1], *after[-1:]}:
        return False
    return all(WORD.fullmatch(word) and word.lower() not in taken for word in before + after)


def collect_frames(cache: TreeCache | None = None, taken: Collection[str] = ()) -> Frames:
    """Collect frames by kind and level, in the cache's order; without a cache the hand-made ones alone.

    The cache has both kinds of trees; ``taken`` is that of :func:`frames_of`.
    """
    hand_made: dict[tuple[str, str], list[Frame]] = {}
    for row in read_table(FOLDER / "frames.tsv", ("kind", "level", "left", "right")):
        kind, level, left, right = row.cells
        frame = Frame(tuple(left.split()), tuple(right.split()), f"frames:{row.line}")
        hand_made.setdefault((kind, level), []).append(frame)
    cached: dict[tuple[str, str], dict[tuple[str, ...], Frame]] = {key: {} for key in hand_made}
    with progress(total=len(cache or ()), description="contexts") as bar:
        for number, sentence in enumerate(cached_sentences(cache, 0, len(cache)) if cache else ()):
            bar.update(1)
            for kind, level, frame in frames_of(sentence, number, taken):
                cached[kind, level].setdefault(frame.left, frame)
    return {
        key: [*own.values(), *(hand_made[key] if len(own) < ENOUGH else [])] for key, own in cached.items()
    }
