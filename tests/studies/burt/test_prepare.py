"""BURT's preprocessing."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from corpora.support.split import hold_out, normalised
from studies.burt.data import (
    Phrases,
    balanced,
    classification_examples,
    hold_out_phrases,
    nli_examples,
    usable,
    without_premises,
)
from studies.finetune.examples import Examples

ROWS = [
    Phrases("quick", "fast", "Equivalence"),
    Phrases("big", "large", "Equivalence"),
    Phrases("very big", "big", "ForwardEntailment"),
    Phrases("large", "very large", "ReverseEntailment"),
    Phrases("red", "quick", "Independent"),
    Phrases("hot", "cold", "Exclusion"),
    Phrases("oven", "cold", "OtherRelated"),
    Phrases("shop", "store", None),
]


def test_phrases_are_short_and_different_and_their_labels_are_kept_ones() -> None:
    rows = [
        Phrases("a b c d e f", "x", None),
        Phrases("a b c d e f g", "x", None),
        Phrases("x", "a b c d e f", None),
        Phrases("a b c d e f", "x", None),
        Phrases("x", "x", None),
    ]
    assert usable(rows) == [rows[0], rows[2]], "each direction once"
    assert [row.label for row in usable(ROWS)] == [
        *["equivalence"] * 2,
        *["entailment"] * 2,
        "independent",
        None,
    ]


def test_both_directions_of_a_pair_are_on_one_side() -> None:
    rows = [Phrases(f"a {i}", f"b {i * i}", None) for i in range(200)]
    turned = [Phrases(row.b, row.a, None) for row in rows]
    for train, held in (hold_out_phrases(side, 0.3) for side in (rows, turned)):
        assert len(train) + len(held) == 200 and 30 < len(held) < 90
    (train, held), (other_train, other_held) = (hold_out_phrases(side, 0.3) for side in (rows, turned))
    assert [(row.b, row.a) for row in held] == [(row.a, row.b) for row in other_held]
    assert len(train) == len(other_train)


def test_classes_are_balanced_and_all_are_positive_pairs() -> None:
    """BURT counts more than a million positive pairs: three labels of 354k, Independent among them."""
    rows = balanced(usable(ROWS), per_class=354_000, seed=1)
    assert [row.label for row in rows] == ["equivalence", "entailment", "independent", None]
    assert rows[1].a in ("very big", "large") and rows[2].a == "red" and rows[3].a == "shop"
    examples = classification_examples(rows)
    assert examples.target.tolist() == [0, 1, 2]
    assert examples.first == [row.a for row in rows[:3]]
    many = [row._replace(a=f"{row.a} {i}") for row in usable(ROWS) for i in range(4)]
    assert np.bincount(classification_examples(balanced(many, 10**6, 2)).target).tolist() == [4, 4, 4]
    assert np.bincount(classification_examples(balanced(many, 3, 2)).target).tolist() == [3, 3, 3]
    assert balanced(many, 3, 2) != balanced(many, 3, 3), "a random choice"
    only = [row for row in many if row.label != "independent"]
    assert np.bincount(classification_examples(balanced(only, 10**6, 2)).target).tolist() == [8, 8]


def test_nli_rows_without_a_three_way_label_are_counted() -> None:
    examples, dropped = nli_examples([("a", "b", "neutral"), ("a", "c", "-"), ("a", "d", "contradiction")])
    assert examples.second == ["b", "d"]
    assert examples.target.tolist() == [1, 2]
    assert dropped == 1


def test_unseen_premises_are_dropped_under_any_tokenisation() -> None:
    examples = Examples(["A man isn't here .", "A dog"], ["x", "y"], np.array([0, 1]))
    assert without_premises(examples, ["a man is n't here."]).first == ["A dog"]


@given(st.lists(st.text("abc XYZ.", max_size=6), max_size=30), st.floats(0, 1))
def test_a_first_text_is_on_one_side_only(texts: list[str], share: float) -> None:
    examples = Examples(texts, texts, np.arange(len(texts)))
    train, held = hold_out(examples, share)
    assert sorted([*train.target, *held.target]) == list(range(len(texts)))
    assert not {normalised(t) for t in train.first} & {normalised(t) for t in held.first}
