"""Canonical roles, from trees written as ``word:head:relation``: the same event has the same arcs."""

import inspect

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsing.trees import role_trees, roles
from parsing.trees.child_roles import CHILD_ROLES, child_roles
from parsing.trees.role_rules import (
    CLAUSE_RULES,
    DEPENDENT_RULES,
    ROLES,
    relation_bits,
    word_flags,
)
from parsing.trees.roles import canonical_arcs
from tests.parsing.trees.written import read_batch, read_trees

ACTIVE = "The:2:det lawyer:3:nsubj praised:0:root the:5:det doctor:3:obj"
RELATIVE_ROOT = "hat:0:appos king:0:root wore:0:acl:relcl"
"""Names of other sentences are not its subjects."""
ARCS = {("agent", "praised", "lawyer"), ("patient", "praised", "doctor")}
SAME = {
    "active": ACTIVE,
    "passive": "The:2:det doctor:4:nsubj:pass was:4:aux:pass praised:0:root by:7:case the:7:det "
    "lawyer:4:obl:agent",
    "passive, Stanford": "The:2:det doctor:4:nsubjpass was:4:auxpass praised:0:root by:4:prep the:7:det "
    "lawyer:5:pobj",
    "active, Stanford": ACTIVE.replace(":obj", ":dobj"),
    "cleft": "It:4:nsubj was:4:cop the:4:det lawyer:0:root who:6:nsubj praised:4:acl:relcl the:8:det "
    "doctor:6:obj",
    "relative of the object": "the:2:det doctor:0:root whom:5:obj lawyer:5:nsubj praised:2:acl:relcl",
    "relative without a pronoun": "the:2:det doctor:0:root lawyer:4:nsubj praised:2:acl:relcl",
    "participle": "the:2:det doctor:0:root praised:2:acl by:5:case lawyer:3:obl",
}
EXAMPLES = [(rule.name, rule.example) for rule in (*CLAUSE_RULES, *DEPENDENT_RULES)]
EXAMPLES += [
    (step.__name__, line.partition("Example: ")[2])
    for module in (role_trees, roles)
    for step in vars(module).values()
    if inspect.isfunction(step) and step.__module__ == module.__name__
    for line in (step.__doc__ or "").splitlines()
    if "Example: " in line
]
"""Every rule and every step of reading a tree, with what its example says."""
TREES = [example.partition(" -> ")[0] for _, example in EXAMPLES]


def arcs_of(*trees: str) -> set[tuple[str, str, str]]:
    words, heads, relations, offsets = read_trees(*trees)
    arcs = canonical_arcs(np.array(heads), relation_bits(relations), word_flags(words), offsets)
    sentences = (np.searchsorted(offsets, places, "right").tolist() for places in (arcs.head, arcs.dependent))
    assert next(sentences) == next(sentences)
    places = zip(arcs.role, arcs.head, arcs.dependent, strict=True)
    return {(ROLES[role], words[head], words[dependent]) for role, head, dependent in places}


@pytest.mark.parametrize("name", SAME)
def test_an_event_has_the_same_arcs_however_it_is_said(name: str) -> None:
    assert arcs_of(SAME[name]) >= ARCS
    assert not arcs_of(SAME[name]) & {("agent", "praised", "doctor"), ("patient", "praised", "lawyer")}


@pytest.mark.parametrize(("name", "example"), EXAMPLES)
def test_a_rule_gives_the_arc_of_its_example(name: str, example: str) -> None:
    tree, arc = example.split(" -> ")
    assert (tuple(arc.removeprefix("no ").split(":")) in arcs_of(tree)) != arc.startswith("no ")


TABLES = {"CLAUSE_TABLE": CLAUSE_RULES, "DEPENDENT_TABLE": DEPENDENT_RULES}


@pytest.mark.parametrize(
    ("table", "place"),
    [
        pytest.param(table, place, id=rule.name)
        for table, rules in TABLES.items()
        for place, rule in enumerate(rules)
        if rule.name != "anything else"
    ],
)
def test_no_other_rule_gives_it(table: str, place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roles, "_fill_arcs", roles._fill_arcs.__wrapped__)  # Python looks at the table
    monkeypatch.setattr(roles, table, np.delete(getattr(roles, table), place))
    tree, arc = TABLES[table][place].example.split(" -> ")
    assert (tuple(arc.removeprefix("no ").split(":")) in arcs_of(tree)) == arc.startswith("no ")


@pytest.mark.parametrize(
    ("name", "lawyer", "doctor"),
    [
        ("active", "agent", "patient"),
        ("passive", "agent", "patient"),
        ("passive, Stanford", "at", "patient"),
        ("active, Stanford", "agent", "patient"),
        ("relative of the object", "agent", "other"),
        ("participle", "agent", "other"),
    ],
)
def test_children_have_the_role_of_their_arc(name: str, lawyer: str, doctor: str) -> None:
    """Or by their label, where Stanford's preposition stands between; the verb below a noun has it turned."""
    words, batch = read_batch(SAME[name])
    role_of_word = dict(zip(words, (CHILD_ROLES[r] for r in child_roles(batch)), strict=True))
    assert role_of_word.items() >= {"lawyer": lawyer, "doctor": doctor, "the": "function"}.items()
    if doctor == "other":
        assert role_of_word["praised"] == "has patient"


def test_sentences_of_a_batch_do_not_meet() -> None:
    trees = ACTIVE, SAME["passive"], RELATIVE_ROOT, *TREES
    assert arcs_of(*trees) == set().union(*map(arcs_of, trees))


LABELS = sorted({tree.split(":", 2)[2] for s in (*SAME.values(), *TREES) for tree in s.split()} | {"ccomp"})
TOKEN = st.sampled_from(["who", "not", "is", "than", "do", "to", "has", "what"]), st.sampled_from(LABELS)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 12).flatmap(
        lambda n: st.lists(st.tuples(*TOKEN, st.integers(0, n)), min_size=n, max_size=n)
    )
)
def test_any_heads_end_in_finite_arcs(tokens: list[tuple[str, str, int]]) -> None:
    """Imported trees may have cycles; every label may stand anywhere."""
    words, relations, heads = zip(*tokens, strict=True)
    size = len(words)
    arcs = canonical_arcs(np.array(heads), relation_bits(relations), word_flags(words), np.array([0, size]))
    for end in (arcs.head, arcs.dependent):
        assert ((end >= 0) & (end < size)).all()


def test_cycles_end() -> None:
    """Gaps and shared subjects are looked for up and down clauses, here in circles."""
    ring = "man:1:root they:3:nsubj say:1:acl:relcl see:5:xcomp want:4:ccomp go:3:xcomp do:6:ccomp be:7:conj"
    for tree in (ring, ring.replace("say:1", "say:6"), ring.replace("see:5", "see:3")):
        assert ("agent", "say", "they") in arcs_of(tree)
