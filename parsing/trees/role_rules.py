"""The rules that :mod:`parsing.trees.roles` applies, as two tables, and the bits that their conditions test.

``role_kinds.tsv`` lists kinds of dependency relations and sets of words; each has a bit. One table makes the
arcs of a clause, the other those between a word and its dependents. A rule has a name, a condition, an arc,
and an example that the tests read: a tree as ``word:head:relation``, then an arc as ``role:head:dependent``
that no other rule makes of this tree.
"""

import csv
from collections import Counter, namedtuple
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpora.characters import normalise_text

with open(Path(__file__).with_name("role_kinds.tsv"), encoding="utf-8", newline="") as _stream:
    _ROWS = list(csv.DictReader(_stream, delimiter="\t", quoting=csv.QUOTE_NONE))
_RELATIONS_OF_KIND = {row["kind"]: row["members"].split() for row in _ROWS if row["of"] == "relation"}
_WORDS_OF_SET = {row["kind"]: row["members"].split() for row in _ROWS if row["of"] == "word"}
ROLE_OF_RELATION = {
    relation: row["role"] for row in reversed(_ROWS) if row["role"] for relation in row["members"].split()
}
"""The role of a dependent by its relation alone: the role of the first kind that lists the relation."""


def _constants(names: Iterable[str], values: Iterable[int]) -> Any:
    """Return a named tuple, which compiled code can read; its fields are the names in capitals."""
    fields = [name.upper().replace(" ", "_") for name in names]
    constants: Any = namedtuple("Constants", fields)  # type: ignore[misc]
    return constants(*values)


def _bits(names: Collection[str]) -> Any:
    """Return a named tuple of integers with one bit set, a different one for each name."""
    return _constants(names, (1 << number for number in range(len(names))))


KIND, WORD = _bits(_RELATIONS_OF_KIND), _bits([*_WORDS_OF_SET, "ing"])
"""The bit of each kind of relation, and of each set of words; the set "ing" is all words that end in it."""
CLAUSE = KIND.ROOT | KIND.COMPLEMENT | KIND.CLAUSAL_SUBJECT | KIND.ADVERBIAL_CLAUSE | KIND.PARATAXIS
CLAUSE |= KIND.PARTICIPLE | KIND.RELATIVE
"""The kinds of relations whose dependent is the predicate of a clause."""
FUNCTION_WORD = KIND.DETERMINER | KIND.CASE | KIND.AUXILIARY | KIND.COPULA | KIND.FUNCTION
"""The kinds of relations whose dependent is a function word."""


def _bits_of_members(sets: Collection[list[str]], bits: Iterable[int]) -> Counter[str]:
    """Return for each member the sum of the bits of all sets that list it."""
    bits_of_member: Counter[str] = Counter()
    for members, bit in zip(sets, bits, strict=False):  # the set "ing" has no list
        bits_of_member.update(dict.fromkeys(members, bit))
    return bits_of_member


_BITS_OF_RELATION = _bits_of_members(_RELATIONS_OF_KIND.values(), KIND)
_BITS_OF_WORD = _bits_of_members(_WORDS_OF_SET.values(), WORD)


def relation_bits(relations: Sequence[str]) -> NDArray[np.int64]:
    """Return the kinds of each relation of a cache's inventory, as bits: int64 [R]."""
    return np.array([_BITS_OF_RELATION[relation] for relation in relations], np.int64)


def word_flags(words: Sequence[str]) -> NDArray[np.int64]:
    """Return the sets that each word belongs to, as bits: int64 [U]."""
    bits, ing, flags = _BITS_OF_WORD, WORD.ING, []
    for word in words:
        plain_word = normalise_text(word).lower()
        flags.append(bits.get(plain_word, 0) | (ing if plain_word.endswith("ing") else 0))
    return np.array(flags, np.int64)


