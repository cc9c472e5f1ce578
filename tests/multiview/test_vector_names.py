"""What ``--vectors`` may say: one source or several, with weights and sizes."""

from __future__ import annotations

from pathlib import Path

import pytest

from corpora.support.errors import UserError
from multiview.vector_names import Part, parts_of


def test_the_grammar() -> None:
    assert parts_of("glove.txt") == [Part("glove.txt")]
    assert parts_of("distil:some/model@256") == [Part("distil:some/model", 256)]
    assert parts_of("taught:m@384+0.35*train:a/b.txt.xz@256+2*v.bin") == [
        Part("taught:m", 384),
        Part("train:a/b.txt.xz", 256, 0.35),
        Part("v.bin", None, 2.0),
    ]


def test_what_exists_is_no_expression(tmp_path: Path) -> None:
    file = tmp_path / "c++@3.txt"
    file.touch()
    assert parts_of(str(file)) == [Part(str(file))]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("v.txt@30", "a size of its own"),
        ("train+", "is not a source"),
        ("0*ngrams+train", "has no length"),
    ],
)
def test_bad_values_are_one_line(spec: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parts_of(spec)


def test_what_is_named_must_be_there(tmp_path: Path) -> None:
    text = tmp_path / "t.txt"
    assert not Part(f"train:{text}").has_input and not Part(str(text)).has_input
    text.touch()
    assert Part(f"train:{text}").has_input and Part(str(text)).has_input
    assert Part("train").has_input and Part("ngrams").has_input and Part("taught:anything").has_input
