"""Dependency trees as the rules of :mod:`parsing.trees.roles` read them: a record for each token.

:func:`mend_trees` completes the records and puts right what parsers and annotation schemes do
differently. Each step is a function of one token, with examples of the arcs that come of it, as in
:mod:`parsing.trees.role_rules`; the tests read them.
"""

from typing import Any

import numpy as np

from parsing.trees.batch import Int64
from parsing.trees.role_rules import KIND, WORD
from runtime.compiled import compiled_part

ANSWERED = 1 << 40
"""Set beside the kinds of a relative clause whose pronoun stands for the noun."""
_VERBAL = KIND.OBJECT | KIND.INDIRECT_OBJECT | KIND.COPULA | KIND.COMPLEMENT | KIND.OBLIQUE | KIND.EXPLETIVE
"""Dependents that a bare auxiliary does not have."""
_FIELDS = "parent kinds word first sister antecedent standard below mark standard_has_more negated"
TOKEN = np.dtype([(name, np.int64) for name in _FIELDS.split()])
"""The record of a token; tokens are places in the batch, -1 is none.

``parent`` is its head, ``kinds`` are those of its relation, ``word`` its sets of words. ``first`` is its
first dependent, ``sister`` the next dependent of its head. ``antecedent`` is the token it stands for,
``standard`` what it is compared with. ``below`` are the kinds of all its dependents, ``mark`` the sets of
words of its preposition or conjunction. ``standard_has_more`` and ``negated`` are 0 or 1."""


def records(parent: Int64, kinds: Int64, word: Int64) -> np.recarray[Any, Any]:
    """Return the records of a batch, [T] of ``TOKEN``, before :func:`mend_trees`."""
    columns = np.zeros((len(word), len(_FIELDS.split())), np.int64)
    columns[:, 0], columns[:, 1], columns[:, 2], columns[:, 3:7] = parent, kinds, word, -1
    return columns.view(np.dtype((np.record, TOKEN)))[:, 0].view(np.recarray)


@compiled_part
def child_of(tree, head, kinds):  # type: ignore[no-untyped-def]
    """Return the first dependent of one of the kinds, or -1."""
    if tree[head].below & kinds:
        child = tree[head].first
        while child >= 0:
            if tree[child].kinds & kinds:
                return child
            child = tree[child].sister
    return -1


@compiled_part
def relabel(tree, token, kinds):  # type: ignore[no-untyped-def]
    """Change the kinds of a token's relation."""
    tree[token].kinds = kinds
    head = tree[token].parent
    if head >= 0:
        tree[head].below = 0
        child = tree[head].first
        while child >= 0:
            tree[head].below |= tree[child].kinds
            child = tree[child].sister


@compiled_part
def mend_trees(tree):  # type: ignore[no-untyped-def]
    """Complete the records of a batch. The order of the steps counts: each sees what those before it did."""
    for token in range(len(tree)):
        _lower_preposition(tree, token)
    for token in range(len(tree)):
        _raise_second_recipient(tree, token)
        _lower_subject(tree, token)
    _link(tree)
    for token in range(len(tree)):
        _relabel_complement(tree, token)
        _relabel_relative_clause(tree, token)
        _relabel_recipient(tree, token)
    for token in range(len(tree)):
        _resolve_relative_pronoun(tree, token)
    for token in range(len(tree)):
        if tree[token].parent >= 0:
            _resolve_subject(tree, token)
            _resolve_auxiliary(tree, token)
    for token in range(len(tree)):
        _compare(tree, token)
        _negate(tree, token)


@compiled_part
def _lower_preposition(tree, token):  # type: ignore[no-untyped-def]
    """Make Stanford's preposition the case marker of its object.

    Example: doctor:3:nsubjpass was:3:auxpass praised:0:root by:3:agent lawyer:4:pobj -> agent:praised:lawyer
    """
    head = tree[token].parent
    if head >= 0 and tree[token].kinds & KIND.PREPOSITIONAL_OBJECT and tree[head].kinds & KIND.PREPOSITION:
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
    if recipient >= 0 and tree[token].kinds & KIND.OBJECT and tree[recipient].kinds & KIND.CONJUNCT:
        first = tree[recipient].parent
        if first >= 0 and tree[first].kinds & KIND.OBJECT:
            tree[token].parent = tree[first].parent


