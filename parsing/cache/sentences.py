"""Sentences of a tree cache as words, names and spans: for drawing and export, not for training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from parsing.cache.format import Batch
from parsing.cache.reader import TreeCache
from parsing.trees.binarise import BinaryTree, unbinarise

STEP = 400


@dataclass(frozen=True, slots=True)
class StoredSentence:
    """One sentence with its trees; a view that the cache does not hold is None."""

    words: list[str]
    flags: int
    heads: list[int] | None
    """1-based, 0 for the root."""
    relations: list[str] | None
    tags: list[str] | None
    spans: list[tuple[int, int, str]] | None
    """(first word, one past the last, label) in preorder, as before binarisation."""


def stored_sentences(cache: TreeCache, start: int, stop: int) -> Iterator[StoredSentence]:
    """The sentences ``start`` to ``stop`` (excluded), a few hundred in memory at a time."""
    for begin in range(start, stop, STEP):
        batch = cache.read(begin, min(begin + STEP, stop))
        for i, words in enumerate(batch.words()):
            yield _sentence(cache, batch, i, words)


def _sentence(cache: TreeCache, batch: Batch, i: int, words: list[str]) -> StoredSentence:
    low, high = int(batch.sentence_offsets[i]), int(batch.sentence_offsets[i + 1])
    heads = relations = tags = spans = None
    if cache.has("dep"):
        heads = batch.head[low:high].tolist()
        relations = [cache.relations[r] for r in batch.relation[low:high]]
    if cache.has("const"):
        tags = [cache.tags[t] for t in batch.tag[low:high]]
        nodes = slice(low - i, high - i - 1)
        tree = BinaryTree(
            leaf_label=batch.leaf_label[low:high],
            left=batch.left[nodes],
            right=batch.right[nodes],
            label=batch.label[nodes],
        )
        dummy = cache.manifest.inventories.dummy_label
        parse = unbinarise(tree, batch.tag[low:high], dummy)
        spans = [
            (int(a), int(b), cache.labels[label])
            for a, b, label in zip(parse.starts, parse.ends, parse.labels, strict=True)
        ]
    return StoredSentence(words, int(batch.flags[i]), heads, relations, tags, spans)
