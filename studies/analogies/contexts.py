"""Contexts of words: constituents and sentences of a tree cache with a slot, and their paraphrases.

A frame is a text with one slot and a paraphrase of it with the same slot:

    left   the streets of _        right   the roads of _

Questions mix the two sides, so shared words do not give the answer away (:mod:`texts`). Slots are found by
their parse:

    place      NNP of the lexicon after a preposition
    person     subject noun phrase before a past-tense verb or a modal (no agreement of number)
    verb       verb without object or clause; in sentences the main verb of a plural subject
    adjective  JJ between "the", "this", ... and a noun
    predicate  JJ with a copula and no complement

A phrase is the smallest constituent of 3 to 7 words around the slot; sentences have 5 to 18 words. The
paraphrase replaces every word that has a synonym (``synonyms.tsv``): at least one in a phrase, two in a
sentence. If there is no cache or it gives too few frames, ``frames.tsv`` adds hand-made ones.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from corpora.rows import read_table
from studies.analogies.lexicon import FOLDER, content_words, load_synonyms

if TYPE_CHECKING:
    from parsing.cache.reader import TreeCache
    from parsing.sentences import ParsedSentence

SLOT = "_"
LENGTHS = {"phrase": (3, 7), "sentence": (5, 18)}
REPLACED = {"phrase": 1, "sentence": 2}
KINDS = ("place", "person", "verb", "adjective", "predicate")
ENOUGH = 12
"""Frames per kind and level below which the hand-made ones are added."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PREPOSITIONS = _words("in from to near of through across around toward outside")
_DETERMINERS = _words("the this that these those my our their its your")
_DEGREE = _words("so as too more most less least a an")
_STARTS = _PREPOSITIONS | _DETERMINERS | _words("a an he she they we it if when as")
_PLURAL = _words("they we you these those")
_WORD = re.compile(r"[A-Za-z]+(-[A-Za-z]+)*|[A-Za-z]*'[a-z]+|,|\.")
_COMPLEMENTS = _words("obj iobj ccomp xcomp aux cop advmod:neg expl nsubj:pass compound:prt conj cc")
_CLAUSES = _words("root advcl xcomp ccomp acl:relcl conj parataxis")


@dataclass(frozen=True, slots=True)
class Frame:
    """A context and its paraphrase, each with one slot."""

    left: tuple[str, ...]
    right: tuple[str, ...]
    source: str
    """``cache:NUMBER`` of the sentence, or ``frames:LINE`` of the hand-made file."""


def fill(frame: tuple[str, ...], filler: str) -> str:
    """The text with ``filler`` in the slot, capitalised if it ends in a full stop."""
    text = " ".join(filler if word == SLOT else word for word in frame)
    return text[0].upper() + text[1:] if frame[-1] == "." else text


def paraphrase(words: tuple[str, ...]) -> tuple[tuple[str, ...], int]:
    """Replace words by their synonyms and adjust "a" and "an"; also the number of replaced words."""
    synonyms = load_synonyms()
    out: list[str] = []
    replaced = 0
    for place, word in enumerate(words):
        # A capital inside a sentence is a name: "the Opera House" stays.
        new = synonyms.get(word.lower()) if place == 0 or word.islower() else None
        replaced += new is not None
        if new is not None and out and out[-1].lower() in ("a", "an"):
            out[-1] = ("an" if new[0] in "aeiou" else "a") if out[-1].islower() else out[-1]
        out += [word] if new is None else new.split()
    return tuple(out), replaced


def frames_of(sentence: ParsedSentence, number: int) -> Iterator[tuple[str, str, Frame]]:
    """All frames of one sentence as (kind, level, frame)."""
    if sentence.flags or sentence.heads is None or sentence.spans is None or len(sentence.words) > 60:
        return
    for kind in KINDS:
        for start, stop, whole in SLOTS[kind](sentence):
            shortest, longest = LENGTHS["phrase"]
            around = [
                (b - a, a, b)
                for a, b, _ in sentence.spans
                if a <= start and stop <= b and shortest <= b - a <= longest
                if kind != "verb" or a == start  # a verb phrase: nothing fixes its form from the left
            ]
            places = [("phrase", *min(around)[1:])] if around else []
            places += [("sentence", 0, len(sentence.words))] if whole else []
            for level, a, b in places:
                frame = _frame(sentence.words, (a, b), (start, stop), level, number)
                if frame is not None:
                    yield kind, level, frame


def _frame(
    words: list[str], span: tuple[int, int], slot: tuple[int, int], level: str, number: int
) -> Frame | None:
    """The frame of a span, or None if it is not clean English of the right length."""
    before, after = words[span[0] : slot[0]], words[slot[1] : span[1]]
    if not LENGTHS[level][0] <= len(before) + 1 + len(after) <= LENGTHS[level][1]:
        return None
    if (level == "sentence") != bool(after and after[-1] == "."):
        return None
    outside = before + after
    if not all(_WORD.fullmatch(word) and word.lower() not in content_words() for word in outside):
        return None
    if level == "phrase" and {",", "."} & {words[span[0]], words[span[1] - 1]}:
        return None
    if before and span[0] == 0 and level == "phrase" and before[0].lower() in _STARTS:
        before = [before[0].lower(), *before[1:]]
    left = (*before, SLOT, *after)
    right, replaced = paraphrase(left)
    return Frame(left, right, f"cache:{number}") if replaced >= REPLACED[level] else None


