"""Opposites: words with a pole and a sign, and the words of a sentence that a negation turns.

Each pair of antonyms in ``opposites.tsv`` is a pole of its own, with a nearness: the cosine of their vectors
in per cent. *Light* is opposed to *dark* and to *heavy*, by their nearness, and those two share nothing. A
form is read as its base. A word with a prefix of negation, or with -less, is read as its stem with the other
sign if the stem is listed: *unhappy* is minus *happy*. A negation turns its predicate: *not good* is minus
*good*.

Pairs are WordNet's antonyms in the list of Mrkšić et al. (2016), without kinship, gender, colours, directions
and converses (buy | sell), with 200 of our own. English only.

Legend of dimension suffixes: N tokens, M arcs, U distinct words, S width.
"""

import csv
from collections.abc import Sequence
from enum import IntEnum
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpora.characters import plain
from multiview.encoders.weightless import sign_vectors, spellings
from parsing.trees.batch import Batch
from parsing.trees.role_rules import KIND, ROLE, WORD, relation_bits, word_flags
from parsing.trees.roles import Arcs, canonical_arcs, content_words, parents

POLE_SHARE = 0.7
"""The share of its poles in the squared length of a word that has opposites; its spelling has the rest."""
Poles = dict[str, float]
"""Pairs of antonyms, each with a word's weight in it; the first of a pair has the sign +."""


def _words(text: str) -> set[str]:
    return set(text.split())


