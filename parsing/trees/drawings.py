"""Draws trees as SVG, as wide as their words need; on a narrower page they are scaled down.

This module draws dependencies itself, as arcs above the words, because spaCy's displaCy gives every word the
width of the longest one. svgling draws constituents, with all words on one line.
"""

from collections.abc import Collection, Sequence
from html import escape
from typing import Any

import numpy as np

from corpora.text import Span
from runtime.errors import printable

CHARACTER_PX, GAP_PX, LEVEL_PX, TEXT_PX = 8, 18, 30, 14
"""Width of a character, space between words, height of a level of arcs, size of the letters."""
FIT = "max-width:100%;height:auto"
"""The style that scales a drawing down to the width of a narrower page."""


def dependency_svg(
    words: Sequence[str],
    heads: Sequence[int],
    relations: Sequence[str],
    tags: Sequence[str] | None = None,
    *,
    marked: Collection[int] = (),
) -> str:
    """Draw the arcs from heads to dependents above the words; the root's relation is written by its tag.

    Args:
        words: the words of the sentence.
        heads: the head of each word, 1-based, 0 for the root.
        relations: the relation of each word to its head.
        tags: a tag below each word; None draws none.
        marked: the positions, from 0, of words whose arcs are dashed and have the CSS class ``differs``.
    """
    captions = [printable(tag) for tag in tags or [""] * len(words)]
    arcs = []  # head and dependent, from 0, and relation
    for word, (head, relation) in enumerate(zip(heads, map(display_name, relations), strict=True)):
        if head:
            arcs.append((head - 1, word, relation))
        else:
            captions[word] = f"{captions[word]} ({relation})".strip()
    levels = _levels([sorted((head, dependent)) for head, dependent, _ in arcs])
    names = [display_name(word) for word in words]
    centres, width = [], GAP_PX // 2
    for name, caption in zip(names, captions, strict=True):
        word_width = CHARACTER_PX * max(len(name), len(caption) * 4 // 5, 3)
        centres.append(width + word_width // 2)
        width += word_width + GAP_PX
    base = LEVEL_PX * (1 + max(levels, default=0))
    parts = []
    for (head, dependent, relation), level in zip(arcs, levels, strict=True):
        # Arcs out of a word do not meet those that end there.
        from_x = centres[head] + (5 if head < dependent else -5)
        arc = _arc_svg(from_x, centres[dependent], relation, base - LEVEL_PX * level, base)
        parts.append(f'<g class="differs" stroke-dasharray="5 3">{arc}</g>' if dependent in marked else arc)
    for centre, name, caption in zip(centres, names, captions, strict=True):
        parts.append(_text_svg(centre, base + 20, name))
        parts.append(_text_svg(centre, base + 38, caption, size=11))
    height = base + 46
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}" style="{FIT}"'
    letters = 'font-family="sans-serif" text-anchor="middle"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {letters}>{"".join(parts)}</svg>'


def _levels(spans: Sequence[Sequence[int]]) -> list[int]:
    """Return the level of the arc over each span, from 1: above all shorter arcs that it overlaps."""
    levels = [0] * len(spans)
    highest = np.zeros(max((end for _, end in spans), default=0), np.int64)  # after each word
    for index in sorted(range(len(spans)), key=lambda index: spans[index][1] - spans[index][0]):
        between = slice(*spans[index])
        levels[index] = 1 + int(highest[between].max())
        highest[between] = levels[index]
    return levels


def _arc_svg(from_x: int, to_x: int, relation: str, top: int, base: int) -> str:
    """Draw one arc from head to dependent, with an arrow, and the relation on a white ground."""
    turn = 8 if from_x < to_x else -8
    path = f"M{from_x},{base} V{top + 8} Q{from_x},{top} {from_x + turn},{top} H{to_x - turn} "
    path += f"Q{to_x},{top} {to_x},{top + 8} V{base - 4}"
    arrow = f"M{to_x - 4},{base - 6} L{to_x + 4},{base - 6} L{to_x},{base + 2} Z"
    middle, half = (from_x + to_x) // 2, 3 * len(relation) + 3
    return (
        f'<path d="{path}" fill="none" stroke="currentColor" stroke-width="1.2"/>'
        f'<path d="{arrow}" fill="currentColor"/>'
        f'<rect x="{middle - half}" y="{top - 7}" width="{2 * half}" height="14" fill="var(--paper,#fff)"/>'
        + _text_svg(middle, top + 4, relation, size=10)
    )


def _text_svg(x: int, y: int, text: str, size: int = TEXT_PX) -> str:
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="currentColor">{escape(text)}</text>'


def constituency_svg(words: Sequence[str], tags: Sequence[str], spans: Sequence[Span]) -> str:
    """Draw a constituency tree with its root at the top and all words on the lowest line."""
    import svgling

    drawing = svgling.draw_tree(nested_lists(words, tags, spans), leaf_nodes_align=True).get_svg()
    drawing["style"] = f"{drawing['style']};{FIT};padding:4px"
    return str(drawing.tostring())


def nested_lists(words: Sequence[str], tags: Sequence[str], spans: Sequence[Span]) -> list[Any]:
    """Return a constituency tree as nested lists: phrases [label, child, ...] and words [tag, word]."""
    later_spans = list(reversed(spans))
    path: list[list[Any]] = [[]]  # from the top to the phrase that the next word is in
    ends = [len(words) + 1]
    for position, (word, tag) in enumerate(zip(words, tags, strict=True)):
        while later_spans and later_spans[-1][0] == position:
            _, end, label = later_spans.pop()
            node = [printable(label) or "·"]
            path[-1].append(node)
            path.append(node)
            ends.append(end)
        path[-1].append([display_name(tag), display_name(word)])
        while ends[-1] == position + 1:
            path.pop()
            ends.pop()
    tree: list[Any] = path[0][0]
    return tree


def display_name(name: str) -> str:
    """Return a word, tag, label or relation without characters that a terminal or XML would misread."""
    return printable(name) or "∅"
