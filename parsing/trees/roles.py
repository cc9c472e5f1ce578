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
| poss | thing, owner or whole | the *king*'s hat; the hat of the *king*; the *king* has a hat |
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
from functools import partial

import numpy as np
from numpy.typing import NDArray

from parsing.trees.role_kinds import FLAG, ING, KIND_BITS, bits_of
from runtime.compiled import compiled_if_long, compiled_part

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
    found = np.empty(((_MANY + 4) * len(word) + 17, 3), np.int64)
    _arcs(np.recarray(len(word), _TOKEN), parents(head, sentence_offsets), relation, word, found)
    return Arcs(*found[1 : found[0, 0] + 1].T.copy())


def parents(head: NDArray[np.integer], sentence_offsets: NDArray[np.integer]) -> NDArray[np.int64]:
    """The token above each one, int64 [T], or -1; arguments as for :func:`canonical_arcs`."""
    offsets = sentence_offsets.astype(np.int64)
    begins = np.repeat(offsets[:-1], np.diff(offsets))
    return np.where(head > 0, begins + head - 1, -1).astype(np.int64)


_PASSIVE_SUBJECT, _SUBJECT, _CLAUSAL, _OBJECT, _INDIRECT, _BY_AGENT, _POSSESSOR, _OBLIQUE = bits_of(
    KIND_BITS, "passive subject, subject, clausal subject, object, indirect object, agent, possessor, oblique"
)
_ATTRIBUTE, _NUMBER, _ADVERB, _ADVERBIAL, _RELATIVE, _PARTICIPLE, _CONJUNCT, _CASE = bits_of(
    KIND_BITS, "attribute, number, adverb, adverbial clause, relative, participle, conjunct, case"
)
_PASSIVE, _AUXILIARY, _COPULA, _OPEN, _PREPOSITIONAL, _COMPLEMENT, _NAME, _DETERMINER = bits_of(
    KIND_BITS, "passive, auxiliary, copula, open, prepositional object, complement, name, determiner"
)
_PREPOSITION, _BESIDE, _ROOT, _FUNCTION, _EXPLETIVE = bits_of(
    KIND_BITS, "preposition, beside, root, function, expletive"
)
_W_NOT, _W_NO, _W_BY, _W_TO, _W_FROM, _W_OF, _W_THAN, _W_AS, _W_AFTER, _W_BEFORE, _W_RELATIVE = bits_of(
    FLAG, "not, no, by, to, from, of, than, as, after, before, relative"
)
_W_WHERE, _W_PREPOSITION, _W_PRONOUN, _W_WHAT, _W_DO, _W_LESS, _W_BARE, _W_OWN, _W_BELONG = bits_of(
    FLAG, "relative adverb, preposition, pronoun, what, do, less, bare, own, belong"
)
_CLAUSE_KINDS = _ROOT | _COMPLEMENT | _ADVERBIAL | _PARTICIPLE | _RELATIVE | _BESIDE | _CLAUSAL
_ANSWERED = 1 << 40
"""Set beside the kinds of a relative clause whose pronoun stands for the noun."""
_DEEP = 5
"""Clauses up or down which a subject or a gap is looked for."""
_MANY = 8
"""Conjuncts that share a role."""
_NAMES = "parent rel word first after has mark stands standard turned negated"
_TOKEN = np.dtype([(name, np.int64) for name in _NAMES.split()])
"""What the rules know of a token; tokens are places in the batch, -1 is none. ``rel`` holds the kinds of its
relation, which rules mend, ``first`` its first dependent, ``after`` the next one of its head, ``has`` the
kinds of all its dependents, ``mark`` the flags of its preposition or conjunction, ``stands`` the token it
stands for, ``standard`` what it is compared with, ``turned`` whether that has more."""


@compiled_part
def _child(t, v, kinds):  # type: ignore[no-untyped-def]
    """The first dependent of v that is of one of the kinds, or -1."""
    if t[v].has & kinds:
        k = t[v].first
        while k >= 0:
            if t[k].rel & kinds:
                return k
            k = t[k].after
    return -1


