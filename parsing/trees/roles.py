"""Canonical roles: who did what to whom, whatever the voice, from cached dependency trees.

An arc (role, head, dependent) joins two words of a sentence. The same event has the same arcs whether it is
told in the active or the passive, in a relative clause or a cleft, with either dative:

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

Relative pronouns and the subjects of clefts stand for their noun, an auxiliary without a verb stands for the
predicate it is coordinated with, and coordinated words share subjects and objects. Relations are those of
Universal Dependencies or of Stanford Dependencies.

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
    DEPENDENT_TABLE,
    FUNCTION_WORD,
    HAS_AGENT,
    HAS_OBJECT,
    IS_COMPARED,
    IS_COPULAR,
    IS_EQUAL,
    IS_NEGATED,
    IS_NEGATED_ALONE,
    IS_PASSIVE,
    KIND,
    ROLES,
    STANDARD_HAS_MORE,
    WORD,
)
from parsing.trees.role_trees import HAS_RESOLVED_PRONOUN, child_of, mend_trees, relabel, token_records
from runtime.compiled import compiled_if_long, compiled_part

_AGENT, _PATIENT, _TO, _FROM, _AT, _POSS = range(6)
_NEG = ROLES.index("neg")
MAX_DEPTH = 5
"""How many clauses up or down a subject or a gap is searched for."""
MAX_CONJUNCTS = 8
"""How many conjuncts share the role of the first one."""
ARCS_PER_TOKEN, SPARE_ARCS = MAX_CONJUNCTS + 4, 16
"""Room for the arcs of a batch: a token and its conjuncts have an arc each, and a clause has up to three
(subject, negation, comparison). No sentence of GUM and EWT dev has more than one a token. A batch of wild
trees may have more, since subjects are shared as well; its last arcs are then left out."""
_VERB_DEPENDENTS = KIND.OBJECT | KIND.INDIRECT_OBJECT | KIND.AUXILIARY | KIND.COPULA | KIND.COMPLEMENT
"""Dependents that show that a predicate has a verb of its own."""
_KINDS_WITHOUT_RULE = KIND.SUBJECT | KIND.CONJUNCT | FUNCTION_WORD
"""Dependents that no rule of :data:`parsing.trees.role_rules.DEPENDENT_RULES` is for."""
_KINDS_SHARING_ROLES = KIND.OBJECT | KIND.INDIRECT_OBJECT | KIND.OBLIQUE | KIND.ATTRIBUTE | KIND.NUMBER
"""Dependents whose conjuncts have the same role."""


@dataclass(frozen=True)
class Arcs:
    """The M arcs of a batch: places in ``ROLES``, and tokens as places in the batch, [M] each."""

    role: Int64
    head: Int64
    dependent: Int64


def content_words(relation: Int64, types: Sequence[str], token: Int) -> Int64:
    """Return the tokens that are neither function words, by their relation, nor punctuation: int64 [K]."""
    has_letters = np.array([any(letter.isalnum() for letter in word) for word in types], bool)
    return np.flatnonzero(has_letters[token] & ((relation & FUNCTION_WORD) == 0))


def canonical_arcs(head: Int, relation: Int64, word: Int64, sentence_offsets: Int) -> Arcs:
    """Find the canonical arcs of dependency trees.

    Heads [T] are 1-based within the sentence, 0 for the root; relations and words [T] are bits of
    :mod:`parsing.trees.role_rules`; sentences start at the offsets [B + 1].
    """
    # The first row counts the arcs below it.
    arcs = np.empty((1 + ARCS_PER_TOKEN * len(word) + SPARE_ARCS, 3), np.int64)
    arcs[0, 0] = 0
    _fill_arcs(token_records(parents(head, sentence_offsets), relation, word), arcs)
    return Arcs(*arcs[1 : arcs[0, 0] + 1].T.copy())


def parents(head: Int, sentence_offsets: Int) -> Int64:
    """Return each token's head as a place in the batch, -1 for roots: int64 [T]; arguments as above."""
    offsets = sentence_offsets.astype(np.int64)
    first_tokens = np.repeat(offsets[:-1], np.diff(offsets))
    return np.where(head > 0, first_tokens + head - 1, -1).astype(np.int64)


@partial(compiled_if_long, rows=100)  # which take Python 30 ms
def _fill_arcs(tree, arcs):  # type: ignore[no-untyped-def]
    """Write arcs to ``arcs``: rows of role, head and dependent, below a row that counts them."""
    mend_trees(tree)
    for token in range(len(tree)):
        if tree[token].first_child < 0 and not tree[token].kinds & (CLAUSE | KIND.CONJUNCT):
            continue  # it has no dependents, and no subject that it might share
        first_row = arcs[0, 0] + 1
        late_subject = _late_subject(tree, token)
        _add_clause(tree, arcs, token, late_subject)
        _add_dependents(tree, arcs, token, late_subject)
        if tree[token].word & (WORD.POSSESS | WORD.BELONG):
            _add_possessions(tree, arcs, token, first_row)


