"""Reads bracketed trees of the Penn Treebank format as labelled spans, and writes them.

    (ROOT (S (NP-SBJ (PRP It)) (VP (VBZ rains)) (. .)))
    words It rains .   tags PRP VBZ .   spans (0, 3, "S") (0, 1, "NP") (1, 2, "VP")

Function tags are stripped (``NP-SBJ=2`` is ``NP``), traces (``-NONE-``) and phrases that have only traces are
removed, and so is the wrapper around a sentence (``TOP``, ``ROOT``, ``S1``, ``VROOT`` or no label). Unary
chains are joined to one label (``S::VP``), above words too. If the wrapper holds several trees, the label of
the whole sentence is ``""``.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from corpora.treebanks import TRACE, escape, read_brackets, unescape
from parsing.trees.batch import ConstituencyParse
from runtime.errors import UserError

CHAIN = "::"
"""Stands between the labels of a unary chain, outermost first."""
WRAPPERS = frozenset({"", "TOP", "ROOT", "S1", "VROOT"})
# (TAG word), or the beginning of a phrase, or its end, or a character that does not belong there.
PARTS = re.compile(r"\(\s*([^\s()]+)\s+([^\s()]+)\s*\)|\(\s*([^\s()]*)|(\))|(\S)")

Span = tuple[int, int, str]
"""First word, one past the last word, label."""


@dataclass(frozen=True, slots=True)
class SpanTree:
    """A constituency tree as words, tags and labelled spans."""

    words: tuple[str, ...]
    """As in running text: ``(``, not ``-LRB-``."""
    tags: tuple[str, ...]
    spans: tuple[Span, ...]
    """In preorder, the whole sentence first."""


def read_trees(path: Path) -> Iterator[SpanTree]:
    """Yield the trees of a bracket file, which may span lines; raise UserError for anything else."""
    for number, sentence in enumerate(read_brackets(path), 1):
        assert sentence.tree is not None
        yield read_tree(sentence.tree, where=f"{path}, tree {number}")


def read_tree(text: str, *, where: str = "tree") -> SpanTree:
    """Read one bracketed tree with any white space between; error messages begin with ``where``."""
    refusal = UserError(
        f"{where}: not one tree of words in brackets, each with a tag of its own, (TAG word): {text[:60]!r}"
    )
    words: list[str] = []
    tags: list[str] = []
    nodes: list[Span] = []  # children before their parents
    # Labels and first words of open phrases, not by recursion: sentences may be nested deeply.
    open_phrases: list[tuple[str, int]] = []
    children = [0]  # of the text, then of each open phrase
    for tag, word, label, closing_bracket, stray_character in PARTS.findall(text):
        is_after_tree = children[0] > 0 and not open_phrases
        is_bad_end = closing_bracket and not (open_phrases and children[-1])
        if stray_character or is_after_tree or is_bad_end:
            raise refusal
        if closing_bracket:
            children.pop()
            label, start = open_phrases.pop()
            if not label.startswith("-"):  # NP-SBJ-1=2 is NP; -LRB- stays
                label = re.split(r"[-=|]", label, maxsplit=1)[0]
            if start < len(words) and (open_phrases or label not in WRAPPERS):
                nodes.append((start, len(words), label))
        elif not word:
            open_phrases.append((label, len(words)))
            children.append(0)
            continue
        elif tag != TRACE:
            words.append(unescape(word))
            tags.append(tag)
        children[-1] += 1
    if open_phrases or not words:
        raise refusal
    chains: dict[tuple[int, int], list[str]] = {}
    for start, end, label in reversed(nodes):
        chains.setdefault((start, end), []).append(label)
    chains.setdefault((0, len(words)), [""])
    preorder = sorted(chains, key=lambda span: (span[0], -span[1]))
    spans = tuple((start, end, CHAIN.join(chains[start, end])) for start, end in preorder)
    return SpanTree(tuple(words), tuple(tags), spans)


def write_tree(tree: SpanTree) -> str:
    """Return one line of brackets with tags; white space in a word and an empty word become ``_``."""
    labels_at: defaultdict[int, list[str]] = defaultdict(list)  # by the first word
    ends_at: Counter[int] = Counter()
    for start, end, chain in tree.spans:
        labels = chain.split(CHAIN) if chain else []
        labels_at[start] += labels
        ends_at[end] += len(labels)
    pieces = []
    for position, (word, tag) in enumerate(zip(tree.words, tree.tags, strict=True)):
        pieces += [f"({label}" for label in labels_at[position]]
        text = escape(re.sub(r"\s", "_", word)) or "_"
        pieces.append(f"({tag} {text})" + ")" * ends_at[position + 1])
    return f"(TOP {' '.join(pieces)})"


def to_parse(tree: SpanTree, labels: Mapping[str, int], tags: Mapping[str, int]) -> ConstituencyParse:
    """Return a tree as arrays, without the spans that have no label, but for the whole sentence."""
    spans = [tree.spans[0], *(span for span in tree.spans[1:] if span[2])]
    return ConstituencyParse(
        tags=np.array([tags[tag] for tag in tree.tags], np.int32),
        starts=np.array([start for start, _, _ in spans], np.int32),
        ends=np.array([end for _, end, _ in spans], np.int32),
        labels=np.array([labels[label] for _, _, label in spans], np.int32),
    )


def from_parse(
    parse: ConstituencyParse, words: Sequence[str], labels: Sequence[str], tags: Sequence[str]
) -> SpanTree:
    """Return a parse as a tree over ``words``; its ids are indices into ``labels`` and ``tags``."""
    names = [labels[label] for label in parse.labels]
    spans = tuple(zip(parse.starts.tolist(), parse.ends.tolist(), names, strict=True))
    return SpanTree(tuple(words), tuple(tags[tag] for tag in parse.tags), spans)


def labels_and_tags(trees: Iterable[SpanTree]) -> tuple[list[str], list[str]]:
    """Return sorted labels (the null label first) and sorted tags of a treebank."""
    labels: set[str] = set()
    tags: set[str] = set()
    for tree in trees:
        labels.update(label for _, _, label in tree.spans)
        tags.update(tree.tags)
    return ["", *sorted(labels - {""})], sorted(tags)
