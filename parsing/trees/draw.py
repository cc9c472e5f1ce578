"""Drawings of trees: plain text, and SVG by spaCy's displaCy and by svgling.

    print(dependency_text(words, heads, relations))
    Path("tree.svg").write_text(constituency_svg(words, tags, spans))

A dependency tree is given by 1-based heads (0 for the root) and relation names, a constituency tree
by its tags and labelled spans (start, end, label) in preorder, the whole sentence first.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from html import escape
from typing import Any

from corpora.support.errors import printable

Span = tuple[int, int, str]
CHARACTER_PX = 10
"""Approximate width of a character in displaCy's drawings."""
GAP_PX = 40


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
    """A drawing with its caption (text). It scrolls by itself, and is black on white in the dark, too."""
    paper = "overflow-x:auto;background:#fff;color:#000"
    return f'<figure style="margin:1em 0">{escape(caption)}<div style="{paper}">{svg}</div></figure>'
