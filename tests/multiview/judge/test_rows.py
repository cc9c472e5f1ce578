"""Rows that judges are fitted on and rows that they are scored on have nothing in common."""

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from corpora.senteval.structure import Pair
from multiview.structure.forms import possible_bases
from tools.judge_rows import Row, Rows, antonyms_of, listed_antonyms, read_sides, sentences_of

SIZES = {
    "PAWS": (2000, 2250),
    "MRPC": (4076, 1438),
    "SemAntoNeg": (510, 554),
    "Binding": (740, 700),
    "Near": (328, 0),
    "swap object": (62, 55),
    "swap attribute": (167, 147),
    "replace relation": (352, 251),
    "replace attribute": (197, 138),
    "replace object": (413, 319),
    "claims": (0, 860),
    "Quora": (0, 999),
}
"""Rows of each set on either side."""


def plain_sentences(rows: Rows) -> set[str]:
    """Every sentence in lower case, without articles and punctuation, by another way."""
    texts = (text for part in rows.values() for row in part for pair in row for text in pair[1:])
    words = (["".join(c if c.isalnum() or c == "_" else " " for c in text.lower()).split()] for text in texts)
    return {" ".join(word for word in each if word not in {"the", "a", "an"}) for (each,) in words}


def slow_antonyms(row: Row, listed: dict[str, set[str]]) -> Iterator[frozenset[str]]:
    for _, a, b in row:
        alone = [{*re.findall(r"[a-z'’-]+", text.lower())} for text in (a, b)]
        for one, other in product(alone[0] - alone[1], alone[1] - alone[0]):
            for x, y in product(possible_bases(one), possible_bases(other)):
                if y in listed.get(x, ()):
                    yield frozenset((x, y))


@pytest.mark.data
def test_no_sentence_and_no_pair_of_antonyms_stands_on_both_sides(data_folder: Path) -> None:
    data = data_folder
    sides = read_sides(data)
    sizes = {name: (len(sides.fitted.get(name, ())), len(sides.scored.get(name, ()))) for name in SIZES}
    assert sizes == SIZES
    assert plain_sentences(sides.fitted).isdisjoint(plain_sentences(sides.scored))
    listed = listed_antonyms(data)
    fitted, scored = (
        {
            pair
            for rows in side.values()
            for row in rows
            for pair in (*slow_antonyms(row, listed), *antonyms_of(row, listed))
        }
        for side in sides[:2]
    )
    assert len(fitted) > 100 < len(scored) and fitted.isdisjoint(scored)


def test_sentences_and_antonyms_of_a_row() -> None:
    listed = {"big": {"small"}, "small": {"big"}}
    row = (Pair(False, "A bigger, red hat!", "The small hat."),)
    assert sentences_of(row) == {"bigger red hat", "small hat"}
    assert antonyms_of(row, listed) == {frozenset(("big", "small"))}
    triplet = (
        Pair(True, "He is not fat.", "He is nonfat."),
        Pair(False, "", ""),
        Pair(False, "", "He is fat."),
    )
    assert antonyms_of(triplet, {}) == {frozenset(("fat", "nonfat"))}
