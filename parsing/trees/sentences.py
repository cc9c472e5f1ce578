"""Parsed sentences as lists of words, names and spans, which can be printed, drawn and exported.

A dependency tree is given by 1-based heads (0 for the root) and relation names, a constituency tree by tags
and labelled spans in preorder, the whole sentence first. Drawings are text, or SVG
(:mod:`parsing.trees.drawings`). Training does not read these lists, but arrays (:mod:`parsing.trees.batch`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

from corpora.brackets import write_tree
from corpora.text import Document, Sentence, Span
from corpora.treebanks import SEPARATOR, conllu_lines
from parsing.trees.arrays import BinaryTree, from_parse, unbinarise
from parsing.trees.batch import FLAG_NAMES, Batch, Inventories
from parsing.trees.drawings import constituency_svg, dependency_svg, display_name, nested_lists

if TYPE_CHECKING:
    from parsing.trees.cache import TreeCache

BATCH_SENTENCES = 400
LEVELS = 40
"""The number of levels of a tree after which the indentation begins anew."""
STYLE = "overflow-x:auto;background:#fff;color:#000"
"""The style of each drawing: it scrolls by itself, and is black on white even on a dark page."""


@dataclass(frozen=True, slots=True)
class ParsedSentence:
    """One sentence with its trees; heads, relations, tags or spans that were not made are None."""

    words: list[str]
    flags: int  # bits of parsing.trees.batch.FLAG_NAMES
    heads: list[int] | None
    """1-based, 0 for the root."""
    relations: list[str] | None
    tags: list[str] | None
    spans: list[Span] | None
    """(first word, one past the last, label) in preorder, unary chains as ``S::VP``."""

    @property
    def flag_names(self) -> list[str]:
        """The names of the flags; empty for a sentence that was parsed without a problem."""
        return [name for bit, name in FLAG_NAMES.items() if self.flags & bit]

    def annotation(self) -> Sentence:
        """Return the sentence for a treebank: breaks and tabs in words become blanks, empty words ``_``."""
        return Sentence(
            tuple(map(_on_one_line, self.words)),
            tags=None if self.tags is None else tuple(self.tags),
            heads=None if self.heads is None else tuple(self.heads),
            relations=None if self.relations is None else tuple(self.relations),
            spans=None if self.spans is None else tuple(self.spans),
        )

    def to_conllu(self, *, validate: bool = False) -> str:
        """Return the sentence in CoNLL-U, see :meth:`Trees.to_conllu`."""
        return Trees([self]).to_conllu(validate=validate)

    def to_ptb(self) -> str:
        """Return the constituency tree in Penn Treebank brackets, on one line; "" if there is none."""
        return "" if self.spans is None else write_tree(self.annotation())

    def drawings(self, *, svg: bool = False) -> list[str]:
        """Return a drawing of each tree that the sentence has, dependencies first, as text or as SVG."""
        drawings = []
        if self.heads is not None and self.relations is not None:
            draw_dependencies = dependency_svg if svg else dependency_text
            drawings.append(draw_dependencies(self.words, self.heads, self.relations, self.tags))
        if self.spans is not None and self.tags is not None:
            draw_constituents = constituency_svg if svg else constituency_text
            drawings.append(draw_constituents(self.words, self.tags, self.spans))
        return drawings

    def __str__(self) -> str:
        words = " ".join(map(display_name, self.words))
        return "\n\n".join([words, *self.drawings()])

    def _repr_html_(self) -> str:
        """Draw both trees as pictures, for notebooks and pages."""
        words = " ".join(map(display_name, self.words))
        trees = (f'<div style="{STYLE}">{tree}</div>' for tree in self.drawings(svg=True))
        return f"<p>{escape(words)}</p>{''.join(trees)}"


def _on_one_line(word: str) -> str:
    """Return a word without the breaks and tabs that separate the fields of a treebank."""
    if word and not SEPARATOR.search(word):
        return word
    return " ".join(word.split()) or "_"


class Trees(tuple[ParsedSentence, ...]):
    """The parsed sentences of a text, in order; ``str`` draws them as text, a notebook as SVG."""

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
        """Return all sentences in CoNLL-U.

        ``validate`` changes what UD's validator would refuse. It also guesses, by the rules of English
        typography, between which words there was no space.
        """
        sentences = tuple(sentence.annotation() for sentence in self)
        if validate:
            from corpora.universal import mend_tree

            sentences = tuple(map(mend_tree, sentences))
        return "".join(conllu_lines([Document("", sentences, is_continuation=True)], guess_spaces=validate))

    def to_ptb(self) -> str:
        """Return all constituency trees in Penn Treebank brackets, one a line."""
        return "".join(f"{sentence.to_ptb()}\n" for sentence in self)


def batch_sentences(batch: Batch, inventories: Inventories) -> Iterator[ParsedSentence]:
    """Yield the sentences of a batch that carries word types."""
    for i, words in enumerate(batch.words()):
        first, end = int(batch.sentence_offsets[i]), int(batch.sentence_offsets[i + 1])
        tokens, nodes = slice(first, end), slice(first - i, end - i - 1)
        heads = relations = tags = spans = None
        if "head" in batch.fields:
            heads = batch.head[tokens].tolist()
            relations = [inventories.relations[relation] for relation in batch.relation[tokens]]
        if "left" in batch.fields:
            leaf_label = batch.leaf_label[tokens]
            binary_tree = BinaryTree(leaf_label, batch.left[nodes], batch.right[nodes], batch.label[nodes])
            parse = unbinarise(binary_tree, batch.tag[tokens], inventories.dummy_label)
            tree = from_parse(parse, words, inventories.labels, inventories.tags)
            tags, spans = list(tree.tags or ()), list(tree.spans or ())
        yield ParsedSentence(words, int(batch.flags[i]), heads, relations, tags, spans)


def cached_sentences(cache: TreeCache, first: int, stop: int) -> Iterator[ParsedSentence]:
    """Yield the sentences ``first`` to ``stop`` (excluded) of a cache, a few hundred in memory at a time."""
    for block in range(first, stop, BATCH_SENTENCES):
        batch = cache.read(block, min(block + BATCH_SENTENCES, stop))
        yield from batch_sentences(batch, cache.manifest)


def dependency_text(
    words: Sequence[str], heads: Sequence[int], relations: Sequence[str], tags: Sequence[str] | None = None
) -> str:
    """Draw one word per line, with its dependents indented below it in the order of the sentence."""
    dependents: list[list[int]] = [[] for _ in range(len(words) + 1)]
    for word, head in enumerate(heads):
        dependents[head].append(word)
    lines = []
    # (word, its depth, its indentation, that of its dependents); a chain may be too deep for recursion
    stack = [(word, 0, "", "") for word in reversed(dependents[0])]
    while stack:
        word, depth, indent, child_indent = stack.pop()
        child_indent = _indentation(child_indent, depth)
        tag = f"/{display_name(tags[word])}" if tags else ""
        name, relation = display_name(words[word]), display_name(relations[word])
        lines.append(f"{indent}{name}{tag}  ({relation}, {word + 1})")
        children = dependents[word + 1]
        for child in reversed(children):
            branch, trunk = ("└─ ", "   ") if child == children[-1] else ("├─ ", "│  ")
            stack.append((child, depth + 1, child_indent + branch, child_indent + trunk))
    return "\n".join(lines)


def _indentation(indent: str, depth: int) -> str:
    """Return the indentation; after every :data:`LEVELS` levels it begins anew, with the depth as a number.

    Without that, a drawing would grow with the square of the depth: 15 GB for a chain of 100,000 words.
    """
    return f"[{depth}] " if depth and depth % LEVELS == 0 else indent


def constituency_text(words: Sequence[str], tags: Sequence[str], spans: Sequence[Span]) -> str:
    """Draw one constituent per line, indented by its depth; words are drawn with their tags."""
    lines = []
    stack: list[tuple[Any, int, str]] = [(nested_lists(words, tags, spans), 0, "")]
    while stack:
        (label, *children), depth, indent = stack.pop()
        indent = _indentation(indent, depth)
        if isinstance(children[0], str):
            lines.append(f"{indent}{label} {children[0]}")
        else:
            lines.append(f"{indent}{label}")
            stack += [(child, depth + 1, indent + "  ") for child in reversed(children)]
    return "\n".join(lines)
