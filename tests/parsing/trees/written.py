"""Dependency trees written as ``word:head:relation``."""

import numpy as np
import pytest

from parsing.trees.batch import Batch, DependencyParse, Inventories
from parsing.trees.parses import batch_of_parses


def read_trees(*trees: str) -> tuple[list[str], list[int], list[str], np.ndarray]:
    """Words, heads, relations and where each sentence starts."""
    words, heads, relations = zip(
        *(token.split(":", 2) for tree in trees for token in tree.split()), strict=True
    )
    offsets = np.cumsum([0, *(len(tree.split()) for tree in trees)])
    return list(words), list(map(int, heads)), list(relations), offsets


def read_batch(tree: str) -> tuple[list[str], Batch]:
    """The words of a tree, and a batch of this one sentence."""
    words, heads, relations, _ = read_trees(tree)
    known = Inventories(relations=tuple(sorted({*relations, "_"})))
    parse = DependencyParse(np.array(heads), np.array([known.relations.index(name) for name in relations]))
    return words, batch_of_parses([words], np.zeros(1, np.uint8), known, {0: parse}, None, pytest.fail)
