"""Parsed sentences as words, names and spans: for people, drawing and export, not for training."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from corpora.text import Document, Sentence
from corpora.treebanks import conllu_lines
from parsing.cache.format import FLAG_NAMES, Batch, Inventories
from parsing.trees import draw
from parsing.trees.arrays import BinaryTree, unbinarise
from parsing.trees.brackets import SpanTree, write_tree

if TYPE_CHECKING:
    from parsing.cache.reader import TreeCache

STEP = 400


@dataclass(frozen=True, slots=True)
class ParsedSentence:
    """One sentence of ``n`` words with its trees; an annotation that was not made is None.

    ``str`` draws it as text; a notebook shows pictures.
    """

    words: list[str]
    flags: int
    """Bits of :data:`parsing.cache.format.FLAG_NAMES`: what a parser could not take, for instance."""
    heads: list[int] | None
    """1-based, 0 for the root."""
    relations: list[str] | None
    """Of each word to its head."""
    tags: list[str] | None
    spans: list[tuple[int, int, str]] | None
    """(first word, one past the last, label) in preorder, unary chains as ``S::VP``."""

    @property
    def flag_names(self) -> list[str]:
        """What the flags say; empty for a sentence that was parsed as it is."""
        return [name for bit, name in FLAG_NAMES.items() if self.flags & bit]

    def annotation(self) -> Sentence:
        """The form that the treebank writers take; an empty word is ``_``, which both formats can hold."""
        words = tuple(re.sub(r"[\t\r\n]", " ", word) or "_" for word in self.words)
        tree = None
        if self.spans is not None and self.tags is not None:
            tree = write_tree(SpanTree(words, tuple(self.tags), tuple(self.spans)))
        return Sentence(
            words,
            tags=None if self.tags is None else tuple(self.tags),
            heads=None if self.heads is None else tuple(self.heads),
            relations=None if self.relations is None else tuple(self.relations),
            tree=tree,
        )

    def to_conllu(self) -> str:
        """The sentence in CoNLL-U: a line per word (tags in XPOS) and a blank one."""
        return "".join(conllu_lines([Document("", (self.annotation(),), continued=True)]))

    def to_ptb(self) -> str:
        """The constituency tree in Penn Treebank brackets, on one line; "" if there is none."""
        return self.annotation().tree or ""

    def drawings(self, *, svg: bool = False) -> list[str]:
        """The trees there are, dependencies first: as text, or as SVG."""
        drawn = []
        if self.heads is not None and self.relations is not None:
            dependency = draw.dependency_svg if svg else draw.dependency_text
            drawn.append(dependency(self.words, self.heads, self.relations, self.tags))
        if self.spans is not None and self.tags is not None:
            constituency = draw.constituency_svg if svg else draw.constituency_text
            drawn.append(constituency(self.words, self.tags, self.spans))
        return drawn

    def __str__(self) -> str:
        words = " ".join(draw.shown(word) for word in self.words)
        return "\n\n".join([words, *self.drawings()])

    def _repr_html_(self) -> str:
        """Both trees as pictures, for notebooks and pages."""
        words = " ".join(draw.shown(word) for word in self.words)
        trees = "".join(
            f'<div style="overflow-x:auto;background:#fff;color:#000">{tree}</div>'
            for tree in self.drawings(svg=True)
        )
        return f"<p>{escape(words)}</p>{trees}"


class Trees(tuple[ParsedSentence, ...]):
    """The sentences of a text, in order."""

    def __repr__(self) -> str:
        return f"<Trees of {len(self)} sentences, {sum(len(s.words) for s in self)} words; str() draws them>"

    def __str__(self) -> str:
        return "\n\n\n".join(str(sentence) for sentence in self)

    def _repr_html_(self) -> str:
        return "".join(sentence._repr_html_() for sentence in self)

    def to_conllu(self) -> str:
        """All sentences in CoNLL-U, tags in XPOS."""
        return "".join(sentence.to_conllu() for sentence in self)

    def to_ptb(self) -> str:
        """All constituency trees in Penn Treebank brackets, one a line."""
        return "".join(f"{sentence.to_ptb()}\n" for sentence in self)


def batch_sentences(batch: Batch, inventories: Inventories) -> Iterator[ParsedSentence]:
    """The sentences of a batch that carries word types."""
    has_arcs, has_spans = "head" in batch.fields, "left" in batch.fields
    for i, words in enumerate(batch.words()):
        low, high = int(batch.sentence_offsets[i]), int(batch.sentence_offsets[i + 1])
        heads = relations = tags = spans = None
        if has_arcs:
            heads = batch.head[low:high].tolist()
            relations = [inventories.relations[r] for r in batch.relation[low:high]]
        if has_spans:
            tags = [inventories.tags[t] for t in batch.tag[low:high]]
            spans = _spans(batch, i, low, high, inventories)
        yield ParsedSentence(words, int(batch.flags[i]), heads, relations, tags, spans)


def _spans(batch: Batch, i: int, low: int, high: int, inventories: Inventories) -> list[tuple[int, int, str]]:
    nodes = slice(low - i, high - i - 1)
    tree = BinaryTree(
        leaf_label=batch.leaf_label[low:high],
        left=batch.left[nodes],
        right=batch.right[nodes],
        label=batch.label[nodes],
    )
    parse = unbinarise(tree, batch.tag[low:high], inventories.dummy_label)
    return [
        (int(a), int(b), inventories.labels[label])
        for a, b, label in zip(parse.starts, parse.ends, parse.labels, strict=True)
    ]


def cached_sentences(cache: TreeCache, start: int, stop: int) -> Iterator[ParsedSentence]:
    """The sentences ``start`` to ``stop`` (excluded) of a cache, a few hundred in memory at a time."""
    for begin in range(start, stop, STEP):
        batch = cache.read(begin, min(begin + STEP, stop))
        yield from batch_sentences(batch, cache.manifest.inventories)