@compiled_part
def _add(tree, arcs, role, head, dependent):  # type: ignore[no-untyped-def]
    """Append the arc between what two words stand for, while there is room."""
    head = _referent(tree, head)
    dependent = _referent(tree, dependent)
    row = arcs[0, 0] + 1
    if (head != dependent or role == _NEG) and row < len(arcs):
        arcs[row, 0], arcs[row, 1], arcs[row, 2] = role, head, dependent
        arcs[0, 0] = row


@compiled_part
def _referent(tree, token):  # type: ignore[no-untyped-def]
    """Follow antecedents from a token to the word that it stands for, which may be the token itself."""
    for _ in range(4):
        if tree[token].antecedent < 0:
            break
        token = tree[token].antecedent
    return token


@compiled_part
def _next_conjunct(tree, token, first):  # type: ignore[no-untyped-def]
    """Return the conjunct of ``first`` after a token, which is ``first`` or a conjunct; -1 after the last."""
    token = tree[first].first_child if token == first else tree[token].next_sister
    while token >= 0 and not tree[token].kinds & KIND.CONJUNCT:
        token = tree[token].next_sister
    return token


@compiled_part
def _add_clause(tree, arcs, predicate, late_subject):  # type: ignore[no-untyped-def]
    """Append the arcs of ``CLAUSE_RULES`` for each subject, and that of a gap."""
    first_subject = _subject(tree, predicate) if late_subject < 0 else late_subject
    if first_subject < 0 and tree[predicate].is_negated:
        _apply_clause_rules(tree, arcs, IS_NEGATED_ALONE, predicate, -1, -1)
    elif first_subject >= 0:
        facts = _clause_facts(tree, predicate)
        agent = child_of(tree, predicate, KIND.AGENT)
        subject = first_subject
        for _ in range(MAX_CONJUNCTS + 1):
            _apply_clause_rules(tree, arcs, facts, predicate, subject, agent)
            subject = _next_conjunct(tree, subject, first_subject)
            if subject < 0:
                break
    kinds = tree[predicate].kinds
    has_gap = kinds & KIND.RELATIVE and not kinds & HAS_RESOLVED_PRONOUN
    has_subject = child_of(tree, predicate, KIND.SUBJECT) >= 0
    if has_gap and has_subject and not _is_copular(tree, predicate):
        _add_gap(tree, arcs, predicate)


@compiled_part
def _apply_clause_rules(tree, arcs, facts, predicate, subject, agent):  # type: ignore[no-untyped-def]
    """Append the arcs of all rules whose condition holds."""
    words = (predicate, subject, tree[predicate].standard, agent)
    for rule in CLAUSE_TABLE:
        if facts & (rule.necessary_facts | rule.excluding_facts) == rule.necessary_facts:
            _add(tree, arcs, rule.role, words[rule.head], words[rule.dependent])


@compiled_part
def _clause_facts(tree, predicate):  # type: ignore[no-untyped-def]
    """Collect what is true of a clause that has a subject, as bits of :mod:`parsing.trees.role_rules`."""
    facts = 0
    subject = child_of(tree, predicate, KIND.SUBJECT)
    if _is_copular(tree, predicate) and not (subject >= 0 and tree[subject].kinds & KIND.PASSIVE_SUBJECT):
        facts |= IS_COPULAR
    if _is_passive(tree, predicate):
        facts |= IS_PASSIVE
        if tree[predicate].child_kinds & KIND.AGENT:
            facts |= HAS_AGENT
    if tree[predicate].child_kinds & KIND.OBJECT:
        facts |= HAS_OBJECT
    standard = tree[predicate].standard
    if standard >= 0:
        facts |= IS_COMPARED
        if tree[standard].mark & WORD.AS:
            facts |= IS_EQUAL
    if tree[predicate].is_negated:
        facts |= IS_NEGATED
    if tree[predicate].standard_has_more and (facts & IS_NEGATED or not facts & IS_EQUAL):
        facts |= STANDARD_HAS_MORE
        if facts & IS_EQUAL:  # not as old as she: the comparison has the negation
            facts &= ~IS_NEGATED
    return facts


