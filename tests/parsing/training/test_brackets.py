"""Bracket scores on examples worked by hand after EVALB's rules."""

from __future__ import annotations

import pytest

from parsing.training.scores import bracket_scores, brackets
from parsing.trees.brackets import read_tree

GOLD = read_tree(
    "(TOP (S (NP (PRP It)) (VP (VBZ eats) (NP (DT the) (NN fish)) (PP (IN in) (NP (NN May)))) (. .)))"
)
# The PP hangs on the noun phrase: NP(2,6) instead of a flat VP; one wrong tag.
ATTACHED = read_tree(
    "(TOP (S (NP (PRP It)) (VP (VBZ eats) (NP (NP (DT the) (NN fish)) (PP (IN in) (NP (NNP May))))) (. .)))"
)


def test_identical_trees_score_one_hundred() -> None:
    assert set(bracket_scores([GOLD], [GOLD]).values()) == {100}


def test_wrong_attachment() -> None:
    # gold: S NP VP NP PP NP = 6; predicted: one NP more = 7; all 6 match; 6 of 7 tags.
    assert bracket_scores([GOLD], [ATTACHED]) == pytest.approx(
        {"recall": 100, "precision": 600 / 7, "f1": 1200 / 13, "tags": 600 / 7, "complete": 0}
    )


def test_punctuation_is_not_seen() -> None:
    inside = read_tree("(TOP (S (NP (PRP It)) (VP (VBZ rains) (. .))))")
    outside = read_tree("(TOP (S (NP (PRP It)) (VP (VBZ rains)) (. .)))")
    assert bracket_scores([outside], [inside])["f1"] == 100
    # The gold tags decide what is punctuation, whatever was predicted.
    mistagged = read_tree("(TOP (S (NP (PRP It)) (VP (VBZ rains) (NN .))))")
    found = bracket_scores([outside], [mistagged])
    assert found["f1"] == 100 and found["tags"] == pytest.approx(200 / 3)
    alone = read_tree("(TOP (S (NP (PRP It)) (VP (VBZ rains)) (PRN (, ,) (: --))))")
    assert sorted(brackets(alone, alone.tags)) == [(0, 1, "NP"), (0, 2, "S"), (1, 2, "VP")]


def test_unary_chains_are_one_bracket_each_and_repeats_count() -> None:
    tree = read_tree("(TOP (S (VP (NP (NP (NN fish))))))")
    assert brackets(tree, tree.tags) == {(0, 1, "S"): 1, (0, 1, "VP"): 1, (0, 1, "NP"): 2}
    found = bracket_scores([tree], [read_tree("(TOP (S (VP (NP (NN fish)))))")])
    assert found["precision"] == 100 and found["recall"] == 75


def test_wrapper_and_null_root_are_no_brackets() -> None:
    tree = read_tree("(TOP (NP (NN fish)) (NP (NN fish)))")
    assert sorted(brackets(tree, tree.tags)) == [(0, 1, "NP"), (1, 2, "NP")]
    yes = read_tree("(TOP (UH yes))")
    assert bracket_scores([yes], [yes])["f1"] == 0


def test_counts_are_summed_over_the_treebank() -> None:
    # 6 + 1 gold, 7 + 1 predicted, 6 + 0 matched.
    other, wrong = read_tree("(TOP (NP (NN fish)))"), read_tree("(TOP (VP (NN fish)))")
    assert bracket_scores([GOLD, other], [ATTACHED, wrong])["f1"] == pytest.approx(100 * 12 / 15)
