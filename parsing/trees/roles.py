"""Canonical roles: who did what to whom, whatever the voice, from cached dependency trees.

An arc (role, head, dependent) joins two words of a sentence. The same event gives the same arcs in the active
and the passive, in a relative clause and a cleft, with either dative:

| role | head, dependent | example |
|---|---|---|
| agent | verb, who acts | the *lawyer* praised; praised by the *lawyer*; the *lawyer* who praised |
| patient | verb, what is acted on | praised the *doctor*; the *doctor* was praised, they praised |
| to | word, recipient or goal | gave *her* a book; gave a book to *her*; went to *Rome* |
| from | word, source | came from *Rome* |
| at | word, any other complement with a preposition | sat on the *mat* |
| poss | thing, owner or whole | the *king*'s hat; the hat of the *king* |
| attr | noun, attribute or predicate | the *red* hat; the hat is *red*; a *stone* wall |
| num | noun, numeral | *two* hats |
| adv | verb, adverb | ran *fast* |
| neg | negated verb, its subject | the *king* did not come |
| before | earlier event, later event | left before she *came*; after he left she *came* |
| than | what has more, what has less | *he* is older than she; she is not as old as *he* |
| is | name or noun, apposition | my friend *Anna* |
| clause | verb, embedded clause | said that he *came* |

Relative pronouns and the subjects of clefts stand for their noun, a bare auxiliary for the predicate it is
coordinated with, and subjects and objects are shared over coordination. Labels are those of Universal
Dependencies or of Stanford Dependencies, whose prepositions are first turned into case markers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from parsing.trees.role_kinds import FLAG, ING, KIND_BITS

ROLES = (
    *("agent", "patient", "to", "from", "at", "poss", "attr", "num", "adv", "neg", "before", "than", "is"),
    "clause",
)
_AGENT, _PATIENT, _TO, _FROM, _AT, _POSS, _ATTR, _NUM, _ADV, _NEG, _BEFORE, _THAN, _IS, _CLAUSE = range(14)


@dataclass(frozen=True)
class Arcs:
    """Pairs of words of a batch. M arcs."""

    role: NDArray[np.int64]
    """[M], places in ``ROLES``."""
    head: NDArray[np.int64]
    """[M], tokens of the batch."""
    dependent: NDArray[np.int64]
    """[M], tokens of the batch."""


def content_words(
    relation: NDArray[np.int64], types: Sequence[str], token: NDArray[np.integer]
) -> NDArray[np.int64]:
    """The tokens that are not function words by their relation, nor punctuation: int64 [K], in order."""
    spoken = np.array([any(letter.isalnum() for letter in word) for word in types], bool)
    functional = _DETERMINER | _CASE | _AUXILIARY | _COPULA | _FUNCTION
    return np.flatnonzero(spoken[token] & ((relation & functional) == 0))


def canonical_arcs(
    head: NDArray[np.integer],
    relation: NDArray[np.int64],
    word: NDArray[np.int64],
    sentence_offsets: NDArray[np.integer],
) -> Arcs:
    """The canonical roles of dependency trees.

    Args:
        head: [T], 1-based within the sentence, 0 for the root.
        relation: int64 [T], bits from :func:`parsing.trees.role_kinds.relation_bits`.
        word: int64 [T], bits from :func:`parsing.trees.role_kinds.word_flags`.
        sentence_offsets: [B + 1].
    """
    return Arcs(*_arcs(parents(head, sentence_offsets), relation.copy(), word))


def parents(head: NDArray[np.integer], sentence_offsets: NDArray[np.integer]) -> NDArray[np.int64]:
    """The token above each one, int64 [T], or -1; arguments as for :func:`canonical_arcs`."""
    offsets = sentence_offsets.astype(np.int64)
    begins = np.repeat(offsets[:-1], np.diff(offsets))
    return np.where(head > 0, begins + head - 1, -1).astype(np.int64)


_KINDS, _ASKED = list(KIND_BITS.values()), list(FLAG.values())
_INNER, _OUTER, _PASSIVE_SUBJECT, _CLAUSAL, _OBJECT, _INDIRECT, _BY_AGENT, _OBLIQUE, _POSSESSOR = _KINDS[:9]
_ATTRIBUTE, _NUMBER, _ADVERB, _ADVERBIAL, _RELATIVE, _PARTICIPLE, _CONJUNCT, _CASE = _KINDS[9:17]
_PASSIVE, _AUXILIARY, _COPULA, _OPEN, _COMPLEMENT, _NAME, _DETERMINER, _PREPOSITION = _KINDS[17:25]
_PREPOSITIONAL, _BESIDE, _ROOT, _FUNCTION, _EXPLETIVE = _KINDS[25:]
_SUBJECT = _INNER | _OUTER
_W_NOT, _W_NO, _W_BY, _W_TO, _W_FROM, _W_OF, _W_THAN, _W_AS, _W_AFTER, _W_BEFORE = _ASKED[:10]
_W_RELATIVE, _W_WHERE, _W_TIME, _W_PREPOSITION, _W_PRONOUN, _W_WHAT, _W_DO, _W_LESS, _W_BARE = _ASKED[10:]
_CLAUSE_KINDS = _ROOT | _COMPLEMENT | _ADVERBIAL | _PARTICIPLE | _RELATIVE | _BESIDE | _CLAUSAL
_DEEP = 5
"""Clauses up which a subject is looked for."""
_MANY = 8
"""Conjuncts that share a role."""


@njit(cache=True)
def _child(v, kinds, rel, first, after):  # type: ignore[no-untyped-def]
    """The first child of v whose relation is one of the kinds, or -1."""
    k = first[v]
    while k >= 0:
        if rel[k] & kinds:
            return k
        k = after[k]
    return -1


@njit(cache=True)
def _own(v, rel, first, after):  # type: ignore[no-untyped-def]
    """The subject of v's own clause, or -1; "the best part is I won" has another one outside."""
    inner = _child(v, _INNER, rel, first, after)
    return inner if inner >= 0 else _child(v, _OUTER, rel, first, after)


