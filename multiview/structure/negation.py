"""Finds the words that a negation denies: *not good* is minus *good*. English only.

:data:`NEGATION_RULES` says for each negating word, such as *not* and *nobody*, which word of the dependency
tree it denies.

Legend of dimension suffixes: N tokens, K content words, U distinct words.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from corpora.characters import normalise_text
from multiview.structure.poles import Opposites, known_opposites
from parsing.trees.batch import Batch
from parsing.trees.role_rules import FUNCTION_WORD, KIND, ROLE, WORD, relation_bits, word_flags
from parsing.trees.roles import RoleArcs, canonical_arcs, parents

PARTICLES = {"off": "on", "down": "up"}
"""Particles that count as negations of their opposites."""
NO, NOBODY = ("no",), ("nobody", "nothing", "none", "nowhere", "no-one")
NOT = ("not", "n't", "nt", "never", "hardly", "scarcely", "barely", "neither", "nor", "cannot")
UNIVERSAL = (
    *("all", "every", "each", "everyone", "everybody", "everything", "everywhere", "always", "both"),
    *("many", "much"),
)


@dataclass(frozen=True)
class NegationRule:
    """Which word a negating word denies; the first rule whose conditions hold is applied.

    The *target* is the head of the negating word. For a word of :data:`NOT` it is what that head modifies:
    *good* in *not very good*. ``turns`` names the denied word:

    - ``predicate``: the verb whose subject or object the target is;
    - ``object``: the object of the negating word, if that is a preposition;
    - ``attribute``: an attribute of the target that has an opposite.

    If there is no such word, the target is denied. The fields from ``before`` on are conditions; an empty one
    always holds.
    """

    words: Sequence[str]
    turns: Literal["nothing", "target", "predicate", "object", "attribute"]
    example: str  # a tree as ``word:head:relation``, then the denied words
    before: Sequence[str] = ()  # the next word is one of these
    relation: int = 0  # the word's relation is of one of these kinds
    target: Sequence[str] = ()  # the target is one of these words
    is_conjunct_of_noun: bool = False  # the target is coordinated with a subject or object


NEGATION_RULES = (
    NegationRule(NO, "predicate", "no:2:det man:3:nsubj came:0:root -> came", relation=KIND.DETERMINER),
    NegationRule(NO, "nothing", "No:2:discourse thanks:0:root ->"),
    NegationRule(NOBODY, "target", "nobody:2:nsubj came:0:root -> came"),
    NegationRule(("without", *PARTICLES), "nothing", "off:3:case of:3:case it:0:root ->", before=("of",)),
    NegationRule(("without", *PARTICLES), "object",
                 "tea:0:root without:1:prep milk:2:pobj -> milk"),
    NegationRule(NOT, "nothing", "not:3:advmod only:3:advmod sang:0:root ->",
                 before=("only", "just", "merely", "necessarily")),
    NegationRule(("nor",), "nothing", is_conjunct_of_noun=True,
                 example="neither:2:cc:preconj he:5:nsubj nor:4:cc she:2:conj came:0:root -> came"),
    NegationRule(("nor",), "target", "nor:3:cc she:3:nsubj came:0:root -> came"),
    NegationRule(("neither",), "predicate", "neither:2:cc:preconj he:3:nsubj came:0:root -> came"),
    NegationRule(NOT, "predicate", "not:2:det man:3:nsubj came:0:root -> came", relation=KIND.DETERMINER),
    NegationRule(NOT, "predicate", "Not:2:advmod all:3:nsubj came:0:root -> came", target=UNIVERSAL),
    NegationRule(NOT, "attribute",
                 "He:4:nsubj is:4:cop not:4:advmod man:0:root young:4:amod -> young"),
)  # fmt: skip
"""The rules, in the order in which they are tried; *without*, *off* and *down* count as negations."""
_NEGATING_WORDS = {word for rule in NEGATION_RULES for word in rule.words}
REACH = 200
"""The largest distance, in tokens, of a dependent that is found from its head."""
_RAISING_VERBS = (
    *("think", "believe", "suppose", "expect", "seem", "want", "appear", "feel", "look"),
    *("guess", "imagine"),
)
"""Verbs that pass a negation on to their clause: *I do not think that he came* denies *came*."""
TABLES = (NEGATION_RULES, PARTICLES, UNIVERSAL, _RAISING_VERBS)
"""The tables that decide which words are denied."""
_ARGUMENT = KIND.SUBJECT | KIND.OBJECT
_MODIFIER = KIND.ADVERB | KIND.DETERMINER | KIND.AUXILIARY | KIND.COPULA
"""Relations of words that pass a negation on to their heads."""


class WordTrees:
    """The words of a batch in their dependency trees, and the words that are denied.

    ``types`` are the distinct words in plain characters, and ``word_N`` is the index of each token's word
    among them. ``has_letters_N`` is false for punctuation, and ``relation_N`` are bits of
    :mod:`parsing.trees.role_rules`. A token is given by its index in the batch; -1 is no token. ``opposites``
    are by default those of the package.
    """

    def __init__(self, batch: Batch, opposites: Opposites | None = None) -> None:
        self.batch, self.opposites = batch, opposites or known_opposites()
        words, self.word_N = batch.distinct_words()
        self.types = list(map(normalise_text, words))
        self.lower_types = [word.lower() for word in self.types]
        has_letters_U = [word.isalnum() or any(map(str.isalnum, word)) for word in self.types]
        self.has_letters_N = np.array(has_letters_U, bool)[self.word_N]
        self.relation_N = relation_bits(batch.relations)[batch.relation]
        self.parent_N = parents(batch.head, batch.sentence_offsets)

    def canonical_arcs(self) -> RoleArcs:
        """Return the arcs of canonical roles. Negations are no arcs, because they change signs instead."""
        flags_N = word_flags(self.types)[self.word_N]
        return canonical_arcs(
            self.batch.head, self.relation_N, flags_N, self.batch.sentence_offsets, with_negation=False
        )

    def sentences_of(self, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sentence of each token, as its row in the batch."""
        return np.searchsorted(self.batch.sentence_offsets, tokens, side="right") - 1

    def content_tokens(self) -> NDArray[np.int64]:
        """Return the tokens that are no function words, no punctuation and no *no* or *not*: int64 [K]."""
        is_content_N = self.has_letters_N & (self.relation_N & FUNCTION_WORD == 0)
        is_content_N[self._tokens_in({*NO, *NOT})] = False
        return np.flatnonzero(is_content_N)

    def _tokens_in(self, words: Set[str]) -> NDArray[np.int64]:
        return np.flatnonzero(np.array([word in words for word in self.lower_types], bool)[self.word_N])

    def negation_signs(self, arcs: RoleArcs, *, with_particles: bool = True) -> NDArray[np.int8]:
        """Return the sign of each token, int8 [N]: -1 if it is denied an odd number of times, else 1.

        Without ``with_particles``, :data:`PARTICLES` are no negations. A comparison with *less* or *not as*
        that is among ``arcs`` has the arcs of the comparison with *more*, so it does not deny its words as
        well.
        """
        words = _NEGATING_WORDS if with_particles else _NEGATING_WORDS - PARTICLES.keys()
        sign_N = np.ones(len(self.word_N), np.int8)
        for token in self._tokens_in(words).tolist():
            for target in self._denied_tokens(token):
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
        """Return the word of a token in lower case, or "" if there is no such token."""
        return self.lower_types[self.word_N[token]] if 0 <= token < len(self.word_N) else ""

    def _children(self, token: int, kinds: int | None = None) -> list[int]:
        """Return the dependents of a token, or only those whose relation is of one of these kinds."""
        first = max(token - REACH, 0)
        offsets = np.flatnonzero(self.parent_N[first : token + REACH] == token)
        tokens = [first + int(offset) for offset in offsets]
        return tokens if kinds is None else [child for child in tokens if self.relation_N[child] & kinds]

    def _denied_tokens(self, token: int) -> list[int]:
        """Return the tokens that a negating word denies, by its rule and by *or* between words."""
        head = int(self.parent_N[token])
        if head < 0:
            return []
        target = self._target(token)
        rule = next(rule for rule in NEGATION_RULES if self._holds(rule, token, target))
        if rule.turns == "nothing":
            return []
        if rule.turns == "object":
            return self._children(token, KIND.PREPOSITIONAL_OBJECT)[:1] or [target]
        if rule.turns == "predicate":
            target = self._predicate(target)
        elif rule.turns == "attribute" and self._children(target, KIND.COPULA):
            attributes = self._children(target, KIND.ATTRIBUTE)
            target = next(
                (word for word in attributes if self.opposites.has_opposite(self._word(word))), target
            )
        complements = self._children(target, KIND.COMPLEMENT)
        if complements and self.opposites.base_and_sign(self._word(target))[0] in _RAISING_VERBS:
            target = complements[0]
        targets = [target, *filter(self._is_joined_by_or, self._children(target, KIND.CONJUNCT))]
        if rule.words == NO and self._children(target, KIND.EXPLETIVE):  # there is no man playing
            targets += self._children(head, KIND.PARTICIPLE | KIND.RELATIVE)
        return targets

    def _target(self, token: int) -> int:
        """Return the target of a negating word; see :class:`NegationRule`."""
        target = int(self.parent_N[token])
        for _ in range(3 if self._word(token) in NOT else 0):
            parent = int(self.parent_N[target])
            if parent < 0 or not self.relation_N[target] & _MODIFIER:
                break
            target = self._predicate(parent) if self.relation_N[target] & KIND.DETERMINER else parent
        return target

    def _holds(self, rule: NegationRule, token: int, target: int) -> bool:
        """Tell whether the conditions of a rule hold for a negating word and its target."""
        is_conjunct = self.relation_N[target] & KIND.CONJUNCT
        is_conjunct_of_noun = is_conjunct and self.relation_N[self.parent_N[target]] & _ARGUMENT
        return (
            self._word(token) in rule.words
            and (not rule.before or self._word(token + 1) in rule.before)
            and (not rule.relation or bool(self.relation_N[token] & rule.relation))
            and (not rule.target or self._word(target) in rule.target)
            and (not rule.is_conjunct_of_noun or bool(is_conjunct_of_noun))
        )

    def _predicate(self, noun: int) -> int:
        """Return the verb whose subject or object a noun is, or the noun if it is neither."""
        parent = int(self.parent_N[noun])
        return parent if parent >= 0 and self.relation_N[noun] & _ARGUMENT else noun

    def _is_joined_by_or(self, conjunct: int) -> bool:
        words = {self._word(child) for child in self._children(conjunct)}
        return "or" in words and not self._children(conjunct, _ARGUMENT)
