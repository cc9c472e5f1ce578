"""Features are symmetric, and have the values that can be counted by hand."""

import numpy as np
import pytest

from multiview.judge import FEATURES, Judge
from multiview.judge.pair_reading import read_features
from tests.fixtures.pairs import SWAPPED


def test_the_features_of_a_pair_are_those_of_the_pair_the_other_way(judge: Judge) -> None:
    """A word with its opposite on one side alone, several opposites, a repeated word, other counts."""
    sentences = (
        "It is on.",
        "Is it on or off?",
        "Turn it off and on.",
        "It is not off.",
        "Up and down.",
        "",
        "A good man is bad.",
        "Bad men are evil and good.",
        "He is not good and not bad.",
        "Two men, 3 men.",
        "The lawyer praised the doctor, the doctor the lawyer.",
        "In May Anna came to Rome from Rome.",
    )
    every_pair = [(a, b) for a in sentences for b in sentences]
    one_way, other_way = (read_features([p[::d] for p in every_pair], judge.source)[1] for d in (1, -1))
    np.testing.assert_allclose(one_way, other_way, atol=1e-6)


def test_features_of_a_pair(judge: Judge) -> None:
    pairs = [("The red hat fell.", "The blue hat fell."), SWAPPED, ("Anna met two men.", "Anna met men.")]
    _, rows = read_features(pairs, judge.source)
    feature = dict(zip(FEATURES, rows.T, strict=True))
    assert feature["words"].tolist() == pytest.approx([2 / 3, 1, (3 / 4 + 1) / 2])
    assert feature["moved"].tolist() == pytest.approx([0, 1, 0])
    assert feature["missing names"].tolist() == [0, 0, 1]
    assert feature["inversions"].tolist() == pytest.approx([0, 1, 0])
    assert feature["other words"][1] == 1 > feature["worst partner"][0]
    assert feature["exchanges"].tolist() == [0, 1, 0]