@njit(cache=True)
def _marker(k, word, rel, first, after):  # type: ignore[no-untyped-def]
    """Flags of the preposition or conjunction that marks k."""
    c = _child(k, _CASE, rel, first, after)
    return word[c] if c >= 0 else 0


@njit(cache=True)
def _subject(v, parent, rel, first, after):  # type: ignore[no-untyped-def]
    """The subject of v, its own or that of the clause it shares one with, or -1."""
    for _ in range(_DEEP):
        own = _own(v, rel, first, after)
        if own >= 0:
            return own
        up = parent[v]
        if up < 0:
            return -1
        if rel[v] & _OPEN:
            given = _child(up, _OBJECT | _INDIRECT, rel, first, after)
            if given >= 0:
                return given
        elif rel[v] & (_PARTICIPLE | _RELATIVE):
            return up
        elif rel[v] & _ADVERBIAL:
            if _child(v, _CASE, rel, first, after) >= 0:
                return -1
        elif not rel[v] & _CONJUNCT:
            return -1
        v = up
    return -1


@njit(cache=True)
def _resolved(k, stands):  # type: ignore[no-untyped-def]
    """The word that k stands for."""
    for _ in range(4):
        if stands[k] < 0:
            break
        k = stands[k]
    return k


@njit(cache=True)
def _mend(parent, rel, word, first, after):  # type: ignore[no-untyped-def]
    """Put right what parsers often miss: relative clauses by their pronoun, the recipient of two objects."""
    for v in range(len(parent)):
        one, two, k = -1, -1, first[v]
        while k >= 0:
            if word[k] & _W_RELATIVE and rel[k] & (_SUBJECT | _OBJECT) and rel[v] & _PARTICIPLE:
                rel[v] |= _RELATIVE
            if rel[k] & _OBJECT:
                one, two = (k, two) if one < 0 else (one, k)
            k = after[k]
        if two >= 0:  # whom she gave books, books which she gave him
            rel[two if word[one] & _W_RELATIVE else one] = _INDIRECT
        elif one >= 0 and parent[v] >= 0 and word[parent[v]] & _W_WHAT and rel[v] & _RELATIVE:
            given = _own(v, rel, first, after) >= 0 and _child(v, _COMPLEMENT, rel, first, after) < 0
            rel[one] = _INDIRECT if given else _OBJECT  # what she gave him


