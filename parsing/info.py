"""What a tree cache holds, on one screen.

    python -m parsing.info runs/trees/pydocs

Input: a folder written by parsing.run. Output: counts, identities, flags, the most frequent labels, and how
long sentences are and how high their trees.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from tyro.conf import Positional

from corpora.support.cli import Command
from corpora.support.config import configuration
from corpora.support.errors import printable

if TYPE_CHECKING:
    from parsing.cache.reader import TreeCache
    from parsing.trees.parsers import Int

STEP = 8192
TOP = 8
"""Names of each kind that are listed, the most frequent ones."""
SHARES = (0, 25, 50, 75, 99, 100)
"""Per cent of the sentences that are at most so long or high."""


@configuration
class InfoConfig:
    """Options of ``parsing.info``."""

    cache: Positional[Path]
    """Folder of the tree cache."""


def main(config: InfoConfig) -> None:
    """Print the statistics."""
    from parsing.cache.reader import TreeCache

    print("\n".join(lines(TreeCache.open(config.cache, allow_partial=True))))


def gather(cache: TreeCache) -> tuple[dict[str, Int], dict[str, Int]]:
    """Counts over a whole cache.

    Returns:
        Of every sentence the ``tokens``, ``dep_height`` and ``const_height``; and how often each id occurs as
        ``relation``, ``tag``, ``label`` and ``leaf_label``.
    """
    from corpora.support.progress import progress

    names = {"relation": cache.relations, "tag": cache.tags}
    names |= {"label": cache.labels, "leaf_label": cache.labels}
    counts: dict[str, Int] = {
        name: np.zeros(len(ids), np.int64) for name, ids in names.items() if name in cache.fields
    }
    heights = [name for name in ("dep_height", "const_height") if name in cache.fields]
    sizes: dict[str, Int] = {"tokens": cache.token_counts()}
    sizes |= {name: np.zeros(len(cache), np.int64) for name in heights}
    with progress(total=len(cache), description="counting") as bar:
        for start in range(0, len(cache), STEP):
            batch = cache.read(start, min(start + STEP, len(cache)), (*heights, *counts))
            here = slice(start, start + len(batch))
            if "dep_height" in heights:
                sizes["dep_height"][here] = np.maximum.reduceat(batch.dep_height, batch.sentence_offsets[:-1])
            if "const_height" in heights:  # the root is a sentence's last node; one word has no nodes
                roots = np.append(batch.const_height, 0)[batch.node_offsets[1:] - 1]
                sizes["const_height"][here] = np.where(np.diff(batch.sentence_offsets) > 1, roots, 0)
            for name, total in counts.items():
                total += np.bincount(getattr(batch, name), minlength=len(total))
            bar.update(len(batch))
    return sizes, counts


def lines(cache: TreeCache) -> Iterator[str]:
    """One screen of text."""
    from parsing.cache.format import FLAG_NAMES

    (sizes, counts), flags = gather(cache), cache.flags()
    types, documents = len(cache.type_counts()), len(cache.documents()) - 1
    yield f"{cache.folder}: {'complete' if cache.manifest.complete else 'unfinished'}"
    yield (
        f"  {len(cache):,} sentences, {sizes['tokens'].sum():,} tokens, {types:,} types, "
        f"{documents:,} documents, {len(cache.rows):,} shards"
    )
    for part, value in cache.identity.items():
        items = value.items() if isinstance(value, dict) else [(value, "")]
        if value is not None:
            yield f"  {part}: " + ", ".join(printable(f"{key} {item}").rstrip() for key, item in items)
    flagged = {name: int(np.count_nonzero(flags & bit)) for bit, name in FLAG_NAMES.items()}
    yield "  flags: " + (", ".join(f"{name} {count:,}" for name, count in flagged.items() if count) or "none")
    for name, seen in counts.items():
        names = getattr(cache, "labels" if "label" in name else f"{name}s")
        top = [i for i in np.argsort(-seen, kind="stable")[:TOP] if seen[i]]
        yield f"  {name}: " + ", ".join(f"{printable(names[i]) or '∅'} {seen[i]:,}" for i in top)
    for name, size in sizes.items():
        ranks = np.percentile(size, SHARES, method="inverted_cdf")
        listed = ", ".join(f"{share} % {rank:.0f}" for share, rank in zip(SHARES, ranks, strict=True))
        yield f"  {name} per sentence: mean {size.mean():.1f}; at most, {listed}"


cli = Command(
    InfoConfig,
    main,
    "parsing.info",
    "What a tree cache holds: counts, labels, flags, lengths, heights, identities.",
)


if __name__ == "__main__":
    sys.exit(cli())
