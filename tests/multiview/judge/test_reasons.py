"""Each kind of difference has its reason; those of long texts are few."""

import time

import pytest

from multiview.judge import FEATURES, Judge
from multiview.judge.long_texts import MAX_WORDS
from tests.fixtures.pairs import SWAPPED


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


def test_reasons_of_long_texts_are_few_and_soon_found(judge: Judge) -> None:
    judgement = judge("The film is good. " * 300, "The film is not good. " * 300)
    assert [reason.kind for reason in judgement.reasons].count("negation") == 1
    texts = [" ".join(f"{letter}{n}x" for n in range(8000)) for letter in "ab"]
    judgement = judge(*texts)
    began = time.process_time()
    (missing,) = judgement.reasons
    assert time.process_time() - began < 2 and len(missing.a.split(", ")) == MAX_WORDS