@compiled_part
def _relabel(t, k, kinds):  # type: ignore[no-untyped-def]
    """Change the kinds of k's relation."""
    p, t[k].rel = t[k].parent, kinds
    if p >= 0:
        t[p].has, k = 0, t[p].first
        while k >= 0:
            t[p].has |= t[k].rel
            k = t[k].after


@compiled_part
def _subject(t, v):  # type: ignore[no-untyped-def]
    """The subject of v, its own or that of the clause it shares one with, or -1."""
    for _ in range(_DEEP):
        up, own = t[v].parent, _child(t, v, _SUBJECT)
        if own >= 0 or up < 0:
            return own
        if t[v].rel & _OPEN:
            given = _child(t, up, _OBJECT | _INDIRECT)
            if given >= 0:
                return given
        elif t[v].rel & (_PARTICIPLE | _RELATIVE):
            return up
        elif t[v].has & _CASE if t[v].rel & _ADVERBIAL else not t[v].rel & _CONJUNCT:
            return -1
        v = up
    return -1


@compiled_part
def _passive(t, v):  # type: ignore[no-untyped-def]
    """Whether v is passive, a bare participle as well: the letter written by her."""
    bare = t[v].rel & _PARTICIPLE and not t[v].word & ING and not t[v].has & (_SUBJECT | _CASE)
    return bare or t[v].has & _PASSIVE > 0


@compiled_part
def _side(preposition):  # type: ignore[no-untyped-def]
    """The role that a preposition gives."""
    if preposition & _W_OF:
        return _POSS
    return _TO if preposition & _W_TO else _FROM if preposition & _W_FROM else _AT


@compiled_part
def _next_conjunct(t, s, whole):  # type: ignore[no-untyped-def]
    """The conjunct of ``whole`` after s, which is ``whole`` itself or one of them; -1 after the last."""
    k = t[whole].first if s == whole else t[s].after
    while k >= 0 and not t[k].rel & _CONJUNCT:
        k = t[k].after
    return k


@compiled_part
def _resolved(t, k):  # type: ignore[no-untyped-def]
    """The word that k stands for."""
    for _ in range(4):
        if t[k].stands < 0:
            break
        k = t[k].stands
    return k


@compiled_part
def _add(t, found, role, head, dependent):  # type: ignore[no-untyped-def]
    """Append an arc between what its words stand for; the first row of ``found`` counts."""
    head, dependent, count = _resolved(t, head), _resolved(t, dependent), found[0, 0] + 1
    if (head != dependent or role == _NEG) and count < len(found):
        found[count, 0], found[count, 1], found[count, 2] = role, head, dependent
        found[0, 0] = count


@compiled_part
def _mend(t):  # type: ignore[no-untyped-def]
    """Put right what parsers often miss: relative clauses by their pronoun, the recipient of two objects."""
    for v in range(len(t)):
        one, two = -1, -1
        if t[v].mark & _W_PREPOSITION and (t[v].rel & _OBJECT or not t[v].rel & ~_FUNCTION):
            _relabel(t, v, _OBLIQUE)
        if not t[v].has & (_OBJECT | _SUBJECT):
            continue
        k = t[v].first
        while k >= 0:
            if t[k].word & _W_RELATIVE and t[k].rel & (_SUBJECT | _OBJECT) and t[v].rel & _PARTICIPLE:
                _relabel(t, v, t[v].rel | _RELATIVE)
            if t[k].rel & _OBJECT:
                one, two = (k, two) if one < 0 else (one, k)
            k = t[k].after
        if two >= 0:  # whom she gave books, books which she gave him
            _relabel(t, two if t[one].word & _W_RELATIVE else one, _INDIRECT)
        elif one >= 0 and t[v].parent >= 0 and t[t[v].parent].word & _W_WHAT and t[v].rel & _RELATIVE:
            given = _child(t, v, _SUBJECT) >= 0 and not t[v].has & _COMPLEMENT
            _relabel(t, one, _INDIRECT if given else _OBJECT)  # what she gave him


