"""A page of drawings that needs no other file and no network, light or dark as the reader has it."""

from __future__ import annotations

from html import escape

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width,initial-scale=1">
<style>
:root{{color-scheme:light dark}}
body{{font:15px/1.5 system-ui,sans-serif;margin:2em;background:Canvas;color:CanvasText}}
h1{{font-size:1.4em}}h1,p,td{{overflow-wrap:anywhere}}
th,td{{text-align:right;padding:.2em 1em .2em 0;vertical-align:top}}
.text{{text-align:left}}
</style></head>
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
