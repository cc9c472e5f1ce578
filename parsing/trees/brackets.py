"""Bracketed trees of the Penn Treebank format to labelled spans, and back.

    (ROOT (S (NP-SBJ (PRP It)) (VP (VBZ rains)) (. .)))
    words It rains .   tags PRP VBZ .   spans (0, 3, "S") (0, 1, "NP") (1, 2, "VP")

Function tags are stripped (``NP-SBJ=2`` is ``NP``), traces (``-NONE-``) and what they leave empty
removed, the wrapper around a sentence (``TOP``, ``ROOT``, ``S1``, ``VROOT`` or no label) taken off,
unary chains joined (``S::VP``), above words too. The label of the whole sentence is ``""`` where the
wrapper holds several trees.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from corpora.support.errors import UserError
from corpora.treebanks import BRACKET_PARTS, TRACE, escape, read_brackets, unescape
from parsing.trees.parsers import ConstituencyParse

CHAIN = "::"
"""Between the labels of a unary chain, outermost first."""
WRAPPERS = frozenset({"", "TOP", "ROOT", "S1", "VROOT"})


@dataclass(frozen=True, slots=True)
class SpanTree:
    """A constituency tree of ``n`` words as strings and labelled spans."""

    words: tuple[str, ...]
    """As in running text: ``(``, not ``-LRB-``."""
    tags: tuple[str, ...]
    """Part-of-speech tag per word."""
    spans: tuple[tuple[int, int, str], ...]
    """(first word, one past the last, label) in preorder; the whole sentence first."""


@dataclass(slots=True)
class _Node:
    """A node while it is read: a phrase has children, a preterminal one word."""

    label: str
    children: list[_Node]
    word: str | None = None


def read_trees(path: Path) -> Iterator[SpanTree]:
    """Trees of a bracket file; a tree may span lines.

    Raises:
        UserError: no such file, brackets that do not match, or a node without words; it names file
            and tree.
    """
    for number, sentence in enumerate(read_brackets(path), 1):
        assert sentence.tree is not None
        yield read_tree(sentence.tree, where=f"{path}, tree {number}")


def read_tree(text: str, *, where: str = "tree") -> SpanTree:
    """One bracketed tree.

    Args:
        text: the brackets, with any white space between them.
        where: the place that error messages name.

    Raises:
        UserError: the brackets do not match, or a node has no words.
    """
    node = _prune(_read_node(text, where))
    if node is None:
        raise UserError(f"{where}: no words in {text[:60]!r}")
    if node.label in WRAPPERS and node.word is None:
        node = node.children[0] if len(node.children) == 1 else _Node("", node.children)
    words: list[str] = []
    tags: list[str] = []
    spans: list[tuple[int, int, str]] = []
    _collect(node, words, tags, spans)
    if not spans or spans[0][:2] != (0, len(words)):  # one word without a chain above it
        spans.insert(0, (0, len(words), ""))
    return SpanTree(tuple(words), tuple(tags), tuple(spans))


def write_tree(tree: SpanTree, *, wrapper: str = "TOP") -> str:
    """One line of brackets, tags included; round brackets in words are escaped.

    White space inside a word and an empty word become ``_``, which brackets cannot hold.
    """
    opened: dict[int, list[str]] = {}
    closed: dict[int, int] = {}
    for start, end, label in tree.spans:
        for part in label.split(CHAIN) if label else ():
            opened.setdefault(start, []).append(part)
            closed[end] = closed.get(end, 0) + 1
    pieces = []
    for position, (word, tag) in enumerate(zip(tree.words, tree.tags, strict=True)):
        pieces += [f"({label}" for label in opened.get(position, ())]
        pieces.append(f"({tag} {_escape(word)})" + ")" * closed.get(position + 1, 0))
    return f"({wrapper} {' '.join(pieces)})"


def to_parse(tree: SpanTree, labels: Mapping[str, int], tags: Mapping[str, int]) -> ConstituencyParse:
    """A tree as arrays; one-word spans without a label are left out.

    Raises:
        KeyError: a label or tag that the mappings lack.
    """
    kept = [span for i, span in enumerate(tree.spans) if i == 0 or span[2]]
    return ConstituencyParse(
        tags=np.array([tags[tag] for tag in tree.tags], np.int32),
        starts=np.array([start for start, _, _ in kept], np.int32),
        ends=np.array([end for _, end, _ in kept], np.int32),
        labels=np.array([labels[label] for _, _, label in kept], np.int32),
    )


def from_parse(
    parse: ConstituencyParse, words: Sequence[str], labels: Sequence[str], tags: Sequence[str]
) -> SpanTree:
    """A parse as a tree over ``words``; its ids are indices of ``labels`` and ``tags``."""
    return SpanTree(
        words=tuple(words),
        tags=tuple(tags[i] for i in parse.tags),
        spans=tuple(
            (int(start), int(end), labels[label])
            for start, end, label in zip(parse.starts, parse.ends, parse.labels, strict=True)
        ),
    )


def labels_and_tags(trees: Iterable[SpanTree]) -> tuple[list[str], list[str]]:
    """Sorted labels (the null label first) and sorted tags of a treebank."""
    labels: set[str] = set()
    tags: set[str] = set()
    for tree in trees:
        labels.update(label for _, _, label in tree.spans)
        tags.update(tree.tags)
    return ["", *sorted(labels - {""})], sorted(tags)


def strip_function(label: str) -> str:
    """``NP-SBJ-1=2`` is ``NP``; a label that starts with a dash (``-LRB-``) stays."""
    return label if label.startswith("-") else re.split(r"[-=|]", label, maxsplit=1)[0]


def _read_node(text: str, where: str) -> _Node:
    """Brackets to nodes, without recursion: sentences of thousands of words are nested deeply."""
    top = _Node("", [])
    stack = [top]
    previous = ""
    for symbol in BRACKET_PARTS.findall(text):
        if symbol == "(":
            if stack[-1].word is not None or (len(stack) == 1 and top.children):
                raise UserError(f"{where}: a bracket opens after a word or a whole tree; write (TAG word)")
            node = _Node("", [])
            stack[-1].children.append(node)
            stack.append(node)
        elif symbol == ")":
            if len(stack) == 1:
                raise UserError(f"{where}: a bracket closes that was never opened")
            node = stack.pop()
            if node.word is None and not node.children:
                raise UserError(f"{where}: node ({node.label}) is empty")
        elif previous == "(":
            stack[-1].label = symbol
        elif len(stack) == 1 or stack[-1].word is not None or stack[-1].children:
            raise UserError(f"{where}: word {symbol!r} has no tag of its own; write (TAG {symbol})")
        else:
            stack[-1].word = unescape(symbol)
        previous = symbol
    if len(stack) > 1 or not top.children:
        raise UserError(f"{where}: {len(stack) - 1} bracket(s) are never closed")
    return top.children[0]


def _prune(root: _Node) -> _Node | None:
    """Remove traces and what they leave empty, and strip function tags; None when nothing is left."""
    order = [root]
    for node in order:
        order += node.children
    for node in reversed(order):  # children first
        if node.word is None:
            node.children = [
                c for c in node.children if c.children or (c.word is not None and c.label != TRACE)
            ]
            node.label = strip_function(node.label)
    return root if root.children or (root.word is not None and root.label != TRACE) else None


def _collect(root: _Node, words: list[str], tags: list[str], spans: list[tuple[int, int, str]]) -> None:
    """Words, tags and preorder spans of a pruned tree, unary chains joined."""
    stack: list[_Node | int] = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, int):  # all words of this span have been collected
            start, _, label = spans[node]
            spans[node] = (start, len(words), label)
            continue
        chain = []
        while node.word is None:
            chain.append(node.label)
            if len(node.children) > 1:
                break
            node = node.children[0]
        if chain:
            stack.append(len(spans))
            spans.append((len(words), -1, CHAIN.join(chain)))
        if node.word is None:
            stack.extend(reversed(node.children))
        else:
            words.append(node.word)
            tags.append(node.label)


def _escape(word: str) -> str:
    """A word as brackets can hold it."""
    return escape(re.sub(r"\s", "_", word)) or "_"