@njit(cache=True)
def _stand(parent, rel, word, first, after):  # type: ignore[no-untyped-def]
    """For each token the one it stands for, or -1: pronouns, bare auxiliaries."""
    stands = np.full(len(parent), -1, np.int64)
    for v in range(len(parent)):
        up = parent[v]
        if up < 0:
            continue
        cleft = rel[v] & _CLAUSAL and _child(up, _COPULA, rel, first, after) >= 0
        if rel[v] & _RELATIVE or cleft:
            k = first[v]
            while k >= 0:
                inner = first[k]
                if word[k] & _W_RELATIVE and not rel[k] & (_CASE | _DETERMINER):
                    stands[k] = up
                elif word[k] & _W_WHERE and rel[k] & _ADVERB and rel[v] & _RELATIVE:
                    stands[k], rel[k] = up, _OBLIQUE
                while inner >= 0:
                    if word[inner] & _W_RELATIVE and not rel[inner] & (_CASE | _DETERMINER):
                        stands[inner] = up
                    inner = after[inner]
                k = after[k]
        if rel[v] & _SUBJECT and _child(up, _COPULA | _AUXILIARY, rel, first, after) >= 0:
            clause = _child(v, _RELATIVE, rel, first, after)
            if word[v] & _W_PRONOUN and (
                clause >= 0
                or (
                    _child(up, _RELATIVE | _CLAUSAL, rel, first, after) >= 0
                    and not word[up] & (_W_WHERE | _W_WHAT)
                )
            ):
                stands[v] = up
            if clause >= 0 and word[v] & _W_WHAT:
                if word[clause] & _W_DO:  # what she did was leave: she is its subject, and it has no copula
                    stands[clause] = up
                    rel[_child(up, _COPULA | _AUXILIARY, rel, first, after)], rel[v] = _AUXILIARY, _FUNCTION
                elif _child(up, _DETERMINER | _NUMBER | _POSSESSOR, rel, first, after) >= 0:
                    stands[v] = up
        verbal = _OBJECT | _INDIRECT | _COPULA | _COMPLEMENT | _OBLIQUE | _EXPLETIVE
        alone = _child(v, verbal, rel, first, after) < 0
        joined = rel[v] & (_CONJUNCT | _ADVERBIAL | _BESIDE | _COMPLEMENT)
        if joined and word[v] & _W_BARE and alone:
            stands[v] = up
    return stands


@njit(cache=True)
def _add(found_3M, count, stands, role, head, dependent):  # type: ignore[no-untyped-def]
    """Append an arc between what its words stand for; return the number of arcs."""
    head, dependent = _resolved(head, stands), _resolved(dependent, stands)
    if (head == dependent and role != _NEG) or count == found_3M.shape[1]:
        return count
    found_3M[0, count], found_3M[1, count], found_3M[2, count] = role, head, dependent
    return count + 1


