"""Canonical roles: who did what to whom, whatever the voice, from cached dependency trees.

An arc (role, head, dependent) joins two words of a sentence. The same event has the same arcs whether it is
told in the active or the passive, in a relative clause or a cleft, and wherever its recipient stands ("gave
her a book", "gave a book to her"):

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

An arc joins a noun rather than its relative pronoun or the subject of its cleft, and a predicate rather than
an auxiliary without a verb that is coordinated with it. Coordinated words share subjects and objects.
Relations are those of Universal Dependencies or of Stanford Dependencies.

The arcs are made in two steps. First, :func:`parsing.trees.role_trees.mend_trees` removes differences between
parsers and between annotation schemes, and records which word each pronoun or auxiliary stands for. Then, for
each word, ``CLAUSE_RULES`` make the arcs of its clause, and ``DEPENDENT_RULES`` the arcs to its dependents
(:mod:`parsing.trees.role_rules`).
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from parsing.trees.batch import Int, Int64
from parsing.trees.role_rules import (
    CLAUSE,
    CLAUSE_TABLE,
    DEPENDENT_TABLE,
    FACT,
    FUNCTION_WORD,
    KIND,
    ROLE,
    WORD,
)
from parsing.trees.role_trees import (
    MAX_CONJUNCTS,
    NO_TOKEN,
    child_of,
    children,
    coordinated_words,
    mend_trees,
    relabel,
    token_records,
)
from runtime.compiled import compiled_if_long, compiled_part

MAX_DEPTH = 5
"""A subject or a gap is searched for through at most this many clauses, up or down."""
ARCS_PER_TOKEN, SPARE_ARCS = MAX_CONJUNCTS + 4, 16
"""The space for the arcs of a batch is ``ARCS_PER_TOKEN`` for each token, and ``SPARE_ARCS`` in addition.

A token and each of its conjuncts have an arc, and a clause has up to three (subject, negation, comparison).
No sentence of the dev sets of GUM and EWT has more than one arc a token. A batch of arbitrary trees may have
more than there is space for, because subjects are shared as well; its last arcs are then left out."""
_OF_VERBS = KIND.OBJECT | KIND.INDIRECT_OBJECT | KIND.AUXILIARY | KIND.COPULA
"""Dependents that only verbs and predicates have."""
_KINDS_WITHOUT_RULE = KIND.SUBJECT | KIND.CONJUNCT | FUNCTION_WORD
"""Dependents that no rule of :data:`parsing.trees.role_rules.DEPENDENT_RULES` is for."""
_KINDS_SHARING_ROLES = KIND.OBJECT | KIND.INDIRECT_OBJECT | KIND.OBLIQUE | KIND.ATTRIBUTE | KIND.NUMBER
"""Dependents whose conjuncts have the same role."""


@dataclass(frozen=True)
class RoleArcs:
    """The M canonical arcs of a batch.

    ``role`` [M] are indices in ``ROLES``; ``head`` and ``dependent`` [M] are tokens, numbered through the
    batch.
    """

    role: Int64
    head: Int64
    dependent: Int64


def canonical_arcs(
    head: Int, relation: Int64, word: Int64, sentence_offsets: Int, *, with_negation: bool = True
) -> RoleArcs:
    """Return the canonical arcs of a batch of dependency trees.

    Args:
        head: each token's head, 1-based within the sentence, 0 for the root: [T].
        relation: the kinds of each token's relation, bits of ``KIND``: int64 [T].
        word: the sets of words that each token belongs to, bits of ``WORD``: int64 [T].
        sentence_offsets: where each sentence's tokens start: [B + 1].
        with_negation: whether to return arcs of the role ``neg``.
    """
    # The first row holds the number of arcs, which are the rows below it.
    arcs = np.empty((1 + ARCS_PER_TOKEN * len(word) + SPARE_ARCS, 3), np.int64)
    arcs[0, 0] = 0
    _fill_arcs(token_records(parents(head, sentence_offsets), relation, word), with_negation, arcs)
    return RoleArcs(*arcs[1 : arcs[0, 0] + 1].T.copy())


def parents(head: Int, sentence_offsets: Int) -> Int64:
    """Return each token's head as an index in the batch, int64 [T]: ``NO_TOKEN`` for roots."""
    offsets = sentence_offsets.astype(np.int64)
    first_tokens = np.repeat(offsets[:-1], np.diff(offsets))
    return np.where(head > 0, first_tokens + head - 1, NO_TOKEN).astype(np.int64)


