"""Drawings of trees: plain text, and SVG that needs nothing but itself.

    print(dependency_text(words, heads, relations))
    Path("tree.svg").write_text(constituency_svg(words, tags, spans))

A dependency tree is given by 1-based heads (0 for the root) and relation names, a constituency tree
by its tags and labelled spans (start, end, label) in preorder, the whole sentence first.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

Span = tuple[int, int, str]

# Pixels. SVG cannot measure text: widths are those of a monospaced font of 13 pixels.
CHARACTER_PX = 7.9
GAP_PX = 16
LEVEL_PX = 26
# Names start with the class of our own drawings: several share a page with other things.
STYLE = (
    ".tree text{font:13px ui-monospace,Menlo,Consolas,monospace;text-anchor:middle;fill:#222}"
    ".tree .small{font-size:10px;fill:#666}.tree .label{fill:#1f5f8b}"
    ".tree path,.tree line{fill:none;stroke:#8a8a8a;stroke-width:1.2}.tree .root{stroke:#b3541e}"
)


@dataclass(slots=True)
class Node:
    """A constituent: a phrase with children, or a word."""

    label: str
    start: int
    end: int
    children: list[Node] = field(default_factory=list)
    height: int = 0
    x: float = 0.0


def dependency_text(
    words: Sequence[str], heads: Sequence[int], relations: Sequence[str], tags: Sequence[str] | None = None
) -> str:
    """One word per line, dependents indented under their head in sentence order."""
    dependents: list[list[int]] = [[] for _ in range(len(words) + 1)]
    for word, head in enumerate(heads):
        dependents[head].append(word)
    lines = []
    # (word, what stands before it, what stands before its dependents); a stack: chains are deep
    stack = [(word, "", "") for word in reversed(dependents[0])]
    while stack:
        word, before, below = stack.pop()
        tag = f"/{tags[word]}" if tags else ""
        lines.append(f"{before}{printable(words[word])}{tag}  ({relations[word]}, {word + 1})")
        children = dependents[word + 1]
        for child in reversed(children):
            last = child == children[-1]
            stack.append((child, below + ("└─ " if last else "├─ "), below + ("   " if last else "│  ")))
    return "\n".join(lines)


def constituency_text(words: Sequence[str], tags: Sequence[str], spans: Sequence[Span]) -> str:
    """One constituent per line, indented; words with their tags."""
    lines = []
    stack = [(constituents(words, tags, spans), 0)]
    while stack:
        node, depth = stack.pop()
        if node.children:
            lines.append("  " * depth + (node.label or "·"))
            stack += [(child, depth + 1) for child in reversed(node.children)]
        else:
            lines.append("  " * depth + f"{node.label} {printable(words[node.start])}")
    return "\n".join(lines)


def dependency_svg(
    words: Sequence[str], heads: Sequence[int], relations: Sequence[str], tags: Sequence[str] | None = None
) -> str:
    """Arcs from heads to dependents above the words; the root has an arrow from above."""
    places, width = _places(words, relations, tags or ())
    levels = _arc_levels(heads)
    top = LEVEL_PX * (max(levels, default=0) + 1) + 10
    parts = []
    for word, head in enumerate(heads):
        x, level = places[word], levels[word]
        if head == 0:
            parts.append(f'<path class="root" d="M{x:.1f} 12V{top - 4}"/>{_arrow(x, top, "root")}')
            parts.append(_text(x + 4, 10, relations[word], "small"))
            continue
        # Arcs leave a head a little to the side on which its dependent lies.
        start = places[head - 1] + (5 if word > head - 1 else -5)
        y = top - LEVEL_PX * level
        parts.append(f'<path d="M{start:.1f} {top - 2}C{start:.1f} {y},{x:.1f} {y},{x:.1f} {top - 4}"/>')
        parts.append(_arrow(x, top, ""))
        parts.append(_text((start + x) / 2, top - 0.75 * LEVEL_PX * level - 3, relations[word], "small"))
    parts += [_text(places[i], top + 16, word) for i, word in enumerate(words)]
    parts += [_text(places[i], top + 31, tag, "small") for i, tag in enumerate(tags or ())]
    return _svg(width, top + 40, parts)


def constituency_svg(words: Sequence[str], tags: Sequence[str], spans: Sequence[Span]) -> str:
    """The tree from the top, words in a row at the bottom."""
    root = constituents(words, tags, spans)
    places, width = _places(words, tags, _chains(len(words), spans))
    order = [root]
    for node in order:
        order += node.children
    bottom = 20 + LEVEL_PX * 1.5 * root.height
    parts = []
    for node in reversed(order):  # children before parents
        # Over the middle of its words: over the middle of its children, branches of uneven depth would cross.
        node.x = (places[node.start] + places[node.end - 1]) / 2
        y = bottom - LEVEL_PX * 1.5 * node.height
        for child in node.children:
            below = bottom - LEVEL_PX * 1.5 * child.height
            parts.append(
                f'<line x1="{node.x:.1f}" y1="{y + 4:.1f}" x2="{child.x:.1f}" y2="{below - 13:.1f}"/>'
            )
        parts.append(_text(node.x, y, node.label or "·", "label"))
    parts += [_text(places[i], bottom + 17, word) for i, word in enumerate(words)]
    return _svg(width, bottom + 26, parts)


def constituents(words: Sequence[str], tags: Sequence[str], spans: Sequence[Span]) -> Node:
    """Spans in preorder as nested nodes; a word's node carries its tag and has no children."""
    root = Node(spans[0][2], 0, len(words))
    nodes = [root, *(Node(label, start, end) for start, end, label in spans[1:])]
    nodes += [Node(tag, i, i + 1) for i, tag in enumerate(tags)]
    # Preorder by position, wider first; Python's sort is stable, so a tag follows its unary chain.
    nodes[1:] = sorted(nodes[1:], key=lambda node: (node.start, -node.end))
    path = [root]
    for node in nodes[1:]:
        while path[-1].end < node.end or path[-1].end <= node.start:
            path.pop()
        path[-1].children.append(node)
        path.append(node)
    for node in reversed(nodes):
        node.height = 1 + max((child.height for child in node.children), default=-1)
    return root