@njit(cache=True)
def _arcs(parent, rel, word):  # type: ignore[no-untyped-def]
    """Roles, heads and dependents: int64 [3, M]."""
    size = len(parent)
    for k in range(size):  # Stanford's prepositions become case markers of their objects
        p = parent[k]
        if p >= 0 and rel[k] & _PREPOSITIONAL and rel[p] & _PREPOSITION:
            parent[k], parent[p] = parent[p], k
            rel[k], rel[p] = _OBLIQUE | rel[p] & _BY_AGENT, _CASE
    first, after = np.full(size, -1, np.int64), np.full(size, -1, np.int64)
    for k in range(size - 1, -1, -1):
        if parent[k] >= 0:
            after[k], first[parent[k]] = first[parent[k]], k
    _mend(parent, rel, word, first, after)
    stands = _stand(parent, rel, word, first, after)
    room = (_MANY + 4) * size + 16
    found_3M = np.empty((3, room), np.int64)
    count = 0
    for v in range(size):
        up = parent[v]
        meant = _resolved(v, stands)
        copula = _child(meant, _COPULA, rel, first, after) >= 0
        own = _own(v, rel, first, after)
        outer = _child(v, _OUTER, rel, first, after)
        if copula and outer >= 0 and outer != own:
            count, copula = _add(found_3M, count, stands, _ATTR, outer, v), False
        passive = _passive(v, word, rel, first, after)
        bare = rel[v] & _PARTICIPLE and own < 0
        marked = _child(v, _CASE, rel, first, after) >= 0
        clause = rel[v] & _CLAUSE_KINDS
        parts = _OBJECT | _INDIRECT | _BY_AGENT | _AUXILIARY | _COPULA
        joined = rel[v] & _CONJUNCT and own < 0 and up >= 0
        if joined:
            clause = rel[up] & _CLAUSE_KINDS or _own(up, rel, first, after) >= 0
            parts |= _OBLIQUE | _ADVERB | _COMPLEMENT
            if _child(v, _OBJECT | _INDIRECT | _AUXILIARY | _COPULA | _COMPLEMENT, rel, first, after) < 0:
                copula = _child(up, _COPULA, rel, first, after) >= 0  # loose and limp
                passive = _passive(up, word, rel, first, after) and not word[v] & ING  # stopped and asked
        subject = -1
        if clause or own >= 0 or _child(v, parts, rel, first, after) >= 0:
            subject = _subject(v, parent, rel, first, after)
        if bare and marked:  # a man to watch
            subject = -1
        inverted = False
        if own < 0 and not passive and rel[v] & (_ROOT | _COMPLEMENT | _CONJUNCT):  # under it lay a hat
            led, what = _child(v, _OBLIQUE, rel, first, after), _child(v, _OBJECT, rel, first, after)
            inverted = 0 <= led < v < what
            if inverted:
                subject = what
        negated = False
        k = first[v]
        while k >= 0:
            if word[k] & _W_NOT:
                negated = True
            inner = first[k] if rel[k] & (_OBJECT | _SUBJECT) else -1
            while inner >= 0:
                if rel[inner] & _DETERMINER and word[inner] & _W_NO:
                    negated = True
                inner = after[inner]
            k = after[k]
        standard, least, as_much = -1, False, False
        k = first[v]
        while k >= 0:  # what is compared: older than she, runs faster than she, not as old as she
            mark = _marker(k, word, rel, first, after)
            as_much |= word[k] & _W_AS > 0 and rel[k] & _ADVERB > 0
            if mark & (_W_THAN | (_W_AS if as_much else 0)) and rel[k] & (_OBLIQUE | _ADVERBIAL):
                standard, least = k, bool(mark & _W_AS)
            inner = first[k] if rel[k] & (_ADVERB | _ATTRIBUTE) else -1
            if (word[k] | word[v]) & _W_LESS:
                least = True
            while inner >= 0:
                mark = _marker(inner, word, rel, first, after)
                as_much |= word[inner] & _W_AS > 0 and rel[inner] & _ADVERB > 0
                if mark & (_W_THAN | (_W_AS if as_much else 0)) and rel[inner] & (_OBLIQUE | _ADVERBIAL):
                    standard = inner
                    least = bool(mark & _W_AS) or bool(word[k] & _W_LESS)
                inner = after[inner]
            k = after[k]
        equal = standard >= 0 and _marker(standard, word, rel, first, after) & _W_AS
        turned = standard >= 0 and subject >= 0 and least and (negated or not equal)
        if turned and equal:
            negated = False
        s, taken = subject, 0
        while s >= 0 and taken <= _MANY:
            done = rel[s] & _PASSIVE_SUBJECT if s == subject and own >= 0 else passive
            if copula and not (own >= 0 and rel[own] & _PASSIVE_SUBJECT):
                count = _add(found_3M, count, stands, _ATTR, standard if turned else s, v)
            else:
                given = (
                    _TO if _child(v, _OBJECT, rel, first, after) >= 0 else _PATIENT
                )  # she was given a book
                count = _add(found_3M, count, stands, given if done or passive else _AGENT, v, s)
            if negated:
                count = _add(found_3M, count, stands, _NEG, v, s)
            if standard >= 0 and (turned or not equal):
                high, low = (standard, s) if turned else (s, standard)
                count = _add(found_3M, count, stands, _THAN, high, low)
            taken += 1
            s = _next_conjunct(s, subject, rel, first, after)
        if negated and subject < 0:
            count = _add(found_3M, count, stands, _NEG, v, v)
        if rel[v] & _RELATIVE and own >= 0 and not copula and not _asks(v, stands, first, after):
            count = _gap(found_3M, count, stands, v, up, word, rel, first, after)
        k = first[up] if joined and not copula and not passive else -1
        if _child(v, _OBJECT, rel, first, after) >= 0:
            k = -1
        while k >= 0:  # review and approve it
            if k > v and rel[k] & _OBJECT:
                count = _add(found_3M, count, stands, _PATIENT, v, k)
            k = after[k]
        k = first[v]
        while k >= 0:
            kind, mark = rel[k], _marker(k, word, rel, first, after)
            role = -1
            if kind & _OBJECT:
                role = -1 if inverted else _PATIENT
            elif kind & _INDIRECT:
                role = _TO
            elif k == standard or kind & _SUBJECT or kind & _CONJUNCT:
                role = -1
            elif kind & _OBLIQUE:
                if kind & _POSSESSOR or mark & _W_OF:
                    role = _POSS
                elif kind & _BY_AGENT or (mark & _W_BY and passive):
                    role = _AGENT
                else:
                    role = _side(mark)
            elif kind & _ATTRIBUTE:
                role = _ATTR
            elif kind & _NUMBER:
                role = _NUM
            elif kind & _ADVERB:
                if not word[k] & (_W_NOT | _W_AS):
                    role = _ADV
            elif kind & _ADVERBIAL:
                if mark & _W_AFTER:
                    count = _add(found_3M, count, stands, _BEFORE, k, v)
                else:
                    count = _add(found_3M, count, stands, _BEFORE if mark & _W_BEFORE else _CLAUSE, v, k)
            elif kind & _NAME:
                role = _IS
            elif kind & _COMPLEMENT:
                role = _CLAUSE
            shared = kind & (_OBJECT | _INDIRECT | _OBLIQUE | _ATTRIBUTE | _NUMBER)
            s, taken = k, 0
            while role >= 0 and s >= 0 and taken <= _MANY:
                count = _add(found_3M, count, stands, role, v, s)
                taken += 1
                s = _next_conjunct(s, k, rel, first, after) if shared else -1
            k = after[k]
    return found_3M[:, :count]


