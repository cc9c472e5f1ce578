"""What a tree cache holds, on one screen.

    python -m parsing.info runs/trees/pydocs --plot runs/pydocs.png

Input: a folder written by parsing.run. Output: counts, histograms of lengths and tree heights, labels,
flags and identities on standard output; with ``--plot`` also a PNG of the histograms.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from corpora.support.cli import Command
from corpora.support.config import CountOrNone, configuration
from corpora.support.errors import printable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from parsing.cache.reader import TreeCache
    from parsing.trees.parsers import Int

BAR = 40
STEP = 8192


@configuration
class InfoConfig:
    """Options of ``parsing.info``."""

    cache: Positional[Path]
    """Folder of the tree cache."""
    top: CountOrNone = 8
    """How many of the most frequent labels, relations and tags to list."""
    json: bool = False
    """Print one JSON object instead."""
    plot: Path | None = None
    """PNG file for the histograms (needs the report extra)."""


@dataclass(slots=True)
class Statistics:
    """Counts over a whole cache."""

    sentences: int
    tokens: int
    documents: int
    types: int
    """Distinct word forms."""
    flags: dict[str, int]
    histograms: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    """``tokens``, ``dep_height``, ``const_height``: how many sentences have each value."""
    names: dict[str, dict[str, int]] = field(default_factory=dict)
    """``relation``, ``tag``, ``label``, ``leaf_label``: how often each name occurs."""


def main(config: InfoConfig) -> None:
    """Print the statistics."""
    from parsing.cache.reader import TreeCache

    cache = TreeCache.open(config.cache, allow_partial=True)
    statistics = gather(cache)
    print(as_json(cache, statistics) if config.json else as_text(cache, statistics, config.top))
    if config.plot is not None:
        plot(statistics, config.plot)


def gather(cache: TreeCache) -> Statistics:
    """One pass over the cache, a few thousand sentences at a time."""
    import numpy as np

    from corpora.support.progress import progress
    from parsing.cache.format import FLAG_NAMES

    flags = cache.flags()
    statistics = Statistics(
        sentences=len(cache),
        tokens=int(cache.token_counts().sum()),
        documents=len(cache.documents()) - 1,
        types=len(cache.type_counts()),
        flags={name: int(np.count_nonzero(flags & bit)) for bit, name in FLAG_NAMES.items()},
    )
    inventories = {
        "relation": cache.relations,
        "tag": cache.tags,
        "label": cache.labels,
        "leaf_label": cache.labels,
    }
    counts = {name: np.zeros(len(ids), np.int64) for name, ids in inventories.items() if name in cache.fields}
    fields = [f for f in ("dep_height", "const_height", *counts) if f in cache.fields]
    histograms: dict[str, NDArray[np.int64]] = {}
    with progress(total=len(cache), description="counting") as bar:
        for start in range(0, len(cache), STEP):
            batch = cache.read(start, min(start + STEP, len(cache)), fields)
            offsets = batch.sentence_offsets
            _add(histograms, "tokens", np.diff(offsets))
            if "dep_height" in fields:
                _add(histograms, "dep_height", np.maximum.reduceat(batch.dep_height, offsets[:-1]))
            if "const_height" in fields:  # the root is a sentence's last node; one word has no nodes
                roots = batch.node_offsets[1:] - 1
                own = np.where(np.diff(offsets) > 1, np.append(batch.const_height, 0)[roots], 0)
                _add(histograms, "const_height", own)
            for name, total in counts.items():
                total += np.bincount(getattr(batch, name), minlength=len(total))
            bar.update(len(batch))
    statistics.histograms = histograms
    statistics.names = {
        name: {inventories[name][i]: int(total[i]) for i in np.argsort(-total, kind="stable") if total[i]}
        for name, total in counts.items()
    }
    return statistics


def _add(histograms: dict[str, NDArray[np.int64]], name: str, values: Int) -> None:
    import numpy as np

    seen, more = histograms.get(name, np.zeros(0, np.int64)), np.bincount(values)
    total = np.zeros(max(len(seen), len(more)), np.int64)
    total[: len(seen)] += seen
    total[: len(more)] += more
    histograms[name] = total


def as_text(cache: TreeCache, statistics: Statistics, top: int) -> str:
    """One screen of text."""
    s = statistics
    lines = [
        f"{cache.folder}: {'complete' if cache.manifest.complete else 'unfinished'}",
        f"  {s.sentences:,} sentences, {s.tokens:,} tokens, {s.types:,} types, {s.documents:,} documents, "
        f"{len(cache.rows):,} shards",
        f"  content sha256 {cache.identity['content_sha256']}",
    ]
    for part in ("corpus", "dependency", "constituency", "options"):
        value = cache.identity.get(part)
        if value is not None:
            lines.append(
                f"  {part}: " + ", ".join(f"{key} {printable(str(item))}" for key, item in value.items())
            )
    shown = [f"{name} {count:,}" for name, count in s.flags.items() if count]
    lines.append("  flags: " + (", ".join(shown) or "none"))
    for name, counts in s.names.items():
        listed = [f"{printable(label) or '∅'} {count:,}" for label, count in list(counts.items())[:top]]
        lines.append(f"  {name}: " + ", ".join(listed))
    for name, histogram in s.histograms.items():
        lines += ["", f"  {name} per sentence (mean {_mean(histogram):.1f})", *_bars(histogram)]
    return "\n".join(lines)


def as_json(cache: TreeCache, statistics: Statistics) -> str:
    """Everything as one JSON object."""
    value = {
        "identity": cache.identity,
        "complete": cache.manifest.complete,
        "sentences": statistics.sentences,
        "tokens": statistics.tokens,
        "documents": statistics.documents,
        "types": statistics.types,
        "flags": statistics.flags,
        "names": statistics.names,
        "histograms": {name: counts.tolist() for name, counts in statistics.histograms.items()},
    }
    return json.dumps(value, ensure_ascii=False)


def _mean(counts: Int) -> float:
    import numpy as np

    return float((np.arange(len(counts)) * counts).sum() / max(counts.sum(), 1))


def _bars(counts: Sequence[int] | Int, rows: int = 12) -> list[str]:
    """A histogram as text: ranges of equal width, the last one open."""
    import numpy as np

    values = np.asarray(counts)
    # Ranges up to the 99th percentile; the tail is one row.
    reach = int(np.searchsorted(np.cumsum(values), 0.99 * values.sum())) + 1
    width = max(1, -(-reach // rows))
    groups = [int(values[a : a + width].sum()) for a in range(0, reach, width)]
    tail = int(values[len(groups) * width :].sum())
    names = [f"{a}-{a + width - 1}" if width > 1 else f"{a}" for a in range(0, reach, width)]
    if tail:
        groups.append(tail)
        names.append(f"{(len(groups) - 1) * width}+")
    most = max(groups, default=1)
    return [
        f"  {name:>9} {'█' * round(BAR * group / most):<{BAR}} {group:,}"
        for name, group in zip(names, groups, strict=True)
    ]


def plot(statistics: Statistics, path: Path) -> None:
    """The histograms as a PNG."""
    from corpora.support.errors import MissingExtraError
    from corpora.support.files import atomic_path

    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("matplotlib", "report") from None
    figure = Figure(figsize=(4.2 * len(statistics.histograms), 3.2), layout="constrained")
    axes = figure.subplots(1, len(statistics.histograms), squeeze=False)[0]
    for axis, (name, counts) in zip(axes, statistics.histograms.items(), strict=True):
        axis.bar(range(len(counts)), counts, width=1.0)
        axis.set_xlabel(f"{name} per sentence")
        axis.set_ylabel("sentences")
        axis.set_xlim(-0.5, min(len(counts), 100))
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=120)


cli = Command(
    InfoConfig,
    main,
    "parsing.info",
    "What a tree cache holds: counts, histograms, labels, flags, identities.",
)


if __name__ == "__main__":
    sys.exit(cli())
