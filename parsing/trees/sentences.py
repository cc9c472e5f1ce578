"""Parsed sentences as words, names and spans: for people, drawing and export, not for training.

A dependency tree is drawn from 1-based heads (0 for the root) and relation names, a constituency tree from
its tags and labelled spans (start, end, label) in preorder, the whole sentence first: as text, or as SVG by
spaCy's displaCy and by svgling.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

from corpora.support.errors import printable
from corpora.text import Document, Sentence
from corpora.treebanks import LINE_BREAK, conllu_lines
from corpora.universal import valid
from parsing.trees.arrays import BinaryTree, unbinarise
from parsing.trees.batch import FLAG_NAMES, Batch, Inventories
from parsing.trees.brackets import SpanTree, write_tree

if TYPE_CHECKING:
    from parsing.trees.cache import TreeCache

STEP = 400
CHARACTER_PX, GAP_PX = 10, 40
"""Approximate width of a character in displaCy's drawings, and between words."""
PAPER = "overflow-x:auto;background:#fff;color:#000"
"""A drawing scrolls by itself, and is black on white in the dark, too."""

Span = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class ParsedSentence:
    """One sentence of ``n`` words with its trees; an annotation that was not made is None.

    ``str`` draws it as text; a notebook shows pictures.
    """

    words: list[str]
    flags: int
    """Bits of :data:`parsing.trees.batch.FLAG_NAMES`: what a parser could not take, for instance."""
    heads: list[int] | None
    """1-based, 0 for the root."""
    relations: list[str] | None
    """Of each word to its head."""
    tags: list[str] | None
    spans: list[Span] | None
    """(first word, one past the last, label) in preorder, unary chains as ``S::VP``."""

    @property
    def flag_names(self) -> list[str]:
        """What the flags say; empty for a sentence that was parsed as it is."""
        return [name for bit, name in FLAG_NAMES.items() if self.flags & bit]

    def annotation(self) -> Sentence:
        """What the treebank writers take; a line break or tab in a word is a blank, an empty word ``_``."""
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
        """The sentence in CoNLL-U, see :meth:`Trees.to_conllu`."""
        return Trees([self]).to_conllu(validate=validate)

    def to_ptb(self) -> str:
        """The constituency tree in Penn Treebank brackets, on one line; "" if there is none."""
        return self.annotation().tree or ""

    def drawings(self, *, svg: bool = False) -> list[str]:
        """The trees there are, dependencies first: as text, or as SVG."""
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
        """Both trees as pictures, for notebooks and pages."""
        words = " ".join(shown(word) for word in self.words)
        trees = (f'<div style="{PAPER}">{tree}</div>' for tree in self.drawings(svg=True))
        return f"<p>{escape(words)}</p>{''.join(trees)}"


class Trees(tuple[ParsedSentence, ...]):
    """The sentences of a text, in order."""

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
        found: Any = super().__getitem__(index)
        return Trees(found) if isinstance(index, slice) else found

    def to_conllu(self, *, validate: bool = False) -> str:
        """All sentences in CoNLL-U, numbered, see :func:`corpora.treebanks.conllu_lines`.

        They are as they are, or with ``validate`` mended (:func:`corpora.universal.valid`).
        """
        mended = valid if validate else lambda sentence: sentence
        annotated = tuple(mended(sentence.annotation()) for sentence in self)
        return "".join(conllu_lines([Document("", annotated, continued=True)]))

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


def _spans(batch: Batch, i: int, low: int, high: int, inventories: Inventories) -> list[Span]:
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


def dependency_text(
    words: Sequence[str], heads: Sequence[int], relations: Sequence[str], tags: Sequence[str] | None = None
) -> str:
    """One word per line, dependents indented under their head in sentence order."""
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
    """One constituent per line, indented; words with their tags."""
    lines = []
    stack: list[tuple[Any, str]] = [(_nested(words, tags, spans), "")]
    while stack:
        (label, *children), indent = stack.pop()
        leaf = isinstance(children[0], str)
        lines.append(f"{indent}{label} {children[0]}" if leaf else f"{indent}{label}")
        stack += [] if leaf else [(child, indent + "  ") for child in reversed(children)]
    return "\n".join(lines)


def dependency_svg(
    words: Sequence[str], heads: Sequence[int], relations: Sequence[str], tags: Sequence[str] | None = None
) -> str:
    """Arcs from heads to dependents above the words; the root's relation stands with its tag."""
    from spacy.displacy.render import DependencyRenderer

    texts = [shown(word) for word in words]
    below = [printable(tag) for tag in tags or [""] * len(words)]
    arcs = []
    for word, (head, relation) in enumerate(zip(heads, map(shown, relations), strict=True)):
        if head == 0:
            below[word] = f"{below[word]} ({relation})".strip()
            continue
        left, right = sorted((word, head - 1))
        direction = "left" if word < head - 1 else "right"
        arcs.append({"start": left, "end": right, "label": escape(relation), "dir": direction})
    longest = max(map(len, [*texts, *below]))
    renderer = DependencyRenderer({"distance": GAP_PX + CHARACTER_PX * longest, "arrow_spacing": 8})
    # The library escapes words, but neither tags nor relations.
    labelled = [{"text": word, "tag": escape(tag)} for word, tag in zip(texts, below, strict=True)]
    # displacy.render would put a random id into each picture. Arcs of several pictures on one page need ids
    # that differ; those of equal trees may be equal.
    name = sha256(repr((labelled, arcs)).encode()).hexdigest()[:12]
    svg: str = renderer.render_svg(name, labelled, arcs)
    return svg


def constituency_svg(words: Sequence[str], tags: Sequence[str], spans: Sequence[Span]) -> str:
    """The tree from the top, a word under each tag."""
    import svgling

    drawing: str = svgling.draw_tree(_nested(words, tags, spans)).get_svg().tostring()
    return drawing


def _nested(words: Sequence[str], tags: Sequence[str], spans: Sequence[Span]) -> list[Any]:
    """A tree as nested lists, [label, child, ...] and [tag, word]."""
    waiting = list(reversed(spans))
    path: list[list[Any]] = [[]]
    ends = [len(words) + 1]
    for position, (word, tag) in enumerate(zip(words, tags, strict=True)):
        while waiting and waiting[-1][0] == position:
            _, end, label = waiting.pop()
            node = [printable(label) or "·"]
            path[-1].append(node)
            path.append(node)
            ends.append(end)
        path[-1].append([shown(tag), shown(word)])
        while ends[-1] == position + 1:
            path.pop()
            ends.pop()
    tree: list[Any] = path[0][0]
    return tree


def shown(name: str) -> str:
    """A word, tag, label or relation without characters that would upset a terminal or XML."""
    return printable(name) or "∅"


PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width,initial-scale=1">
<style>:root{{color-scheme:light dark}}body{{font:15px/1.5 system-ui,sans-serif;margin:2em}}
th,td{{text-align:right;padding:.2em 1em}}.text{{text-align:left}}</style>
</head>
<body><h1>{title}</h1>
{body}
</body></html>
"""


def page(title: str, body: str) -> str:
    """The page; ``title`` is text, ``body`` HTML."""
    return PAGE.format(title=escape(title), body=body)


def figure(caption: str, svg: str) -> str:
    """A drawing with its caption (text)."""
    return f'<figure style="margin:1em 0">{escape(caption)}<div style="{PAPER}">{svg}</div></figure>'