@compiled_part
def _shares_clause(tree, predicate):  # type: ignore[no-untyped-def]
    """Tell whether a predicate takes its subject from the one that it is coordinated with."""
    is_conjunct = tree[predicate].kinds & KIND.CONJUNCT and tree[predicate].parent >= 0
    return is_conjunct and child_of(tree, predicate, KIND.SUBJECT) < 0


@compiled_part
def _shares_auxiliary(tree, predicate):  # type: ignore[no-untyped-def]
    """Tell whether a predicate takes its copula or auxiliary from there, too: it is loose and *limp*."""
    return _shares_clause(tree, predicate) and not tree[predicate].child_kinds & _VERB_DEPENDENTS


@compiled_part
def _is_copular(tree, predicate):  # type: ignore[no-untyped-def]
    """Tell whether a predicate has a copula.

    Example: loose:0:root and:3:cc limp:1:conj It:1:nsubj was:1:cop -> attr:It:limp
    """
    owner = tree[predicate].parent if _shares_auxiliary(tree, predicate) else _referent(tree, predicate)
    return tree[owner].child_kinds & KIND.COPULA > 0


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
    """Tell whether a verb is passive by its dependents, or a lone participle: the letter written by her."""
    is_participle = tree[verb].kinds & KIND.PARTICIPLE and not tree[verb].word & WORD.ING
    is_alone = not tree[verb].child_kinds & (KIND.SUBJECT | KIND.CASE)
    return tree[verb].child_kinds & KIND.PASSIVE or (is_participle and is_alone)


@compiled_part
def _late_subject(tree, verb):  # type: ignore[no-untyped-def]
    """Find a subject that follows its verb and has the relation of an object; -1 if there is none.

    Example: Under:3:case a:3:det tree:4:obl stood:0:root Ann:4:obj -> agent:stood:Ann
    """
    if not tree[verb].kinds & (KIND.ROOT | KIND.COMPLEMENT | KIND.CONJUNCT) or _is_passive(tree, verb):
        return -1
    location = child_of(tree, verb, KIND.OBLIQUE)
    subject = child_of(tree, verb, KIND.OBJECT)
    if child_of(tree, verb, KIND.SUBJECT) < 0 and 0 <= location < verb < subject:
        return subject
    return -1


@compiled_part
def _subject(tree, predicate):  # type: ignore[no-untyped-def]
    """Find the subject of a predicate, its own or that of a clause above it; -1 if there is none.

    Example: Ann:2:nsubj wants:0:root to:4:mark sing:2:xcomp -> agent:sing:Ann
    Example: She:2:nsubj told:0:root him:2:obj to:5:mark leave:2:xcomp -> agent:leave:him
    Example: Ann:2:nsubj sang:0:root and:4:cc saw:2:conj Bob:4:obj -> agent:saw:Ann
    Example: man:0:root singing:1:acl songs:2:obj -> agent:singing:man
    """
    if not _may_have_subject(tree, predicate):
        return -1
    clause = predicate
    for _ in range(MAX_DEPTH):
        kinds = tree[clause].kinds
        parent = tree[clause].parent
        subject = child_of(tree, clause, KIND.SUBJECT)
        if subject >= 0 or parent < 0:
            return subject
        if kinds & KIND.OPEN_COMPLEMENT:
            controller = child_of(tree, parent, KIND.OBJECT | KIND.INDIRECT_OBJECT)
            if controller >= 0:
                return controller
        elif kinds & (KIND.PARTICIPLE | KIND.RELATIVE):
            return parent
        elif kinds & KIND.ADVERBIAL_CLAUSE:
            if tree[clause].child_kinds & KIND.CASE:
                return -1
        elif not kinds & KIND.CONJUNCT:
            return -1
        clause = parent
    return -1


@compiled_part
def _may_have_subject(tree, predicate):  # type: ignore[no-untyped-def]
    """Tell whether a word can have a subject; in "a man to watch" the verb's is not the man."""
    kinds, child_kinds = tree[predicate].kinds, tree[predicate].child_kinds
    if child_kinds & KIND.SUBJECT:
        return True
    if kinds & KIND.PARTICIPLE and child_kinds & KIND.CASE:
        return False
    of_verbs = KIND.OBJECT | KIND.INDIRECT_OBJECT | KIND.AGENT | KIND.AUXILIARY | KIND.COPULA
    if not _shares_clause(tree, predicate):
        return kinds & CLAUSE > 0 or child_kinds & of_verbs > 0
    parent = tree[predicate].parent
    in_clause = tree[parent].kinds & CLAUSE > 0 or tree[parent].child_kinds & KIND.SUBJECT > 0
    return in_clause or child_kinds & (of_verbs | KIND.OBLIQUE | KIND.ADVERB | KIND.COMPLEMENT) > 0