@njit(cache=True)
def _passive(v, word, rel, first, after):  # type: ignore[no-untyped-def]
    """Whether v is passive, a bare participle as well: the letter written by her."""
    if _child(v, _PASSIVE, rel, first, after) >= 0:
        return True
    bare = rel[v] & _PARTICIPLE and not word[v] & ING
    return bare and _child(v, _SUBJECT | _CASE, rel, first, after) < 0


@njit(cache=True)
def _gap(found_3M, count, stands, v, noun, word, rel, first, after):  # type: ignore[no-untyped-def]
    """Append what the noun is to its clause v without a pronoun, or to the clause in it: the man they want to see."""
    inner = v
    while inner >= 0:
        v, inner = inner, _child(inner, _COMPLEMENT, rel, first, after)
    role = -1 if _child(v, _OBJECT | _PASSIVE | _COPULA, rel, first, after) >= 0 else _PATIENT
    if (
        rel[v] & _COMPLEMENT and not rel[v] & _OPEN and _own(v, rel, first, after) < 0
    ):  # the man they say came
        role = _AGENT
    if word[noun] & _W_TIME:  # the day they came
        role = _AT
    k = first[v]
    while k >= 0:  # the man they spoke to
        if k > v and first[k] < 0 and rel[k] & _OBLIQUE and word[k] & _W_PREPOSITION:
            role, rel[k] = _side(word[k]), _FUNCTION
        k = after[k]
    if role >= 0 and not word[noun] & _W_WHERE:
        count = _add(found_3M, count, stands, role, v, noun)
    return count


@njit(cache=True)
def _side(preposition):  # type: ignore[no-untyped-def]
    """The role that a preposition gives."""
    if preposition & _W_OF:
        return _POSS
    return _TO if preposition & _W_TO else _FROM if preposition & _W_FROM else _AT


@njit(cache=True)
def _next_conjunct(s, whole, rel, first, after):  # type: ignore[no-untyped-def]
    """The conjunct of ``whole`` after s, which is ``whole`` itself or one of them; -1 after the last."""
    k = first[whole] if s == whole else after[s]
    while k >= 0 and not rel[k] & _CONJUNCT:
        k = after[k]
    return k


@njit(cache=True)
def _asks(v, stands, first, after):  # type: ignore[no-untyped-def]
    """Whether a relative pronoun of the clause stands for the noun."""
    k = first[v]
    while k >= 0:
        if stands[k] >= 0:
            return True
        inner = first[k]
        while inner >= 0:
            if stands[inner] >= 0:
                return True
            inner = after[inner]
        k = after[k]
    return False
