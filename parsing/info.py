"""What a tree cache holds, on one screen.

    python -m parsing.info runs/trees/pydocs

Input: a folder written by parsing.run. Output: counts, identities, flags and the most frequent labels.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tyro.conf import Positional

from corpora.support.cli import Command, configuration
from corpora.support.errors import printable

if TYPE_CHECKING:
    from parsing.cache.reader import TreeCache
    from parsing.trees.parsers import Int

STEP = 8192
TOP = 8
"""Names of each kind that are listed, the most frequent ones."""


@configuration
class InfoConfig:
    """Options of ``parsing.info``."""

    cache: Positional[Path]
    """Folder of the tree cache."""


def main(config: InfoConfig) -> None:
    """Print the statistics."""
    from parsing.cache.format import FLAG_NAMES
    from parsing.cache.reader import TreeCache

    cache = TreeCache.open(config.cache, allow_partial=True)
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
    print(
        "  flags: " + (", ".join(f"{name} {count:,}" for name, count in flagged.items() if count) or "none")
    )
    for field, (names, seen) in id_counts(cache).items():
        top = [i for i in np.argsort(-seen, kind="stable")[:TOP] if seen[i]]
        print(f"  {field}: " + ", ".join(f"{printable(names[i]) or '∅'} {seen[i]:,}" for i in top))


def id_counts(cache: TreeCache) -> dict[str, tuple[tuple[str, ...], Int]]:
    """Names of the ids and how often each occurs, as ``relation``, ``tag``, ``label`` and ``leaf_label``."""
    counts: dict[str, tuple[tuple[str, ...], Int]] = {}
    for field in ("relation", "tag", "label", "leaf_label"):
        if field in cache.fields:
            names = getattr(cache, "labels" if "label" in field else f"{field}s")
            counts[field] = names, np.zeros(len(names), np.int64)
    for start in range(0, len(cache), STEP):
        batch = cache.read(start, min(start + STEP, len(cache)), tuple(counts))
        for name, (_, total) in counts.items():
            total += np.bincount(getattr(batch, name), minlength=len(total))
    return counts


cli = Command(InfoConfig, main, "parsing.info", "What a tree cache holds: counts, labels, flags, identities.")


if __name__ == "__main__":
    sys.exit(cli())
