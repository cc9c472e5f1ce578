"""Reads the words and the canonical arcs (:mod:`parsing.trees.roles`) of sentences that are compared.

A word is read as its base and a sign (:mod:`multiview.structure.poles`).

Legend of dimension suffixes: S sentences, T words of all sentences, M arcs of all sentences, U distinct
words, B sentences of a batch, N tokens of a batch, n pairs.
"""

from collections.abc import Iterable, Sequence
from enum import IntEnum
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from multiview.judge.long_texts import MAX_WORDS
from multiview.structure.forms import INFLECTIONS, stem
from multiview.structure.negation import PARTICLES, WordTrees
from multiview.structure.poles import Poles, known_opposites
from parsing.trees.batch import Batch
from parsing.trees.role_rules import KIND

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
_NUMBER_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty"
)
_DIGITS = {word: str(value) for value, word in enumerate(_NUMBER_WORDS.split())}
_PARTICLES = {*PARTICLES, *PARTICLES.values()}
_FURTHER_POLES: dict[str, Poles] = {
    "on": {"disable|enable": -1},  # off is its minus
    "up": {"decrease|increase": -1, "fall|rise": -1, "lower|raise": -1},  # down is its minus
    "before": {"after|before": -1},
    "after": {"after|before": 1},
    "if": {"if|unless": 1},
    "unless": {"if|unless": -1},
    "except": {"except|include": 1},
    "include": {"except|include": -1},
    "must": {"may|must": -1},
    "may": {"may|must": 1},
    "above": {"above|below": 1},
    "below": {"above|below": -1},
    "over": {"over|under": 1},
    "under": {"over|under": -1},
    "activate": {"disable|enable": -1},
    "successful": {"fail|succeed": -1},
    "mandatory": {"mandatory|optional": 1},
    "optional": {"mandatory|optional": -1},
    "required": {"mandatory|optional": 1},
    "compulsory": {"mandatory|optional": 1},
    "necessary": {"mandatory|optional": 1},
}
"""Poles that the judge alone reads: of function words, of particles, and of words that agree with others.

The entry of *on* makes *enable* and *turn off* opposites. The entry of *successful* makes *not successful*
agree with *fail*.
"""
TABLES = (_DIGITS, INFLECTIONS, MAX_WORDS, _FURTHER_POLES)
"""The tables by which words are compared; :func:`multiview.judge.weights.digest_of_tables` hashes them."""


class WordClass(IntEnum):
    """The class of a word; numbers, names and particles are compared in other ways than other words."""

    NONE = 0
    NUMBER = 1
    NAME = 2
    PARTICLE = 3
    """On, off, up and down. The parser decides whether they are content, so they are compared separately."""


class Form(NamedTuple):
    """A word as it is written, with its base, sign and class.

    In a :class:`FormTable` sign and class are those of the word alone; in :mod:`multiview.judge.reasons` they
    are those of the word in its sentence, where it may be denied.
    """

    text: str
    base: str
    """The base that all forms of the word share."""
    base_index: int
    sign: int
    word_class: int
    is_content: bool = False
    """Whether the parser takes the word for a content word in its sentence; False in a :class:`FormTable`."""


class FormTable:
    """The distinct words of some sentences, in the order in which they were added."""

    def __init__(self) -> None:
        self.forms: list[Form] = []
        self.bases: dict[str, int] = {}
        """The index of each base."""
        self._place: dict[str, int] = {}

    def add(self, words: Sequence[str]) -> Ints:
        """Add the words that are new, and return the index of each word in ``forms``, [U]."""
        for word in words:
            if word not in self._place:
                self._place[word] = len(self.forms)
                base, sign, word_class = _read_word(word)
                base_index = self.bases.setdefault(base, len(self.bases))
                self.forms.append(Form(word, base, base_index, sign, word_class))
        return np.array([self._place[word] for word in words], np.int64)

    def columns(self) -> tuple[Ints, Ints]:
        """Return the index of the base, and the sign, of each form: [U] each."""
        base_index = np.fromiter((form.base_index for form in self.forms), np.int64, len(self.forms))
        return base_index, np.fromiter((form.sign for form in self.forms), np.int64, len(self.forms))


def _class_of(word: str) -> WordClass:
    if word[:1].isdigit() or word[-1:].isdigit() or word.lower() in _DIGITS:
        return WordClass.NUMBER
    if word.lower() in _PARTICLES:
        return WordClass.PARTICLE
    is_capitalised = word[:1].isupper() and word[1:].islower()
    return WordClass.NAME if word.isupper() or is_capitalised else WordClass.NONE


@lru_cache(1 << 17)
def _read_word(word: str) -> tuple[str, int, WordClass]:
    return *base_of(word), _class_of(word)


