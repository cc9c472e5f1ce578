"""A negation turns what it is meant for, in trees written as ``word:head:relation``."""

import pytest

from multiview.structure.negation import NEGATION_RULES, WordTrees
from tests.parsing.trees.written import read_batch


@pytest.mark.parametrize("rule", NEGATION_RULES, ids=lambda rule: rule.example)
def test_a_rule_turns_the_words_of_its_example(rule, monkeypatch: pytest.MonkeyPatch) -> None:
    tree, _, turned = rule.example.partition("->")
    words, batch = read_batch(tree)
    trees = WordTrees(batch)
    signs = trees.negation_signs(trees.canonical_arcs())
    assert [word for word, sign in zip(words, signs, strict=True) if sign < 0] == turned.split()
    assert any(trees._holds(rule, token, trees._target(token)) for token in range(len(words)))


def test_content_words_are_told_by_the_tree() -> None:
    tree = "He:4:nsubj was:4:aux:pass not:4:advmod praised:0:root by:6:case Ann:4:obl .:4:punct"
    words, batch = read_batch(tree)
    assert [words[token] for token in WordTrees(batch).content_tokens()] == ["He", "praised", "Ann"]
