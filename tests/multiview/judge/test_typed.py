"""What people type in several ways is written in one, and kinds of pairs are judged by it."""

import tracemalloc
from pathlib import Path

import pytest

from corpora.tables import read_table
from multiview.judge import Judge
from multiview.judge.typed import QUESTIONS, in_one_form, without_statement

KINDS = Path(__file__).parents[3] / "tools/kinds.tsv"


@pytest.mark.parametrize(
    ("typed", "form"),
    [
        ("The fine is £1,000.", "The fine is 1000 pounds."),
        ("It has 1,234,567 rows.", "It has 1234567 rows."),
        ("$1,000,000,000, 1,000,000,000, 1 billion", "1000000000 dollars, 1000000000, 1000000000"),
        ("$2 trillion, 2 trillion, $12,5", "2000000000000 dollars, 2000000000000, $12,5"),
        ("2 hrs, 5 mins, 3 kgs, 20 ms", "7200 seconds, 300 seconds, 3000 grams, 0.02 seconds"),
        ("At 12 noon, at 12 midnight.", "At 12:00, at 00:00."),
        ("$5M, $3.5bn, £2 m", "5000000 dollars, 3500000000 dollars, 2000000 pounds"),
        ("$10-20, $100s, a 4K TV, 300 K, can t-shirts", None),
        ("$5 million, $40k, 3 million", "5000000 dollars, 40000 dollars, 3000000"),
        (
            "5kg, 5 g, 20%, 2.5 %, 1.022 MeV",
            "5000 grams, 5 grams, 20 percent, 2.5 percent, 1022000 electronvolts",
        ),
        ("Wait 90 minutes.", "Wait 5400 seconds."),
        ("Wait 48 hours, 2 days.", "Wait 172800 seconds, 172800 seconds."),
        ("Come at 7 p.m. Or at 7:05 AM.", "Come at 19:00. Or at 07:05."),
        ("12 am, 12 pm, noon, 9:00, 13 pm", "00:00, 12:00, 12:00, 09:00, 13 pm"),
        ("On Mon. at 7 o'clock in the evening.", "On Monday at 19:00."),
        ("12 in the morning, 12 o'clock in the afternoon, 1 in the afternoon", "00:00, 12:00, 13:00"),
        ("At 12 in the evening, 0 in the morning, 13 in the afternoon.", None),
        ("2024-03-12, Mar 12th, 3rd of April", "12 March 2024, March 12, 3 of April"),
        ("Use v2.0, not version 2.1.", "Use version 2.0, not version 2.1."),
        ("I don t, dont, don&#39;t, don’t", "I don't, don't, don't, don't"),
        ("Cant it? It wont.", "Can't it? It won't."),
        ("In the 1980s 3.11.2 ran 10 k8s pods on 10.0.0.1 at 2:1 m.", None),
        ("Twenty-one of two hundred and fifty.", "21 of 250."),
        ("One and a half million, a dozen, half a dozen, a thousand and one.", "1500000, 12, 6, 1001."),
        (
            "It takes half an hour, an hour and a half, ten minutes.",
            "It takes 1800 seconds, 5400 seconds, 600 seconds.",
        ),
        ("Half past three, a quarter to one, quarter past 9, eight am", "03:30, 12:45, 09:15, 08:00"),
        ("Which one am I? Two or three, twice an hour, the twenty-second, in the thirties, one day", None),
        ("A cannon, a font, a want, in May he may march.", None),
    ],
)
def test_forms(typed: str, form: str | None) -> None:
    assert in_one_form(typed) == (typed if form is None else form)
    assert in_one_form(in_one_form(typed)) == in_one_form(typed)


def test_the_forms_of_long_texts_are_not_kept_in_memory() -> None:
    tracemalloc.start()
    for number in range(200):
        in_one_form(f"{number} " + "word " * 10_000)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 5e6


def test_questions_are_asked_in_one_form() -> None:
    for row in read_table(QUESTIONS, ("example", "read as")):
        assert in_one_form(row.cells[0]) == row.cells[1] == in_one_form(row.cells[1])
    for kept in (
        "He tried to please the crowd.",
        "She knows how to swim.",
        "It went with no more delay.",
        "That way to go.",
    ):
        assert in_one_form(kept) == kept


@pytest.mark.parametrize(
    ("told", "asked", "read"),
    [
        ("I forgot my password, how do I reset it?", "Reset my password.", "how do I reset my password?"),
        ("We've lost the master key. Can it be copied?", "A key?", "Can the master key be copied?"),
        ("I lost my card. How do I block it?", "I found my card. How do I block it?", None),
        ("I have a car, how do I sell it?", "How do I sell my car?", None),
    ],
)
def test_what_one_text_tells_before_it_asks_is_left_out(told: str, asked: str, read: str | None) -> None:
    assert without_statement(told, asked) == (told if read is None else read, asked)
    assert without_statement(asked, told) == (asked, told if read is None else read)


def test_kinds_of_pairs(judge: Judge) -> None:
    """The rules were written with these pairs in view (docs/results.md)."""
    rows = [row.cells for row in read_table(KINDS, ("label", "sentence1", "sentence2"))]
    judgements = judge.pairs([row[1:] for row in rows])
    right = [(one.probability > 0.5) == (row[0] == "1") for one, row in zip(judgements, rows, strict=True)]
    assert len(right) == 192 and sum(right) >= 178
