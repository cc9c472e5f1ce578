"""The judge of pairs: what it says, and why."""

import pickle

import numpy as np
import pytest

from multiview.judge import Judge
from tests.fixtures.pairs import SAME, SWAPPED


@pytest.mark.parametrize(
    "pair",
    [
        SAME,
        ("The film is good.", "The film is not bad."),
        ("Rain", "Rain"),
        ("", ""),
        ("The cat sat.", "A cat sat."),
        ("The dog barked.", "A dog barked."),
        ("He left.", "He has left."),
        ("I'm tired.", "I am tired."),
        ("She sings.", "She sang."),
        ("Turn on the light.", "Turn the light on."),
    ],
)
def test_pairs_that_say_the_same(judge: Judge, pair: tuple[str, str]) -> None:
    judgement = judge(*pair)
    assert judgement.probability > 0.5
    assert {reason.kind for reason in judgement.reasons} <= {"agreeing"}


def test_a_synonym_is_accepted_more_readily_than_an_opposite(judge: Judge) -> None:
    same, other = judge.pairs([("enable 2FA", "turn on 2FA"), ("enable 2FA", "disable 2FA")])
    assert same.probability > 0.5 > other.probability + 0.4


def test_a_pair_is_the_same_alone_in_a_batch_and_the_other_way(judge: Judge) -> None:
    pairs = [SAME, SWAPPED, ("Rain", "It rains in two towns."), SAME[::-1]]
    probabilities = [judgement.probability for judgement in judge.pairs(pairs)]
    assert probabilities == pytest.approx([judge(*pair).probability for pair in pairs], abs=1e-5)
    assert probabilities[0] == pytest.approx(probabilities[3], abs=1e-5)


def test_pairs_come_as_a_list_an_array_or_lists_of_tokens(judge: Judge) -> None:
    same, swapped = (judgement.probability for judgement in judge.pairs([SAME, SWAPPED]))
    assert [judgement.probability for judgement in judge.pairs(np.array([SAME, SWAPPED]))] == [same, swapped]
    tokens = judge(("The", "lawyer", "praised", "the", "doctor", "."), SAME[1])
    assert tokens.probability == pytest.approx(same, abs=1e-5)
    assert judge.pairs([]) == []


def test_judgements_are_compared_hashed_and_pickled(judge: Judge) -> None:
    judgement = judge(*SWAPPED)
    copy = pickle.loads(pickle.dumps(judgement))
    assert copy == judgement == judge(*SWAPPED) and hash(copy) == hash(judgement)
    assert copy.reasons == judgement.reasons


PINNED = {
    SAME: 0.9990,
    SWAPPED: 0.0340,
    ("How do I enable 2FA?", "How do I disable 2FA?"): 0.0103,
    ("How do I enable 2FA?", "How do I turn on 2FA?"): 0.9384,
    ("The parcel has arrived.", "The parcel has not arrived."): 0.0039,
    ("He bought two hats in Rome.", "He bought three hats in Rome."): 0.2153,
    ("She flew from Rome to Paris.", "She flew from Paris to Rome."): 0.0534,
    ("A red hat on a blue coat.", "A blue hat on a red coat."): 0.0113,
    ("Turn it on and off.", "Turn it on and off again."): 0.9098,
    ("She sings.", "She sang."): 0.8264,
}
"""Probabilities of the judge in the package: they hang on weights, classes of words and the parser."""


def test_probabilities_of_ten_pairs(judge: Judge) -> None:
    probabilities = [judgement.probability for judgement in judge.pairs(list(PINNED))]
    assert probabilities == pytest.approx([*PINNED.values()], abs=1e-3)