@partial(compiled_if_long, rows=100)  # Python takes 30 ms for 100 tokens
def _fill_arcs(tree, with_negation, arcs):  # type: ignore[no-untyped-def]
    """Write rows of role, head and dependent to ``arcs``, and their number to its first row."""
    mend_trees(tree)
    for token in range(len(tree) - 1):
        if tree[token].first_child < 0 and not tree[token].kinds & (CLAUSE | KIND.CONJUNCT):
            continue  # it has no dependents, and no subject that it might share
        first_row = arcs[0, 0] + 1
        subject = _subject(tree, token)
        _add_clause(tree, with_negation, arcs, token, subject)
        _add_dependents(tree, arcs, token, subject)
        if tree[token].word & (WORD.POSSESS | WORD.BELONG):
            _add_possessions(tree, arcs, token, first_row)


@compiled_part
def _add(tree, arcs, role, head, dependent):  # type: ignore[no-untyped-def]
    """Append the arc between the words that ``head`` and ``dependent`` stand for, while there is space."""
    head = _referent(tree, head)
    dependent = _referent(tree, dependent)
    row = arcs[0, 0] + 1
    if (head != dependent or role == ROLE.NEG) and row < len(arcs):
        arcs[row, 0], arcs[row, 1], arcs[row, 2] = role, head, dependent
        arcs[0, 0] = row


@compiled_part
def _referent(tree, token):  # type: ignore[no-untyped-def]
    """Return the word that a token stands for: its last antecedent, or the token itself if it has none."""
    for _ in range(4):
        if tree[token].antecedent < 0:
            break
        token = tree[token].antecedent
    return token


@compiled_part
def _add_clause(tree, with_negation, arcs, predicate, first_subject):  # type: ignore[no-untyped-def]
    """Append the arcs of ``CLAUSE_RULES`` for each subject, and the arc of a gap.

    If a negated predicate has no subject, the arc of the negation joins the predicate to itself.

    Example: not:2:advmod now:0:root -> neg:now:now
    """
    if first_subject >= 0:
        facts = _clause_facts(tree, predicate)
        for subject in coordinated_words(tree, first_subject):
            _apply_clause_rules(tree, with_negation, arcs, facts, predicate, subject)
    elif tree[predicate].is_negated:
        _apply_clause_rules(tree, with_negation, arcs, FACT.NEGATED, predicate, predicate)
    has_gap = tree[predicate].kinds & KIND.RELATIVE and not tree[predicate].has_pronoun
    has_subject = tree[predicate].child_kinds & KIND.SUBJECT
    if has_gap and has_subject and not _is_copular(tree, predicate):
        _add_gap(tree, arcs, predicate)


@compiled_part
def _apply_clause_rules(tree, with_negation, arcs, facts, predicate, subject):  # type: ignore[no-untyped-def]
    """Append the arcs of all ``CLAUSE_RULES`` whose condition holds for the facts."""
    words = (predicate, subject, tree[predicate].standard, child_of(tree, predicate, KIND.AGENT))
    for rule in CLAUSE_TABLE:
        if rule.role == ROLE.NEG and not with_negation:
            continue
        if facts & (rule.necessary_facts | rule.excluding_facts) == rule.necessary_facts:
            _add(tree, arcs, rule.role, words[rule.head], words[rule.dependent])


@compiled_part
def _clause_facts(tree, predicate):  # type: ignore[no-untyped-def]
    """Return the facts of a clause that has a subject, as bits of ``FACT``."""
    facts = 0
    kinds, standard = tree[predicate].child_kinds, tree[predicate].standard
    subject = child_of(tree, predicate, KIND.SUBJECT)
    if _is_copular(tree, predicate) and not tree[subject].kinds & KIND.PASSIVE_SUBJECT:
        facts |= FACT.COPULAR
    if _is_passive(tree, predicate):
        facts |= FACT.PASSIVE | (FACT.AGENT if kinds & KIND.AGENT else 0)
    if kinds & KIND.OBJECT:
        facts |= FACT.OBJECT
    if standard >= 0:
        facts |= FACT.COMPARED | (FACT.EQUAL if tree[standard].mark & WORD.AS else 0)
    if tree[predicate].is_negated:
        facts |= FACT.NEGATED
    if tree[predicate].standard_has_more and (facts & FACT.NEGATED or not facts & FACT.EQUAL):
        facts |= FACT.LESS
        if facts & FACT.EQUAL:  # in "not as old as she" the negation belongs to the comparison
            facts &= ~FACT.NEGATED
    return facts


