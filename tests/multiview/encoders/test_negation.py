"""A negation turns what it is meant for, in trees written as ``word:head:relation``."""

import numpy as np
import pytest

from multiview.encoders.negation import NEGATION_RULES, WordTrees
from parsing.text_parser import assemble
from parsing.trees.batch import DependencyParse, Inventories


def read(tree: str) -> tuple[list[str], WordTrees]:
    """The words of a tree, and what is read of them."""
    words, heads, relations = map(list, zip(*(token.split(":", 2) for token in tree.split()), strict=True))
    known = Inventories(relations=tuple(sorted({*relations, "_"})))
    parse = DependencyParse(np.array(heads, int), np.array([known.relations.index(r) for r in relations]))
    return words, WordTrees(assemble([words], np.zeros(1, np.uint8), known, {0: parse}, None, pytest.fail))


@pytest.mark.parametrize("rule", NEGATION_RULES, ids=lambda rule: rule.example)
def test_a_rule_turns_the_words_of_its_example(rule, monkeypatch: pytest.MonkeyPatch) -> None:
    tree, _, turned = rule.example.partition("->")
    words, trees = read(tree)
    signs = trees.negation_signs(trees.canonical_arcs())
    assert [word for word, sign in zip(words, signs, strict=True) if sign < 0] == turned.split()
    assert any(trees._holds(rule, token, trees._target(token)) for token in range(len(words)))


def test_content_words_are_told_by_the_tree() -> None:
    words, trees = read("He:4:nsubj was:4:aux:pass not:4:advmod praised:0:root by:6:case Ann:4:obl .:4:punct")
    assert [words[place] for place in trees.content_tokens()] == ["He", "praised", "Ann"]