@compiled_part
def _stand(t):  # type: ignore[no-untyped-def]
    """Find what pronouns and bare auxiliaries stand for."""
    for k in range(len(t)):
        v = t[k].parent
        for _ in range(2 if t[k].word & _W_RELATIVE else 0):  # who came; whose hat was red
            up = t[v].parent if v >= 0 else -1
            relative = up >= 0 and (t[v].rel & _RELATIVE or (t[v].rel & _CLAUSAL and t[up].has & _COPULA))
            if relative and not t[k].rel & (_CASE | _DETERMINER):
                t[k].stands = up
                t[v].rel |= _ANSWERED
            v = up
    for v in range(len(t)):
        up = t[v].parent
        if up < 0:
            continue
        if t[v].rel & _SUBJECT and t[up].has & (_COPULA | _AUXILIARY):
            clause = _child(t, v, _RELATIVE)
            pointed = t[up].has & (_RELATIVE | _CLAUSAL) and not t[up].word & (_W_WHERE | _W_WHAT)
            if t[v].word & _W_PRONOUN and (clause >= 0 or pointed):
                t[v].stands = up
            if clause >= 0 and t[v].word & _W_WHAT and t[clause].word & _W_DO:
                t[clause].stands = up  # what she did was leave: she is its subject, and it has no copula
                _relabel(t, _child(t, up, _COPULA | _AUXILIARY), _AUXILIARY)
                _relabel(t, v, _FUNCTION)
            elif clause >= 0 and t[v].word & _W_WHAT and t[up].has & (_DETERMINER | _NUMBER | _POSSESSOR):
                t[v].stands = up  # what she gave was a book
        verbal = _OBJECT | _INDIRECT | _COPULA | _COMPLEMENT | _OBLIQUE | _EXPLETIVE
        joined = t[v].rel & (_CONJUNCT | _ADVERBIAL | _BESIDE | _COMPLEMENT)
        if joined and t[v].word & _W_BARE and not t[v].has & verbal:
            t[v].stands = up


@compiled_part
def _compare(t):  # type: ignore[no-untyped-def]
    """What each word is compared with, and whether that has more: older than she, not as old as she."""
    for k in range(len(t)):
        p = t[k].parent
        if p < 0 or not t[k].mark & (_W_THAN | _W_AS) or not t[k].rel & (_OBLIQUE | _ADVERBIAL):
            continue
        v = t[p].parent if t[p].rel & (_ADVERB | _ATTRIBUTE) else p  # runs faster than she
        above = v if v >= 0 else p
        less, much = (t[p].word | t[above].word) & _W_LESS, t[k].mark & _W_THAN
        for head in (p, above):
            sister = t[head].first
            while sister >= 0:
                less |= t[sister].word & _W_LESS
                much |= t[sister].word & _W_AS if t[sister].rel & _ADVERB else 0
                sister = t[sister].after
        if much:
            t[above].standard = t[p].standard = k
            t[above].turned = less > 0 or t[k].mark & _W_AS > 0


@compiled_part
def _gap(t, found, v, noun):  # type: ignore[no-untyped-def]
    """Append what the noun is to its clause v without a pronoun, or to one in it: a man they meant to see."""
    inner = v
    for _ in range(_DEEP):
        v, inner = inner, _child(t, inner, _COMPLEMENT)
        if inner < 0:
            break
    role = -1 if t[v].has & (_OBJECT | _PASSIVE | _COPULA) else _PATIENT
    if t[v].rel & _COMPLEMENT and not (t[v].rel & _OPEN or t[v].has & _SUBJECT):  # the man they say came
        role = _AGENT
    k = t[v].first
    while k >= 0:  # the man they spoke to
        if k > v and t[k].first < 0 and t[k].rel & _OBLIQUE and t[k].word & _W_PREPOSITION:
            role = _side(t[k].word)
            _relabel(t, k, _FUNCTION)
        k = t[k].after
    if role >= 0 and not t[noun].word & _W_WHERE:
        _add(t, found, role, v, noun)


