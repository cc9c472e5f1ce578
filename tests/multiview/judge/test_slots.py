"""Slots of sentences, beside a slow way to fill them."""

import numpy as np

from multiview.judge import Judge
from multiview.judge.facts import PairFacts, facts_of_pairs
from multiview.judge.slots import SPELLING_SHARE, SPELLING_WIDTH, slot_cosines
from multiview.judge.weights import SLOTS
from multiview.libraries.arrays import unit_rows
from multiview.structure.poles import known_opposites, signed_spellings
from parsing.trees.role_rules import ROLES

PAIRS = (
    ("The old lawyer praised the young doctor warmly.", "The young doctor was praised by an old lawyer."),
    ("The cat did not sit on the red mat.", "A dog sat quietly in the garden."),
    ("Anna gave Tom a small book in Rome.", "Rain."),
    ("Enable the camera.", "Disable the camera."),
    ("!", "He came."),
)
PREDICATE_ROLES = ("agent", "patient", "to", "from")


def slow_slots(pairs: PairFacts, row: int, vectors: np.ndarray) -> dict[str, np.ndarray]:
    """Return the sums of the words of one sentence by slot, at length 1."""
    facts = pairs.facts
    arcs = range(int(facts.arc_count[:row].sum()), int(facts.arc_count[: row + 1].sum()))
    role_of = {arc: ROLES[facts.role[arc]] for arc in arcs}
    dependents = {role: {int(facts.dependent[arc]) for arc in arcs if role_of[arc] == role} for role in ROLES}
    sums: dict[str, np.ndarray] = {}
    for word in range(int(facts.word_count[:row].sum()), int(facts.word_count[: row + 1].sum())):
        form = int(facts.form[word])
        if not facts.is_content[word]:
            continue
        heads = [int(facts.head[a]) for a in arcs if int(facts.dependent[a]) == form and role_of[a] in
                 ("attr", "poss", "num", "is")]  # fmt: skip
        is_predicate = any(int(facts.head[a]) == form and role_of[a] in PREDICATE_ROLES for a in arcs)
        if form in dependents["agent"]:
            slot = "agent"
        elif form in dependents["patient"]:
            slot = "patient"
        elif is_predicate:
            slot = "predicate"
        elif any(form in dependents[role] for role in ("to", "from", "at")):
            slot = "place"
        elif any(head in dependents["agent"] for head in heads):
            slot = "attribute of agent"
        elif any(head in dependents["patient"] for head in heads):
            slot = "attribute of patient"
        elif heads:
            slot = "other attribute"
        else:
            slot = "adverb" if form in dependents["adv"] else "rest"
        sums[slot] = sums.get(slot, 0) + int(facts.sign[word]) * vectors[form]
    return {slot: total / np.linalg.norm(total) for slot, total in sums.items()}


def test_no_cosine_of_a_slot_is_above_1(judge: Judge) -> None:
    slots = judge("How do I pay?", "How do I pay?").slots
    assert slots and max(slots.values()) <= 1


def test_slots_are_those_of_a_slow_way(judge: Judge) -> None:
    source = judge.source
    texts = [text for pair in PAIRS for text in pair]
    text_n2 = np.arange(len(texts)).reshape(-1, 2)
    pairs = facts_of_pairs(source.reader.batches(texts, {"tokens", "dep"}, None, 512), text_n2)
    cosines, of_all = slot_cosines(pairs, source.words)
    forms = [form.text for form in pairs.forms.forms]
    meaning = unit_rows(source.words.rows(0, source.words.vocabulary.lookup(forms)).float().numpy())
    spelling = unit_rows(signed_spellings(forms, SPELLING_WIDTH, known_opposites()))
    vectors = np.hstack([meaning * (1 - SPELLING_SHARE) ** 0.5, spelling * SPELLING_SHARE**0.5])
    filled = set()
    for number, rows in enumerate(pairs.row_n2.tolist()):
        a, b = (slow_slots(pairs, row, vectors) for row in rows)
        filled |= {*a, *b}
        wanted = [float(a[slot] @ b[slot]) if slot in a and slot in b else 0 for slot in SLOTS]
        np.testing.assert_allclose(cosines[number], wanted, atol=1e-5)
        weights = [sum(SLOTS[slot] for slot in side) for side in (a, b)]
        total = sum(SLOTS[slot] * cosine for slot, cosine in zip(SLOTS, wanted, strict=True))
        assert abs(of_all[number] - total / max((weights[0] * weights[1]) ** 0.5, 1e-9)) < 1e-5
    assert len(filled) >= 8
    assert cosines[0, 0] > 0.99 and of_all[3] < 0.6
