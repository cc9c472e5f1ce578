"""Find contexts of words: constituents and sentences of a tree cache with a slot, and paraphrases.

A frame is a text with one slot and a paraphrase of it with the same slot:

    left   the streets of _        right   the roads of _

Slots are found by their tags and relations:

    place      a name of the lexicon after a preposition
    person     a subject before a past-tense verb or a modal (no agreement of number)
    verb       the main verb, after a plural subject and before a preposition or adverb
    adjective  between "the", "this", ... and a noun
    predicate  the sentence's head, after a copula

A phrase is the smallest constituent of 3 to 7 words around the slot. The paraphrase replaces every word that
has a synonym (``synonyms.tsv``). Where a cache gives too few frames, ``frames.tsv`` adds hand-made ones.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from corpora.inputs import read_table
from parsing.trees.cache import TreeCache
from parsing.trees.sentences import ParsedSentence, cached_sentences
from runtime.progress import progress

FOLDER = Path(__file__).parent
SLOT = "_"
LENGTHS = {"phrase": range(3, 8), "sentence": range(5, 19)}
"""Lengths in words; the slot counts as one."""
LEAST_SYNONYMS = {"phrase": 1, "sentence": 2}
ENOUGH_FRAMES = 12
"""Frames per kind and level below which the hand-made ones are added."""
LONGEST_SENTENCE = 60
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


SYNONYMS = {
    row.cells[0]: row.cells[1]
    for row in read_table(FOLDER / "synonyms.tsv", ("word", "synonym"), unique=True)
}


def paraphrase(words: tuple[str, ...]) -> tuple[tuple[str, ...], int]:
    """Replace words by their synonyms and adjust "a" and "an"; count the synonyms."""
    new_words: list[str] = []
    count = 0
    for place, word in enumerate(words):
        # A capital inside a sentence is a name: "the Opera House" stays.
        synonym = SYNONYMS.get(word.lower()) if place == 0 or word.islower() else None
        if synonym is None:
            new_words.append(word)
            continue
        count += 1
        if new_words and new_words[-1] in ("a", "an"):
            new_words[-1] = "an" if synonym[0] in "aeiou" else "a"
        new_words += synonym.split()
    return tuple(new_words), count


def frames_of(
    sentence: ParsedSentence, number: int, reserved_words: Collection[str]
) -> Iterator[tuple[str, str, Frame]]:
    """Yield all frames of one sentence of a cache, by its number there, as (kind, level, frame).

    A sentence that a parser could not take gives none. ``reserved_words`` are lower-case words of the
    questions, which no context may hold outside its slot.
    """
    words = sentence.words
    if sentence.flags or sentence.spans is None or len(words) > LONGEST_SENTENCE:
        return
    columns = zip(words, sentence.tags or (), sentence.relations or (), strict=True)
    text = " ".join(f"{word.lower()}/{tag}/{relation}" for word, tag, relation in columns)
    for kind, pattern in SLOTS.items():
        for match in re.finditer(rf"(?<!\S){pattern}", text):
            start = text.count(" ", 0, match.start("slot"))
            stop = start + 1 + match["slot"].count(" ")
            if kind == "place" and words[start].lower() not in reserved_words:
                continue
            constituents = [(b - a, a, b) for a, b, _ in sentence.spans if a <= start and stop <= b]
            phrases = [("phrase", a, b) for size, a, b in sorted(constituents) if size in LENGTHS["phrase"]]
            for level, a, b in [*phrases[:1], ("sentence", 0, len(words))]:
                frame = _frame(words[a:start], words[stop:b], level, reserved_words)
                if frame is not None:
                    yield kind, level, Frame(*frame, f"cache:{number}")


def _frame(
    before: list[str], after: list[str], level: str, reserved_words: Collection[str]
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Make both wordings of what stands around a slot, if it is plain English of the right length."""
    ends_sentence = after[-1:] == ["."]
    if len(before) + 1 + len(after) not in LENGTHS[level] or ends_sentence != (level == "sentence"):
        return None
    if level == "phrase" and {",", "."} & {*before[:1], *after[-1:]}:
        return None
    if not all(WORD.fullmatch(word) and word.lower() not in reserved_words for word in before + after):
        return None
    if level == "phrase" and before and START.fullmatch(before[0].lower()):
        before = [before[0].lower(), *before[1:]]
    left = (*before, SLOT, *after)
    right, count = paraphrase(left)
    return (left, right) if count >= LEAST_SYNONYMS[level] else None


def collect_frames(cache: TreeCache | None = None, reserved_words: Collection[str] = ()) -> Frames:
    """Collect frames by kind and level, in the cache's order; without a cache the hand-made ones alone.

    The cache has both kinds of trees; ``reserved_words`` are those of :func:`frames_of`.
    """
    hand_made: dict[tuple[str, str], list[Frame]] = {}
    for row in read_table(FOLDER / "frames.tsv", ("kind", "level", "left", "right")):
        kind, level, left, right = row.cells
        frame = Frame(tuple(left.split()), tuple(right.split()), f"frames:{row.line}")
        hand_made.setdefault((kind, level), []).append(frame)
    # Of equal texts the first one counts.
    frames_by_text: dict[tuple[str, str], dict[tuple[str, ...], Frame]] = {key: {} for key in hand_made}
    with progress(total=len(cache or ()), description="contexts") as bar:
        for number, sentence in enumerate(cached_sentences(cache, 0, len(cache)) if cache else ()):
            bar.update(1)
            for kind, level, frame in frames_of(sentence, number, reserved_words):
                frames_by_text[kind, level].setdefault(frame.left, frame)
    return {
        key: [*frames.values(), *(hand_made[key] if len(frames) < ENOUGH_FRAMES else [])]
        for key, frames in frames_by_text.items()
    }
