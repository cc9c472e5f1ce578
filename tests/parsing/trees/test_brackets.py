"""Brackets to spans and back: golden trees, random trees, mistakes, benepar's reading as oracle."""

from __future__ import annotations

import numpy as np
import pytest
from benepar.decode_chart import get_labeled_spans
from hypothesis import given
from hypothesis import strategies as st
from nltk.tree import Tree

from corpora.support.errors import UserError
from parsing.trees.brackets import (
    SpanTree,
    from_parse,
    labels_and_tags,
    read_tree,
    read_trees,
    to_parse,
    write_tree,
)


def test_function_tags_traces_and_wrapper_go() -> None:
    tree = read_tree(
        "(TOP (S (NP-SBJ-1 (PRP It)) (VP (VBZ seems) (SBAR (-NONE- 0) (S=2 (NP (-NONE- *-1))"
        " (VP|X (TO to) (VP (VB rain)))))) (. .)))"
    )
    assert tree.words == ("It", "seems", "to", "rain", ".")
    assert tree.tags == ("PRP", "VBZ", "TO", "VB", ".")
    assert tree.spans == ((0, 5, "S"), (0, 1, "NP"), (1, 4, "VP"), (2, 4, "SBAR::S::VP"), (3, 4, "VP"))


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("(ROOT (UH Yes))", ((0, 1, ""),)),
        ("((UH Yes))", ((0, 1, ""),)),
        ("(ROOT (INTJ (UH Yes)))", ((0, 1, "INTJ"),)),
        ("(ROOT (S (VP (VB Go))) (. .))", ((0, 2, ""), (0, 1, "S::VP"))),
        ("(NP (DT the) (NN end))", ((0, 2, "NP"),)),
        ("(S1 (X (NP (DT the) (NN end))))", ((0, 2, "X::NP"),)),
    ],
)
def test_what_is_around_a_sentence(text, spans) -> None:
    assert read_tree(text).spans == spans


def test_brackets_in_words() -> None:
    tree = read_tree("(TOP (NP (-LRB- -LRB-) (NN a-LSB-1-RSB-) (-RRB- -RRB-)))")
    assert tree.words == ("(", "a[1]", ")")
    assert tree.tags == ("-LRB-", "NN", "-RRB-")
    assert write_tree(tree) == "(TOP (NP (-LRB- -LRB-) (NN a[1]) (-RRB- -RRB-)))"
    odd = SpanTree(("a b", "", "(x)"), ("A", "B", "C"), ((0, 3, "S::NP"),))
    assert write_tree(odd) == "(TOP (S (NP (A a_b) (B _) (C -LRB-x-RRB-))))"


NO_TREES = """
(TOP (NP (DT the) end))
(TOP (NP ()) (DT the))
(TOP (-NONE- *))
(DT the) (NN end)
(TOP (DT the)
(DT the))
the"""


@pytest.mark.parametrize("text", NO_TREES.splitlines())
def test_what_is_not_one_tree_is_one_line(text: str) -> None:
    with pytest.raises(UserError, match=r"^here: not one tree of words[^\n]*$"):
        read_tree(text, where="here")


def test_trees_of_a_file_may_span_lines_and_mistakes_are_named(tmp_path) -> None:
    path = tmp_path / "three.ptb"
    path.write_text("(TOP\n  (NP (DT the)\n (NN end)))\n\n(TOP (UH Yes))\n(X (Y the))\n(X y z)")
    trees = read_trees(path)
    assert [next(trees).words for _ in range(3)] == [("the", "end"), ("Yes",), ("the",)]
    with pytest.raises(UserError, match=r"three\.ptb:7: a tree without words"):
        next(trees)


def test_ten_thousand_levels_do_not_overflow() -> None:
    tree = read_tree("(TOP " + "(S (X a) " * 10_000 + "(X b)" + ")" * 10_001)
    assert len(tree.spans) == 10_000 and tree.spans[-1] == (9_999, 10_001, "S")


words = st.text("abc()", min_size=1, max_size=3)
leaves = st.tuples(st.sampled_from(["NN", "VB"]), words).map(lambda p: f"({p[0]} {p[1]})")
leaves = leaves.map(lambda s: f"({s[1:3]} {s[4:-1].replace('(', '-LRB-').replace(')', '-RRB-')})")
brackets = st.recursive(
    leaves,
    lambda inner: st.tuples(st.sampled_from(["S", "NP", "VP"]), st.lists(inner, min_size=1, max_size=4)).map(
        lambda p: f"({p[0]} {' '.join(p[1])})"
    ),
    max_leaves=30,
)


@given(brackets)
def test_equals_benepars_reading_and_round_trips(text) -> None:
    text = f"(TOP {text})"
    tree = read_tree(text)
    assert write_tree(tree) == text
    nltk_tree = Tree.fromstring(text)
    theirs = {(start, end + 1, label) for start, end, label in get_labeled_spans(nltk_tree)}
    assert set(tree.spans) - {(0, len(tree.words), "")} == theirs
    assert list(tree.spans) == sorted(tree.spans, key=lambda span: (span[0], -span[1]))
    labels, tags = labels_and_tags([tree])
    parse = to_parse(tree, {x: i for i, x in enumerate(labels)}, {x: i for i, x in enumerate(tags)})
    assert labels[0] == "" and parse.starts.dtype == np.int32
    assert from_parse(parse, tree.words, labels, tags) == tree
