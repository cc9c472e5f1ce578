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
Dependencies or of Stanford Dependencies.

:mod:`parsing.trees.role_trees` reads the trees, :mod:`parsing.trees.role_rules` has the rules, and this
module applies them, predicate by predicate.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from parsing.trees.batch import Int, Int64
from parsing.trees.role_rules import (
    CLAUSE,
    CLAUSE_TABLE,
    COMPARED,
    COPULAR,
    DEPENDENT_TABLE,
    EQUAL,
    FUNCTION_WORD,
    IN_PASSIVE,
    KIND,
    NEGATED,
    NEGATED_ALONE,
    ROLES,
    STANDARD_HAS_MORE,
    WITH_AGENT,
    WITH_OBJECT,
    WORD,
)
from parsing.trees.role_trees import ANSWERED, child_of, mend_trees, records, relabel
from runtime.compiled import compiled_if_long, compiled_part

_AGENT, _PATIENT, _TO, _FROM, _AT, _POSS = range(6)
_NEG = ROLES.index("neg")
DEEPEST = 5
"""Clauses up or down which a subject or a gap is looked for."""
MOST_CONJUNCTS = 8
"""Conjuncts, beside the first, that share a role."""
_VERBAL = KIND.OBJECT | KIND.INDIRECT_OBJECT | KIND.AUXILIARY | KIND.COPULA | KIND.COMPLEMENT
"""Dependents of a predicate with a verb of its own."""
_RULELESS = KIND.SUBJECT | KIND.CONJUNCT | FUNCTION_WORD
"""Dependents that :data:`parsing.trees.role_rules.DEPENDENT_RULES` say nothing of."""
_SHARED = KIND.OBJECT | KIND.INDIRECT_OBJECT | KIND.OBLIQUE | KIND.ATTRIBUTE | KIND.NUMBER
"""Dependents whose conjuncts have the same role."""


@dataclass(frozen=True)
class Arcs:
    """Pairs of words of a batch: places in ``ROLES``, and tokens, [M] each."""

    role: Int64
    head: Int64
    dependent: Int64


def content_words(relation: Int64, types: Sequence[str], token: Int) -> Int64:
    """Return the tokens that are neither function words, by their relation, nor punctuation: int64 [K]."""
    spoken = np.array([any(letter.isalnum() for letter in word) for word in types], bool)
    return np.flatnonzero(spoken[token] & ((relation & FUNCTION_WORD) == 0))


def canonical_arcs(head: Int, relation: Int64, word: Int64, sentence_offsets: Int) -> Arcs:
    """Return the canonical roles of dependency trees.

    Heads [T] are 1-based within the sentence, 0 for the root; relations and words [T] are bits of
    :mod:`parsing.trees.role_rules`; sentences start at the offsets [B + 1].
    """
    arcs = np.empty(((MOST_CONJUNCTS + 4) * len(word) + 17, 3), np.int64)
    arcs[0, 0] = 0
    _fill_arcs(records(parents(head, sentence_offsets), relation, word), arcs)
    return Arcs(*arcs[1 : arcs[0, 0] + 1].T.copy())


def parents(head: Int, sentence_offsets: Int) -> Int64:
    """Return the token above each one, int64 [T], or -1; arguments as for :func:`canonical_arcs`."""
    offsets = sentence_offsets.astype(np.int64)
    begins = np.repeat(offsets[:-1], np.diff(offsets))
    return np.where(head > 0, begins + head - 1, -1).astype(np.int64)


@partial(compiled_if_long, rows=100)  # which take Python 30 ms
def _fill_arcs(tree, arcs):  # type: ignore[no-untyped-def]
    """Write arcs to ``arcs``, rows of role, head and dependent after one that counts them, from 0."""
    mend_trees(tree)
    for token in range(len(tree)):
        if tree[token].first < 0 and not tree[token].kinds & (CLAUSE | KIND.CONJUNCT):
            continue  # no dependents, and no subject that it might share
        begin, late_subject = arcs[0, 0] + 1, _late_subject(tree, token)
        _add_clause(tree, arcs, token, late_subject)
        _add_dependents(tree, arcs, token, late_subject)
        if tree[token].word & (WORD.OWN | WORD.BELONG):
            _add_possessions(tree, arcs, token, begin)


@compiled_part
def _add(tree, arcs, role, head, dependent):  # type: ignore[no-untyped-def]
    """Append an arc between the words that its two words stand for."""
    head, dependent = _referent(tree, head), _referent(tree, dependent)
    row = arcs[0, 0] + 1
    if (head != dependent or role == _NEG) and row < len(arcs):
        arcs[row, 0], arcs[row, 1], arcs[row, 2] = role, head, dependent
        arcs[0, 0] = row


