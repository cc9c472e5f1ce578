"""What :mod:`parsing.trees.roles` asks of labels and words, as bits, and its rules, as two tables.

``role_kinds.tsv`` has the kinds of labels and the sets of words. The tables are of arcs of a clause, and of
arcs of a word's dependents. A rule has a name, a condition, the arc it gives, and an example that the tests
read: a tree as ``word:head:relation``, then an arc as ``role:head:dependent`` that this rule alone gives.
"""

import csv
from collections import namedtuple
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpora.characters import plain

with open(Path(__file__).with_name("role_kinds.tsv"), encoding="utf-8", newline="") as _lines:
    _ROWS = list(csv.DictReader(_lines, delimiter="\t", quoting=csv.QUOTE_NONE))
_LABELS, _WORDS = (
    {row["kind"]: row["members"].split() for row in _ROWS if row["of"] == of} for of in ("relation", "word")
)
KIND_BITS = {name: 1 << number for number, name in enumerate(_LABELS)}
"""The bit of each kind of relation."""
ROLE_OF_KIND = {row["kind"]: row["role"] for row in _ROWS if row["role"]}
"""The role that a dependent has by a kind of its label alone; of several kinds, the first counts."""
WORD_BITS = {name: 1 << number for number, name in enumerate([*_WORDS, "ing"])}
"""The bit of each set of words; those of "ing" end in it."""


def _constants(bits: dict[str, int]) -> Any:
    """Return bits by their names in capitals, which compiled code can read."""
    names = [name.upper().replace(" ", "_") for name in bits]
    constants: Any = namedtuple("Constants", names)  # type: ignore[misc]
    return constants(*bits.values())


KIND, WORD = _constants(KIND_BITS), _constants(WORD_BITS)
CLAUSE = KIND.ROOT | KIND.COMPLEMENT | KIND.ADVERBIAL_CLAUSE | KIND.PARTICIPLE | KIND.RELATIVE | KIND.BESIDE
CLAUSE |= KIND.CLAUSAL_SUBJECT
FUNCTION_WORD = KIND.DETERMINER | KIND.CASE | KIND.AUXILIARY | KIND.COPULA | KIND.FUNCTION


def _bits_of(member: str, sets: dict[str, list[str]], bits: dict[str, int]) -> int:
    return sum(bits[name] for name, members in sets.items() if member in members)


_BITS_OF_WORD = {word: _bits_of(word, _WORDS, WORD_BITS) for words in _WORDS.values() for word in words}


def relation_bits(relations: Sequence[str]) -> NDArray[np.int64]:
    """Return the kinds of each relation of a cache's inventory, as bits: int64 [R]."""
    return np.array([_bits_of(label, _LABELS, KIND_BITS) for label in relations], np.int64)


def word_flags(words: Sequence[str]) -> NDArray[np.int64]:
    """Return the sets that each word belongs to, as bits: int64 [U]."""
    lower = [plain(word).lower() for word in words]
    return np.array([_BITS_OF_WORD.get(w, 0) | WORD.ING * w.endswith("ing") for w in lower], np.int64)


ROLES = (
    *("agent", "patient", "to", "from", "at", "poss", "attr", "num", "adv", "neg", "before", "than", "is"),
    "clause",
)

# Facts of a clause that its rules ask for.
COPULAR = 1  # its predicate is an adjective or a noun with a form of *be*
IN_PASSIVE = 2
WITH_OBJECT = 4
NEGATED = 8
WITH_AGENT = 16  # it is passive and says by whom
COMPARED = 32  # its subject is compared with a standard: older than *she*, as old as *he*
EQUAL = 64  # the comparison is with *as*
STANDARD_HAS_MORE = 128  # the standard has more of it: younger than *he*, not as old as *he*
NEGATED_ALONE = 256  # it is negated and has no subject

# Words of a clause that an arc joins.
PREDICATE, SUBJECT, STANDARD, AGENT = range(4)


@dataclass(frozen=True)
class ClauseRule:
    """An arc that a clause gives for each of its subjects. Every rule whose condition holds gives its arc."""

    name: str
    role: str
    head: int  # PREDICATE, SUBJECT, STANDARD or AGENT, as ``dependent``
    dependent: int
    facts: int  # all that must hold of the clause
    unless: int  # none of these may hold
    example: str


