"""Brackets to spans to binary trees and back: golden trees, mistakes; benepar and nltk as oracles."""

import itertools

import numpy as np
import pytest
from benepar.decode_chart import get_labeled_spans
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.tree import Tree

from corpora.brackets import read_brackets, read_tree, write_tree
from corpora.text import Sentence
from parsing.trees.arrays import (
    binarise,
    constituency_heights,
    from_parse,
    labels_and_tags,
    to_parse,
    unbinarise,
)
from parsing.trees.batch import ConstituencyParse
from runtime.errors import UserError

DUMMY = "<dummy>"


def test_function_tags_traces_and_wrapper_go() -> None:
    tree = read_tree(
        "(TOP (S (NP-SBJ-1 (PRP It)) (VP (VBZ seems) (SBAR (-NONE- 0) (S=2 (NP (-NONE- *-1))"
        " (VP|X (TO to) (VP (VB rain)))))) (. .)))"
    )
    assert tree.tokens == ("It", "seems", "to", "rain", ".")
    assert tree.tags == ("PRP", "VBZ", "TO", "VB", ".")
    assert tree.spans == ((0, 5, "S"), (0, 1, "NP"), (1, 4, "VP"), (2, 4, "SBAR::S::VP"), (3, 4, "VP"))


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("(ROOT (UH Yes))", ((0, 1, ""),)),
        ("( (S (NP-SBJ (-NONE- *) )\n (VP (VB Go))))", ((0, 1, "S::VP"),)),
        ("(ROOT (S (VP (VB Go))) (. .))", ((0, 2, ""), (0, 1, "S::VP"))),
        ("(S1 (X (NP (DT the) (NN end))))", ((0, 2, "X::NP"),)),
    ],
)
def test_what_is_around_a_sentence(text, spans) -> None:
    assert read_tree(text).spans == spans


def test_brackets_in_words() -> None:
    tree = read_tree("(TOP (NP (-LRB- -LRB-) (NN a-LSB-1-RSB-) (-RRB- -RRB-)))")
    assert tree.tokens == ("(", "a[1]", ")")
    assert tree.tags == ("-LRB-", "NN", "-RRB-")
    assert write_tree(tree) == "(TOP (NP (-LRB- -LRB-) (NN a[1]) (-RRB- -RRB-)))"
    odd = Sentence(("a b", "", "(x)"), ("A", "B", "C"), spans=((0, 3, "S::NP"),))
    assert write_tree(odd) == "(TOP (S (NP (A a_b) (B _) (C -LRB-x-RRB-))))"


@pytest.mark.parametrize(
    ("word", "escaped"),
    [
        ("3/4", r"3\/4"),
        ("S*NP", r"S\*NP"),
        (r":\/", r":\\/"),
        ("\\", "\\"),
        (r"C:\*", r"C:\\*"),
        ("//", r"\/\/"),
    ],
)
def test_slashes_and_stars_are_escaped_as_in_the_penn_treebank(word: str, escaped: str) -> None:
    written = write_tree(Sentence((word,), ("X",), spans=((0, 1, "S"),)))
    assert written == f"(TOP (S (X {escaped})))" and read_tree(written).tokens == (word,)


@pytest.mark.parametrize(
    "text",
    [
        "(TOP (S ( (NN a) (NN b)) (NN c)))",
        "(TOP (S ( (NP (NN a))) (NN c)))",
        "(TOP ( (S ( (NN a) (NN b)))))",
        "(TOP (NP:subj ( ( (X a) (X b) (X c)))))",
    ],
)
def test_phrases_without_a_label_come_back(text: str) -> None:
    assert write_tree(read_tree(text)) == text


@pytest.mark.parametrize("label", ["A::B", "A:", ":B", "::"])
def test_a_label_that_would_be_a_chain_is_refused(label: str) -> None:
    with pytest.raises(UserError, match=f"here: a label '{label}', but :: joins labels"):
        read_tree(f"(TOP ({label} (C (X a) (X b))))", where="here")


NO_TREES = """
(TOP (NP ()) (DT the))
(TOP (-NONE- *))
(DT the) (NN end)
(DT the))"""


@pytest.mark.parametrize("text", NO_TREES.splitlines())
def test_what_is_not_one_tree_is_one_line(text: str) -> None:
    with pytest.raises(UserError, match=r"^here: not one tree of words[^\n]*$"):
        read_tree(text, where="here")


def test_trees_of_a_file_may_span_lines_and_mistakes_are_named(tmp_path) -> None:
    path = tmp_path / "three.ptb"
    path.write_text("(TOP\n  (NP (DT the)\n (NN end)))\n\n(TOP (UH Yes))(X (Y the))\n(X y z)")
    trees = read_brackets(path)
    assert [next(trees).tokens for _ in range(3)] == [("the", "end"), ("Yes",), ("the",)]
    with pytest.raises(UserError, match=r"three\.ptb:6: not one tree of words"):
        next(trees)


