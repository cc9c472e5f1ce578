"""Rules bound the probability: equal texts, texts without words, one decisive difference."""

import unicodedata
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from multiview.judge import Judge
from multiview.judge.limits import MAX_PROBABILITY
from multiview.judge.pair_reading import read_features


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("The cat sat.", "The cat sat."),
        ("The camera should be enabled.", "the  camera should be enabled"),
        ("He came!", ("He", "came", ".")),
        ("I don't know.", "I don’t know."),
        ("The café is open.", unicodedata.normalize("NFD", "The café is open.")),
        ("It is cooperation.", "It is co\u00adoperation."),
        ("It is open.", "It\u200b is open."),
        ("Press on and off.", "Press ‘on’ and “off”."),
        ("I paid 21 dollars.", "I paid twenty-one dollars."),
    ],
)
def test_a_sentence_says_the_same_as_itself(judge: Judge, a: Any, b: Any) -> None:
    assert judge(a, b).probability == judge(b, a).probability == 1
    assert not judge(a, b).reasons


def test_feet_are_no_inches(judge: Judge) -> None:
    assert judge("The pipe is 5' long.", 'The pipe is 5" long.').probability < 1
    assert judge('It is in "room 5".', "It is in room 5.").probability == 1


def test_words_that_are_written_apart_or_missing_are_not_the_same(judge: Judge) -> None:
    assert judge("It is a part.", "It is apart.").probability < 1
    assert [judge(*pair).probability for pair in (("", "Rain"), ("Rain", "!"))] == [0, 0]


@pytest.mark.parametrize(
    ("a", "b", "reason"),
    [
        ("The shop closes at 7 pm.", "The shop closes at 21:00.", "number: 19:00 | 21:00"),
        ("Does iOS 16 have this feature?", "Does iOS 17 have this feature?", "number: 16 | 17"),
        ("Monday is free.", "Tuesday is free.", "missing: monday | tuesday"),
        ("Is it open on 3 May?", "Is it open on 4 June?", "number: 3 | 4"),
        ("He is older than Ann.", "He is younger than Ann.", "opposite: older | younger"),
        ("Move money from savings to checking.", "Move money from checking to savings.", "roles: "),
        ("How do I share a folder?", "How do I stop sharing a folder?", "missing: - | stop"),
        ("Run the job.", "Stop running the job.", "missing: - | stop"),
        ("How do I sell it?", "How do I avoid selling it?", "missing: - | avoid"),
        ("Pay it if the manager agrees.", "Pay it only if the manager agrees.", "missing: - | only"),
    ],
)
def test_a_single_thing_that_differs_settles_a_pair(judge: Judge, a: str, b: str, reason: str) -> None:
    weight = [50.0, *np.zeros(len(judge.weights.weight) - 1)]  # takes all for the same
    sure = Judge(replace(judge.weights, weight=weight), source=judge.source)
    for pair in ((a, b), (b, a)):
        assert sure(*pair).probability == pytest.approx(MAX_PROBABILITY)
        assert judge(*pair).probability < 0.5
    assert str(sure(a, b).reasons[0]).startswith(reason)


def test_what_else_differs_is_left_to_the_weights(judge: Judge) -> None:
    for a, b in (
        ("Only pay it if the manager agrees.", "Pay it only if the manager agrees."),
        ("It went from Rome to Paris.", "It went to Paris from Rome."),
        ("Tom has 2 hats.", "Ann has 3 red coats."),
        ("It is not good.", "It is bad."),
        ("Monday is free.", "It is free on Tuesday or Friday."),
    ):
        expected = judge.weights.probabilities(read_features([(a, b)], judge.source)[1])[0]
        assert judge(a, b).probability == pytest.approx(expected)