@partial(compiled_if_long, rows=100)  # which take Python 30 ms
def _arcs(t, parent, rel, word, found):  # type: ignore[no-untyped-def]
    """Write arcs to ``found``, rows of role, head and dependent after one that counts them."""
    for k in range(len(t)):
        t[k].parent = parent[k]
        t[k].rel = rel[k]
        t[k].word = word[k]
        t[k].has = t[k].mark = t[k].turned = t[k].negated = 0
        t[k].first = t[k].after = t[k].stands = t[k].standard = -1
    for k in range(len(t)):  # Stanford's prepositions become case markers of their objects
        p = t[k].parent
        if p >= 0 and t[k].rel & _PREPOSITIONAL and t[p].rel & _PREPOSITION:
            t[k].parent, t[p].parent = t[p].parent, k
            t[k].rel, t[p].rel = _OBLIQUE | t[p].rel & _BY_AGENT, _CASE
    for k in range(len(t)):
        p = t[k].parent
        q = t[p].parent if p >= 0 and t[k].rel & _OBJECT and t[p].rel & _CONJUNCT else -1
        if q >= 0 and t[q].rel & _OBJECT:
            t[k].parent = t[q].parent  # gave him and her a hat
        for j in range(k - 1, p if t[k].rel & _RELATIVE else k, -1):  # the hat the king wore
            if t[j].parent == k and t[j].rel & (_SUBJECT | _OBJECT):
                break
            if t[j].parent == p and t[j].rel & _NAME:
                t[j].parent, t[j].rel = k, _SUBJECT
    for k in range(len(t) - 1, -1, -1):
        p = t[k].parent
        if p >= 0:
            t[k].after, t[p].first = t[p].first, k
            t[p].has |= t[k].rel
            if t[k].rel & _CASE:
                t[p].mark = t[k].word
    _mend(t)
    _stand(t)
    _compare(t)
    for k in range(len(t)):
        p = t[k].parent
        if p >= 0 and t[k].word & _W_NO and t[k].rel & _DETERMINER and t[p].rel & (_OBJECT | _SUBJECT):
            p = t[p].parent  # she saw no king
        elif not t[k].word & _W_NOT:
            p = -1
        if p >= 0:
            t[p].negated = 1
    found[0, 0] = 0
    for v in range(len(t)):
        if t[v].first < 0 and not t[v].rel & (_CLAUSE_KINDS | _CONJUNCT):
            continue
        begin = found[0, 0] + 1
        subject = _clause(t, found, v, t[v].negated > 0, t[v].standard)
        _dependents(t, found, v, subject)
        if t[v].word & (_W_OWN | _W_BELONG):  # has a hat, a hat belongs to
            owner = _TO if t[v].word & _W_BELONG else _AGENT
            owned = _AGENT if t[v].word & _W_BELONG else _PATIENT
            end = found[0, 0] + 1
            for i in range(begin, end):
                for k in range(begin, end):
                    if found[i, 0] == owned and found[k, 0] == owner:
                        _add(t, found, _POSS, found[i, 2], found[k, 2])


