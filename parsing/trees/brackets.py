"""Bracketed trees of the Penn Treebank format to labelled spans, and back.

    (ROOT (S (NP-SBJ (PRP It)) (VP (VBZ rains)) (. .)))
    words It rains .   tags PRP VBZ .   spans (0, 3, "S") (0, 1, "NP") (1, 2, "VP")

Function tags are stripped (``NP-SBJ=2`` is ``NP``), traces (``-NONE-``) and what they leave empty
removed, the wrapper around a sentence (``TOP``, ``ROOT``, ``S1``, ``VROOT`` or no label) taken off,
unary chains joined (``S::VP``), above words too. The label of the whole sentence is ``""`` where the
wrapper holds several trees.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from corpora.treebanks import TRACE, escape, read_brackets, unescape
from parsing.trees.batch import ConstituencyParse
from runtime.errors import UserError

CHAIN = "::"
"""Between the labels of a unary chain, outermost first."""
WRAPPERS = frozenset({"", "TOP", "ROOT", "S1", "VROOT"})
# A tag with its word, the begin of a phrase, its end, or what is neither.
PARTS = re.compile(r"\(\s*([^\s()]+)\s+([^\s()]+)\s*\)|\(\s*([^\s()]*)|(\))|(\S)")


@dataclass(frozen=True, slots=True)
class SpanTree:
    """A constituency tree of ``n`` words as strings and labelled spans."""

    words: tuple[str, ...]
    """As in running text: ``(``, not ``-LRB-``."""
    tags: tuple[str, ...]
    spans: tuple[tuple[int, int, str], ...]
    """(first word, one past the last, label) in preorder; the whole sentence first."""


def read_trees(path: Path) -> Iterator[SpanTree]:
    """Yield trees of a bracket file, which may span lines; refuse what is no tree."""
    for number, sentence in enumerate(read_brackets(path), 1):
        assert sentence.tree is not None
        yield read_tree(sentence.tree, where=f"{path}, tree {number}")


def read_tree(text: str, *, where: str = "tree") -> SpanTree:
    """Read one bracketed tree with any white space between; messages name the place ``where``."""
    words: list[str] = []
    tags: list[str] = []
    nodes: list[tuple[int, int, str]] = []  # children before their parents
    # Of each open node its label, the words before it and its children: sentences may be nested deeply.
    above: list[tuple[str, int]] = []
    children = [0]
    for tag, word, label, close, other in PARTS.findall(text):
        if other or (children[0] and not above) or (close and not (above and children[-1])):
            break
        if close:
            children.pop()
            label, start = above.pop()
            if not label.startswith("-"):  # NP-SBJ-1=2 is NP; -LRB- stays
                label = re.split(r"[-=|]", label, maxsplit=1)[0]
            if start < len(words) and (above or label not in WRAPPERS):
                nodes.append((start, len(words), label))
        elif not word:
            above.append((label, len(words)))
            children.append(0)
            continue
        elif tag != TRACE:
            words.append(unescape(word))
            tags.append(tag)
        children[-1] += 1
    else:
        if words and not above:
            return SpanTree(tuple(words), tuple(tags), _joined_chains(nodes, len(words)))
    raise UserError(
        f"{where}: not one tree of words in brackets, each with a tag of its own, (TAG word): {text[:60]!r}"
    )


def _joined_chains(nodes: Sequence[tuple[int, int, str]], words: int) -> tuple[tuple[int, int, str], ...]:
    """Return the spans of nodes, children before their parents, in preorder; unary chains are one span."""
    chains: dict[tuple[int, int], list[str]] = {}
    for start, end, label in reversed(nodes):
        chains.setdefault((start, end), []).append(label)
    chains.setdefault((0, words), [""])
    spans = sorted(chains, key=lambda span: (span[0], -span[1]))
    return tuple((start, end, CHAIN.join(chains[start, end])) for start, end in spans)


def write_tree(tree: SpanTree) -> str:
    """Return one line of brackets, tags included; round brackets in words are escaped.

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
        text = escape(re.sub(r"\s", "_", word)) or "_"
        pieces.append(f"({tag} {text})" + ")" * closed.get(position + 1, 0))
    return f"(TOP {' '.join(pieces)})"


def to_parse(tree: SpanTree, labels: Mapping[str, int], tags: Mapping[str, int]) -> ConstituencyParse:
    """Return a tree as arrays; one-word spans without a label are left out."""
    spans = [span for i, span in enumerate(tree.spans) if i == 0 or span[2]]
    return ConstituencyParse(
        tags=np.array([tags[tag] for tag in tree.tags], np.int32),
        starts=np.array([start for start, _, _ in spans], np.int32),
        ends=np.array([end for _, end, _ in spans], np.int32),
        labels=np.array([labels[label] for _, _, label in spans], np.int32),
    )


def from_parse(
    parse: ConstituencyParse, words: Sequence[str], labels: Sequence[str], tags: Sequence[str]
) -> SpanTree:
    """Return a parse as a tree over ``words``; its ids are indices of ``labels`` and ``tags``."""
    return SpanTree(
        words=tuple(words),
        tags=tuple(tags[i] for i in parse.tags),
        spans=tuple(
            (int(start), int(end), labels[label])
            for start, end, label in zip(parse.starts, parse.ends, parse.labels, strict=True)
        ),
    )


def labels_and_tags(trees: Iterable[SpanTree]) -> tuple[list[str], list[str]]:
    """Return sorted labels (the null label first) and sorted tags of a treebank."""
    labels: set[str] = set()
    tags: set[str] = set()
    for tree in trees:
        labels.update(label for _, _, label in tree.spans)
        tags.update(tree.tags)
    return ["", *sorted(labels - {""})], sorted(tags)
