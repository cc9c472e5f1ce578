"""Convert equations and references of the documentation to HTML, as a hook of mkdocs in ``mkdocs.yml``.

Equations in dollar signs are marked by pymdownx.arithmatex. Here they become MathML, so that the site loads
no script and no font for them. References in docstrings become links if the site has an anchor of that name.
"""

import html
import re

from latex2mathml.converter import convert

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
ROLE = re.compile(r":(?:class|func|mod|meth|attr|data):<code>~?((?:\w+\.)*(\w+))</code>")


def on_page_content(content: str, **_: object) -> str:
    """Return the HTML of a page with its formulas and references converted.

    mkdocs calls this function before it resolves links.
    """
    # :class:`package.module.Name` becomes Name, with a link if the site has an anchor of that name.
    content = FORMULA.sub(_mathml, content)
    return ROLE.sub(r'<autoref identifier="\1" optional><code>\2</code></autoref>', content)


def _mathml(formula: re.Match[str]) -> str:
    is_block = formula[1] == "div"
    mathml = convert(html.unescape(formula[2]).strip(), display="block" if is_block else "inline")
    return f'<div class="formula">{mathml}</div>' if is_block else mathml
