"""What a tree cache holds, on one screen.

    python -m parsing.info runs/trees/pydocs

Input: a folder written by parsing.run. Output: counts, identities, flags, the most frequent labels, and
histograms of lengths and tree heights.
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

BAR = 40
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
    from parsing.cache.reader import TreeCache

    print("\n".join(lines(TreeCache.open(config.cache, allow_partial=True))))


def gather(cache: TreeCache) -> dict[str, Int]:
    """Counts over a whole cache, int64 by value.

    How many sentences have each number of ``tokens``, ``dep_height`` and ``const_height``; how often each id
    occurs as ``relation``, ``tag``, ``label`` and ``leaf_label``.
    """
    from corpora.support.progress import progress

    fields = [name for name in cache.fields if name not in ("token", "head", "left", "right")]
    counts: dict[str, Int] = {}
    with progress(total=len(cache), description="counting") as bar:
        for start in range(0, len(cache), STEP):
            batch = cache.read(start, min(start + STEP, len(cache)), fields)
            offsets = batch.sentence_offsets
            values = {name: getattr(batch, name) for name in fields} | {"tokens": np.diff(offsets)}
            if "dep_height" in fields:
                values["dep_height"] = np.maximum.reduceat(batch.dep_height, offsets[:-1])
            if "const_height" in fields:  # the root is a sentence's last node; one word has no nodes
                roots = np.append(batch.const_height, 0)[batch.node_offsets[1:] - 1]
                values["const_height"] = np.where(np.diff(offsets) > 1, roots, 0)
            for name, seen in values.items():
                more, before = np.bincount(seen), counts.get(name, np.zeros(0, np.int64))
                longest = max(len(more), len(before))
                counts[name] = np.pad(more, (0, longest - len(more))) + np.pad(
                    before, (0, longest - len(before))
                )
            bar.update(len(batch))
    return counts


def lines(cache: TreeCache) -> Iterator[str]:
    """One screen of text."""
    from parsing.cache.format import FLAG_NAMES

    counts, flags = gather(cache), cache.flags()
    types, documents = len(cache.type_counts()), len(cache.documents()) - 1
    yield f"{cache.folder}: {'complete' if cache.manifest.complete else 'unfinished'}"
    yield (
        f"  {len(cache):,} sentences, {cache.token_counts().sum():,} tokens, {types:,} types, "
        f"{documents:,} documents, {len(cache.rows):,} shards"
    )
    yield f"  content sha256 {cache.identity['content_sha256']}"
    for part in ("corpus", "dependency", "constituency", "options"):
        value = cache.identity.get(part)
        if value is not None:
            listed = (f"{key} {printable(str(item))}" for key, item in value.items())
            yield f"  {part}: {', '.join(listed)}"
    flagged = {name: int(np.count_nonzero(flags & bit)) for bit, name in FLAG_NAMES.items()}
    yield "  flags: " + (", ".join(f"{name} {count:,}" for name, count in flagged.items() if count) or "none")
    inventories = {
        "relation": cache.relations,
        "tag": cache.tags,
        "label": cache.labels,
        "leaf_label": cache.labels,
    }
    for name, names in inventories.items():
        seen = counts.get(name, np.zeros(0, np.int64))
        if seen.any():
            top = [i for i in np.argsort(-seen, kind="stable")[:TOP] if seen[i]]
            yield f"  {name}: " + ", ".join(f"{printable(names[i]) or '∅'} {seen[i]:,}" for i in top)
    for name in ("tokens", "dep_height", "const_height"):
        if name in counts:
            mean = float(np.average(np.arange(len(counts[name])), weights=counts[name]))
            yield f"\n  {name} per sentence (mean {mean:.1f})"
            yield from bars(counts[name])


def bars(counts: Int, rows: int = 12) -> Iterator[str]:
    """A histogram as text: ranges of equal width up to the 99th percentile, then the rest."""
    reach = int(np.searchsorted(np.cumsum(counts), 0.99 * counts.sum())) + 1
    width = -(-reach // rows)
    starts = [*range(0, reach, width), -(-reach // width) * width]
    groups = [int(counts[a:b].sum()) for a, b in zip(starts, [*starts[1:], len(counts)], strict=True)]
    for start, group in zip(starts, groups, strict=True):
        name = (
            f"{start}+"
            if start == starts[-1]
            else f"{start}-{start + width - 1}"
            if width > 1
            else f"{start}"
        )
        if group or start < starts[-1]:
            yield f"  {name:>9} {'█' * round(BAR * group / max(groups)):<{BAR}} {group:,}"


cli = Command(
    InfoConfig,
    main,
    "parsing.info",
    "What a tree cache holds: counts, histograms, labels, flags, identities.",
)


if __name__ == "__main__":
    sys.exit(cli())
