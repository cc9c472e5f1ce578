"""Trees as SVG, no wider than their words need; a page shrinks them to its width.

Dependencies are arcs above the words, drawn here: spaCy's displaCy gives every word the width of the longest
one. Constituents are drawn by svgling, with all words on one line.
"""

from collections.abc import Sequence
from html import escape
from typing import Any

from runtime.errors import printable

CHARACTER_PX, GAP_PX, LEVEL_PX, TEXT_PX = 8, 18, 30, 14
"""Width of a character, space between words, height of a level of arcs, size of the letters."""
FIT = "max-width:100%;height:auto"
"""A drawing is as wide as it needs, or as the page."""

Arc = tuple[int, int, str]
"""Place of the head and of the dependent, from 0, and the relation."""


def dependency_svg(
    words: Sequence[str], heads: Sequence[int], relations: Sequence[str], tags: Sequence[str] | None = None
) -> str:
    """Draw arcs from heads to dependents above the words; the root's relation stands with its tag."""
    names = [shown(relation) for relation in relations]
    below = [printable(tag) for tag in tags or [""] * len(words)]
    below = [
        f"{tag} ({name})".strip() if head == 0 else tag
        for tag, head, name in zip(below, heads, names, strict=True)
    ]
    arcs = [
        (head - 1, word, name) for word, (head, name) in enumerate(zip(heads, names, strict=True)) if head
    ]
    levels = _levels(arcs)
    centres, width = [], GAP_PX // 2
    for word, tag in zip(map(shown, words), below, strict=True):
        wide = CHARACTER_PX * max(len(word), len(tag) * 4 // 5, 3)
        centres.append(width + wide // 2)
        width += wide + GAP_PX
    base = LEVEL_PX * (1 + max(levels, default=0))
    parts = [
        _arc_svg(centres, arc, base - LEVEL_PX * level, base) for arc, level in zip(arcs, levels, strict=True)
    ]
    for centre, word, tag in zip(centres, words, below, strict=True):
        parts.append(_text(centre, base + 20, shown(word)))
        parts.append(_text(centre, base + 38, tag, size=11))
    height = base + 46
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}" style="{FIT}"'
    letters = 'font-family="sans-serif" text-anchor="middle"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {letters}>{"".join(parts)}</svg>'


def _levels(arcs: Sequence[Arc]) -> list[int]:
    """Say how high each arc is drawn, from 1: above all shorter ones that share words with it."""
    levels = [0] * len(arcs)
    spans = [(min(head, word), max(head, word)) for head, word, _ in arcs]
    for place in sorted(range(len(arcs)), key=lambda place: spans[place][1] - spans[place][0]):
        low, high = spans[place]
        below = [
            levels[other] for other, (a, b) in enumerate(spans) if levels[other] and a < high and b > low
        ]
        levels[place] = 1 + max(below, default=0)
    return levels


def _arc_svg(centres: Sequence[int], arc: Arc, top: int, base: int) -> str:
    """Return one arc from head to dependent, its arrow, and its relation on white."""
    head, word, name = arc
    aside = 5 if head < word else -5  # arcs out of a word do not meet those that end there
    start, end = centres[head] + aside, centres[word]
    turn = 8 if start < end else -8
    path = f"M{start},{base} V{top + 8} Q{start},{top} {start + turn},{top} H{end - turn} "
    path += f"Q{end},{top} {end},{top + 8} V{base - 4}"
    arrow = f"M{end - 4},{base - 6} L{end + 4},{base - 6} L{end},{base + 2} Z"
    middle, half = (start + end) // 2, 3 * len(name) + 3
    return (
        f'<path d="{path}" fill="none" stroke="currentColor" stroke-width="1.2"/>'
        f'<path d="{arrow}" fill="currentColor"/>'
        f'<rect x="{middle - half}" y="{top - 7}" width="{2 * half}" height="14" fill="var(--paper,#fff)"/>'
        + _text(middle, top + 4, name, size=10)
    )


def _text(x: int, y: int, text: str, size: int = TEXT_PX) -> str:
    return f'<text x="{x}" y="{y}" font-size="{size}">{escape(text)}</text>'


def constituency_svg(words: Sequence[str], tags: Sequence[str], spans: Sequence[tuple[int, int, str]]) -> str:
    """Draw the tree from the top, all words on the lowest line."""
    import svgling

    drawing = svgling.draw_tree(nested(words, tags, spans), leaf_nodes_align=True).get_svg()
    drawing["style"] = f"{drawing['style']};{FIT};padding:4px"
    text: str = drawing.tostring()
    return text


def nested(words: Sequence[str], tags: Sequence[str], spans: Sequence[tuple[int, int, str]]) -> list[Any]:
    """Return a tree as nested lists, [label, child, ...] and [tag, word]."""
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
    """Return a word, tag, label or relation without characters that would upset a terminal or XML."""
    return printable(name) or "∅"
