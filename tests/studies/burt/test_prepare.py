"""BURT's preprocessing, schedule and epoch."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from corpora.support.split import hold_out, hold_out_pairs, normalised
from studies.burt.objectives import one_round, steps_per_epoch
from studies.burt.prepare import (
    Phrases,
    at_most,
    classification_examples,
    identification_pairs,
    nli_examples,
    short_enough,
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


def test_a_limit_is_a_fixed_even_choice() -> None:
    assert list(at_most(iter("abc"), 0)) == list(at_most(iter("abc"), 3)) == list("abc")
    rows = list(at_most(iter(range(40_000)), 4_000))
    assert len(set(rows)) == 4_000 and set(rows) <= set(range(40_000))
    assert rows == list(at_most(iter(range(40_000)), 4_000))
    # each tenth of the file gives a tenth of the rows: 400, standard deviation 18
    assert all(abs(sum(row // 4_000 == part for row in rows) - 400) < 75 for part in range(10))


def test_phrases_are_short_different_and_once() -> None:
    rows = [
        Phrases("a b c d e f", "x", None),
        Phrases("a b c d e f g", "x", None),
        Phrases("x", "a b c d e f", None),
        Phrases("x", "x", None),
    ]
    assert short_enough(rows, 6) == rows[:1]


def test_paraphrases_are_rows_that_ppdb_does_not_call_otherwise() -> None:
    assert identification_pairs(ROWS) == [(r.a, r.b) for r in (*ROWS[:4], ROWS[7])]


def test_classes_are_merged_filtered_and_balanced() -> None:
    examples = classification_examples(ROWS, seed=1)
    assert examples.target.tolist() == [0, 1, 2]
    assert examples.first[2] == "red"
    assert examples.first[1] in ("very big", "large")
    assert len(classification_examples(ROWS[:4], seed=1)) == 0
    many = classification_examples(ROWS * 4, seed=2)
    assert np.bincount(many.target).tolist() == [4, 4, 4]


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
    pairs = [(text, text) for text in texts]
    assert [list(side) for side in hold_out_pairs(pairs, share)] == [
        [(t, t) for t in train.first],
        [(t, t) for t in held.first],
    ]


def test_every_second_batch_is_nli_and_the_others_alternate() -> None:
    assert one_round(["nli", "identification", "classification"]) == (
        "nli",
        "identification",
        "nli",
        "classification",
    )
    assert one_round(["nli"]) == ("nli",)
    assert one_round(["classification", "nli"]) == ("nli", "classification")
    assert one_round(["classification", "identification"]) == ("identification", "classification")


def test_an_epoch_is_one_pass_over_nli_or_the_longest_set() -> None:
    batches = {"nli": 10, "identification": 1000, "classification": 3}
    assert steps_per_epoch(one_round(["nli", "identification", "classification"]), batches) == 20
    assert steps_per_epoch(one_round(["nli"]), batches) == 10
    assert steps_per_epoch(one_round(["identification", "classification"]), batches) == 2000