ROLES = (
    *("agent", "patient", "to", "from", "at", "poss", "attr", "num", "adv", "neg", "before", "than", "is"),
    "clause",
)
ROLE = _constants(ROLES, range(len(ROLES)))
"""The number of each role."""
FACTS = {
    "copular": "its predicate is an adjective or a noun with a form of *be*",
    "passive": "its verb is passive",
    "object": "it has an object",
    "negated": "it is negated",
    "agent": "it is passive and says by whom",
    "compared": "its subject is compared with a standard: older than *she*, as old as *he*",
    "equal": "the comparison is with *as*",
    "less": "the standard has more of it: younger than *he*, not as old as *he*",
}
"""Facts about a clause, which the conditions of its rules test."""
FACT = _bits(FACTS)

# The words of a clause that an arc may join.
PREDICATE, SUBJECT, STANDARD, AGENT = range(4)


@dataclass(frozen=True)
class ClauseRule:
    """Makes an arc for each subject of a clause; every rule whose condition holds is applied."""

    name: str
    role: str
    head: int  # PREDICATE, SUBJECT, STANDARD or AGENT; so is ``dependent``
    dependent: int
    necessary_facts: int  # all of these must be true of the clause
    excluding_facts: int  # none of these may be true of it
    example: str


CLAUSE_RULES = (
    ClauseRule("predicate", "attr", SUBJECT, PREDICATE, FACT.COPULAR, FACT.LESS,
               "hat:3:nsubj is:3:cop red:0:root -> attr:hat:red"),
    ClauseRule("predicate of the standard", "attr", STANDARD, PREDICATE, FACT.COPULAR | FACT.LESS, 0,
               "she:5:nsubj is:5:cop not:5:advmod as:5:advmod old:0:root as:7:case he:5:obl -> attr:he:old"),
    ClauseRule("recipient of a passive", "to", PREDICATE, SUBJECT, FACT.PASSIVE | FACT.OBJECT, FACT.COPULAR,
               "She:3:nsubj:pass was:3:aux:pass given:0:root books:3:obj -> to:given:She"),
    ClauseRule("patient of a passive", "patient", PREDICATE, SUBJECT,
               FACT.PASSIVE, FACT.COPULAR | FACT.OBJECT,
               "doctor:3:nsubj:pass was:3:aux:pass praised:0:root -> patient:praised:doctor"),
    ClauseRule("subject", "agent", PREDICATE, SUBJECT, 0, FACT.COPULAR | FACT.PASSIVE,
               "lawyer:2:nsubj praised:0:root -> agent:praised:lawyer"),
    ClauseRule("negation", "neg", PREDICATE, SUBJECT, FACT.NEGATED, FACT.AGENT,
               "He:4:nsubj did:4:aux not:4:advmod come:0:root -> neg:come:He"),
    ClauseRule("negation of a passive", "neg", PREDICATE, AGENT, FACT.NEGATED | FACT.AGENT, 0,
               "Ann:4:nsubj:pass was:4:aux:pass not:4:advmod seen:0:root by:6:case Eve:4:obl:agent "
               "-> neg:seen:Eve"),
    ClauseRule("more", "than", SUBJECT, STANDARD, FACT.COMPARED, FACT.EQUAL | FACT.LESS,
               "He:3:nsubj is:3:cop older:0:root than:5:case she:3:obl -> than:He:she"),
    ClauseRule("less", "than", STANDARD, SUBJECT, FACT.COMPARED | FACT.LESS, 0,
               "she:3:nsubj is:3:cop younger:0:root than:5:case He:3:obl -> than:He:she"),
)  # fmt: skip


@dataclass(frozen=True)
class DependentRule:
    """Makes the arc between a word and a dependent; only the first rule whose condition holds is applied.

    There are no rules for subjects, conjuncts and function words, which :mod:`parsing.trees.roles` treats. A
    condition of 0 always holds.
    """

    name: str
    role: str | None  # None makes no arc
    relation: int  # the dependent's relation is of one of these kinds
    example: str
    mark: int = 0  # its preposition or conjunction is in one of these sets of words
    word: int = 0  # the dependent is in one of these sets of words
    needs_passive_head: bool = False
    starts_at_dependent: bool = False  # the arc's head is the dependent, and its dependent the tree's head


