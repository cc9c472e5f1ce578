"""One page for every report: sections of tables, figures and prose, as Markdown or as one HTML file.

    page = Page("Scores", [Section("Downstream", [table, "Some prose.", plots.bars(...)])])
    write_text(folder / "report.html", page.html())
    write_text(folder / "report.md", page.markdown())

The HTML file is self-contained: it includes its style, its figures and a short script that sorts tables;
every text is escaped. It follows the reader's choice of light or dark, and has a style for print. Markdown
has tables and prose only; sections with nothing but figures are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined

from senteval_runner.report.table import Table, escaped

SERIES = (
    *(("#1f5f8b", "#6db3e3"), ("#b3541e", "#e8935c"), ("#3d7a3a", "#83c27e"), ("#7a3d77", "#c58bc2")),
    *(("#8a7a1f", "#cdbb55"), ("#4a4a4a", "#b8b8b8"), ("#2a8a8a", "#63c9c9"), ("#a33b4b", "#e58090")),
    *(("#5b6fd0", "#9fadf5"), ("#d08a1e", "#f2bd62"), ("#6aa84f", "#b3dd9d"), ("#c56aa8", "#f0a8d8")),
)
"""Colours of twelve models or classes, on white and on black."""


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
        parts = [
            block.markdown() if isinstance(block, Table) else f"{escaped(block)}\n"
            for block in self.blocks
            if not isinstance(block, Figure)
        ]
        if not parts:
            return ""
        note = [f"{escaped(self.note)}\n"] if self.note else []
        return "\n".join([f"## {escaped(self.title)}\n", *note, *parts])


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
            keep_trailing_newline=True,
        )
        return environment.get_template("page.html").render(page=self, kind=_kind, colours=SERIES)


def _kind(block: Block) -> str:
    """Which part of the template prints a block."""
    return "text" if isinstance(block, str) else "table" if isinstance(block, Table) else "figure"
