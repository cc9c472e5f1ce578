"""Bracket scores on examples worked by hand after EVALB's rules."""

from __future__ import annotations

import pytest

from parsing.constituency.score import brackets, score_trees
from parsing.trees.brackets import read_tree

GOLD = read_tree(
    "(TOP (S (NP (PRP It)) (VP (VBZ eats) (NP (DT the) (NN fish)) (PP (IN in) (NP (NN May)))) (. .)))"
)
# The PP hangs on the noun phrase: NP(2,6) instead of a flat VP; one wrong tag.
ATTACHED = read_tree(
    "(TOP (S (NP (PRP It)) (VP (VBZ eats) (NP (NP (DT the) (NN fish)) (PP (IN in) (NP (NNP May))))) (. .)))"
)


def test_identical_trees_score_one_hundred() -> None:
    scores = score_trees([GOLD], [GOLD])
    assert (scores.precision, scores.recall, scores.f1, scores.tags, scores.complete) == (100,) * 5


def test_wrong_attachment() -> None:
    # gold: S NP VP NP PP NP = 6; predicted: one NP more = 7; all 6 match.
    scores = score_trees([GOLD], [ATTACHED])
    assert scores.recall == 100 and scores.precision == pytest.approx(600 / 7)
    assert scores.f1 == pytest.approx(1200 / 13)
    assert scores.tags == pytest.approx(600 / 7)  # 6 of 7 words
    assert scores.complete == 0


def test_punctuation_is_not_seen() -> None:
    inside = read_tree("(TOP (S (NP (PRP It)) (VP (VBZ rains) (. .))))")
    outside = read_tree("(TOP (S (NP (PRP It)) (VP (VBZ rains)) (. .)))")
    assert score_trees([outside], [inside]).f1 == 100
    # The gold tags decide what is punctuation, whatever was predicted.
    mistagged = read_tree("(TOP (S (NP (PRP It)) (VP (VBZ rains) (NN .))))")
    assert score_trees([outside], [mistagged]).f1 == 100
    assert score_trees([outside], [mistagged]).tags == pytest.approx(200 / 3)


def test_a_bracket_of_punctuation_alone_vanishes() -> None:
    tree = read_tree("(TOP (S (NP (PRP It)) (VP (VBZ rains)) (PRN (, ,) (: --))))")
    assert sorted(brackets(tree, tree.tags)) == [(0, 1, "NP"), (0, 2, "S"), (1, 2, "VP")]


def test_unary_chains_are_one_bracket_each_and_repeats_count() -> None:
    tree = read_tree("(TOP (S (VP (NP (NP (NN fish))))))")
    counted = brackets(tree, tree.tags)
    assert counted == {(0, 1, "S"): 1, (0, 1, "VP"): 1, (0, 1, "NP"): 2}
    short = read_tree("(TOP (S (VP (NP (NN fish)))))")
    scores = score_trees([tree], [short])
    assert scores.precision == 100 and scores.recall == 75


def test_wrapper_and_null_root_are_no_brackets() -> None:
    tree = read_tree("(TOP (NP (NN fish)) (NP (NN fish)))")
    assert sorted(brackets(tree, tree.tags)) == [(0, 1, "NP"), (1, 2, "NP")]
    assert score_trees([read_tree("(TOP (UH yes))")], [read_tree("(TOP (UH yes))")]).f1 == 0


def test_counts_are_summed_over_the_treebank() -> None:
    # 6 + 1 gold, 7 + 1 predicted, 6 + 0 matched.
    other, wrong = read_tree("(TOP (NP (NN fish)))"), read_tree("(TOP (VP (NN fish)))")
    scores = score_trees([GOLD, other], [ATTACHED, wrong])
    assert scores.f1 == pytest.approx(100 * 12 / 15)
    assert scores.sentences == 2


def test_different_sentences_are_refused() -> None:
    with pytest.raises(ValueError, match="sentence 1"):
        score_trees([GOLD], [read_tree("(TOP (UH yes))")])
