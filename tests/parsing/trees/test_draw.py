"""Drawings: every word and label is in them, whatever the words are, and SVG is well-formed."""

import xml.etree.ElementTree as ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st

from parsing.trees.drawings import _levels, constituency_svg, dependency_svg, display_name
from parsing.trees.sentences import LEVELS, constituency_text, dependency_text

WORDS = ["The", "<old>", "日本", "&", "works"]
HEADS = [3, 3, 5, 5, 0]
RELATIONS = ["det", "amod", "nsubj", "cc", "root"]
TAGS = ["DT", "JJ", "NN", "CC", "VBZ"]
SPANS = [(0, 5, "S"), (0, 3, "NP"), (2, 3, "NML"), (3, 5, "VP")]


def texts(svg: str) -> list[str]:
    contents = (element.text or "" for element in ElementTree.fromstring(svg).iter())
    return [text.strip() for text in contents if text.strip()]


def test_drawings_of_a_sentence() -> None:
    assert dependency_text(WORDS, HEADS, RELATIONS, TAGS).splitlines() == [
        "works/VBZ  (root, 5)",
        "├─ 日本/NN  (nsubj, 3)",
        "│  ├─ The/DT  (det, 1)",
        "│  └─ <old>/JJ  (amod, 2)",
        "└─ &/CC  (cc, 4)",
    ]
    text = "S\n  NP\n    DT The\n    JJ <old>\n    NML\n      NN 日本\n  VP\n    CC &\n    VBZ works"
    assert constituency_text(WORDS, TAGS, SPANS) == text
    arc_texts = texts(dependency_svg(WORDS, HEADS, RELATIONS, TAGS))
    assert sorted(arc_texts) == sorted(WORDS + RELATIONS[:-1] + TAGS[:-1] + ["VBZ (root)"])
    labels = [label for _, _, label in SPANS]
    assert sorted(texts(constituency_svg(WORDS, TAGS, SPANS))) == sorted(WORDS + TAGS + labels)


def test_escape_sequences_reach_no_terminal() -> None:
    words = tags = ["\x1b]0;owned\x07\x1b[2J\n<script>", "b"]
    for drawing in (
        dependency_text(words, [0, 1], words, tags),
        constituency_text(words, tags, [(0, 2, words[0])]),
        dependency_svg(words, [0, 1], words, tags),
        constituency_svg(words, tags, [(0, 2, words[0])]),
    ):
        assert "\x1b" not in drawing and "\x07" not in drawing and "owned" in drawing


@given(st.lists(st.text(max_size=8), min_size=1, max_size=8), st.data())
@settings(max_examples=40, deadline=None)
def test_svg_is_well_formed_for_any_words(words: list[str], data: st.DataObject) -> None:
    n = len(words)
    heads = [0] + [data.draw(st.integers(1, i)) for i in range(1, n)]
    word_texts = [display_name(word).strip() for word in words]
    svg_texts = texts(dependency_svg(words, heads, ["r"] * n))
    assert sorted(svg_texts) == sorted([word for word in word_texts if word] + ["(r)"] + ["r"] * (n - 1))
    assert texts(constituency_svg(words, ["t"] * n, [(0, n, "S")])).count("t") >= n


def test_a_drawing_is_as_wide_as_its_words_and_shrinks_to_its_page() -> None:
    words = ["The", "lawyer", "praised", "the", "doctor", "."]
    root = ElementTree.fromstring(dependency_svg(words, [2, 3, 0, 5, 3, 3], ["r"] * 6, ["t"] * 6))
    assert 250 < int(root.attrib["width"]) < 400 and "max-width:100%" in root.attrib["style"]
    # The arc to the full stop passes above the arc to "doctor", that one above the arc to "the".
    tops = [int(rect.attrib["y"]) for rect in root.iter("{http://www.w3.org/2000/svg}rect")]
    assert tops[4] < tops[3] < tops[2]


def test_a_deep_tree_is_drawn_in_linear_size_and_lines_of_bounded_width() -> None:
    n = 20_000
    arcs = dependency_text(["w"] * n, range(n), ["r"] * n).splitlines()
    spans = [(first, n, "S") for first in range(n - 1)]
    phrases = constituency_text(["w"] * n, ["t"] * n, spans).splitlines()
    assert (len(arcs), len(phrases)) == (n, 2 * n - 1)
    assert max(map(len, [*arcs, *phrases])) < 3 * LEVELS + 30
    # The levels go on from the number in brackets, that of the word or phrase above.
    assert arcs[LEVELS] == f"{' ' * 3 * (LEVELS - 1)}└─ w  (r, {LEVELS + 1})"
    assert arcs[LEVELS + 1] == f"[{LEVELS}] └─ w  (r, {LEVELS + 2})"
    assert phrases[2 * LEVELS] == f"[{LEVELS}] S" and phrases[2 * LEVELS + 2] == f"[{LEVELS}]   S"


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)).filter(lambda ends: ends[0] != ends[1])))
def test_an_arc_is_above_all_shorter_ones_that_share_words_with_it(ends: list[tuple[int, int]]) -> None:
    spans = [sorted(pair) for pair in ends]
    expected = [0] * len(spans)
    for number in sorted(range(len(spans)), key=lambda number: spans[number][1] - spans[number][0]):
        first, end = spans[number]
        below = [expected[other] for other, (a, b) in enumerate(spans) if a < end and b > first]
        expected[number] = 1 + max(below)
    assert _levels(spans) == expected
