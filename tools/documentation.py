"""Add what the documentation needs beyond Markdown: a hook of mkdocs, which ``mkdocs.yml`` names.

Equations stand between dollar signs and are marked by pymdownx.arithmatex. They become MathML while the site
is built, so that no script and no font is fetched. References in docstrings become links if the site has the
name.
"""

import html
import re

from latex2mathml.converter import convert

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
ROLE = re.compile(r":(?:class|func|mod|meth|attr|data):<code>~?((?:\w+\.)*(\w+))</code>")


def on_page_content(content: str, **_: object) -> str:
    """Replace formulas and references in a page's HTML; mkdocs calls this before it resolves links."""
    # :class:`package.module.Name` becomes Name, a link if the name has a place on the site.
    content = FORMULA.sub(_mathml, content)
    return ROLE.sub(r'<autoref identifier="\1" optional><code>\2</code></autoref>', content)


def _mathml(formula: re.Match[str]) -> str:
    is_block = formula[1] == "div"
    mathml = convert(html.unescape(formula[2]).strip(), display="block" if is_block else "inline")
    return f'<div class="formula">{mathml}</div>' if is_block else mathml