Slots = Iterator[tuple[int, int, bool]]
"""First word, one past the last, and whether the whole sentence is a possible context too."""


def _dependents(sentence: ParsedSentence, token: int) -> set[str]:
    assert sentence.heads is not None and sentence.relations is not None
    return {r for r, head in zip(sentence.relations, sentence.heads, strict=True) if head == token + 1}


def _places(sentence: ParsedSentence) -> Slots:
    tags, words = sentence.tags or [], sentence.words
    for t in range(1, len(words) - 1):
        known = words[t].lower() in content_words() and tags[t] == "NNP"
        if known and words[t - 1].lower() in _PREPOSITIONS and tags[t + 1] not in ("NNP", "NNPS", "POS", ","):
            yield t, t + 1, True


def _persons(sentence: ParsedSentence) -> Slots:
    assert sentence.relations is not None and sentence.spans is not None
    tags, words = sentence.tags or [], sentence.words
    for a, b, label in sentence.spans:
        if not label.endswith("NP") or b - a > 3 or b >= len(words) or tags[b] not in ("VBD", "MD"):
            continue
        noun = tags[b - 1] in ("NN", "NNS") and words[a].lower() in _DETERMINERS | {"a", "an", "his", "her"}
        pronoun = b - a == 1 and words[a].lower() in ("he", "she", "they", "i", "we")
        if (
            (noun or pronoun)
            and sentence.relations[b - 1] == "nsubj"
            and words[b].lower() not in ("was", "were")
        ):
            yield a, b, True


def _verbs(sentence: ParsedSentence) -> Slots:
    assert sentence.heads is not None and sentence.relations is not None
    tags, words = sentence.tags or [], sentence.words
    for t, tag in enumerate(tags):
        if tag not in ("VB", "VBP", "VBD", "VBG") or _dependents(sentence, t) & _COMPLEMENTS:
            continue
        subjects = [
            s
            for s, (r, h) in enumerate(zip(sentence.relations, sentence.heads, strict=True))
            if r == "nsubj" and h == t + 1
        ]
        plural = any(tags[s] == "NNS" or words[s].lower() in _PLURAL for s in subjects)
        if sentence.relations[t] in _CLAUSES and t + 1 < len(words) and tags[t + 1] in ("IN", "RB"):
            yield t, t + 1, plural and tag in ("VBP", "VBD") and sentence.heads[t] == 0


def _adjectives(sentence: ParsedSentence) -> Slots:
    tags, words = sentence.tags or [], sentence.words
    for t in range(1, len(words) - 1):
        if words[t - 1].lower() in _DETERMINERS and tags[t] == "JJ" and tags[t + 1] in ("NN", "NNS"):
            yield t, t + 1, True


def _predicates(sentence: ParsedSentence) -> Slots:
    tags, words = sentence.tags or [], sentence.words
    for t in range(1, len(words)):
        if (
            tags[t] != "JJ"
            or words[t - 1].lower() in _DEGREE
            or tags[t - 1] not in ("VBZ", "VBD", "VBP", "RB")
        ):
            continue
        relations = _dependents(sentence, t)
        if "cop" in relations and not relations & {"xcomp", "ccomp", "advcl", "obl", "csubj", "conj"}:
            yield t, t + 1, True


SLOTS: dict[str, Callable[[ParsedSentence], Slots]] = {
    "place": _places,
    "person": _persons,
    "verb": _verbs,
    "adjective": _adjectives,
    "predicate": _predicates,
}

Frames = dict[tuple[str, str], list[Frame]]
"""By kind and level."""


def hand_made() -> Frames:
    """The frames of ``frames.tsv``."""
    frames: Frames = {(kind, level): [] for kind in KINDS for level in LENGTHS}
    for row in read_table(FOLDER / "frames.tsv", ("kind", "level", "left", "right")):
        kind, level, left, right = row.cells
        frames[kind, level].append(Frame(tuple(left.split()), tuple(right.split()), f"frames:{row.line}"))
    return frames


def collect_frames(cache: TreeCache | None, limit: int) -> tuple[Frames, Counter[str]]:
    """Frames by kind and level, in the cache's order, and how many came from where.

    Args:
        cache: a tree cache with both kinds of trees, or None for the hand-made frames alone.
        limit: most sentences to read.
    """
    found: dict[tuple[str, str], dict[tuple[str, ...], Frame]] = {}
    if cache is not None:
        from corpora.support.progress import progress
        from parsing.sentences import cached_sentences

        count = min(limit, len(cache))
        with progress(total=count, description="contexts") as bar:
            for number, sentence in enumerate(cached_sentences(cache, 0, count)):
                bar.update(1)
                for kind, level, frame in frames_of(sentence, number):
                    found.setdefault((kind, level), {}).setdefault(frame.left, frame)
    frames: Frames = {}
    counts: Counter[str] = Counter()
    for key, extra in hand_made().items():
        own = list(found.get(key, {}).values())
        frames[key] = own if len(own) >= ENOUGH else own + extra
        counts.update(f"{' '.join(key)} from {frame.source.split(':')[0]}" for frame in frames[key])
    return frames, counts