def printable(word: str) -> str:
    """A word without characters that would upset a terminal or XML."""
    return "".join(c if c.isprintable() or c == "\u200d" else "\ufffd" for c in word) or "∅"


def _arc_levels(heads: Sequence[int]) -> list[int]:
    """Height of each word's arc: one more than the highest arc it spans; 0 for the root."""
    levels = [0] * len(heads)
    highest: list[tuple[int, int, int]] = []
    arcs = [(abs(head - 1 - word), word) for word, head in enumerate(heads) if head]
    for _, word in sorted(arcs):
        low, high = sorted((word, heads[word] - 1))
        inside = (level for a, b, level in highest if low <= a and b <= high)
        levels[word] = 1 + max(inside, default=0)
        highest.append((low, high, levels[word]))
    return levels


def _chains(n: int, spans: Sequence[Span]) -> list[str]:
    """The label above each word, if it has one of its own."""
    labels = [""] * n
    for start, end, label in spans:
        if end == start + 1:
            labels[start] = label
    return labels


def _places(words: Sequence[str], *rows: Sequence[str]) -> tuple[list[float], float]:
    """Centre of each word in pixels, and the total width; ``rows`` need room beside the words."""
    places, x = [], GAP_PX / 2
    for i, word in enumerate(words):
        columns = max(_columns(printable(word)), 1, *(len(row[i]) for row in rows if row))
        width = columns * CHARACTER_PX + GAP_PX
        places.append(x + width / 2)
        x += width
    return places, x + GAP_PX / 2


def _columns(text: str) -> int:
    """Width in characters of a monospaced font: East Asian wide ones count twice."""
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def _text(x: float, y: float, text: str, css: str = "") -> str:
    kind = f' class="{css}"' if css else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{kind}>{escape(printable(text))}</text>'


def _arrow(x: float, y: float, css: str) -> str:
    kind = f' class="{css}"' if css else ""
    return f'<path{kind} d="M{x - 3:.1f} {y - 8}L{x:.1f} {y - 2}L{x + 3:.1f} {y - 8}"/>'


def _svg(width: float, height: float, parts: Sequence[str]) -> str:
    return (
        f'<svg class="tree" xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}"><style>{STYLE}</style>{"".join(parts)}</svg>'
    )
