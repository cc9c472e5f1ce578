"""Dependency trees as the rules of :mod:`parsing.trees.roles` read them: a record for each token.

:func:`mend_trees` completes the records and removes differences between parsers and between annotation
schemes. Each step is a function of one token. Its docstring has examples of the arcs that the step leads to,
in the notation of :mod:`parsing.trees.role_rules`; the tests read them.
"""

from typing import Any

import numpy as np

from parsing.trees.batch import Int64
from parsing.trees.role_rules import KIND, WORD
from runtime.compiled import compiled_part

MAX_CONJUNCTS = 8
"""At most this many conjuncts share the role of the first one."""
NO_TOKEN = -1
"""The index that means no token, such as the head of a root."""
_TOKENS = ("parent", "first_child", "next_sister", "antecedent", "standard")
_BITS = ("kinds", "word", "child_kinds", "mark", "standard_has_more", "is_negated", "has_pronoun")
TOKEN = np.dtype([(name, np.int64) for name in (*_TOKENS, *_BITS)])
"""The record of a token.

Five fields are other tokens, as indices in the batch or ``NO_TOKEN``: ``parent`` is the token's head,
``first_child`` its first dependent, ``next_sister`` the next dependent of its head, ``antecedent`` the token
that a pronoun or auxiliary stands for, and ``standard`` the token that this one is compared with.

Four fields are bits: ``kinds`` of the token's relation, ``child_kinds`` of the relations of its dependents,
``word`` of the sets of words that it is in, and ``mark`` of those that its preposition or conjunction is in.

The others are 0 or 1: ``standard_has_more`` in a comparison, ``is_negated``, and ``has_pronoun``, which is 1
for a clause with a relative pronoun that stands for the noun above the clause."""


def token_records(parent: Int64, kinds: Int64, word: Int64) -> np.recarray[Any, Any]:
    """Return the records of a batch of T tokens, [T + 1] of ``TOKEN``; the last one is empty."""
    records = np.zeros(len(word) + 1, np.dtype((np.record, TOKEN))).view(np.recarray)
    for name in _TOKENS:
        records[name] = NO_TOKEN
    records.parent[:-1], records.kinds[:-1], records.word[:-1] = parent, kinds, word
    return records


@compiled_part
def children(tree, head):  # type: ignore[no-untyped-def]
    """Yield the dependents of a head in their order."""
    child = tree[head].first_child
    while child >= 0:
        yield child
        child = tree[child].next_sister


@compiled_part
def child_of(tree, head, kinds):  # type: ignore[no-untyped-def]
    """Return the first dependent whose relation is of one of the kinds, or ``NO_TOKEN``."""
    child = tree[head].first_child if tree[head].child_kinds & kinds else NO_TOKEN
    while child >= 0 and not tree[child].kinds & kinds:
        child = tree[child].next_sister
    return child


@compiled_part
def relabel(tree, token, kinds):  # type: ignore[no-untyped-def]
    """Change the kinds of a token's relation, and with them ``child_kinds`` of its head."""
    tree[token].kinds = kinds
    head = tree[token].parent
    tree[head].child_kinds = 0
    for child in children(tree, head):
        tree[head].child_kinds |= tree[child].kinds


@compiled_part
def coordinated_words(tree, first):  # type: ignore[no-untyped-def]
    """Yield a word and its conjuncts, at most ``MAX_CONJUNCTS``."""
    yield first
    count = 0
    for child in children(tree, first):
        if tree[child].kinds & KIND.CONJUNCT and count < MAX_CONJUNCTS:
            count += 1
            yield child


