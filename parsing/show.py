"""Look at the trees of sentences in a cache.

    python -m parsing.show runs/trees/pydocs --sentence 17
    python -m parsing.show runs/trees/pydocs --sentence 17 --count 5 --format html > trees.html

Input: a folder written by parsing.run. Output: drawings on standard output.
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from corpora.support.cli import Command
from corpora.support.config import Count, CountOrNone, configuration


@configuration
class ShowConfig:
    """Options of ``parsing.show``."""

    cache: Positional[Path]
    """Folder of the tree cache."""
    sentence: CountOrNone = 0
    """Number of the first sentence, from 0."""
    count: Count = 1
    """How many successive sentences."""
    format: Literal["text", "html"] = "text"
    """Indented text, or a page with pictures."""


def main(config: ShowConfig) -> None:
    """Draw the sentences."""
    from corpora.support.errors import UserError
    from parsing.cache.reader import TreeCache
    from parsing.cache.sentences import cached_sentences
    from parsing.trees.draw import page

    cache = TreeCache.open(config.cache, allow_partial=True)
    last = min(config.sentence + config.count, len(cache))
    if config.sentence >= last:
        raise UserError(f"{config.cache}: no sentence {config.sentence}; it has 0 to {len(cache) - 1}")
    drawings = []
    for number, sentence in enumerate(cached_sentences(cache, config.sentence, last), config.sentence):
        title = f"sentence {number}" + (f" [{', '.join(sentence.flag_names)}]" if sentence.flags else "")
        if config.format == "text":
            drawings.append(f"# {title}\n{sentence}\n")
        else:
            drawings.append(f"<h2>{escape(title)}</h2>{sentence._repr_html_()}")
    text = "\n".join(drawings)
    if config.format == "html":
        text = page(f"{config.cache.name}: sentences {config.sentence} to {last - 1}", text)
    print(text)


cli = Command(
    ShowConfig,
    main,
    "parsing.show",
    "Draw the trees of sentences in a tree cache.",
)


if __name__ == "__main__":
    sys.exit(cli())