@compiled_part
def _lower_subject(tree, clause):  # type: ignore[no-untyped-def]
    """Make the subject of a relative clause what was read as another name of the noun.

    Example: hat:4:nsubj king:1:appos wore:1:acl:relcl burned:0:root -> agent:wore:king
    """
    noun = tree[clause].parent
    for token in range(clause - 1, noun if noun >= 0 and tree[clause].kinds & KIND.RELATIVE else clause, -1):
        if tree[token].parent == clause and tree[token].kinds & (KIND.SUBJECT | KIND.OBJECT):
            break
        if tree[token].parent == noun and tree[token].kinds & KIND.NAME:
            tree[token].parent = clause
            tree[token].kinds = KIND.SUBJECT


@compiled_part
def _link(tree):  # type: ignore[no-untyped-def]
    """Let heads know their dependents."""
    for token in range(len(tree) - 1, -1, -1):
        head = tree[token].parent
        if head >= 0:
            tree[token].sister = tree[head].first
            tree[head].first = token
            tree[head].below |= tree[token].kinds
            if tree[token].kinds & KIND.CASE:
                tree[head].mark = tree[token].word


@compiled_part
def _relabel_complement(tree, token):  # type: ignore[no-untyped-def]
    """Make an object with a preposition a complement with one.

    Example: Ann:2:nsubj looked:0:root at:4:case Bob:2:obj -> at:looked:Bob
    """
    kinds = tree[token].kinds
    if tree[token].mark & WORD.PREPOSITION and (kinds & KIND.OBJECT or not kinds & ~KIND.FUNCTION):
        relabel(tree, token, KIND.OBLIQUE)


@compiled_part
def _relabel_relative_clause(tree, clause):  # type: ignore[no-untyped-def]
    """Make a clause below a noun a relative one if it has a relative pronoun.

    Example: man:0:root who:3:nsubj came:1:acl -> agent:came:man
    """
    child = tree[clause].first if tree[clause].below & (KIND.OBJECT | KIND.SUBJECT) else -1
    while child >= 0:
        named = tree[child].word & WORD.RELATIVE and tree[child].kinds & (KIND.SUBJECT | KIND.OBJECT)
        if named and tree[clause].kinds & KIND.PARTICIPLE:
            relabel(tree, clause, tree[clause].kinds | KIND.RELATIVE)
        child = tree[child].sister


@compiled_part
def _relabel_recipient(tree, verb):  # type: ignore[no-untyped-def]
    """Make one of two objects the recipient, as also where the other one is what the clause is about.

    Example: she:2:nsubj gave:0:root him:2:obj books:2:obj -> to:gave:him
    Example: books:0:root which:4:obj she:4:nsubj gave:1:acl:relcl him:4:obj -> to:gave:him
    Example: What:5:nsubj she:3:nsubj gave:1:acl:relcl him:3:obj was:0:root -> to:gave:him
    """
    if not tree[verb].below & KIND.OBJECT:
        return
    first, second = -1, -1
    child = tree[verb].first
    while child >= 0:
        if tree[child].kinds & KIND.OBJECT and first < 0:
            first = child
        elif tree[child].kinds & KIND.OBJECT:
            second = child
        child = tree[child].sister
    noun = tree[verb].parent
    if second >= 0:
        relabel(tree, second if tree[first].word & WORD.RELATIVE else first, KIND.INDIRECT_OBJECT)
    elif noun >= 0 and tree[noun].word & WORD.WHAT and tree[verb].kinds & KIND.RELATIVE:
        gives = child_of(tree, verb, KIND.SUBJECT) >= 0 and not tree[verb].below & KIND.COMPLEMENT
        relabel(tree, first, KIND.INDIRECT_OBJECT if gives else KIND.OBJECT)


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
        noun = tree[clause].parent if clause >= 0 else -1
        if noun >= 0:
            clefted = tree[clause].kinds & KIND.CLAUSAL_SUBJECT and tree[noun].below & KIND.COPULA
            if tree[clause].kinds & KIND.RELATIVE or clefted:
                tree[pronoun].antecedent = noun
                tree[clause].kinds |= ANSWERED
        clause = noun


