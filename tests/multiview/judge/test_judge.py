"""The judge of pairs: what it says, and why."""

import pickle
import time
import unicodedata
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from multiview.judge import FEATURES, Judge
from multiview.judge.judge import MAX_LOST_CHECKS, Checks, read_features
from multiview.judge.long_texts import MAX_WORDS
from multiview.judge.weights import PULLS
from runtime.cli import warn_once

SAME = ("The lawyer praised the doctor.", "The doctor was praised by the lawyer.")
SWAPPED = ("The lawyer praised the doctor.", "The doctor praised the lawyer.")
PEOPLE = ("lawyer", "doctor", "nurse", "king")


@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        (SWAPPED, "roles: agent of praised: lawyer | doctor"),
        (("How do I enable the camera?", "How do I disable the camera?"), "opposite: enable | disable"),
        (("He bought two hats.", "He bought three hats."), "number: two | three"),
        (("He lived in Rome.", "He lived in Paris."), "name: Rome | Paris"),
        (("The king came.", "The king did not come."), "negation: came | not come"),
        (("The door is unlocked.", "The door is locked."), "negation: unlocked | locked"),
        (("Turn on the light.", "Turn off the light."), "opposite: on | off"),
        (("Switch the camera on.", "Switch the camera off."), "opposite: on | off"),
        (("Turn up the volume.", "Turn down the volume."), "opposite: up | down"),
        (("How do I enable 2FA?", "How do I turn off 2FA?"), "opposite: enable | off"),
        (("Turn up the volume.", "Decrease the volume."), "opposite: up | decrease"),
        (("Eat before the walk.", "Eat after the walk."), "opposite: before | after"),
        (("Call me if it rains.", "Call me unless it rains."), "opposite: if | unless"),
        (("The bag weighs 5 kg.", "The bag weighs 5 g."), "number: 5000 | 5"),
        (("Where is SKU-99182-B?", "Where is SKU-99128-B?"), "number: SKU-99182 | SKU-99128"),
        (("I don t like it.", "I like it."), "negation: not like | like"),
        (("The cat sat.", "The dog sat."), "missing: cat | dog"),
        (("I like tea.", "I like coffee."), "missing: tea | coffee"),
    ],
)
def test_pairs_that_differ_have_a_reason(judge: Judge, pair: tuple[str, str], reason: str) -> None:
    judgement = judge(*pair)
    assert judgement.probability < 0.5
    assert reason in [str(one) for one in judgement.reasons] and reason in str(judgement)
    assert judgement.numbers.keys() == FEATURES.keys()


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
    ],
)
def test_a_sentence_says_the_same_as_itself(judge: Judge, a: Any, b: Any) -> None:
    assert judge(a, b).probability == judge(b, a).probability == 1
    assert not judge(a, b).reasons


def test_words_that_are_written_apart_or_missing_are_not_the_same(judge: Judge) -> None:
    assert judge("It is a part.", "It is apart.").probability < 1
    assert [judge(*pair).probability for pair in (("", "Rain"), ("Rain", "!"))] == [0, 0]


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


@pytest.mark.parametrize(
    "pair",
    [("Turn it on and off.", "Turn it off and on again."), ("It is on.", "Is it off or on?")],
)
def test_a_word_beside_its_opposite_is_no_opposite(judge: Judge, pair: tuple[str, str]) -> None:
    judgement = judge(*pair)
    assert judgement.numbers["opposites"] == 0
    assert {reason.kind for reason in judgement.reasons} <= {"missing"}


def test_a_comparison_the_other_way_is_an_opposite(judge: Judge) -> None:
    smaller, same, larger = (
        judge("The effect is smaller than the error.", other)
        for other in (
            "The effect is smaller than the mistake.",
            "The error is larger than the effect.",
            "The effect is larger than the error.",
        )
    )
    assert [judgement.numbers["opposites"] for judgement in (smaller, same, larger)] == [0, 0, 1]
    assert same.probability > 0.5 > larger.probability and not larger.numbers["agreeing"]


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