DEPENDENT_RULES = (
    DependentRule("object", "patient", KIND.OBJECT,
                  "praised:0:root doctor:1:obj -> patient:praised:doctor"),
    DependentRule("recipient", "to", KIND.INDIRECT_OBJECT,
                  "She:2:nsubj gave:0:root him:2:iobj books:2:obj -> to:gave:him"),
    DependentRule("owner", "poss", KIND.POSSESSOR,
                  "the:3:det king:3:nmod:poss hat:0:root -> poss:hat:king"),
    DependentRule("whole", "poss", KIND.OBLIQUE, mark=WORD.OF,
                  example="the:2:det hat:0:root of:4:case king:2:nmod -> poss:hat:king"),
    DependentRule("agent of a passive", "agent", KIND.AGENT,
                  "seen:0:root by:3:case Eve:1:obl:agent -> agent:seen:Eve"),
    DependentRule("'by' of a passive", "agent", KIND.OBLIQUE, mark=WORD.BY, needs_passive_head=True,
                  example="doctor:0:root praised:1:acl by:4:case lawyer:2:obl -> agent:praised:lawyer"),
    DependentRule("goal", "to", KIND.OBLIQUE, mark=WORD.TO,
                  example="He:2:nsubj went:0:root to:4:case Rome:2:obl -> to:went:Rome"),
    DependentRule("source", "from", KIND.OBLIQUE, mark=WORD.FROM,
                  example="He:2:nsubj came:0:root from:4:case Rome:2:obl -> from:came:Rome"),
    DependentRule("any other complement with a preposition", "at", KIND.OBLIQUE,
                  "cat:2:nsubj sat:0:root on:4:case mat:2:obl -> at:sat:mat"),
    DependentRule("attribute", "attr", KIND.ATTRIBUTE, "red:2:amod hat:0:root -> attr:hat:red"),
    DependentRule("numeral", "num", KIND.NUMBER, "two:2:nummod hats:0:root -> num:hats:two"),
    DependentRule("'not' and 'as', which other rules read", None, KIND.ADVERB, word=WORD.NOT | WORD.AS,
                  example="He:4:nsubj did:4:aux not:4:advmod come:0:root -> no adv:come:not"),
    DependentRule("adverb", "adv", KIND.ADVERB, "ran:0:root fast:1:advmod -> adv:ran:fast"),
    DependentRule("later event", "before", KIND.ADVERBIAL_CLAUSE, mark=WORD.BEFORE,
                  example="left:0:root before:3:mark came:1:advcl -> before:left:came"),
    DependentRule("earlier event", "before", KIND.ADVERBIAL_CLAUSE, mark=WORD.AFTER, starts_at_dependent=True,
                  example="came:0:root after:3:mark left:1:advcl -> before:left:came"),
    DependentRule("name", "is", KIND.NAME, "friend:0:root Anna:1:appos -> is:friend:Anna"),
    DependentRule("embedded clause", "clause", KIND.COMPLEMENT | KIND.ADVERBIAL_CLAUSE,
                  "said:0:root that:3:mark came:1:ccomp -> clause:said:came"),
    DependentRule("anything else", None, 0, "said:0:root well:1:dep -> no adv:said:well"),
)  # fmt: skip


def _table(rules: Sequence[ClauseRule | DependentRule]) -> np.recarray[Any, Any]:
    """Return the rules as int64 records, which compiled code can read; a rule of role -1 makes no arc."""
    names = [field.name for field in fields(rules[0]) if field.name not in ("name", "example", "role")]
    rows = []
    for rule in rules:
        role = -1 if rule.role is None else ROLES.index(rule.role)
        rows.append((role, *(getattr(rule, name) for name in names)))
    return np.rec.fromrecords(rows, dtype=[(name, np.int64) for name in ("role", *names)])


CLAUSE_TABLE, DEPENDENT_TABLE = _table(CLAUSE_RULES), _table(DEPENDENT_RULES)
TABLES = (_ROWS, ROLES, CLAUSE_TABLE.tolist(), DEPENDENT_TABLE.tolist())
"""The data that decide which arcs are made."""