@compiled_part
def _resolve_subject(tree, subject):  # type: ignore[no-untyped-def]
    """Let the subject of a cleft, and *what*, stand for the predicate; *do* stands for a verb.

    Example: It:3:nsubj was:3:cop Ann:0:root who:5:nsubj sang:1:acl:relcl -> agent:sang:Ann
    Example: What:5:nsubj she:3:nsubj gave:1:acl:relcl a:5:det book:0:root was:5:cop -> patient:gave:book
    Example: What:5:nsubj king:3:nsubj did:1:acl:relcl was:5:cop leave:0:root -> agent:leave:king
    """
    predicate = tree[subject].parent
    if not tree[subject].kinds & KIND.SUBJECT or not tree[predicate].below & (KIND.COPULA | KIND.AUXILIARY):
        return
    word, clause, below = tree[subject].word, child_of(tree, subject, KIND.RELATIVE), tree[predicate].below
    pointed = below & (KIND.RELATIVE | KIND.CLAUSAL_SUBJECT) and not tree[predicate].word & (
        WORD.RELATIVE_ADVERB | WORD.WHAT
    )
    if word & WORD.PRONOUN and (clause >= 0 or pointed):
        tree[subject].antecedent = predicate
    if clause >= 0 and word & WORD.WHAT:
        if tree[clause].word & WORD.DO:  # which then has no copula
            tree[clause].antecedent = predicate
            relabel(tree, child_of(tree, predicate, KIND.COPULA | KIND.AUXILIARY), KIND.AUXILIARY)
            relabel(tree, subject, KIND.FUNCTION)
        elif below & (KIND.DETERMINER | KIND.NUMBER | KIND.POSSESSOR):
            tree[subject].antecedent = predicate


@compiled_part
def _resolve_auxiliary(tree, auxiliary):  # type: ignore[no-untyped-def]
    """Let a bare auxiliary stand for the predicate it is coordinated with.

    Example: Ann:3:nsubj is:3:cop tired:0:root and:6:cc Bob:6:nsubj is:3:conj -> attr:Bob:tired
    """
    joined = tree[auxiliary].kinds & (KIND.CONJUNCT | KIND.ADVERBIAL_CLAUSE | KIND.BESIDE | KIND.COMPLEMENT)
    if joined and tree[auxiliary].word & WORD.BARE and not tree[auxiliary].below & _VERBAL:
        tree[auxiliary].antecedent = tree[auxiliary].parent


@compiled_part
def _compare(tree, standard):  # type: ignore[no-untyped-def]
    """Find what is compared with a standard, and which of the two has more.

    Example: he:3:nsubj is:3:cop older:0:root than:5:case she:3:obl -> than:he:she
    Example: he:2:nsubj runs:0:root faster:2:advmod than:5:case she:3:obl -> than:he:she
    """
    degree, mark = tree[standard].parent, tree[standard].mark
    compares = mark & (WORD.THAN | WORD.AS) and tree[standard].kinds & (KIND.OBLIQUE | KIND.ADVERBIAL_CLAUSE)
    if degree < 0 or not compares:
        return
    predicate = tree[degree].parent if tree[degree].kinds & (KIND.ADVERB | KIND.ATTRIBUTE) else degree
    predicate = predicate if predicate >= 0 else degree
    words = _degree_words(tree, degree) | _degree_words(tree, predicate)
    if mark & WORD.THAN or words & WORD.AS:
        tree[predicate].standard = tree[degree].standard = standard
        tree[predicate].standard_has_more = words & WORD.LESS > 0 or mark & WORD.AS > 0


@compiled_part
def _degree_words(tree, head):  # type: ignore[no-untyped-def]
    """Return the sets among *less* of a word and its dependents, and *as* of its adverbs."""
    words, child = tree[head].word & WORD.LESS, tree[head].first
    while child >= 0:
        words |= tree[child].word & (WORD.LESS | WORD.AS if tree[child].kinds & KIND.ADVERB else WORD.LESS)
        child = tree[child].sister
    return words


@compiled_part
def _negate(tree, token):  # type: ignore[no-untyped-def]
    """Negate the word that *not* belongs to, or the verb of a subject or object with *no*.

    Example: He:4:nsubj did:4:aux not:4:advmod come:0:root -> neg:come:He
    Example: she:2:nsubj saw:0:root no:4:det king:2:obj -> neg:saw:she
    """
    head = tree[token].parent
    if head < 0:
        return
    of_noun = tree[token].kinds & KIND.DETERMINER and tree[head].kinds & (KIND.OBJECT | KIND.SUBJECT)
    if tree[token].word & WORD.NO and of_noun:
        head = tree[head].parent
    elif not tree[token].word & WORD.NOT:
        head = -1
    if head >= 0:
        tree[head].negated = 1
