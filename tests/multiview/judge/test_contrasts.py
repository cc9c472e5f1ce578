"""Words that features hardly show settle a pair if its texts are the same otherwise."""

import pytest

from corpora.tables import read_table
from multiview.judge import Judge
from multiview.judge.contrasts import CONTRASTS, MAX_CHARACTERS, contrasts_of
from multiview.judge.limits import MAX_PROBABILITY

FURTHER = [
    ("It will rain.", "It rained."),
    ("The refund has been issued.", "The refund will be issued."),
    ("I am going to call her.", "I called her."),
    ("He would have come.", "He came."),
    ("You must not sign it.", "You need not sign it."),
    ("Is he a doctor?", "He is a doctor."),
    ("Who called Tom?", "Who did Tom call?"),
    ("Which team beat Spain?", "Which team did Spain beat?"),
    ("All users can see some files.", "Some users can see all files."),
]
SAME = [
    ("How should I pay?", "How can I pay?"),
    ("What are all the risks?", "What are some of the risks?"),
    ("The app still crashes.", "The app crashes."),
    ("Everyone came.", "Everybody has come."),
    ("Is it raining?", "Is it raining"),
    ("Who called Tom?", "Who has called Tom?"),
    ("Turn on the light.", "Turn the light on."),
    ("It comes with no milk and sugar.", "It comes with no milk or sugar."),
    ("It comes with no milk and sugar.", "It comes with milk or sugar."),
    ("Does it run on Linux and Windows?", "Does it run on Linux or Windows?"),
    ("I have a car.", "I will have a car."),
    ("We feed the cats.", "We will be feeding the cats."),
    ("It is closed.", "It will be closed."),
    ("Can I pay by card?", "Could I pay by card?"),
    ("You can't smoke here.", "You must not smoke here."),
]


def test_each_contrast_settles_its_example(judge: Judge) -> None:
    rows = [row.cells for row in read_table(CONTRASTS, ("a", "b"))]
    for a, b in (*rows, *FURTHER):
        assert contrasts_of(a, b) and contrasts_of(b, a), (a, b)
    for judgement in judge.pairs([(a, b) for a, b in (*rows, *FURTHER)]):
        assert judgement.probability <= MAX_PROBABILITY and judgement.reasons


@pytest.mark.parametrize(("a", "b"), SAME)
def test_what_says_the_same_has_no_contrast(a: str, b: str) -> None:
    assert not contrasts_of(a, b) and not contrasts_of(b, a)


def test_other_texts_have_no_contrast() -> None:
    for a, b in (("All users can log in.", "Some admins can log in."), ("", "All."), ("?", "!"), ("", "")):
        assert not contrasts_of(a, b)
    long = "word " * MAX_CHARACTERS
    assert not contrasts_of(f"{long} all", f"{long} some")
