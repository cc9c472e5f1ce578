"""Prints a summary of a tree cache, or draws the trees of some of its sentences.

    python -m parsing.show runs/trees/books
    python -m parsing.show runs/trees/books --sentence 17 --count 5

Input: a folder written by parsing.run. Output: counts, identities, flags and the most frequent labels, or
drawings (a notebook draws pictures).
"""

import sys
from pathlib import Path

import numpy as np
from tyro.conf import Positional

from parsing.trees.cache import TreeCache
from runtime.cli import Command, Count, CountOrNone, configuration
from runtime.errors import UserError, printable

TOP = 8
"""The number of names of each kind that are listed, the most frequent ones."""


@configuration
class ShowConfig:
    """Options of ``parsing.show``."""

    cache: Positional[Path]
    """Folder of the tree cache."""
    sentence: CountOrNone | None = None
    """Draw from this sentence on, from 0; None shows what the cache holds."""
    count: Count = 1
    """How many successive sentences."""


def main(config: ShowConfig) -> None:
    """Print the statistics, or draw the sentences."""
    cache = TreeCache.open(config.cache, allow_partial=True)
    if config.sentence is None:
        statistics(cache)
        return
    from parsing.trees.sentences import cached_sentences

    first, stop = config.sentence, min(config.sentence + config.count, len(cache))
    if first >= stop:
        raise UserError(f"{config.cache}: no sentence {first}; it has 0 to {len(cache) - 1}")
    for number, sentence in enumerate(cached_sentences(cache, first, stop), first):
        flags = f" [{', '.join(sentence.flag_names)}]" if sentence.flags else ""
        print(f"# sentence {number}{flags}\n{sentence}\n")


def statistics(cache: TreeCache) -> None:
    """Print counts, flags, identities and the most frequent names."""
    lengths = cache.token_counts()
    print(f"{cache.folder}: {'complete' if cache.manifest.complete else 'unfinished'}")
    print(cache.manifest.describe(cache.folder))
    print(f"  tokens per sentence: mean {lengths.mean():.1f}, at most {lengths.max()}")
    print(f"  {len(cache.type_counts()):,} distinct words")
    for key, value in cache.manifest.identity.items():
        print(printable(f"  {key}: {value}"))
    labels = cache.labels
    names = {"relation": cache.relations, "tag": cache.tags, "label": labels, "leaf_label": labels}
    counts = {field: np.zeros(len(names[field]), int) for field in names if field in cache.fields}
    for file in cache.files():
        for field in counts:
            counts[field] += np.bincount(file[field][:], minlength=len(names[field]))
    for field, count in counts.items():
        most_frequent = np.argsort(-count, kind="stable")[:TOP]
        top = {printable(names[field][i]) or "∅": int(count[i]) for i in most_frequent if count[i]}
        print(f"  {field}: {', '.join(f'{name} {count:,}' for name, count in top.items())}")


cli = Command(ShowConfig, main, "parsing.show", "Show what a tree cache holds, or draw sentences of it.")


if __name__ == "__main__":
    sys.exit(cli())