def base_of(word: str) -> tuple[str, int]:
    """Return the base that all forms of a word share, and the word's sign: two is 2, off is minus on."""
    base, sign = known_opposites().base_and_sign(word.lower())
    if base in PARTICLES:
        return PARTICLES[base], -sign
    base = _DIGITS.get(base, base)
    has_poles = bool(known_opposites().poles(base))
    return (base if has_poles or not base.isalpha() else stem(base)), sign


def all_poles(base: str) -> Poles:
    """Return the poles of a base, those that the judge alone reads among them."""
    return known_opposites().poles(base) | _further_poles().get(base, {})


def has_judge_poles(base: str) -> bool:
    """Return whether the judge alone has poles for a base, by which even function words are compared."""
    return base in _further_poles()


@cache
def _further_poles() -> dict[str, Poles]:
    return {base_of(word)[0]: word_poles for word, word_poles in _FURTHER_POLES.items()}


class Facts(NamedTuple):
    """The words [T] and arcs [M] of sentences, sentence by sentence.

    ``form``, ``head`` and ``dependent`` are indices in a :class:`FormTable`. ``is_content`` is False for
    function words and for words that deny. A sign is -1 if the word, or one of the arc's two words, is
    denied, else 1.
    """

    word_count: Ints
    """[S], the number of words of each sentence."""
    form: Ints
    is_content: Flags
    is_preposition: Flags
    sign: Ints
    word_class: Ints
    """[T]; the first word of a sentence is never a name, because it is capitalised anyway."""
    arc_count: Ints
    """[S], the number of arcs of each sentence."""
    role: Ints
    head: Ints
    dependent: Ints
    head_position: Ints
    """[M], the position of the head in its sentence, from 0."""
    dependent_position: Ints
    """[M], the position of the dependent in its sentence, from 0."""
    arc_sign: Ints
    head_sign: Ints
    negation_count: Ints
    """[S], the number of denied words of each sentence."""


def _read_facts(batch: Batch, forms: FormTable) -> Facts:
    trees = WordTrees(batch)
    form_U = forms.add(trees.types)
    form_N = form_U[trees.word_N]
    class_N = np.array([forms.forms[form].word_class for form in form_U], np.int64)[trees.word_N]
    arcs = trees.canonical_arcs()
    sign_N = trees.negation_signs(arcs, with_particles=False).astype(np.int64)

    token_N = np.arange(len(form_N))
    is_content_N = np.isin(token_N, trees.content_tokens())
    has_digit_U = np.array([not w.isalpha() and any(map(str.isdigit, w)) for w in trees.types], bool)
    is_content_N |= has_digit_U[trees.word_N]
    position_N = token_N - np.repeat(batch.sentence_offsets[:-1], np.diff(batch.sentence_offsets))
    class_N[(position_N == 0) & (class_N == WordClass.NAME)] = WordClass.NONE
    word_T = np.flatnonzero(trees.has_letters_N & (position_N < MAX_WORDS))

    arc_M = np.argsort(trees.sentences_of(arcs.head), kind="stable")
    head_M, dependent_M = arcs.head[arc_M], arcs.dependent[arc_M]
    return Facts(
        word_count=np.bincount(trees.sentences_of(word_T), minlength=len(batch)),
        form=form_N[word_T],
        is_content=is_content_N[word_T],
        is_preposition=(trees.relation_N[word_T] & KIND.CASE) > 0,
        sign=sign_N[word_T],
        word_class=class_N[word_T],
        arc_count=np.bincount(trees.sentences_of(head_M), minlength=len(batch)),
        role=arcs.role[arc_M],
        head=form_N[head_M],
        dependent=form_N[dependent_M],
        head_position=position_N[head_M],
        dependent_position=position_N[dependent_M],
        arc_sign=sign_N[head_M] * sign_N[dependent_M],
        head_sign=sign_N[head_M],
        negation_count=np.bincount(trees.sentences_of(np.flatnonzero(sign_N < 0)), minlength=len(batch)),
    )


class PairFacts(NamedTuple):
    """Pairs of sentences, with the facts of all their sentences."""

    facts: Facts
    forms: FormTable
    row_n2: Ints
    """[n, 2], the indices in ``facts`` of the two sentences of each pair."""


def facts_of_pairs(batches: Iterable[tuple[Ints, Batch]], text_n2: Ints) -> PairFacts:
    """Read the facts of the sentences of all pairs, from batches of parsed sentences.

    Each batch comes with the indices of its sentences, [B]. ``text_n2`` [n, 2] has those of each pair's two.
    """
    forms = FormTable()
    rows: list[Ints] = []
    parts: list[Facts] = []
    for row_B, batch in batches:
        rows.append(row_B)
        parts.append(_read_facts(batch, forms))
    facts = Facts(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    row_of_text = np.argsort(np.concatenate(rows))
    return PairFacts(facts, forms, row_of_text[text_n2])