@compiled_part
def _shares_clause(tree, predicate):  # type: ignore[no-untyped-def]
    """Tell whether a predicate takes its subject from the one that it is coordinated with."""
    is_conjunct = tree[predicate].kinds & KIND.CONJUNCT and tree[predicate].parent >= 0
    return is_conjunct and child_of(tree, predicate, KIND.SUBJECT) < 0


@compiled_part
def _shares_auxiliary(tree, predicate):  # type: ignore[no-untyped-def]
    """Tell whether a predicate also shares the copula or auxiliary: *limp* in "it is loose and limp"."""
    of_verbs = _OF_VERBS | KIND.COMPLEMENT
    return _shares_clause(tree, predicate) and not tree[predicate].child_kinds & of_verbs


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
    """Tell whether a verb has the form of a passive.

    It has one by its dependents, or as a participle without a subject ("the letter *written* by her").
    """
    kinds = tree[verb].child_kinds
    is_participle = tree[verb].kinds & KIND.PARTICIPLE and not tree[verb].word & WORD.ING
    return kinds & KIND.PASSIVE or (is_participle and not kinds & (KIND.SUBJECT | KIND.CASE))


@compiled_part
def _late_subject(tree, verb):  # type: ignore[no-untyped-def]
    """Return the subject that follows its verb and has the relation of an object, or ``NO_TOKEN``.

    Example: Under:3:case a:3:det tree:4:obl stood:0:root Ann:4:obj -> agent:stood:Ann
    """
    if not tree[verb].kinds & (KIND.ROOT | KIND.COMPLEMENT | KIND.CONJUNCT) or _is_passive(tree, verb):
        return NO_TOKEN
    location = child_of(tree, verb, KIND.OBLIQUE)
    subject = child_of(tree, verb, KIND.OBJECT)
    if child_of(tree, verb, KIND.SUBJECT) < 0 and 0 <= location < verb < subject:
        return subject
    return NO_TOKEN


@compiled_part
def _subject(tree, predicate):  # type: ignore[no-untyped-def]
    """Return the subject of a predicate, its own or that of a clause above it, or ``NO_TOKEN``.

    Example: Ann:2:nsubj wants:0:root to:4:mark sing:2:xcomp -> agent:sing:Ann
    Example: She:2:nsubj told:0:root him:2:obj to:5:mark leave:2:xcomp -> agent:leave:him
    Example: Ann:2:nsubj sang:0:root and:4:cc saw:2:conj Bob:4:obj -> agent:saw:Ann
    Example: man:0:root singing:1:acl songs:2:obj -> agent:singing:man
    """
    late_subject = _late_subject(tree, predicate)
    if late_subject >= 0 or not _may_have_subject(tree, predicate):
        return late_subject
    clause = predicate
    for _ in range(MAX_DEPTH):
        kinds, parent = tree[clause].kinds, tree[clause].parent
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
                return NO_TOKEN
        elif not kinds & KIND.CONJUNCT:
            return NO_TOKEN
        clause = parent
    return NO_TOKEN


@compiled_part
def _may_have_subject(tree, predicate):  # type: ignore[no-untyped-def]
    """Tell whether a word can have a subject; *watch* in "a man to watch" cannot."""
    kinds = tree[predicate].child_kinds
    if kinds & KIND.SUBJECT:
        return True
    if tree[predicate].kinds & KIND.PARTICIPLE and kinds & KIND.CASE:
        return False
    of_verbs = _OF_VERBS | KIND.AGENT
    if not _shares_clause(tree, predicate):
        return tree[predicate].kinds & CLAUSE > 0 or kinds & of_verbs > 0
    parent = tree[predicate].parent
    in_clause = tree[parent].kinds & CLAUSE > 0 or tree[parent].child_kinds & KIND.SUBJECT > 0
    return in_clause or kinds & (of_verbs | KIND.OBLIQUE | KIND.ADVERB | KIND.COMPLEMENT) > 0


