"""Look at the trees of sentences in a cache.

    python -m parsing.show runs/trees/pydocs --sentence 17
    python -m parsing.show runs/trees/pydocs --sentence 17 --count 5 --format html > trees.html

Input: a folder written by parsing.run. Output: drawings on standard output, or in ``--output``.
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tyro.conf import Positional

from corpora.support.cli import Command
from corpora.support.config import Count, CountOrNone, configuration

if TYPE_CHECKING:
    from parsing.cache.reader import TreeCache


@configuration
class ShowConfig:
    """Options of ``parsing.show``."""

    cache: Positional[Path]
    """Folder of the tree cache."""
    sentence: CountOrNone = 0
    """Number of the first sentence, from 0."""
    count: Count = 1
    """How many successive sentences."""
    format: Literal["text", "svg", "html"] = "text"
    """Indented text, one bare SVG per tree, or a page."""
    output: Path | None = None
    """File to write instead of standard output."""


def main(config: ShowConfig) -> None:
    """Draw the sentences."""
    from corpora.support.errors import UserError
    from corpora.support.files import write_text
    from parsing.cache.reader import TreeCache
    from parsing.trees.page import page

    cache = TreeCache.open(config.cache, allow_partial=True)
    last = min(config.sentence + config.count, len(cache))
    if config.sentence >= last:
        raise UserError(f"{config.cache}: no sentence {config.sentence}; it has 0 to {len(cache) - 1}")
    drawings = [draw(cache, i, config.format) for i in range(config.sentence, last)]
    text = "\n".join(drawings)
    if config.format == "html":
        title = f"{config.cache.name}: sentences {config.sentence} to {last - 1}"
        text = page(title, text)
    if config.output is None:
        print(text)
    else:
        write_text(config.output, text + "\n")


def draw(cache: TreeCache, i: int, form: str) -> str:
    """Both trees of sentence ``i`` in one of the formats."""
    from parsing.sentences import cached_sentences

    sentence = next(cached_sentences(cache, i, i + 1))
    title = f"sentence {i}" + (f" [{', '.join(sentence.flag_names)}]" if sentence.flags else "")
    if form == "text":
        return f"# {title}\n{sentence}\n"
    if form == "svg":
        return "\n".join(sentence.drawings(svg=True))
    return f"<h2>{escape(title)}</h2>{sentence._repr_html_()}"


cli = Command(
    ShowConfig,
    main,
    "parsing.show",
    "Draw the trees of sentences in a tree cache.",
)


if __name__ == "__main__":
    sys.exit(cli())