@compiled_part
def mend_trees(tree):  # type: ignore[no-untyped-def]
    """Complete the records of a batch; each step relies on those before it.

    A step may read ``tree[NO_TOKEN]``, such as the head of a root: that is the last record, which is empty.
    """
    for token in range(len(tree) - 1):
        _lower_preposition(tree, token)
    for token in range(len(tree) - 1):
        _raise_second_recipient(tree, token)
        _lower_subject(tree, token)
    _link_dependents(tree)
    for token in range(len(tree) - 1):
        _relabel_complement(tree, token)
        _relabel_relative_clause(tree, token)
        _relabel_recipient(tree, token)
    for token in range(len(tree) - 1):
        _resolve_relative_pronoun(tree, token)
    for token in range(len(tree) - 1):
        if tree[token].parent >= 0:
            _resolve_subject(tree, token)
            _resolve_auxiliary(tree, token)
    for token in range(len(tree) - 1):
        _find_comparison(tree, token)
        _find_negation(tree, token)


@compiled_part
def _lower_preposition(tree, token):  # type: ignore[no-untyped-def]
    """Make Stanford's preposition the case marker of its object.

    Example: doctor:3:nsubjpass was:3:auxpass praised:0:root by:3:agent lawyer:4:pobj -> agent:praised:lawyer
    """
    head = tree[token].parent
    if tree[token].kinds & KIND.PREPOSITIONAL_OBJECT and tree[head].kinds & KIND.PREPOSITION:
        tree[token].parent = tree[head].parent
        tree[token].kinds = KIND.OBLIQUE | tree[head].kinds & KIND.AGENT
        tree[head].parent = token
        tree[head].kinds = KIND.CASE


@compiled_part
def _raise_second_recipient(tree, token):  # type: ignore[no-untyped-def]
    """Attach to the verb the object that was attached to the second of two recipients.

    Example: Ann:2:nsubj gave:0:root him:2:obj and:5:cc her:3:conj hats:5:obj -> patient:gave:hats
    """
    recipient = tree[token].parent
    first = tree[recipient].parent
    is_second = tree[recipient].kinds & KIND.CONJUNCT and tree[first].kinds & KIND.OBJECT
    if is_second and tree[token].kinds & KIND.OBJECT:
        tree[token].parent = tree[first].parent


@compiled_part
def _lower_subject(tree, clause):  # type: ignore[no-untyped-def]
    """Make a word that was parsed as another name of a noun the subject of the noun's relative clause.

    Example: hat:4:nsubj king:1:appos wore:1:acl:relcl burned:0:root -> agent:wore:king
    """
    noun = tree[clause].parent
    if noun < 0 or not tree[clause].kinds & KIND.RELATIVE:
        return
    for token in range(clause - 1, noun, -1):
        if tree[token].parent == clause and tree[token].kinds & (KIND.SUBJECT | KIND.OBJECT):
            break
        if tree[token].parent == noun and tree[token].kinds & KIND.NAME:
            tree[token].parent = clause
            tree[token].kinds = KIND.SUBJECT


@compiled_part
def _link_dependents(tree):  # type: ignore[no-untyped-def]
    """Fill in, for each head, its dependents and its preposition or conjunction."""
    for token in range(len(tree) - 2, -1, -1):
        head = tree[token].parent
        if head >= 0:
            tree[token].next_sister = tree[head].first_child
            tree[head].first_child = token
            tree[head].child_kinds |= tree[token].kinds
            if tree[token].kinds & KIND.CASE:
                tree[head].mark = tree[token].word


@compiled_part
def _relabel_complement(tree, token):  # type: ignore[no-untyped-def]
    """Make an object that has a preposition an oblique complement.

    Example: Ann:2:nsubj looked:0:root at:4:case Bob:2:obj -> at:looked:Bob
    """
    kinds = tree[token].kinds
    if tree[token].mark & WORD.PREPOSITION and (kinds & KIND.OBJECT or not kinds & ~KIND.FUNCTION):
        relabel(tree, token, KIND.OBLIQUE)