@compiled_part
def _clause(t, found, v, negated, standard):  # type: ignore[no-untyped-def]
    """Append the arcs of v's subject, v's own or shared; return the object that is one, or -1."""
    up, own = t[v].parent, _child(t, v, _SUBJECT)
    kind, has = t[v].rel, t[v].has
    copula, passive = t[_resolved(t, v)].has & _COPULA > 0, _passive(t, v)
    clause, parts = kind & _CLAUSE_KINDS > 0, _OBJECT | _INDIRECT | _BY_AGENT | _AUXILIARY | _COPULA
    joined = kind & _CONJUNCT and own < 0 and up >= 0
    if joined:
        clause = t[up].rel & _CLAUSE_KINDS > 0 or _child(t, up, _SUBJECT) >= 0
        parts |= _OBLIQUE | _ADVERB | _COMPLEMENT
        if not has & (_OBJECT | _INDIRECT | _AUXILIARY | _COPULA | _COMPLEMENT):
            copula = t[up].has & _COPULA > 0  # loose and limp
            passive = _passive(t, up) and not t[v].word & ING  # stopped and asked
    subject, inverted = -1, -1
    if (clause or own >= 0 or has & parts) and not (kind & _PARTICIPLE and own < 0 and has & _CASE):
        subject = _subject(t, v)  # but not in "a man to watch"
    if own < 0 and not passive and kind & (_ROOT | _COMPLEMENT | _CONJUNCT):  # under it lay a hat
        led, what = _child(t, v, _OBLIQUE), _child(t, v, _OBJECT)
        if 0 <= led < v < what:
            subject = inverted = what
    equal = standard >= 0 and t[standard].mark & _W_AS
    turned = t[v].turned > 0 and subject >= 0 and (negated or not equal)
    negated = negated and not (turned and equal)
    s, taken = subject, 0
    while s >= 0 and taken <= _MANY:
        done = passive or (s == subject and own >= 0 and t[s].rel & _PASSIVE_SUBJECT)
        if copula and not (own >= 0 and t[own].rel & _PASSIVE_SUBJECT):
            _add(t, found, _ATTR, standard if turned else s, v)
        elif done:
            _add(t, found, _TO if has & _OBJECT else _PATIENT, v, s)  # she was given a book
        else:
            _add(t, found, _AGENT, v, s)
        if negated:
            by = _child(t, v, _BY_AGENT) if done else -1
            _add(t, found, _NEG, v, s if by < 0 else by)
        if standard >= 0 and (turned or not equal):
            _add(t, found, _THAN, standard if turned else s, s if turned else standard)
        s, taken = _next_conjunct(t, s, subject), taken + 1
    if negated and subject < 0:
        _add(t, found, _NEG, v, v)
    if kind & _RELATIVE and up >= 0 and own >= 0 and not copula and not kind & _ANSWERED:
        _gap(t, found, v, up)
    return inverted


@compiled_part
def _dependents(t, found, v, subject):  # type: ignore[no-untyped-def]
    """Append the arcs of v's other dependents; ``subject`` is its object that is none."""
    k = t[v].first
    while k >= 0:
        kind, mark, role = t[k].rel, t[k].mark, -1
        if k == t[v].standard or k == subject or kind & (_SUBJECT | _CONJUNCT):
            pass
        elif kind & _OBJECT:
            role = _PATIENT
        elif kind & _INDIRECT:
            role = _TO
        elif kind & _OBLIQUE:
            agent = kind & _BY_AGENT or (mark & _W_BY and _passive(t, v))
            role = _POSS if kind & _POSSESSOR else _AGENT if agent and not mark & _W_OF else _side(mark)
        elif kind & _ATTRIBUTE:
            role = _ATTR
        elif kind & _NUMBER:
            role = _NUM
        elif kind & _ADVERB:
            role = -1 if t[k].word & (_W_NOT | _W_AS) else _ADV
        elif kind & _ADVERBIAL:
            before = _BEFORE if mark & (_W_BEFORE | _W_AFTER) else _CLAUSE
            _add(t, found, before, k if mark & _W_AFTER else v, v if mark & _W_AFTER else k)
        elif kind & _NAME:
            role = _IS
        elif kind & _COMPLEMENT:
            role = _CLAUSE
        shared = kind & (_OBJECT | _INDIRECT | _OBLIQUE | _ATTRIBUTE | _NUMBER)
        s, taken = k, 0
        while role >= 0 and s >= 0 and taken <= _MANY:
            own = _TO <= role <= _AT and s != k and t[s].mark & _W_PREPOSITION
            _add(t, found, _side(t[s].mark) if own else role, v, s)  # out of Rome and into Paris
            s, taken = _next_conjunct(t, s, k) if shared else -1, taken + 1
        k = t[k].after