def _read_table(name: str) -> list[dict[str, str]]:
    with open(Path(__file__).with_name(name), encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t"))


BASE_OF_IRREGULAR = {
    form: row["base"] for row in _read_table("irregular_verbs.tsv") for form in row["forms"].split()
}
"""The base of each form of an irregular verb."""
_ENDINGS = {
    **dict.fromkeys(("ies", "ied", "ier", "iest"), ("y",)),
    "es": ("", "e"),
    "s": ("",),
    **dict.fromkeys(("ed", "ing", "er", "est"), ("", "e")),
}
"""Endings of forms, and the letters that a base may have in their place."""
_PREFIXES = ("non-", "un-", "non", "un", "dis", "in", "im", "ir", "il")
_ADJECTIVE_ENDINGS = tuple(_words("able ible ent ant al ate ary ic ive ous ite ect ure ly"))
"""Only before such stems are in-, im-, ir-, il- and dis- negations where the list has no such pair."""
_WORDS_WITHOUT_PREFIX = {"unless", "invaluable", "impassive", "indifferent"}
"""Words that only seem to have a prefix of negation."""


@cache
def antonyms() -> dict[str, set[str]]:
    """Return the antonyms of each word."""
    antonyms_of_word: dict[str, set[str]] = {}
    for row in _read_table("opposites.tsv"):
        antonyms_of_word.setdefault(row["one"], set()).add(row["other"])
        antonyms_of_word.setdefault(row["other"], set()).add(row["one"])
    return antonyms_of_word


def possible_bases(word: str) -> list[str]:
    """List what a word in lower case may be a form of: itself, its irregular base, it without endings."""
    bases = [word]
    if word in BASE_OF_IRREGULAR:
        bases.append(BASE_OF_IRREGULAR[word])
    for ending, replacements in _ENDINGS.items():
        stem = word.removesuffix(ending)
        if stem == word or len(stem) < 3:
            continue
        bases += [stem + letters for letters in replacements]
        if len(ending) > 1 and stem[-1] == stem[-2]:
            bases.append(stem[:-1])  # bigger, stopping
    return bases


def _listed_base(word: str) -> str:
    """Return the first possible base of a word that has antonyms; "" if there is none."""
    return next((base for base in possible_bases(word) if base in antonyms()), "")


@cache
def base_and_sign(word: str) -> tuple[str, int]:
    """Find the base of a word and its sign: (happy, -1) of *unhappier*; other words keep their form."""
    base = _listed_base(word)
    for form in [base] if base else possible_bases(word):
        stem = _negated_stem(form)
        if stem:
            return stem, -1
    return base or BASE_OF_IRREGULAR.get(word, word), 1


def _negated_stem(word: str) -> str:
    """Return the listed word that ``word`` negates by a prefix or by -less; "" if there is none."""
    if word in _WORDS_WITHOUT_PREFIX:
        return ""
    opposites = antonyms().get(word, set())
    for prefix in _PREFIXES:
        stem = word.removeprefix(prefix)
        if stem == word or len(stem) < 3:
            continue
        is_adjective = len(stem) > 4 and stem.endswith(_ADJECTIVE_ENDINGS)
        may_negate = not opposites and (prefix.startswith(("un", "non")) or is_adjective)
        if stem in opposites or (may_negate and _listed_base(stem)):
            return _listed_base(stem)
    root = word.removesuffix("less")
    if root != word:
        return next((stem for stem in (root + "ful", root) if stem in opposites), "")
    return ""


@cache
def _poles_by_base() -> dict[str, Poles]:
    """Collect the pairs of each base, its own and those of the words that negate it, with their nearness."""
    poles_by_base: dict[str, Poles] = {}
    for row in _read_table("opposites.tsv"):
        first, first_sign = base_and_sign(row["one"])
        second, second_sign = base_and_sign(row["other"])
        if first != second:
            pole = f"{row['one']}|{row['other']}"
            nearness = int(row["nearness"]) / 100
            poles_by_base.setdefault(first, {})[pole] = first_sign * nearness
            poles_by_base.setdefault(second, {})[pole] = -second_sign * nearness
    return poles_by_base


@cache
def poles(base: str) -> Poles:
    """Return the poles of a base, with its weight in each; the squares of all weights sum to 1."""
    nearness_by_pole = _poles_by_base().get(base, {})
    length = sum(nearness**2 for nearness in nearness_by_pole.values()) ** 0.5
    return {pole: nearness / length for pole, nearness in nearness_by_pole.items()}


def has_opposite(word: str) -> bool:
    """Tell whether a word in lower case has an opposite."""
    base, sign = base_and_sign(word)
    return sign < 0 or base in antonyms()


def agreement(first: str, second: str) -> int:
    """Return -1 for words in lower case that are opposed, 1 if they share a pole otherwise, else 0."""
    first_base, first_sign = base_and_sign(first)
    second_base, second_sign = base_and_sign(second)
    if first_base == second_base:
        return first_sign * second_sign
    second_weights = poles(second_base)
    product = sum(weight * second_weights.get(pole, 0.0) for pole, weight in poles(first_base).items())
    return int(np.sign(product)) * first_sign * second_sign


def signed_spellings(types: Sequence[str], width: int) -> NDArray[np.float32]:
    """Return vectors of words at length 1, [U, S]: their spelling, and the poles of those with opposites."""
    readings = [base_and_sign(word.lower()) for word in types]
    vectors_US = spellings([base for base, _ in readings], width)
    vectors_US /= np.maximum(np.linalg.norm(vectors_US, axis=1, keepdims=True), 1e-12)
    vectors_US *= np.array([sign for _, sign in readings], np.float32).reshape(-1, 1)
    column_of_pole: dict[str, int] = {}
    entries = [
        (row, column_of_pole.setdefault(pole, len(column_of_pole)), sign * weight * POLE_SHARE**0.5)
        for row, (base, sign) in enumerate(readings)
        for pole, weight in poles(base).items()
    ]
    if entries:
        rows, columns, weights = (np.array(values) for values in zip(*entries, strict=True))
        vectors_US[np.unique(rows)] *= (1 - POLE_SHARE) ** 0.5
        pole_vectors = sign_vectors(list(column_of_pole), width)[columns]
        np.add.at(vectors_US, rows, weights.astype(np.float32)[:, None] * pole_vectors)
    return vectors_US


# Negation.


class Negation(IntEnum):
    """The kinds of words that deny, each with an example of what it turns."""

    NO = 1
    """Turns the verb of its noun: *no* man came is minus came."""
    NOBODY = 2
    """Turns its head: *nobody* came is minus came."""
    NOT = 3
    """Turns what it is meant for: *not* very good is minus good."""
    PARTICLE = 4
    """Turns its object, or its head: *without* milk is minus milk, turn *off* minus turn."""


PARTICLES = {"off": "on", "down": "up"}
"""Particles, each with its opposite."""
_NEGATIONS = {
    "no": Negation.NO,
    **dict.fromkeys(_words("nobody nothing none nowhere no-one"), Negation.NOBODY),
    **dict.fromkeys(_words("not n't nt never hardly scarcely barely neither nor cannot"), Negation.NOT),
    **dict.fromkeys(("without", *PARTICLES), Negation.PARTICLE),
}
"""Words that turn others. Particles are the second of with | without, on | off and up | down."""
_WORDS_AFTER_IDLE_NOT = {"only", "just", "merely", "necessarily"}
"""Before these *not* denies nothing."""
_UNIVERSAL_WORDS = _words("all every each everyone everybody everything everywhere always both many much")
"""To deny one of these is to deny the predicate: not all came."""
REACH = 200
"""How many tokens before and after a head its dependents are looked for."""
_RAISING_VERBS = _words("think believe suppose expect seem want appear feel look guess imagine")
"""Verbs whose negation is meant for the clause below them."""
_ARGUMENT = KIND.SUBJECT | KIND.OBJECT
_MODIFIER = KIND.ADVERB | KIND.DETERMINER | KIND.AUXILIARY | KIND.COPULA
"""Relations of words that a negation stands with though it is meant for what they belong to."""


class WordTrees:
    """The words of a batch in their dependency trees, with the rules of negation.

    ``types`` are the distinct words in plain characters, ``word_N`` each token's place among them,
    ``relation_N`` bits of :mod:`parsing.trees.role_rules`. Tokens are places in the batch, -1 is none.
    """

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        words, self.word_N = batch.distinct_words()
        self.types = list(map(plain, words))
        self.lower_types = [word.lower() for word in self.types]
        self.relation_N = relation_bits(batch.relations)[batch.relation]
        self.parent_N = parents(batch.head, batch.sentence_offsets)

    def canonical_arcs(self) -> Arcs:
        """Return who did what to whom, by :mod:`parsing.trees.roles`, but for negation: it turns signs."""
        flags_N = word_flags(self.types)[self.word_N]
        return canonical_arcs(
            self.batch.head, self.relation_N, flags_N, self.batch.sentence_offsets, with_negation=False
        )

    def sentences_of(self, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sentence of each of some tokens, as its place in the batch."""
        return np.searchsorted(self.batch.sentence_offsets, tokens, side="right") - 1

    def content_tokens(self) -> NDArray[np.int64]:
        """Return the content words, without those that deny and name nothing: int64 [K]."""
        negates = [_NEGATIONS.get(word) in (Negation.NO, Negation.NOT) for word in self.lower_types]
        tokens = content_words(self.relation_N, self.types, self.word_N)
        content: NDArray[np.int64] = tokens[~np.array(negates, bool)[self.word_N[tokens]]]
        return content

    def negation_signs(self, arcs: Arcs, *, with_particles: bool = True) -> NDArray[np.int8]:
        """Return the sign of each token: -1 where it is denied an odd number of times, int8 [N].

        ``with_particles`` says whether :data:`PARTICLES` turn words, too. A comparison with *less* or *not
        as* gives the arcs of that with *more*, so its words are not turned, if it is among ``arcs``.
        """
        idle_words = set() if with_particles else PARTICLES.keys()
        negations = [0 if word in idle_words else _NEGATIONS.get(word, 0) for word in self.lower_types]
        negation_N = np.array(negations, np.int8)[self.word_N]
        sign_N = np.ones(len(self.word_N), np.int8)
        for token in np.flatnonzero(negation_N).tolist():
            for target in self._denied_tokens(token, int(negation_N[token])):
                sign_N[target] *= -1
        for token in arcs.head[arcs.role == ROLE.THAN].tolist():
            marks = {self._word(child) for child in self._children(token)} & {"than", "as"}
            parent = self.parent_N[token]
            if not marks or parent < 0:
                continue
            for ancestor in (parent, self.parent_N[parent]):
                if ancestor >= 0 and "as" in marks:
                    sign_N[ancestor] = 1
                elif ancestor >= 0 and word_flags([self._word(ancestor)])[0] & WORD.LESS:
                    sign_N[ancestor] = -1  # younger than he: minus young
        return sign_N

    def _word(self, token: int) -> str:
        """Return the word in lower case; "" where there is none."""
        return self.lower_types[self.word_N[token]] if 0 <= token < len(self.word_N) else ""

    def _children(self, token: int, kinds: int | None = None) -> list[int]:
        """Return the dependents of a token, all or those of some kinds of relations."""
        start = max(token - REACH, 0)
        places = np.flatnonzero(self.parent_N[start : token + REACH] == token)
        tokens = [start + int(place) for place in places]
        return tokens if kinds is None else [child for child in tokens if self.relation_N[child] & kinds]

    def _denied_tokens(self, token: int, negation: int) -> list[int]:
        """Return the tokens that a negation turns: its predicate, and what *or* joins to that."""
        head, next_word = int(self.parent_N[token]), self._word(token + 1)
        is_answer = negation == Negation.NO and not self.relation_N[token] & KIND.DETERMINER  # No, thanks
        is_idle = negation == Negation.NOT and next_word in _WORDS_AFTER_IDLE_NOT
        if head < 0 or is_answer or is_idle:
            return []
        if negation == Negation.PARTICLE:
            objects = self._children(token, KIND.PREPOSITIONAL_OBJECT)
            return [] if next_word == "of" else objects[:1] or [head]
        predicate = head
        if negation == Negation.NOT:
            predicate = self._target_of_not(token, head)
        elif negation == Negation.NO:
            predicate = self._predicate(head)
        if predicate < 0:
            return []
        complements = self._children(predicate, KIND.COMPLEMENT)
        if complements and base_and_sign(self._word(predicate))[0] in _RAISING_VERBS:
            predicate = complements[0]
        conjuncts = self._children(predicate, KIND.CONJUNCT)
        predicates = [predicate, *filter(self._is_joined_by_or, conjuncts)]
        if negation == Negation.NO and self._children(predicate, KIND.EXPLETIVE):  # there is no man playing
            predicates += self._children(head, KIND.PARTICIPLE | KIND.RELATIVE)
        return predicates

    def _target_of_not(self, token: int, target: int) -> int:
        """Return what *not* at ``token`` under ``target`` turns: not very good, not all came."""
        for _ in range(3):
            parent = int(self.parent_N[target])
            if parent < 0 or not self.relation_N[target] & _MODIFIER:
                break
            target = self._predicate(parent) if self.relation_N[target] & KIND.DETERMINER else parent
        if self._word(token) == "nor":
            is_conjunct = self.relation_N[target] & KIND.CONJUNCT
            is_noun = is_conjunct and self.relation_N[self.parent_N[target]] & _ARGUMENT
            return -1 if is_noun else target  # neither he nor she came: once is enough
        is_of_noun = self._word(token) == "neither" or self.relation_N[token] & KIND.DETERMINER
        if is_of_noun or self._word(target) in _UNIVERSAL_WORDS:
            return self._predicate(target)
        # Of a noun that is a predicate an attribute may be turned: not a *young* man.
        attributes = self._children(target, KIND.ATTRIBUTE) if self._children(target, KIND.COPULA) else []
        return next((word for word in attributes if has_opposite(self._word(word))), target)

    def _predicate(self, noun: int) -> int:
        """Return the verb whose subject or object a noun is, or the noun."""
        parent = int(self.parent_N[noun])
        return parent if parent >= 0 and self.relation_N[noun] & _ARGUMENT else noun

    def _is_joined_by_or(self, conjunct: int) -> bool:
        words = {self._word(child) for child in self._children(conjunct)}
        return "or" in words and not self._children(conjunct, _ARGUMENT)
