"""One page for every report: sections of tables, figures and prose, as Markdown or HTML.

    page = Page("Scores", [Section("Downstream", [table, "Some prose.", plots.bars(...)])])
    write_text(folder / "report.html", page.html())
    write_text(folder / "report.md", page.markdown())

The HTML file is self-contained: it includes its style, its figures and a short script that sorts tables;
every text is escaped. It follows the reader's choice of light or dark, and has a style for print. Markdown
has tables and prose only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined

from senteval_runner.report.table import Table, escaped


@dataclass(frozen=True)
class Figure:
    """A drawing, or the reason why there is none."""

    svg: str
    """Markup that needs no escaping; empty when the figure is left out."""
    caption: str = ""
    note: str = ""
    """Why the figure was left out."""


Block = Table | Figure | str
"""Content of a section; a string is a paragraph."""


@dataclass(frozen=True)
class Section:
    """A heading and its content."""

    title: str
    blocks: Sequence[Block]
    note: str = ""
    """A remark below the heading."""

    def markdown(self) -> str:
        """The section at level 2; empty when it has nothing but figures."""
        texts = [
            block.markdown() if isinstance(block, Table) else f"{escaped(block)}\n"
            for block in self.blocks
            if not isinstance(block, Figure)
        ]
        note = [f"{escaped(self.note)}\n"] if self.note else []
        return "\n".join([f"## {escaped(self.title)}\n", *note, *texts]) if texts else ""


@dataclass(frozen=True)
class Page:
    """A whole report."""

    title: str
    sections: Sequence[Section]
    introduction: str = ""

    def markdown(self) -> str:
        """Tables and prose."""
        introduction = [f"{escaped(self.introduction)}\n"] if self.introduction else []
        sections = [text for section in self.sections if (text := section.markdown())]
        return "\n".join([f"# {escaped(self.title)}\n", *introduction, *sections])

    def html(self) -> str:
        """Everything, as one self-contained file."""
        environment = Environment(
            loader=PackageLoader("senteval_runner", "report"),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
            undefined=StrictUndefined,
        )
        template = environment.get_template("page.html")
        return template.render(page=self, kind=lambda block: type(block).__name__)
