"""Parsed sentences as words, names and spans: for people, drawing and export, not for training.

A dependency tree is drawn from 1-based heads (0 for the root) and relation names, a constituency tree from
its tags and labelled spans (start, end, label) in preorder, the whole sentence first: as text, or as SVG
(:mod:`parsing.trees.drawings`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

from corpora.text import Document, Sentence
from corpora.treebanks import LINE_BREAK, conllu_lines
from parsing.trees.arrays import BinaryTree, unbinarise
from parsing.trees.batch import FLAG_NAMES, Batch, Inventories
from parsing.trees.brackets import SpanTree, from_parse, write_tree
from parsing.trees.drawings import constituency_svg, dependency_svg, nested, shown

if TYPE_CHECKING:
    from parsing.trees.cache import TreeCache

STEP = 400
STYLE = "overflow-x:auto;background:#fff;color:#000"
"""A drawing scrolls by itself, and is black on white in the dark, too."""

Span = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class ParsedSentence:
    """One sentence of ``n`` words with its trees; an annotation that was not made is None.

    ``str`` draws it as text; a notebook shows pictures. ``flags`` are bits of
    :data:`parsing.trees.batch.FLAG_NAMES`.
    """

    words: list[str]
    flags: int
    heads: list[int] | None
    """1-based, 0 for the root."""
    relations: list[str] | None
    tags: list[str] | None
    spans: list[Span] | None
    """(first word, one past the last, label) in preorder, unary chains as ``S::VP``."""

    @property
    def flag_names(self) -> list[str]:
        """Say what the flags mean; a sentence that was parsed as it is has none."""
        return [name for bit, name in FLAG_NAMES.items() if self.flags & bit]

    def annotation(self) -> Sentence:
        """Return what treebank writers take; a line break or tab in words is a blank, an empty word ``_``."""
        words = tuple(
            word if word and not LINE_BREAK.search(word) else " ".join(word.split()) or "_"
            for word in self.words
        )
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

    def to_conllu(self, *, validate: bool = False) -> str:
        """Return the sentence in CoNLL-U, see :meth:`Trees.to_conllu`."""
        return Trees([self]).to_conllu(validate=validate)

    def to_ptb(self) -> str:
        """Return the constituency tree in Penn Treebank brackets, on one line; "" if there is none."""
        return self.annotation().tree or ""

    def drawings(self, *, svg: bool = False) -> list[str]:
        """Return the trees there are, dependencies first: as text, or as SVG."""
        drawn = []
        if self.heads is not None and self.relations is not None:
            dependency = dependency_svg if svg else dependency_text
            drawn.append(dependency(self.words, self.heads, self.relations, self.tags))
        if self.spans is not None and self.tags is not None:
            constituency = constituency_svg if svg else constituency_text
            drawn.append(constituency(self.words, self.tags, self.spans))
        return drawn

    def __str__(self) -> str:
        words = " ".join(shown(word) for word in self.words)
        return "\n\n".join([words, *self.drawings()])

    def _repr_html_(self) -> str:
        """Draw both trees as pictures, for notebooks and pages."""
        words = " ".join(shown(word) for word in self.words)
        trees = (f'<div style="{STYLE}">{tree}</div>' for tree in self.drawings(svg=True))
        return f"<p>{escape(words)}</p>{''.join(trees)}"


class Trees(tuple[ParsedSentence, ...]):
    """Sentences of a text, in order, which print and draw themselves."""

    def __repr__(self) -> str:
        return f"<Trees of {len(self)} sentences, {sum(len(s.words) for s in self)} words; str() draws them>"

    def __str__(self) -> str:
        return "\n\n\n".join(str(sentence) for sentence in self)

    def _repr_html_(self) -> str:
        return "".join(sentence._repr_html_() for sentence in self)

    @overload
    def __getitem__(self, index: SupportsIndex) -> ParsedSentence: ...
    @overload
    def __getitem__(self, index: slice) -> Trees: ...
    def __getitem__(self, index: Any) -> Any:
        item: Any = super().__getitem__(index)
        return Trees(item) if isinstance(index, slice) else item

    def to_conllu(self, *, validate: bool = False) -> str:
        """Return all sentences in CoNLL-U, numbered, see :func:`corpora.treebanks.conllu_lines`.

        They are as they are, or with ``validate`` mended (:func:`corpora.universal.valid`).
        """
        annotated = tuple(sentence.annotation() for sentence in self)
        if validate:
            from corpora.universal import valid

            annotated = tuple(map(valid, annotated))
        return "".join(conllu_lines([Document("", annotated, continued=True)]))

    def to_ptb(self) -> str:
        """Return all constituency trees in Penn Treebank brackets, one a line."""
        return "".join(f"{sentence.to_ptb()}\n" for sentence in self)


def batch_sentences(batch: Batch, inventories: Inventories) -> Iterator[ParsedSentence]:
    """Yield the sentences of a batch that carries word types."""
    has_arcs, has_spans = "head" in batch.fields, "left" in batch.fields
    for i, words in enumerate(batch.words()):
        low, high = int(batch.sentence_offsets[i]), int(batch.sentence_offsets[i + 1])
        heads = relations = tags = spans = None
        if has_arcs:
            heads = batch.head[low:high].tolist()
            relations = [inventories.relations[r] for r in batch.relation[low:high]]
        if has_spans:
            leaf, nodes = batch.leaf_label[low:high], slice(low - i, high - i - 1)
            tree = BinaryTree(leaf, batch.left[nodes], batch.right[nodes], batch.label[nodes])
            parse = unbinarise(tree, batch.tag[low:high], inventories.dummy_label)
            named = from_parse(parse, words, inventories.labels, inventories.tags)
            tags, spans = list(named.tags), list(named.spans)
        yield ParsedSentence(words, int(batch.flags[i]), heads, relations, tags, spans)


def cached_sentences(cache: TreeCache, start: int, stop: int) -> Iterator[ParsedSentence]:
    """Yield the sentences ``start`` to ``stop`` (excluded) of a cache, a few hundred in memory at a time."""
    for begin in range(start, stop, STEP):
        batch = cache.read(begin, min(begin + STEP, stop))
        yield from batch_sentences(batch, cache.manifest)


def dependency_text(
    words: Sequence[str], heads: Sequence[int], relations: Sequence[str], tags: Sequence[str] | None = None
) -> str:
    """Return one word per line, dependents indented under their head in sentence order."""
    dependents: list[list[int]] = [[] for _ in range(len(words) + 1)]
    for word, head in enumerate(heads):
        dependents[head].append(word)
    lines = []
    # (word, its indentation, that of its dependents); chains are too deep for recursion
    stack = [(word, "", "") for word in reversed(dependents[0])]
    while stack:
        word, before, below = stack.pop()
        tag = f"/{shown(tags[word])}" if tags else ""
        lines.append(f"{before}{shown(words[word])}{tag}  ({shown(relations[word])}, {word + 1})")
        children = dependents[word + 1]
        for child in reversed(children):
            last = child == children[-1]
            stack.append((child, below + ("└─ " if last else "├─ "), below + ("   " if last else "│  ")))
    return "\n".join(lines)


def constituency_text(words: Sequence[str], tags: Sequence[str], spans: Sequence[Span]) -> str:
    """Return one constituent per line, indented; words with their tags."""
    lines = []
    stack: list[tuple[Any, str]] = [(nested(words, tags, spans), "")]
    while stack:
        (label, *children), indent = stack.pop()
        leaf = isinstance(children[0], str)
        lines.append(f"{indent}{label} {children[0]}" if leaf else f"{indent}{label}")
        stack += [] if leaf else [(child, indent + "  ") for child in reversed(children)]
    return "\n".join(lines)
