r"""Reads constituency trees in brackets of the Penn Treebank, and writes them.

    (ROOT (S (NP-SBJ (PRP It)) (VP (VBZ rains)) (. .)))
    words It rains .   tags PRP VBZ .   spans (0, 3, "S") (0, 1, "NP") (1, 2, "VP")

In a file a tree has one line or several. Words become those of running text: ``-LRB-`` becomes ``(`` and
``\/`` becomes ``/``, also inside a word. Function tags are stripped (``NP-SBJ=2`` is ``NP``). Traces
(``-NONE-``), phrases that have only traces, and the wrapper around a sentence (``TOP``, ``ROOT``, ``S1``,
``VROOT`` or no label) are removed. Unary chains are joined to one label (``S::VP``), also above words. If the
wrapper holds several trees, the label of the whole sentence is ``""``, as is that of a phrase without one.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from corpora.inputs import ReadMeter
from corpora.tables import text_lines
from corpora.text import CHAIN_JOINER, Sentence, Span
from runtime.errors import UserError
from runtime.files import atomic_path, output_file

_ESCAPES = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
_ESCAPES |= {r"\/": "/", r"\*": "*"}
_ESCAPED = re.compile("|".join(map(re.escape, _ESCAPES)))
_FILE_PARTS = re.compile(r"[()]|[^\s()]+")
# (TAG word), or the beginning of a phrase, or its end, or a character that does not belong there.
_TREE_PARTS = re.compile(r"\(\s*([^\s()]+)\s+([^\s()]+)\s*\)|\(\s*([^\s()]*)|(\))|(\S)")
_TRACE = "-NONE-"
"""The tag of a trace, which is a leaf without a word."""
_WRAPPERS = frozenset({"", "TOP", "ROOT", "S1", "VROOT"})


def read_brackets(path: Path, *, meter: ReadMeter | None = None) -> Iterator[Sentence]:
    """Yield the trees of a file. Raises UserError if it holds anything else, with its line."""
    depth = 0
    where = ""
    parts: list[str] = []
    for line in text_lines(path, meter=meter):
        for part in _FILE_PARTS.findall(line.text):
            if depth == 0:
                where = f"{path}:{line.number}"
                if part != "(":
                    raise UserError(f"{where}: expected '(', found {part[:40]!r}")
                parts = []
            parts.append(part)
            depth += {"(": 1, ")": -1}.get(part, 0)
            if depth == 0:
                yield read_tree(" ".join(parts), where=where)
    if depth:
        raise UserError(f"{where}: this tree's brackets are never closed")


def read_tree(text: str, *, where: str = "tree") -> Sentence:
    """Return one tree in brackets. Raises UserError, which begins with ``where``, if the text is none."""
    refusal = UserError(
        f"{where}: not one tree of words in brackets, each with a tag of its own, (TAG word): {text[:60]!r}"
    )
    words: list[str] = []
    tags: list[str] = []
    nodes: list[Span] = []  # children before their parents
    # Labels and first words of open phrases. A stack, because sentences may be too deep for recursion.
    open_phrases: list[tuple[str, int]] = []
    children = [0]  # number of children of the text, then of each open phrase
    for tag, word, label, closing_bracket, stray_character in _TREE_PARTS.findall(text):
        is_after_tree = children[0] > 0 and not open_phrases
        is_bad_end = closing_bracket and not (open_phrases and children[-1])
        if stray_character or is_after_tree or is_bad_end:
            raise refusal
        if closing_bracket:
            children.pop()
            label, first = open_phrases.pop()
            if not label.startswith("-"):  # NP-SBJ-1=2 is NP; -LRB- stays
                label = re.split(r"[-=|]", label, maxsplit=1)[0]
            if label and CHAIN_JOINER in f":{label}:":
                raise UserError(
                    f"{where}: a label {label[:40]!r}, but {CHAIN_JOINER} joins labels; rename it"
                )
            if first < len(words) and (open_phrases or label not in _WRAPPERS):
                nodes.append((first, len(words), label))
        elif not word:
            open_phrases.append((label, len(words)))
            children.append(0)
            continue
        elif tag != _TRACE:
            words.append(_ESCAPED.sub(lambda match: _ESCAPES[match.group()], word))
            tags.append(tag)
        children[-1] += 1
    if open_phrases or not words:
        raise refusal
    chains: dict[tuple[int, int], list[str]] = {}
    for first, end, label in reversed(nodes):
        chains.setdefault((first, end), []).append(label)
    chains.setdefault((0, len(words)), [""])
    preorder = sorted(chains, key=lambda span: (span[0], -span[1]))
    spans = tuple((first, end, CHAIN_JOINER.join(chains[first, end])) for first, end in preorder)
    return Sentence(tuple(words), tags=tuple(tags), spans=spans)


def write_tree(sentence: Sentence) -> str:
    """Return a tree as one line of brackets, with words in the form of :func:`bracket_form`."""
    labels_at: defaultdict[int, list[str]] = defaultdict(list)  # by the first word
    ends_at: Counter[int] = Counter()
    for first, end, chain in sentence.spans or ():
        is_wrapper = not chain and end - first == len(sentence.tokens)
        labels = [] if is_wrapper else chain.split(CHAIN_JOINER)
        labels_at[first] += labels
        ends_at[end] += len(labels)
    pieces = []
    for position, (word, tag) in enumerate(zip(sentence.tokens, sentence.tags or (), strict=True)):
        pieces += [f"({label}" for label in labels_at[position]]
        pieces.append(f"({tag} {bracket_form(word)})" + ")" * ends_at[position + 1])
    return f"(TOP {' '.join(pieces)})"


def bracket_form(word: str) -> str:
    """Return a word in the form of brackets: escaped, with ``_`` for white space and for an empty word."""
    word = re.sub(r"\s", "_", word).replace("(", "-LRB-").replace(")", "-RRB-")
    return re.sub("[/*]", r"\\\g<0>", word) or "_"


def write_brackets(path: Path, sentences: Iterable[Sentence]) -> None:
    """Write trees to a file, one per line."""
    with atomic_path(output_file(path)) as temporary, open(temporary, "w", encoding="utf-8") as stream:
        stream.writelines(write_tree(sentence) + "\n" for sentence in sentences)