@compiled_part
def _add_gap(tree, arcs, clause):  # type: ignore[no-untyped-def]
    """Append the role of a noun in its relative clause without a pronoun, or in a clause within that.

    Example: hat:0:root king:3:nsubj wore:1:acl:relcl -> patient:wore:hat
    Example: man:0:root they:3:nsubj want:1:acl:relcl to:5:mark see:3:xcomp -> patient:see:man
    Example: man:0:root they:3:nsubj say:1:acl:relcl came:3:ccomp -> agent:came:man
    Example: man:0:root they:3:nsubj spoke:1:acl:relcl to:3:obl -> to:spoke:man
    """
    noun, verb = tree[clause].parent, clause
    if noun < 0:
        return
    for _ in range(MAX_DEPTH - 1):
        complement = child_of(tree, verb, KIND.COMPLEMENT)
        if complement < 0:
            break
        verb = complement
    kinds, child_kinds = tree[verb].kinds, tree[verb].child_kinds
    role = -1 if child_kinds & (KIND.OBJECT | KIND.PASSIVE | KIND.COPULA) else _PATIENT
    if kinds & KIND.COMPLEMENT and not kinds & KIND.OPEN_COMPLEMENT and not child_kinds & KIND.SUBJECT:
        role = _AGENT
    child = tree[verb].first_child
    while child >= 0:
        is_stranded = child > verb and tree[child].first_child < 0  # the preposition of "they spoke to"
        if is_stranded and tree[child].kinds & KIND.OBLIQUE and tree[child].word & WORD.PREPOSITION:
            role = DEPENDENT_TABLE[_rule_place(KIND.OBLIQUE, tree[child].word, 0, 0)].role
            relabel(tree, child, KIND.FUNCTION)
        child = tree[child].next_sister
    if role >= 0 and not tree[noun].word & WORD.RELATIVE_ADVERB:
        _add(tree, arcs, role, verb, noun)


@compiled_part
def _add_dependents(tree, arcs, head, late_subject):  # type: ignore[no-untyped-def]
    """Append the arcs of ``DEPENDENT_RULES``; those of subjects and standards belong to the clause."""
    is_passive = _has_passive_form(tree, head)
    child = tree[head].first_child
    while child >= 0:
        is_of_clause = child == tree[head].standard or child == late_subject
        if not is_of_clause and not tree[child].kinds & _KINDS_WITHOUT_RULE:
            place = _rule_place(tree[child].kinds, tree[child].mark, tree[child].word, is_passive)
            rule = DEPENDENT_TABLE[place]
            if rule.starts_at_dependent:
                _add(tree, arcs, rule.role, child, head)
            elif rule.role >= 0:
                _add_conjuncts(tree, arcs, rule.role, head, child)
        child = tree[child].next_sister


@compiled_part
def _rule_place(kinds, mark, word, head_is_passive):  # type: ignore[no-untyped-def]
    """Return the place of the first rule that is true of a dependent; the last one always is."""
    place = 0
    for rule in DEPENDENT_TABLE:
        fits_relation = rule.relation == 0 or kinds & rule.relation
        fits_words = (rule.mark == 0 or mark & rule.mark) and (rule.word == 0 or word & rule.word)
        if fits_relation and fits_words and (head_is_passive or not rule.needs_passive_head):
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
    for _ in range(MAX_CONJUNCTS if tree[first].kinds & _KINDS_SHARING_ROLES else 0):
        conjunct = _next_conjunct(tree, conjunct, first)
        if conjunct < 0:
            break
        role_of_conjunct = role
        if _TO <= role <= _AT and tree[conjunct].mark & WORD.PREPOSITION:
            place = _rule_place(KIND.OBLIQUE, tree[conjunct].mark, 0, 0)
            role_of_conjunct = DEPENDENT_TABLE[place].role
        _add(tree, arcs, role_of_conjunct, head, conjunct)


@compiled_part
def _add_possessions(tree, arcs, verb, first_row):  # type: ignore[no-untyped-def]
    """Append who owns what, by a verb whose arcs are the rows from ``first_row`` on.

    Example: Ann:2:nsubj has:0:root hats:2:obj -> poss:hats:Ann
    Example: hats:2:nsubj belong:0:root to:4:case Ann:2:obl -> poss:hats:Ann
    """
    owner_role, thing_role = (_TO, _AGENT) if tree[verb].word & WORD.BELONG else (_AGENT, _PATIENT)
    end = arcs[0, 0] + 1
    for i in range(first_row, end):
        for k in range(first_row, end):
            if arcs[i, 0] == thing_role and arcs[k, 0] == owner_role:
                _add(tree, arcs, _POSS, arcs[i, 2], arcs[k, 2])