@compiled_part
def _referent(tree, token):  # type: ignore[no-untyped-def]
    """Return the word that a token stands for in the end, which may be the token itself."""
    for _ in range(4):
        if tree[token].antecedent < 0:
            break
        token = tree[token].antecedent
    return token


@compiled_part
def _next_conjunct(tree, token, first):  # type: ignore[no-untyped-def]
    """Return the conjunct of ``first`` after a token, which is ``first`` or a conjunct; -1 after the last."""
    token = tree[first].first if token == first else tree[token].sister
    while token >= 0 and not tree[token].kinds & KIND.CONJUNCT:
        token = tree[token].sister
    return token


@compiled_part
def _add_clause(tree, arcs, predicate, late_subject):  # type: ignore[no-untyped-def]
    """Append the arcs of ``CLAUSE_RULES``, for each of the subjects, and that of a gap."""
    first = _subject(tree, predicate) if late_subject < 0 else late_subject
    if first < 0 and tree[predicate].negated:
        _apply_clause_rules(tree, arcs, NEGATED_ALONE, predicate, -1, -1)
    elif first >= 0:
        facts, agent = _facts(tree, predicate), child_of(tree, predicate, KIND.AGENT)
        subject = first
        for _ in range(MOST_CONJUNCTS + 1):
            _apply_clause_rules(tree, arcs, facts, predicate, subject, agent)
            subject = _next_conjunct(tree, subject, first)
            if subject < 0:
                break
    kinds, has_subject = tree[predicate].kinds, child_of(tree, predicate, KIND.SUBJECT) >= 0
    if kinds & KIND.RELATIVE and not kinds & ANSWERED and has_subject and not _is_copular(tree, predicate):
        _add_gap(tree, arcs, predicate)


@compiled_part
def _apply_clause_rules(tree, arcs, facts, predicate, subject, agent):  # type: ignore[no-untyped-def]
    """Append the arcs of all rules whose condition holds."""
    words = (predicate, subject, tree[predicate].standard, agent)
    for rule in CLAUSE_TABLE:
        if facts & rule.asked == rule.facts:
            _add(tree, arcs, rule.role, words[rule.head], words[rule.dependent])


@compiled_part
def _facts(tree, predicate):  # type: ignore[no-untyped-def]
    """Say what holds of a clause that has a subject, as bits of :mod:`parsing.trees.role_rules`."""
    facts, own = 0, child_of(tree, predicate, KIND.SUBJECT)
    if _is_copular(tree, predicate) and not (own >= 0 and tree[own].kinds & KIND.PASSIVE_SUBJECT):
        facts |= COPULAR
    if _is_passive(tree, predicate):
        facts |= IN_PASSIVE
        if tree[predicate].below & KIND.AGENT:
            facts |= WITH_AGENT
    if tree[predicate].below & KIND.OBJECT:
        facts |= WITH_OBJECT
    standard = tree[predicate].standard
    if standard >= 0:
        facts |= COMPARED
        if tree[standard].mark & WORD.AS:
            facts |= EQUAL
    if tree[predicate].negated:
        facts |= NEGATED
    if tree[predicate].standard_has_more and (facts & NEGATED or not facts & EQUAL):
        facts |= STANDARD_HAS_MORE
        if facts & EQUAL:  # not as old as she: the comparison has the negation
            facts &= ~NEGATED
    return facts


@compiled_part
def _shares_clause(tree, predicate):  # type: ignore[no-untyped-def]
    """Tell whether a predicate has its subject, if any, from the one that it is coordinated with."""
    conjunct = tree[predicate].kinds & KIND.CONJUNCT and tree[predicate].parent >= 0
    return conjunct and child_of(tree, predicate, KIND.SUBJECT) < 0


@compiled_part
def _shares_auxiliary(tree, predicate):  # type: ignore[no-untyped-def]
    """Tell whether a predicate has its copula or auxiliary from there, too: it is loose and *limp*."""
    return _shares_clause(tree, predicate) and not tree[predicate].below & _VERBAL


@compiled_part
def _is_copular(tree, predicate):  # type: ignore[no-untyped-def]
    """Tell whether a predicate has a copula.

    Example: loose:0:root and:3:cc limp:1:conj It:1:nsubj was:1:cop -> attr:It:limp
    """
    owner = tree[predicate].parent if _shares_auxiliary(tree, predicate) else _referent(tree, predicate)
    return tree[owner].below & KIND.COPULA > 0


