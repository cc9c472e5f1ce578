"""Reading the tree cache: batches of 400 sentences, against per-sentence slices with h5py.

    python -m benchmarks.cache [CACHE]

Without a cache, 16,000 sentences of documentation are parsed first. Each alternation reads the corpus once in
order and once in random order of batches, decoded anew and from memory, and a part of it sentence by sentence
from the same files, as a simple reader would. Seconds are this thread's own, so that other jobs on the
machine do not count. Ends with one line of JSON.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median

import h5py
import numpy as np

from benchmarks import alternate, spread
from parsing.run import cli as parse
from parsing.trees.batch import NODE_FIELDS
from parsing.trees.cache import TreeCache

BATCH, ROUNDS, SENTENCES = 400, 5, 400


class HashVocabulary:
    """A dictionary look-up, to include the cost of word ids."""

    key = "benchmark"

    def __init__(self, types: list[str]) -> None:
        self.ids = {word: i for i, word in enumerate(types[:50_000])}

    def lookup(self, types: list[str]) -> np.ndarray:
        """Ids of the most frequent types, 0 for the others."""
        return np.fromiter((self.ids.get(word, 0) for word in types), np.int32, len(types))


def by_sentences(cache: TreeCache, count: int) -> None:
    """Slice every field of the first sentences from the open file, as a simple reader would."""
    with h5py.File(cache.folder / cache.rows[0].file) as file:
        offsets = file["sentence_offsets"][:]
        for i, (a, b) in enumerate(pairwise(offsets[: count + 1])):
            for name in cache.fields:
                _ = file[name][a - i : b - i - 1] if name in NODE_FIELDS else file[name][a:b]


def measure(folder: Path) -> dict[str, float]:
    """Sentences per second of each way to read, and the size of a token."""
    cache = TreeCache.open(folder)
    vocabulary = HashVocabulary([word for word, _ in cache.type_counts().most_common()])
    starts = list(range(0, len(cache), BATCH))
    shuffled = np.random.default_rng(1).permutation(starts).tolist()
    warm = TreeCache.open(folder, open_shards=len(cache.rows))
    few = min(SENTENCES, cache.rows[0].sentences)

    def read(order: list[int], source: TreeCache | None = None) -> None:
        # Few open shards, as with a long corpus: every shard is decoded once per pass.
        source = source or TreeCache.open(folder, open_shards=2)
        for start in order:
            source.read(start, min(start + BATCH, len(cache)), None, vocabulary)

    calls = {
        "in order": lambda: read(starts),
        "at random": lambda: read(shuffled),
        "decoded": lambda: read(shuffled, warm),
        "h5py": lambda: by_sentences(cache, few),
    }
    found = {}
    for name, seconds in alternate(calls, ROUNDS, time.thread_time).items():
        rates = [(few if name == "h5py" else len(cache)) / s for s in seconds]
        print(f"{name:>10}: {spread(rates, 0)} sentences/s")
        found[name] = round(median(rates))
    size = sum((folder / row.file).stat().st_size for row in cache.rows)
    return {**found, "bytes_per_token": round(size / sum(row.tokens for row in cache.rows), 3)}


def main(folder: str = "") -> None:
    """Measure a cache, or one made for it."""
    with tempfile.TemporaryDirectory() as temporary:
        if not folder:
            parse(["pydocs", "--limit", "16k", "--output", temporary])
        print(json.dumps(measure(Path(folder or temporary))))


if __name__ == "__main__":
    main(*sys.argv[1:2])