@compiled_part
def _relabel_relative_clause(tree, clause):  # type: ignore[no-untyped-def]
    """Make a clause below a noun a relative clause if it has a relative pronoun.

    Example: man:0:root who:3:nsubj came:1:acl -> agent:came:man
    """
    if tree[clause].kinds & KIND.PARTICIPLE:
        for child in children(tree, clause):
            if tree[child].word & WORD.RELATIVE and tree[child].kinds & (KIND.SUBJECT | KIND.OBJECT):
                relabel(tree, clause, tree[clause].kinds | KIND.RELATIVE)


@compiled_part
def _relabel_recipient(tree, verb):  # type: ignore[no-untyped-def]
    """Make one of two objects the recipient, even if the other object is outside of the clause.

    Example: she:2:nsubj gave:0:root him:2:obj books:2:obj -> to:gave:him
    Example: books:0:root which:4:obj she:4:nsubj gave:1:acl:relcl him:4:obj -> to:gave:him
    Example: What:5:nsubj she:3:nsubj gave:1:acl:relcl him:3:obj was:0:root -> to:gave:him
    """
    first_object = last_object = child_of(tree, verb, KIND.OBJECT)
    if first_object < 0:
        return
    for child in children(tree, verb):
        if tree[child].kinds & KIND.OBJECT:
            last_object = child
    if first_object != last_object:
        recipient = last_object if tree[first_object].word & WORD.RELATIVE else first_object
        relabel(tree, recipient, KIND.INDIRECT_OBJECT)
    elif tree[verb].kinds & KIND.RELATIVE and tree[tree[verb].parent].word & WORD.WHAT:
        kinds = tree[verb].child_kinds
        if kinds & KIND.SUBJECT and not kinds & KIND.COMPLEMENT:
            relabel(tree, first_object, KIND.INDIRECT_OBJECT)


@compiled_part
def _resolve_relative_pronoun(tree, pronoun):  # type: ignore[no-untyped-def]
    """Let a relative pronoun stand for the noun above its clause.

    Example: man:0:root who:3:nsubj came:1:acl:relcl -> agent:came:man
    Example: man:0:root whose:3:nmod:poss hat:4:nsubj burned:1:acl:relcl -> poss:hat:man
    """
    if not tree[pronoun].word & WORD.RELATIVE or tree[pronoun].kinds & (KIND.CASE | KIND.DETERMINER):
        return
    clause = tree[pronoun].parent
    for _ in range(2):
        noun = tree[clause].parent
        is_cleft = tree[clause].kinds & KIND.CLAUSAL_SUBJECT and tree[noun].child_kinds & KIND.COPULA
        if noun >= 0 and (tree[clause].kinds & KIND.RELATIVE or is_cleft):
            tree[pronoun].antecedent = noun
            tree[clause].has_pronoun = 1
        clause = noun


@compiled_part
def _resolve_subject(tree, subject):  # type: ignore[no-untyped-def]
    """Let the subject of a cleft, and *what*, stand for the predicate; let *do* stand for a verb.

    Example: It:3:nsubj was:3:cop Ann:0:root who:5:nsubj sang:1:acl:relcl -> agent:sang:Ann
    Example: What:5:nsubj she:3:nsubj gave:1:acl:relcl a:5:det book:0:root was:5:cop -> patient:gave:book
    Example: What:5:nsubj king:3:nsubj did:1:acl:relcl was:5:cop leave:0:root -> agent:leave:king
    """
    predicate = tree[subject].parent
    kinds, word = tree[predicate].child_kinds, tree[subject].word
    if not tree[subject].kinds & KIND.SUBJECT or not kinds & (KIND.COPULA | KIND.AUXILIARY):
        return
    clause = child_of(tree, subject, KIND.RELATIVE)
    is_question = tree[predicate].word & (WORD.RELATIVE_ADVERB | WORD.WHAT)
    is_cleft = kinds & (KIND.RELATIVE | KIND.CLAUSAL_SUBJECT) and not is_question
    if word & WORD.PRONOUN and (clause >= 0 or is_cleft):
        tree[subject].antecedent = predicate
    if clause >= 0 and word & WORD.WHAT:
        if tree[clause].word & WORD.DO:  # the predicate is a verb, and its copula an auxiliary
            tree[clause].antecedent = predicate
            relabel(tree, child_of(tree, predicate, KIND.COPULA | KIND.AUXILIARY), KIND.AUXILIARY)
            relabel(tree, subject, KIND.FUNCTION)
        elif kinds & (KIND.DETERMINER | KIND.NUMBER | KIND.POSSESSOR):
            tree[subject].antecedent = predicate


