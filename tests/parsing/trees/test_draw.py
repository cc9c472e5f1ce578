"""Drawings: every word and label is in them, whatever the words are, and SVG is well-formed."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st

from parsing.trees.draw import (
    _arc_levels,
    constituency_svg,
    constituency_text,
    constituents,
    dependency_svg,
    dependency_text,
    printable,
)

WORDS = ["The", "<old>", "日本", "&", "works"]
HEADS = [3, 3, 5, 5, 0]
RELATIONS = ["det", "amod", "nsubj", "cc", "root"]
TAGS = ["DT", "JJ", "NN", "CC", "VBZ"]
SPANS = [(0, 5, "S"), (0, 3, "NP"), (2, 3, "NML"), (3, 5, "VP")]


def texts(svg: str) -> list[str]:
    return [e.text or "" for e in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_dependency_text() -> None:
    assert dependency_text(WORDS, HEADS, RELATIONS, TAGS).splitlines() == [
        "works/VBZ  (root, 5)",
        "├─ 日本/NN  (nsubj, 3)",
        "│  ├─ The/DT  (det, 1)",
        "│  └─ <old>/JJ  (amod, 2)",
        "└─ &/CC  (cc, 4)",
    ]


def test_constituency_text() -> None:
    assert constituency_text(WORDS, TAGS, SPANS).splitlines() == [
        "S",
        "  NP",
        "    DT The",
        "    JJ <old>",
        "    NML",
        "      NN 日本",
        "  VP",
        "    CC &",
        "    VBZ works",
    ]


def test_svg_holds_every_word_and_name() -> None:
    assert sorted(texts(dependency_svg(WORDS, HEADS, RELATIONS, TAGS))) == sorted(WORDS + RELATIONS + TAGS)
    labels = [label for _, _, label in SPANS]
    assert sorted(texts(constituency_svg(WORDS, TAGS, SPANS))) == sorted(WORDS + TAGS + labels)


def test_arcs_that_cover_others_are_higher() -> None:
    # "The" and "<old>" hang on "日本": the longer arc goes over the shorter one.
    assert _arc_levels(HEADS) == [2, 1, 2, 1, 0]


def test_a_one_word_sentence() -> None:
    assert constituents(["x"], ["NN"], [(0, 1, "FRAG")]).children[0].label == "NN"
    assert texts(dependency_svg(["x"], [0], ["root"])) == ["root", "x"]


def test_long_chains_do_not_recurse() -> None:
    n = 3000
    words, tags = ["w"] * n, ["NN"] * n
    assert dependency_text(words, list(range(n)), ["_"] * n).count("\n") == n - 1
    spans = [(0, n - i, "X") for i in range(n - 1)]
    assert constituency_text(words, tags, spans).count("\n") == 2 * n - 2


@given(st.lists(st.text(max_size=8), min_size=1, max_size=8), st.data())
@settings(max_examples=80, deadline=None)
def test_svg_is_well_formed_for_any_words(words: list[str], data: st.DataObject) -> None:
    n = len(words)
    heads = [0] + [data.draw(st.integers(1, i)) for i in range(1, n)]
    found = texts(dependency_svg(words, heads, ["r"] * n))
    assert sorted(found) == sorted([printable(word) for word in words] + ["r"] * n)
    assert len(texts(constituency_svg(words, ["t"] * n, [(0, n, "S")]))) == 2 * n + 1
