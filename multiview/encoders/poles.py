"""Opposites: words with a pole and a sign, and the words of a sentence that a negation turns.

Each pair of antonyms in ``opposites.tsv`` is a pole of its own, with a nearness: the cosine of their vectors
in per cent. *Light* is opposed to *dark* and to *heavy*, by their nearness, and those two share nothing. A
form is read as its base; a word with a prefix of negation, or with -less, as its stem with the other sign if
the stem is listed: *unhappy* is minus *happy*. A negation turns its predicate: *not good* is minus *good*.

Pairs are WordNet's antonyms in the list of Mrkšić et al. (2016), without kinship, gender, colours, directions
and converses (buy | sell), with 200 of our own. English only.

Legend of dimension suffixes: N tokens, M arcs, U distinct words, S width.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpora.characters import plain
from multiview.encoders.weightless import signs_of, spellings
from parsing.trees.batch import Batch
from parsing.trees.role_rules import KIND, ROLES, WORD, word_flags
from parsing.trees.roles import Arcs, content_words, parents

HERE = Path(__file__)
POLE = 0.7
"""Of the squared length of a word that has opposites; the rest is its own spelling."""
Poles = dict[str, float]
"""Pairs of antonyms, each with a word's weight in it; the first of a pair has the sign +."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _table(name: str) -> list[dict[str, str]]:
    with open(HERE.with_name(name), encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t"))


IRREGULAR = {form: row["base"] for row in _table("irregular_verbs.tsv") for form in row["forms"].split()}
"""Of irregular verbs' forms."""
_ENDINGS = {
    "ies": ("y",),
    "ied": ("y",),
    "ier": ("y",),
    "iest": ("y",),
    "es": ("", "e"),
    "s": ("",),
    **dict.fromkeys(("ed", "ing", "er", "est"), ("", "e")),
}
_PREFIXES = ("non-", "un-", "non", "un", "dis", "in", "im", "ir", "il")
_ADJECTIVES = tuple(_words("able ible ent ant al ate ary ic ive ous ite ect ure ly"))
"""Only before such stems are in-, im-, ir-, il- and dis- negations where the list has no such pair."""
_WHOLE = _words("unless invaluable impassive indifferent")
"""Words that only seem to have a prefix of negation."""


@cache
def antonyms() -> dict[str, dict[str, float]]:
    """Return the antonyms of each word, with their nearness from 0 to 1."""
    opposites: dict[str, dict[str, float]] = {}
    for row in _table("opposites.tsv"):
        for one, other in ((row["one"], row["other"]), (row["other"], row["one"])):
            opposites.setdefault(one, {})[other] = int(row["nearness"]) / 100
    return opposites


def bases(word: str) -> list[str]:
    """List what a word in lower case may be a form of: itself, its irregular base, it without endings."""
    forms = [word, *([IRREGULAR[word]] if word in IRREGULAR else [])]
    for ending, letters in _ENDINGS.items():
        stem = word.removesuffix(ending)
        if len(stem) > 2 and stem != word:
            forms += [stem + more for more in letters]
            if len(ending) > 1 and stem[-1] == stem[-2]:
                forms.append(stem[:-1])  # bigger, stopping
    return forms


@cache
def signed(word: str) -> tuple[str, int]:
    """Find the base of a word and its sign: (happy, -1) of *unhappier*; other words keep their form."""
    known = antonyms()
    base = next((base for base in bases(word) if base in known), "")
    for form in [base] if base else bases(word):
        stem = _stem(form)
        if stem:
            return stem, -1
    return base or IRREGULAR.get(word, word), 1


def _stem(word: str) -> str:
    """Return the known word that a prefix of negation or -less turns into ``word``; "" if there is none."""
    known, pairs = antonyms(), antonyms().get(word, {})
    if word in _WHOLE:
        return ""
    for prefix in _PREFIXES:
        stem = word.removeprefix(prefix)
        if stem == word or len(stem) < 3:
            continue
        free = prefix.startswith(("un", "non")) or (len(stem) > 4 and stem.endswith(_ADJECTIVES))
        if stem in pairs or (free and not pairs and any(base in known for base in bases(stem))):
            return stem if stem in known else next(base for base in bases(stem) if base in known)
    if word.endswith("less"):
        return next((stem for stem in (word[:-4] + "ful", word[:-4]) if stem in pairs), "")
    return ""


@cache
def _poles() -> dict[str, Poles]:
    """Give each base its own pairs and those of the words that are its negation."""
    poles_of: dict[str, Poles] = {}
    for row in _table("opposites.tsv"):
        (one, one_sign), (other, other_sign) = signed(row["one"]), signed(row["other"])
        if one != other:
            pole, near = f"{row['one']}|{row['other']}", int(row["nearness"]) / 100
            poles_of.setdefault(one, {})[pole] = one_sign * near
            poles_of.setdefault(other, {})[pole] = -other_sign * near
    lengths = {base: sum(near**2 for near in pairs.values()) ** 0.5 for base, pairs in poles_of.items()}
    return {
        base: {pole: near / lengths[base] for pole, near in pairs.items()} for base, pairs in poles_of.items()
    }


def poles(base: str) -> Poles:
    """Return the poles of a base, with its weight in each; the squares of all weights sum to 1."""
    return _poles().get(base, {})


def has_opposite(word: str) -> bool:
    """Tell whether a word in lower case has an opposite."""
    base, sign = signed(word)
    return sign < 0 or base in antonyms()


def agreement(one: str, other: str) -> int:
    """Give -1 for words in lower case that are opposed, 1 where they share a pole otherwise, else 0."""
    (a, a_sign), (b, b_sign) = signed(one), signed(other)
    if a == b:
        return a_sign * b_sign
    theirs = poles(b)
    shared = sum(weight * theirs[pole] for pole, weight in poles(a).items() if pole in theirs)
    return int(np.sign(shared)) * a_sign * b_sign


def spelt(types: Sequence[str], width: int) -> NDArray[np.float32]:
    """Place words, at length 1, by their spelling, and those with opposites by their poles too: [U, S]."""
    read = [signed(plain(word).lower()) for word in types]
    own_US = spellings([base for base, _ in read], width)
    own_US /= np.maximum(np.linalg.norm(own_US, axis=1, keepdims=True), 1e-12)
    own_US *= np.array([sign for _, sign in read], np.float32).reshape(-1, 1)
    places: dict[str, int] = {}
    weights = [
        (place, places.setdefault(pole, len(places)), sign * share * POLE**0.5)
        for place, (base, sign) in enumerate(read)
        for pole, share in poles(base).items()
    ]
    if weights:
        row, pole, weight = (np.array(part) for part in zip(*weights, strict=True))
        own_US[np.unique(row)] *= (1 - POLE) ** 0.5
        np.add.at(own_US, row, weight.astype(np.float32)[:, None] * signs_of(list(places), width)[pole])
    return own_US


# Negation.


class Negation(IntEnum):
    """How a word denies, with an example of what it turns."""

    NO = 1
    """The verb of its noun: *no* man came is minus came."""
    NOBODY = 2
    """Its head: *nobody* came is minus came."""
    NOT = 3
    """What it is meant for: *not* very good is minus good."""
    PARTICLE = 4
    """Its object, or its head: *without* milk is minus milk, turn *off* minus turn."""


PARTICLES = {"off": "on", "down": "up"}
"""Particles, each with its opposite."""
_NEGATIONS = {
    "no": Negation.NO,
    **dict.fromkeys(_words("nobody nothing none nowhere no-one"), Negation.NOBODY),
    **dict.fromkeys(_words("not n't nt never hardly scarcely barely neither nor cannot"), Negation.NOT),
    **dict.fromkeys(("without", *PARTICLES), Negation.PARTICLE),
}
"""Words that turn others. Particles are the second of with | without, on | off and up | down."""
_SKIPPED = _words("only just merely necessarily")
"""After which *not* denies nothing."""
_EVERY = _words("all every each everyone everybody everything everywhere always both many much")
"""Words by whose denial the whole is denied: not all came."""
REACH = 200
"""Dependents are looked for so many tokens around their head."""
_RAISING = _words("think believe suppose expect seem want appear feel look guess imagine")
"""Verbs whose negation is meant for the clause below them."""
_ARGUMENT = KIND.SUBJECT | KIND.OBJECT
_ABOVE = KIND.ADVERB | KIND.DETERMINER | KIND.AUXILIARY | KIND.COPULA
"""Relations of words that a negation stands with though it is meant for what they belong to."""
_THAN = ROLES.index("than")


def spoken_content(
    relation: NDArray[np.int64], types: Sequence[str], word_N: NDArray[np.integer]
) -> NDArray[np.int64]:
    """Return the content words, without those that deny and name nothing: int64 [K]."""
    denying = np.array([_NEGATIONS.get(word.lower()) in (Negation.NO, Negation.NOT) for word in types], bool)
    content = content_words(relation, types, word_N)
    spoken: NDArray[np.int64] = content[~denying[word_N[content]]]
    return spoken


def turned(
    batch: Batch,
    relation: NDArray[np.int64],
    types: Sequence[str],
    word_N: NDArray[np.integer],
    arcs: Arcs,
    *,
    particles: bool = True,
) -> NDArray[np.int8]:
    """Return the sign of each token: -1 where it is denied an odd number of times, int8 [N].

    A comparison with *less* or *not as* gives the arcs of that with *more*, so its words are not turned.
    ``relation`` [N] are bits, ``types`` the distinct words in plain characters; ``particles`` says whether
    those of :data:`PARTICLES` turn words, too.
    """
    lower = [word.lower() for word in types]
    negations = [_NEGATIONS.get(word, 0) if particles or word not in PARTICLES else 0 for word in lower]
    negation_N = np.array(negations, np.int8)[word_N]
    sentence = _Tokens(parents(batch.head, batch.sentence_offsets), relation, lower, word_N)
    sign_N = np.ones(len(word_N), np.int8)
    for token in np.flatnonzero(negation_N).tolist():
        for target in sentence.denied(token, int(negation_N[token])):
            sign_N[target] *= -1
    compared = arcs.role == _THAN
    for more in arcs.head[compared].tolist():
        marks = {sentence.word(child) for child in sentence.below(more)} & {"than", "as"}
        above = sentence.above[more]
        for word in [above, sentence.above[above]] if marks and above >= 0 else []:
            if word >= 0 and "as" in marks:
                sign_N[word] = 1
            elif word >= 0 and word_flags([sentence.word(word)])[0] & WORD.LESS:
                sign_N[word] = -1  # younger than he: minus young
    return sign_N


@dataclass(frozen=True)
class _Tokens:
    """A batch's trees, as the rules of negation ask for them; tokens are places in the batch, -1 is none."""

    above: NDArray[np.int64]
    relation: NDArray[np.int64]
    lower: list[str]
    word_N: NDArray[np.integer]

    def word(self, token: int) -> str:
        """Give the word in lower case; "" where there is none."""
        return self.lower[self.word_N[token]] if 0 <= token < len(self.word_N) else ""

    def below(self, token: int, kinds: int | None = None) -> list[int]:
        """Return the dependents of a token, all or those of some kinds of relations."""
        start = max(token - REACH, 0)
        dependents = [start + int(k) for k in np.flatnonzero(self.above[start : token + REACH] == token)]
        return dependents if kinds is None else [k for k in dependents if self.relation[k] & kinds]

    def denied(self, token: int, negation: int) -> list[int]:
        """Return the tokens that a negation turns: its predicate, and what *or* joins to that."""
        head, following = int(self.above[token]), self.word(token + 1)
        answers = negation == Negation.NO and not self.relation[token] & KIND.DETERMINER  # No, thanks
        if head < 0 or answers or (negation == Negation.NOT and following in _SKIPPED):
            return []
        if negation == Negation.PARTICLE:
            objects = self.below(token, KIND.PREPOSITIONAL_OBJECT)
            return [] if following == "of" else [objects[0] if objects else head]
        predicate = head
        if negation == Negation.NOT:
            predicate = self._meant(token, head)
        elif negation == Negation.NO:
            predicate = self._predicate(head)
        if predicate < 0:
            return []
        complements = self.below(predicate, KIND.COMPLEMENT)
        if complements and signed(self.word(predicate))[0] in _RAISING:
            predicate = complements[0]
        predicates = [predicate, *filter(self._joined_by_or, self.below(predicate, KIND.CONJUNCT))]
        if negation == Negation.NO and self.below(predicate, KIND.EXPLETIVE):  # there is no man playing
            predicates += self.below(head, KIND.PARTICIPLE | KIND.RELATIVE)
        return predicates

    def _meant(self, token: int, denied: int) -> int:
        """Find what *not* at ``token`` under ``denied`` turns: not very good, not all came, neither came."""
        for _ in range(3):
            up = int(self.above[denied])
            if up < 0 or not self.relation[denied] & _ABOVE:
                break
            denied = self._predicate(up) if self.relation[denied] & KIND.DETERMINER else up
        if self.word(token) == "nor":
            noun = self.relation[denied] & KIND.CONJUNCT and self.relation[self.above[denied]] & _ARGUMENT
            return -1 if noun else denied  # neither he nor she came: once is enough
        of_noun = self.word(token) == "neither" or self.relation[token] & KIND.DETERMINER
        if of_noun or self.word(denied) in _EVERY:
            return self._predicate(denied)
        # Of a noun that is a predicate an attribute may be turned: not a *young* man.
        attributes = self.below(denied, KIND.ATTRIBUTE) if self.below(denied, KIND.COPULA) else []
        return next((k for k in attributes if has_opposite(self.word(k))), denied)

    def _predicate(self, noun: int) -> int:
        """Return the verb whose subject or object a noun is, or the noun."""
        up = int(self.above[noun])
        return up if up >= 0 and self.relation[noun] & _ARGUMENT else noun

    def _joined_by_or(self, conjunct: int) -> bool:
        words = {self.word(k) for k in self.below(conjunct)}
        return "or" in words and not self.below(conjunct, _ARGUMENT)