@compiled_part
def _resolve_auxiliary(tree, auxiliary):  # type: ignore[no-untyped-def]
    """Let an auxiliary without a verb stand for the predicate it is coordinated with.

    Example: Ann:3:nsubj is:3:cop tired:0:root and:6:cc Bob:6:nsubj is:3:conj -> attr:Bob:tired
    """
    of_clauses = KIND.CONJUNCT | KIND.ADVERBIAL_CLAUSE | KIND.PARATAXIS | KIND.COMPLEMENT
    of_verbs = KIND.OBJECT | KIND.INDIRECT_OBJECT | KIND.COPULA | KIND.COMPLEMENT | KIND.OBLIQUE
    is_loose = tree[auxiliary].word & WORD.AUXILIARY and tree[auxiliary].kinds & of_clauses
    if is_loose and not tree[auxiliary].child_kinds & (of_verbs | KIND.EXPLETIVE):
        tree[auxiliary].antecedent = tree[auxiliary].parent


@compiled_part
def _find_comparison(tree, standard):  # type: ignore[no-untyped-def]
    """Record which word is compared with a standard, and which of the two has more.

    Example: he:3:nsubj is:3:cop older:0:root than:5:case she:3:obl -> than:he:she
    Example: he:2:nsubj runs:0:root faster:2:advmod than:5:case she:3:obl -> than:he:she
    """
    degree, mark = tree[standard].parent, tree[standard].mark
    is_standard = tree[standard].kinds & (KIND.OBLIQUE | KIND.ADVERBIAL_CLAUSE)
    if degree < 0 or not is_standard or not mark & (WORD.THAN | WORD.AS):
        return
    predicate = degree
    if tree[degree].kinds & (KIND.ADVERB | KIND.ATTRIBUTE) and tree[degree].parent >= 0:
        predicate = tree[degree].parent
    words = _degree_words(tree, degree) | _degree_words(tree, predicate)
    if mark & WORD.THAN or words & WORD.AS:
        tree[predicate].standard = tree[degree].standard = standard
        tree[predicate].standard_has_more = words & WORD.LESS > 0 or mark & WORD.AS > 0


@compiled_part
def _degree_words(tree, head):  # type: ignore[no-untyped-def]
    """Return the bit LESS if a word or a dependent of it is in that set, and AS if an adverb of it is."""
    words = tree[head].word & WORD.LESS
    for child in children(tree, head):
        words |= tree[child].word & (WORD.LESS | WORD.AS if tree[child].kinds & KIND.ADVERB else WORD.LESS)
    return words


@compiled_part
def _find_negation(tree, token):  # type: ignore[no-untyped-def]
    """Mark as negated the word that *not* belongs to, or the verb of a subject or object with *no*.

    Example: He:4:nsubj did:4:aux not:4:advmod come:0:root -> neg:come:He
    Example: she:2:nsubj saw:0:root no:4:det king:2:obj -> neg:saw:she
    """
    head = tree[token].parent
    is_of_noun = tree[token].kinds & KIND.DETERMINER and tree[head].kinds & (KIND.OBJECT | KIND.SUBJECT)
    if tree[token].word & WORD.NO and is_of_noun:
        tree[tree[head].parent].is_negated = 1
    elif tree[token].word & WORD.NOT:
        tree[head].is_negated = 1
