"""Opposites are found where one sentence has one word and the other its opposite."""

import pytest

from multiview.judge import Judge


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
