"""Parsers that return trees made up beforehand, also those of the parts of a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from multiview.model import MultiViewEncoder
from parsing.trees.batch import ConstituencyParse, DependencyParse
from tests.multiview.engines.trees import random_heads

Span = tuple[int, int]


class GivenTrees:
    """A random tree for each sentence; words are distinct, so that a part of a sentence names its subtree."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.heads: dict[tuple[str, ...], list[int]] = {}
        self.spans: dict[tuple[str, ...], list[Span]] = {}

    def sentence(self, words: Sequence[str]) -> tuple[str, ...]:
        """Make up both trees of a sentence."""
        tokens = tuple(words)
        self.heads[tokens] = random_heads(len(tokens), self.rng)
        self.spans[tokens] = self._split(0, len(tokens), top=True)
        return tokens

    def _split(self, start: int, end: int, *, top: bool = False) -> list[Span]:
        """A random n-ary tree in preorder."""
        spans = [(start, end)] if top or self.rng.random() < 0.6 else []
        if end - start > 1:
            inner = np.arange(start + 1, end)
            count = self.rng.integers(1, min(3, len(inner)) + 1)
            cuts = sorted(self.rng.choice(inner, count, replace=False).tolist())
            for low, high in zip([start, *cuts], [*cuts, end], strict=True):
                spans += self._split(low, high)
        return spans

    def part(self, tokens: tuple[str, ...], positions: Sequence[int]) -> tuple[str, ...]:
        """The words at some positions as a sentence of its own, with the trees they have in the whole."""
        words = tuple(tokens[position] for position in positions)
        place = {position: index for index, position in enumerate(positions)}
        heads = [place.get(self.heads[tokens][position] - 1, -1) + 1 for position in positions]
        self.heads[words] = heads
        first, last = positions[0], positions[-1] + 1
        inside = [(a - first, b - first) for a, b in self.spans[tokens] if first <= a and b <= last]
        if (0, len(words)) not in inside:
            inside.insert(0, (0, len(words)))
        self.spans[words] = inside
        return words


class Dependency:
    relations = ("root", "any")
    identity: ClassVar = {"name": "given-dep", "version": "1", "sha256": "2" * 64}

    def __init__(self, trees: GivenTrees) -> None:
        self.trees = trees

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[DependencyParse]:
        heads = [np.array(self.trees.heads[tuple(tokens)], np.int32) for tokens in sentences]
        return [DependencyParse(heads=h, relations=(h > 0).astype(np.int32)) for h in heads]


class Constituency:
    labels = ("", "X")
    tags = ("T",)
    identity: ClassVar = {"name": "given-const", "version": "1", "sha256": "3" * 64}

    def __init__(self, trees: GivenTrees) -> None:
        self.trees = trees

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[ConstituencyParse]:
        found = []
        for tokens in sentences:
            starts, ends = np.array(self.trees.spans[tuple(tokens)], np.int32).T
            ones = np.ones(len(starts), np.int32)
            tags = np.zeros(len(tokens), np.int32)
            found.append(ConstituencyParse(tags=tags, starts=starts, ends=ends, labels=ones))
        return found


def given_encoder(trees: GivenTrees, views: str = "dep,const") -> MultiViewEncoder:
    """An untrained model that parses by these trees."""
    encoder = MultiViewEncoder.untrained(views, dim=8, word_dim=6, device="cpu", start="bag")
    encoder.reader.corpus = {"tokenizer": "space"}
    encoder.reader.parsers["dep"] = Dependency(trees)
    encoder.reader.parsers["const"] = Constituency(trees)
    return encoder