def test_ten_thousand_levels_do_not_overflow() -> None:
    tree = read_tree("(TOP " + "(S (X a) " * 10_000 + "(X b)" + ")" * 10_001)
    assert len(tree.spans) == 10_000 and tree.spans[-1] == (9_999, 10_001, "S")


leaves = st.tuples(
    st.sampled_from(["(NN ", "(VB "]), st.text("abc", max_size=2), st.sampled_from(["-LRB-)", "d)"])
)
brackets = st.recursive(
    leaves.map("".join),
    lambda inner: st.tuples(st.sampled_from(["S", "NP", "VP"]), st.lists(inner, min_size=1, max_size=4)).map(
        lambda p: f"({p[0]} {' '.join(p[1])})"
    ),
    max_leaves=30,
)


def nested(tree, labels, node=None):
    """A BinaryTree as nested tuples (label, left, right); a leaf is (label, position)."""
    n = len(tree.leaf_label)
    node = 2 * n - 2 if node is None else node
    if node < n:
        return labels[tree.leaf_label[node]], node
    children = tree.left[node - n], tree.right[node - n]
    assert max(children) < node  # children before parents
    return labels[tree.label[node - n]], *(nested(tree, labels, child) for child in children)


def by_nltk(tree):
    """The same by nltk's left factoring with a horizontal order of 0."""
    if len(tree) == 1:
        (tree,) = tree
    else:
        tree.set_label("")
    tree.collapse_unary(collapsePOS=True, collapseRoot=True, joinChar="::")
    tree.chomsky_normal_form(factor="left", horzMarkov=0)
    position = itertools.count()

    def read(node):
        if node.height() == 2:
            return node.label().rpartition("::")[0], next(position)
        return DUMMY if "|" in node.label() else node.label(), *map(read, node)

    return read(tree)


def height(tree) -> int:
    """Return the height of a tree of nested tuples; a leaf has 0."""
    return 0 if len(tree) == 2 else 1 + max(map(height, tree[1:]))


@settings(deadline=None)
@given(st.lists(brackets, min_size=1, max_size=3))
def test_equals_benepars_reading_and_nltks_binarisation_and_round_trips(parts) -> None:
    text = f"(TOP {' '.join(parts)})"
    tree, nltk_tree = read_tree(text), Tree.fromstring(text)
    n = len(tree.tokens)
    assert write_tree(tree) == text
    if len(parts) == 1:
        theirs = {(first, end + 1, label) for first, end, label in get_labeled_spans(nltk_tree)}
        assert set(tree.spans) - {(0, n, "")} == theirs
    assert list(tree.spans) == sorted(tree.spans, key=lambda span: (span[0], -span[1]))
    labels, tags = labels_and_tags([tree])
    parse = to_parse(tree, {x: i for i, x in enumerate(labels)}, {x: i for i, x in enumerate(tags)})
    assert labels[0] == "" and parse.starts.dtype == np.int32
    assert from_parse(parse, tree.tokens, labels, tags) == tree

    binary = binarise(parse, len(labels))
    arrays = binary.leaf_label, binary.left, binary.right, binary.label
    assert [len(a) for a in arrays] == [n, n - 1, n - 1, n - 1] and {a.dtype for a in arrays} == {
        np.dtype("i4")
    }
    nested_tuples = nested(binary, [*labels, DUMMY])
    assert nested_tuples == by_nltk(nltk_tree)
    heights, defects, *_ = constituency_heights(binary.left, binary.right, np.array([0, n]))
    assert not defects.any() and [0, *heights][-1] == height(nested_tuples)
    back = unbinarise(binary, parse.tags, len(labels))
    assert from_parse(back, tree.tokens, labels, tags) == tree


@pytest.mark.parametrize(
    "spans",
    [
        [(0, 2, 1)],  # not the whole sentence
        [(0, 3, 1), (0, 2, 1), (1, 3, 1)],  # crossing
        [(0, 3, 1), (0, 3, 2)],  # a unary chain that was not collapsed
        [(0, 3, 1), (1, 2, 1), (0, 1, 2)],  # not in preorder
        [(0, 3, 6)],  # the dummy label
    ],
)
def test_spans_that_are_no_tree_are_refused(spans) -> None:
    columns = (np.array(column, np.int32) for column in zip(*spans, strict=True))
    with pytest.raises(ValueError, match=r"no tree|dummy"):
        binarise(ConstituencyParse(np.zeros(3, np.int32), *columns), 6)