@compiled_part
def _is_passive(tree, predicate):  # type: ignore[no-untyped-def]
    """Tell whether a predicate is passive.

    Example: Ann:3:nsubj:pass was:3:aux:pass stopped:0:root and:5:cc asked:3:conj -> patient:asked:Ann
    """
    if _shares_auxiliary(tree, predicate):
        return _has_passive_form(tree, tree[predicate].parent) and not tree[predicate].word & WORD.ING
    return _has_passive_form(tree, predicate)


@compiled_part
def _has_passive_form(tree, verb):  # type: ignore[no-untyped-def]
    """Tell whether a verb is passive by its dependents, or a bare participle: the letter written by her."""
    participle = tree[verb].kinds & KIND.PARTICIPLE and not tree[verb].word & WORD.ING
    bare = not tree[verb].below & (KIND.SUBJECT | KIND.CASE)
    return tree[verb].below & KIND.PASSIVE or (participle and bare)


@compiled_part
def _late_subject(tree, verb):  # type: ignore[no-untyped-def]
    """Return the subject that follows its verb and is labelled as an object, or -1.

    Example: Under:3:case a:3:det tree:4:obl stood:0:root Ann:4:obj -> agent:stood:Ann
    """
    if not tree[verb].kinds & (KIND.ROOT | KIND.COMPLEMENT | KIND.CONJUNCT) or _is_passive(tree, verb):
        return -1
    place, subject = child_of(tree, verb, KIND.OBLIQUE), child_of(tree, verb, KIND.OBJECT)
    if child_of(tree, verb, KIND.SUBJECT) < 0 and 0 <= place < verb < subject:
        return subject
    return -1


@compiled_part
def _subject(tree, predicate):  # type: ignore[no-untyped-def]
    """Return the subject of a predicate, its own or that of a clause above, or -1.

    Example: Ann:2:nsubj wants:0:root to:4:mark sing:2:xcomp -> agent:sing:Ann
    Example: She:2:nsubj told:0:root him:2:obj to:5:mark leave:2:xcomp -> agent:leave:him
    Example: Ann:2:nsubj sang:0:root and:4:cc saw:2:conj Bob:4:obj -> agent:saw:Ann
    Example: man:0:root singing:1:acl songs:2:obj -> agent:singing:man
    """
    if not _may_have_subject(tree, predicate):
        return -1
    clause = predicate
    for _ in range(DEEPEST):
        kinds, above, own = tree[clause].kinds, tree[clause].parent, child_of(tree, clause, KIND.SUBJECT)
        if own >= 0 or above < 0:
            return own
        if kinds & KIND.OPEN:
            controller = child_of(tree, above, KIND.OBJECT | KIND.INDIRECT_OBJECT)
            if controller >= 0:
                return controller
        elif kinds & (KIND.PARTICIPLE | KIND.RELATIVE):
            return above
        elif kinds & KIND.ADVERBIAL_CLAUSE:
            if tree[clause].below & KIND.CASE:
                return -1
        elif not kinds & KIND.CONJUNCT:
            return -1
        clause = above
    return -1


@compiled_part
def _may_have_subject(tree, predicate):  # type: ignore[no-untyped-def]
    """Tell whether a word is one that has a subject; in "a man to watch" the verb's is not the man."""
    kinds, below = tree[predicate].kinds, tree[predicate].below
    if below & KIND.SUBJECT:
        return True
    if kinds & KIND.PARTICIPLE and below & KIND.CASE:
        return False
    verbal = KIND.OBJECT | KIND.INDIRECT_OBJECT | KIND.AGENT | KIND.AUXILIARY | KIND.COPULA
    if not _shares_clause(tree, predicate):
        return kinds & CLAUSE > 0 or below & verbal > 0
    above = tree[predicate].parent
    in_clause = tree[above].kinds & CLAUSE > 0 or tree[above].below & KIND.SUBJECT > 0
    return in_clause or below & (verbal | KIND.OBLIQUE | KIND.ADVERB | KIND.COMPLEMENT) > 0


