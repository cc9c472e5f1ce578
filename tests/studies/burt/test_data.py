"""BURT's preprocessing."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from studies.burt.data import balanced, hold_out_phrases, nli_examples, usable, without_premises
from studies.finetune.examples import Examples, hold_out, normalised

ROWS = [
    ("quick", "fast", "Equivalence"),
    ("big", "large", "Equivalence"),
    ("very big", "big", "ForwardEntailment"),
    ("large", "very large", "ReverseEntailment"),
    ("red", "quick", "Independent"),
    ("hot", "cold", "Exclusion"),
    ("oven", "cold", "OtherRelated"),
    ("shop", "store", None),
]


def test_phrases_are_short_and_different_and_their_labels_are_kept_ones() -> None:
    six = "a b c d e f"
    rows = usable(
        (a, b, None) for a, b in [(six, "x"), (six + " g", "x"), ("x", six), (six, "x"), ("x", "x")]
    )
    assert (rows.first, rows.second) == ([six, "x"], ["x", six]), "each direction once"
    assert usable(ROWS).target.tolist() == [0, 0, 1, 1, 2, -1]


def test_both_directions_of_a_pair_are_on_one_side() -> None:
    a, b = [f"a {i}" for i in range(200)], [f"b {i * i}" for i in range(200)]
    sides = [hold_out_phrases(Examples(*pair, np.zeros(200)), 0.3) for pair in ((a, b), (b, a))]
    assert sides[0][1].first == sides[1][1].second and 30 < len(sides[0][1]) < 90
    assert all(len(train) + len(held) == 200 for train, held in sides)


def test_classes_are_balanced_and_all_are_positive_pairs() -> None:
    """BURT counts more than a million positive pairs: three labels of 354k, Independent among them."""
    rows = balanced(usable(ROWS), per_class=354_000, seed=1)
    assert rows.target.tolist() == [0, 1, 2, -1]
    assert rows.first[1] in ("very big", "large") and rows.first[2:] == ["red", "shop"]
    many = usable((f"{a} {i}", b, label) for a, b, label in ROWS[:7] for i in range(4))
    for most, size in ((10**6, 4), (3, 3)):
        assert np.bincount(balanced(many, most, 2).target).tolist() == [size] * 3
    assert balanced(many, 3, 2).first != balanced(many, 3, 3).first, "a random choice"
    two = many.take(np.flatnonzero(many.target < 2))
    assert np.bincount(balanced(two, 10**6, 2).target).tolist() == [8, 8]


def test_nli_rows_without_a_three_way_label_are_marked() -> None:
    examples = nli_examples([("a", "b", "neutral"), ("a", "c", "-"), ("a", "d", "contradiction")])
    assert examples.target.tolist() == [1, -1, 2]


def test_unseen_premises_are_dropped_under_any_tokenisation() -> None:
    examples = Examples(["A man isn't here .", "A dog"], ["x", "y"], np.array([0, 1]))
    assert without_premises(examples, ["a man is n't here."]).first == ["A dog"]


@given(st.lists(st.text("abc XYZ.", max_size=6), max_size=30), st.floats(0, 1))
@settings(max_examples=30)
def test_a_first_text_is_on_one_side_only(texts: list[str], share: float) -> None:
    examples = Examples(texts, texts, np.arange(len(texts)))
    train, held = hold_out(examples, share)
    assert sorted([*train.target, *held.target]) == list(range(len(texts)))
    assert not {normalised(t) for t in train.first} & {normalised(t) for t in held.first}