CLAUSE_RULES = (
    ClauseRule("predicate", "attr", SUBJECT, PREDICATE, COPULAR, STANDARD_HAS_MORE,
               "hat:3:nsubj is:3:cop red:0:root -> attr:hat:red"),
    ClauseRule("predicate of the standard", "attr", STANDARD, PREDICATE, COPULAR | STANDARD_HAS_MORE, 0,
               "she:5:nsubj is:5:cop not:5:advmod as:5:advmod old:0:root as:7:case he:5:obl -> attr:he:old"),
    ClauseRule("recipient of a passive", "to", PREDICATE, SUBJECT, IN_PASSIVE | WITH_OBJECT, COPULAR,
               "She:3:nsubj:pass was:3:aux:pass given:0:root books:3:obj -> to:given:She"),
    ClauseRule("patient of a passive", "patient", PREDICATE, SUBJECT, IN_PASSIVE, COPULAR | WITH_OBJECT,
               "doctor:3:nsubj:pass was:3:aux:pass praised:0:root -> patient:praised:doctor"),
    ClauseRule("subject", "agent", PREDICATE, SUBJECT, 0, COPULAR | IN_PASSIVE | NEGATED_ALONE,
               "lawyer:2:nsubj praised:0:root -> agent:praised:lawyer"),
    ClauseRule("negation", "neg", PREDICATE, SUBJECT, NEGATED, WITH_AGENT,
               "He:4:nsubj did:4:aux not:4:advmod come:0:root -> neg:come:He"),
    ClauseRule("negation of a passive", "neg", PREDICATE, AGENT, NEGATED | WITH_AGENT, 0,
               "Ann:4:nsubj:pass was:4:aux:pass not:4:advmod seen:0:root by:6:case Eve:4:obl:agent "
               "-> neg:seen:Eve"),
    ClauseRule("negation without a subject", "neg", PREDICATE, PREDICATE, NEGATED_ALONE, 0,
               "not:2:advmod now:0:root -> neg:now:now"),
    ClauseRule("more", "than", SUBJECT, STANDARD, COMPARED, EQUAL | STANDARD_HAS_MORE,
               "He:3:nsubj is:3:cop older:0:root than:5:case she:3:obl -> than:He:she"),
    ClauseRule("less", "than", STANDARD, SUBJECT, COMPARED | STANDARD_HAS_MORE, 0,
               "she:3:nsubj is:3:cop younger:0:root than:5:case He:3:obl -> than:He:she"),
)  # fmt: skip


@dataclass(frozen=True)
class DependentRule:
    """Says what a dependent is to its head. The first rule whose condition holds counts.

    Subjects, conjuncts and function words are no concern of these rules. Where a condition is 0, anything
    will do.
    """

    name: str
    role: str | None  # None for no arc
    relation: int  # kinds, one of which its relation is of
    example: str
    mark: int = 0  # sets of words, one of which has its preposition or conjunction
    word: int = 0  # sets of words, one of which has the dependent
    head_is_passive: bool = False
    turned: bool = False  # the arc runs from the dependent to its head


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
    DependentRule("'by' of a passive", "agent", KIND.OBLIQUE, mark=WORD.BY, head_is_passive=True,
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
    DependentRule("earlier event", "before", KIND.ADVERBIAL_CLAUSE, mark=WORD.AFTER, turned=True,
                  example="came:0:root after:3:mark left:1:advcl -> before:left:came"),
    DependentRule("name", "is", KIND.NAME, "friend:0:root Anna:1:appos -> is:friend:Anna"),
    DependentRule("embedded clause", "clause", KIND.COMPLEMENT | KIND.ADVERBIAL_CLAUSE,
                  "said:0:root that:3:mark came:1:ccomp -> clause:said:came"),
    DependentRule("anything else", None, 0, "said:0:root well:1:dep -> no adv:said:well"),
)  # fmt: skip


def _table(columns: str, rows: Iterable[tuple[int, ...]]) -> np.recarray[Any, Any]:
    """Make records of int64 with named fields, which compiled code can read."""
    return np.rec.fromrecords(list(rows), dtype=[(name, np.int64) for name in columns.split()])


_PLACES: dict[str | None, int] = {None: -1, **{role: place for place, role in enumerate(ROLES)}}
CLAUSE_TABLE = _table(
    "facts asked role head dependent",
    ((r.facts, r.facts | r.unless, _PLACES[r.role], r.head, r.dependent) for r in CLAUSE_RULES),
)
"""The rules of clauses for compiled code; ``asked`` are the facts that a condition asks for."""
DEPENDENT_TABLE = _table(
    "relation mark word head_is_passive role turned",
    ((r.relation, r.mark, r.word, r.head_is_passive, _PLACES[r.role], r.turned) for r in DEPENDENT_RULES),
)
"""The rules of dependents for compiled code."""
