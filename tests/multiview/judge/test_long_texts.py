"""Long texts are aligned by their sentences, and what is not compared is said."""

import pytest

from multiview.judge import Judge
from multiview.judge.long_texts import MAX_WORDS
from runtime.cli import warn_once

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
