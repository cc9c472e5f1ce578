"""What a tree cache holds, on one screen; or the trees of some of its sentences.

    python -m parsing.show runs/trees/books
    python -m parsing.show runs/trees/books --sentence 17 --count 5

Input: a folder written by parsing.run. Output: counts, identities, flags and the most frequent labels, or
drawings (a notebook draws pictures).
"""

import sys
from pathlib import Path

import numpy as np
from tyro.conf import Positional

from parsing.trees.batch import FLAG_NAMES
from parsing.trees.cache import TreeCache
from runtime.cli import Command, Count, CountOrNone, configuration
from runtime.errors import UserError, printable

STEP = 8192
TOP = 8
"""Names of each kind that are listed, the most frequent ones."""


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

    last = min(config.sentence + config.count, len(cache))
    if config.sentence >= last:
        raise UserError(f"{config.cache}: no sentence {config.sentence}; it has 0 to {len(cache) - 1}")
    for number, sentence in enumerate(cached_sentences(cache, config.sentence, last), config.sentence):
        flags = f" [{', '.join(sentence.flag_names)}]" if sentence.flags else ""
        print(f"# sentence {number}{flags}\n{sentence}\n")


def statistics(cache: TreeCache) -> None:
    """Print counts, identities, flags and the most frequent names."""
    lengths, flags = cache.token_counts(), cache.flags()
    print(f"{cache.folder}: {'complete' if cache.manifest.complete else 'unfinished'}")
    print(
        f"  {len(cache):,} sentences, {lengths.sum():,} tokens, {len(cache.type_counts()):,} types, "
        f"{len(cache.documents()) - 1:,} documents, {len(cache.rows):,} shards"
    )
    print(f"  tokens per sentence: mean {lengths.mean():.1f}, at most {lengths.max()}")
    for part, value in cache.identity.items():
        print(printable(f"  {part}: {value}"))
    flagged = {name: int(np.count_nonzero(flags & bit)) for bit, name in FLAG_NAMES.items()}
    listed = ", ".join(f"{name} {count:,}" for name, count in flagged.items() if count)
    print(f"  flags: {listed or 'none'}")
    inventories = {"relation": cache.relations, "tag": cache.tags, "label": cache.labels}
    inventories |= {"leaf_label": cache.labels}
    counts = {
        field: np.zeros(len(names), int) for field, names in inventories.items() if field in cache.fields
    }
    for start in range(0, len(cache), STEP):
        batch = cache.read(start, min(start + STEP, len(cache)), tuple(counts))
        for field, seen in counts.items():
            seen += np.bincount(getattr(batch, field), minlength=len(seen))
    for field, seen in counts.items():
        names = [printable(name) or "∅" for name in inventories[field]]
        top = [i for i in np.argsort(-seen, kind="stable")[:TOP] if seen[i]]
        print(f"  {field}: " + ", ".join(f"{names[i]} {seen[i]:,}" for i in top))


cli = Command(ShowConfig, main, "parsing.show", "Show what a tree cache holds, or draw sentences of it.")


if __name__ == "__main__":
    sys.exit(cli())
