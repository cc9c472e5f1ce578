"""Look at the trees of sentences in a cache.

    python -m parsing.show runs/trees/pydocs --sentence 17 --count 5

Input: a folder written by parsing.run. Output: drawings on standard output (a notebook draws pictures).
"""

from __future__ import annotations

import sys
from pathlib import Path

from tyro.conf import Positional

from corpora.support.cli import Command, Count, CountOrNone, configuration


@configuration
class ShowConfig:
    """Options of ``parsing.show``."""

    cache: Positional[Path]
    """Folder of the tree cache."""
    sentence: CountOrNone = 0
    """Number of the first sentence, from 0."""
    count: Count = 1
    """How many successive sentences."""


def main(config: ShowConfig) -> None:
    """Draw the sentences."""
    from corpora.support.errors import UserError
    from parsing.cache.reader import TreeCache
    from parsing.cache.sentences import cached_sentences

    cache = TreeCache.open(config.cache, allow_partial=True)
    last = min(config.sentence + config.count, len(cache))
    if config.sentence >= last:
        raise UserError(f"{config.cache}: no sentence {config.sentence}; it has 0 to {len(cache) - 1}")
    for number, sentence in enumerate(cached_sentences(cache, config.sentence, last), config.sentence):
        flags = f" [{', '.join(sentence.flag_names)}]" if sentence.flags else ""
        print(f"# sentence {number}{flags}\n{sentence}\n")


cli = Command(ShowConfig, main, "parsing.show", "Draw the trees of sentences in a tree cache.")


if __name__ == "__main__":
    sys.exit(cli())
