"""Equations of the documentation become MathML while the site is built: no script and no font is fetched.

``mkdocs.yml`` names this file as a hook. Formulas stand between dollar signs; pymdownx.arithmatex marks them.
"""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content: str, **_: object) -> str:
    """Replace the formulas of a page; mkdocs calls it with the page's HTML."""
    return FORMULA.sub(_mathml, content)


def _mathml(formula: re.Match[str]) -> str:
    block = formula[1] == "div"
    drawn = convert(html.unescape(formula[2]).strip(), display="block" if block else "inline")
    return f'<div class="formula">{drawn}</div>' if block else drawn