@compiled_part
def _add_gap(tree, arcs, clause):  # type: ignore[no-untyped-def]
    """Append what a noun is in its relative clause without a pronoun, or in a clause within that.

    Example: hat:0:root king:3:nsubj wore:1:acl:relcl -> patient:wore:hat
    Example: man:0:root they:3:nsubj want:1:acl:relcl to:5:mark see:3:xcomp -> patient:see:man
    Example: man:0:root they:3:nsubj say:1:acl:relcl came:3:ccomp -> agent:came:man
    Example: man:0:root they:3:nsubj spoke:1:acl:relcl to:3:obl -> to:spoke:man
    """
    noun, verb = tree[clause].parent, clause
    if noun < 0:
        return
    for _ in range(DEEPEST - 1):
        inner = child_of(tree, verb, KIND.COMPLEMENT)
        if inner < 0:
            break
        verb = inner
    kinds, below = tree[verb].kinds, tree[verb].below
    role = -1 if below & (KIND.OBJECT | KIND.PASSIVE | KIND.COPULA) else _PATIENT
    if kinds & KIND.COMPLEMENT and not kinds & KIND.OPEN and not below & KIND.SUBJECT:
        role = _AGENT
    child = tree[verb].first
    while child >= 0:
        last = child > verb and tree[child].first < 0
        if last and tree[child].kinds & KIND.OBLIQUE and tree[child].word & WORD.PREPOSITION:
            role = DEPENDENT_TABLE[_rule(KIND.OBLIQUE, tree[child].word, 0, 0)].role
            relabel(tree, child, KIND.FUNCTION)
        child = tree[child].sister
    if role >= 0 and not tree[noun].word & WORD.RELATIVE_ADVERB:
        _add(tree, arcs, role, verb, noun)


@compiled_part
def _add_dependents(tree, arcs, head, late_subject):  # type: ignore[no-untyped-def]
    """Append the arcs of ``DEPENDENT_RULES``; clauses have those of subjects and standards."""
    passive = _has_passive_form(tree, head)
    child = tree[head].first
    while child >= 0:
        of_clause = child == tree[head].standard or child == late_subject
        if not of_clause and not tree[child].kinds & _RULELESS:
            rule = DEPENDENT_TABLE[_rule(tree[child].kinds, tree[child].mark, tree[child].word, passive)]
            if rule.turned:
                _add(tree, arcs, rule.role, child, head)
            elif rule.role >= 0:
                _add_conjuncts(tree, arcs, rule.role, head, child)
        child = tree[child].sister


@compiled_part
def _rule(kinds, mark, word, passive):  # type: ignore[no-untyped-def]
    """Return the place of the first rule that holds of a dependent; the last one always does."""
    place = 0
    for rule in DEPENDENT_TABLE:
        of_kind = (rule.relation == 0 or kinds & rule.relation) and (passive or not rule.head_is_passive)
        if of_kind and (rule.mark == 0 or mark & rule.mark) and (rule.word == 0 or word & rule.word):
            break
        place += 1
    return place


@compiled_part
def _add_conjuncts(tree, arcs, role, head, first):  # type: ignore[no-untyped-def]
    """Append the arcs of a dependent and its conjuncts; one with a preposition of its own has its own role.

    Example: from:2:case Rome:6:obl and:5:cc to:5:case Paris:2:conj went:0:root -> to:went:Paris
    Example: Ann:2:nsubj saw:0:root Bob:2:obj and:5:cc Eve:3:conj -> patient:saw:Eve
    """
    _add(tree, arcs, role, head, first)
    conjunct = first
    for _ in range(MOST_CONJUNCTS if tree[first].kinds & _SHARED else 0):
        conjunct = _next_conjunct(tree, conjunct, first)
        if conjunct < 0:
            break
        own = role
        if _TO <= role <= _AT and tree[conjunct].mark & WORD.PREPOSITION:
            own = DEPENDENT_TABLE[_rule(KIND.OBLIQUE, tree[conjunct].mark, 0, 0)].role
        _add(tree, arcs, own, head, conjunct)


@compiled_part
def _add_possessions(tree, arcs, verb, begin):  # type: ignore[no-untyped-def]
    """Append, from a verb's arcs in the rows from ``begin`` on, that one thing is another one's.

    Example: Ann:2:nsubj has:0:root hats:2:obj -> poss:hats:Ann
    Example: hats:2:nsubj belong:0:root to:4:case Ann:2:obl -> poss:hats:Ann
    """
    belongs, end = tree[verb].word & WORD.BELONG, arcs[0, 0] + 1
    owner, thing = (_TO, _AGENT) if belongs else (_AGENT, _PATIENT)
    for i in range(begin, end):
        for k in range(begin, end):
            if arcs[i, 0] == thing and arcs[k, 0] == owner:
                _add(tree, arcs, _POSS, arcs[i, 2], arcs[k, 2])