@compiled_part
def _add_gap(tree, arcs, clause):  # type: ignore[no-untyped-def]
    """Append the arc from the verb of a relative clause without a pronoun to the noun above the clause.

    The verb may also be that of a clause within the relative clause.

    Example: hat:0:root king:3:nsubj wore:1:acl:relcl -> patient:wore:hat
    Example: man:0:root they:3:nsubj want:1:acl:relcl to:5:mark see:3:xcomp -> patient:see:man
    Example: man:0:root they:3:nsubj say:1:acl:relcl came:3:ccomp -> agent:came:man
    Example: man:0:root they:3:nsubj spoke:1:acl:relcl to:3:obl -> to:spoke:man
    """
    noun, verb = tree[clause].parent, clause
    for _ in range(MAX_DEPTH - 1):
        complement = child_of(tree, verb, KIND.COMPLEMENT)
        if complement < 0:
            break
        verb = complement
    kinds = tree[verb].child_kinds
    is_closed = tree[verb].kinds & KIND.COMPLEMENT and not tree[verb].kinds & KIND.OPEN_COMPLEMENT
    role = -1 if kinds & (KIND.OBJECT | KIND.PASSIVE | KIND.COPULA) else ROLE.PATIENT
    if is_closed and not kinds & KIND.SUBJECT:
        role = ROLE.AGENT
    for child in children(tree, verb):
        is_stranded = child > verb and tree[child].first_child < 0  # the preposition of "they spoke to"
        if is_stranded and tree[child].kinds & KIND.OBLIQUE and tree[child].word & WORD.PREPOSITION:
            role = _role_by_preposition(tree[child].word)
            relabel(tree, child, KIND.FUNCTION)
    if noun >= 0 and role >= 0 and not tree[noun].word & WORD.RELATIVE_ADVERB:
        _add(tree, arcs, role, verb, noun)


@compiled_part
def _add_dependents(tree, arcs, head, subject):  # type: ignore[no-untyped-def]
    """Append the arcs that ``DEPENDENT_RULES`` make of the dependents of a head.

    The subject and the standard of a comparison are left out, because :func:`_add_clause` joins them.
    """
    is_passive = _has_passive_form(tree, head)
    for child in children(tree, head):
        if child == tree[head].standard or child == subject or tree[child].kinds & _KINDS_WITHOUT_RULE:
            continue
        rule = DEPENDENT_TABLE[_rule_index(tree[child].kinds, tree[child].mark, tree[child].word, is_passive)]
        if rule.starts_at_dependent:
            _add(tree, arcs, rule.role, child, head)
        elif rule.role >= 0:
            _add_conjuncts(tree, arcs, rule.role, head, child)


@compiled_part
def _rule_index(kinds, mark, word, head_is_passive):  # type: ignore[no-untyped-def]
    """Return the index of the first rule whose condition holds; that of the last rule always does."""
    for index, rule in enumerate(DEPENDENT_TABLE):
        fits_relation = rule.relation == 0 or kinds & rule.relation
        fits_words = (rule.mark == 0 or mark & rule.mark) and (rule.word == 0 or word & rule.word)
        if fits_relation and fits_words and (head_is_passive or not rule.needs_passive_head):
            return index
    return -1


@compiled_part
def _role_by_preposition(mark):  # type: ignore[no-untyped-def]
    """Return the role of a complement, given the sets of words that its preposition is in."""
    return DEPENDENT_TABLE[_rule_index(KIND.OBLIQUE, mark, 0, 0)].role


@compiled_part
def _add_conjuncts(tree, arcs, role, head, first):  # type: ignore[no-untyped-def]
    """Append the arcs of a dependent and of its conjuncts.

    A conjunct that has a preposition has the role of this preposition.

    Example: from:2:case Rome:6:obl and:5:cc to:5:case Paris:2:conj went:0:root -> to:went:Paris
    Example: Ann:2:nsubj saw:0:root Bob:2:obj and:5:cc Eve:3:conj -> patient:saw:Eve
    """
    for word in coordinated_words(tree, first):
        has_own_role = word != first and ROLE.TO <= role <= ROLE.AT and tree[word].mark & WORD.PREPOSITION
        _add(tree, arcs, _role_by_preposition(tree[word].mark) if has_own_role else role, head, word)
        if not tree[first].kinds & _KINDS_SHARING_ROLES:
            break


@compiled_part
def _add_possessions(tree, arcs, verb, first_row):  # type: ignore[no-untyped-def]
    """Append the arc from what is owned to its owner, given a verb such as *have* or *belong*.

    The arcs of the verb itself are the rows of ``arcs`` from ``first_row`` on.

    Example: Ann:2:nsubj has:0:root hats:2:obj -> poss:hats:Ann
    Example: hats:2:nsubj belong:0:root to:4:case Ann:2:obl -> poss:hats:Ann
    """
    owner_role, thing_role = ROLE.AGENT, ROLE.PATIENT
    if tree[verb].word & WORD.BELONG:
        owner_role, thing_role = ROLE.TO, ROLE.AGENT
    end = arcs[0, 0] + 1
    for i in range(first_row, end):
        for k in range(first_row, end):
            if arcs[i, 0] == thing_role and arcs[k, 0] == owner_role:
                _add(tree, arcs, ROLE.POSS, arcs[i, 2], arcs[k, 2])