def test_the_judge_in_the_package_knows_its_checks(judge: Judge) -> None:
    swap = "swap: The red team beat the blue team. | The blue team beat the red team."
    assert judge.broken_checks() == [swap]
    strict = replace(judge.weights, about={"threshold": {"threshold": 0.999}})
    assert Judge(strict, source=judge.source).broken_checks() == [swap], "whatever its own threshold is"


def test_a_stronger_pull_is_taken_where_checks_would_be_lost(judge: Judge) -> None:
    checks, start = Checks.read(judge.source), judge.weights
    features = np.tile(checks.features_nF, (8, 1))
    wrong = np.array([float(row[1] == "0" or row[0] == "itself") for row in checks.rows] * 8)
    own = start.fit_on(features, wrong)
    kept = checks.fit(start, features, wrong)
    known = checks.wrong(start)
    assert len({*checks.wrong(own)} - {*known}) > MAX_LOST_CHECKS and own.about["pull"] < PULLS[0]
    assert kept.about["pull"] > own.about["pull"]
    assert len(kept.about["broken checks"]) <= MAX_LOST_CHECKS or kept.about["pull"] == PULLS[0]
    set_pull = checks.fit(start, features, wrong, pull=own.about["pull"])
    assert set_pull.weight == own.weight and len(set_pull.about["broken checks"]) > MAX_LOST_CHECKS


def test_judgements_are_compared_hashed_and_pickled(judge: Judge) -> None:
    judgement = judge(*SWAPPED)
    copy = pickle.loads(pickle.dumps(judgement))
    assert copy == judgement == judge(*SWAPPED) and hash(copy) == hash(judgement)
    assert copy.reasons == judgement.reasons


def test_reasons_of_long_texts_are_few_and_soon_found(judge: Judge) -> None:
    judgement = judge("The film is good. " * 300, "The film is not good. " * 300)
    assert [reason.kind for reason in judgement.reasons].count("negation") == 1
    texts = [" ".join(f"{letter}{n}x" for n in range(8000)) for letter in "ab"]
    judgement = judge(*texts)
    began = time.process_time()
    (missing,) = judgement.reasons
    assert time.process_time() - began < 2 and len(missing.a.split(", ")) == MAX_WORDS


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


FILLER = "The committee met in the old town hall on Monday and read the minutes of the last meeting aloud. "
DIFFERING = [
    ("The lawyer praised the doctor.", "The doctor praised the lawyer."),
    ("The council approved the plan.", "The council did not approve the plan."),
    ("They flew to Paris.", "They flew to London."),
]


@pytest.mark.parametrize(("before", "after"), [(4, 0), (0, 6), (20, 20), (45, 0)])
def test_a_difference_is_found_in_long_texts(judge: Judge, before: int, after: int) -> None:
    long_pairs = [tuple(FILLER * before + text + " " + FILLER * after for text in pair) for pair in DIFFERING]
    for pair, judgement, of_sentences in zip(
        DIFFERING, judge.pairs(long_pairs), judge.pairs(DIFFERING), strict=True
    ):
        assert (
            judgement.probability == pytest.approx(of_sentences.probability, abs=1e-5)
            and judgement.probability < 0.5
        )
        assert judgement.a.startswith(FILLER) or pair[0] in judgement.a
        assert str(judgement.reasons) == str(of_sentences.reasons)


def test_long_texts_of_the_same_sentences_or_with_one_more(judge: Judge) -> None:
    other = "The door is open. "
    text = FILLER * 9
    assert judge(text + other, other + text).probability > 0.5  # in another order
    assert judge(text, text + other).probability < 0.5 > judge(text + other, text).probability
    tokens = tuple(text.split())
    assert judge((*tokens, "Go", "on", "."), (*tokens, "Stop", ".")).probability < 0.5
    assert judge(text, text.replace("town", "to\u00adwn").upper()).probability == 1


def test_that_roles_are_not_compared_in_long_texts_is_said(judge: Judge, caplog) -> None:
    warn_once.cache_clear()
    one = "The lawyer praised the doctor and " * 30
    judge(one + "left.", one.replace("doctor", "nurse") + "left.")
    assert "two texts differ over more than 120 words" in caplog.text
    assert f"what comes after the first {MAX_WORDS} words" in caplog.text
