"""Reading the tree cache: batches of 400 sentences, against per-sentence slices with h5py.

    python -m benchmarks.cache [--cache FOLDER] [--sentences 65536]

Without ``--cache`` a synthetic cache is made (English-like lengths, toy trees). Each alternation reads the
corpus once in order and once in random order of batches, and a part of it sentence by sentence from the same
files, as a simple reader would. Ends with one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np

from parsing.cache.format import NODE_FIELDS
from parsing.cache.reader import TreeCache
from parsing.pipeline.driver import run_corpus
from parsing.pipeline.workers import Pool
from parsing.text_parser import TextParser
from tests.parsing.pipeline.toy_corpus import ListCorpus
from tests.parsing.pipeline.toy_parsers import ToyConstituencyParser, ToyDependencyParser

BATCH = 400


class HashVocabulary:
    """A dictionary look-up, to include the cost of word ids."""

    key = "benchmark"

    def __init__(self, types: list[str]) -> None:
        self.ids = {word: i for i, word in enumerate(types[:50_000])}

    def lookup(self, types: list[str]) -> np.ndarray:
        """Ids of the most frequent types, 0 for the others."""
        return np.fromiter((self.ids.get(word, 0) for word in types), np.int32, len(types))


def synthetic(folder: Path, sentences: int) -> None:
    """Zipfian words, lengths of edited English (mean about 20)."""
    from corpora.documents import Sentence

    random = np.random.default_rng(0)
    lengths = np.clip(random.gamma(2.5, 8.0, sentences).astype(int), 1, 120)
    words = np.char.add("w", np.minimum(random.zipf(1.2, lengths.sum()), 60_000).astype(str)).tolist()
    ends = np.cumsum(lengths).tolist()
    starts = [0, *ends[:-1]]
    corpus = ListCorpus([Sentence(tuple(words[a:b])) for a, b in zip(starts, ends, strict=True)])
    toys = TextParser(ToyDependencyParser(), ToyConstituencyParser())
    run_corpus(corpus, folder, Pool(lambda: toys))


def rate(work, count: int) -> float:
    """Sentences per second of this thread's own CPU time, so that other processes do not count.

    The files are in the page cache and nothing waits, so on an idle machine this is the wall clock.
    """
    began = time.thread_time()
    work()
    return count / (time.thread_time() - began)


def by_batches(cache: TreeCache, starts: list[int], vocabulary: HashVocabulary) -> None:
    for start in starts:
        cache.read(start, min(start + BATCH, len(cache)), None, vocabulary)


def by_sentences(cache: TreeCache, count: int) -> None:
    """Slice every field of every sentence from the open file, as a simple reader would."""
    done = 0
    for row in cache.rows:
        with h5py.File(cache.folder / row.file) as file:
            offsets = file["sentence_offsets"][:]
            for i in range(row.sentences):
                a, b = offsets[i], offsets[i + 1]
                for name in cache.fields:
                    _ = file[name][a - i : b - i - 1] if name in NODE_FIELDS else file[name][a:b]
                done += 1
                if done == count:
                    return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--sentences", type=int, default=65_536)
    parser.add_argument("--alternations", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.cache or Path(temporary)
        if options.cache is None:
            synthetic(folder, options.sentences)
        measure(folder, options.alternations)


def measure(folder: Path, alternations: int) -> None:
    cache = TreeCache.open(folder)
    vocabulary = HashVocabulary([word for word, _ in cache.type_counts().most_common()])
    starts = list(range(0, len(cache), BATCH))
    shuffled = np.random.default_rng(1).permutation(starts).tolist()
    few = min(400, len(cache))
    results: dict[str, list[float]] = {"decoded": [], "sequential": [], "random": [], "h5py": []}
    for _ in range(alternations):
        cache.close()
        # Few open shards, as with a long corpus: every shard is decoded once per pass.
        fresh = TreeCache.open(folder, open_shards=2)
        results["sequential"].append(rate(lambda c=fresh: by_batches(c, starts, vocabulary), len(cache)))
        fresh = TreeCache.open(folder, open_shards=2)
        results["random"].append(rate(lambda c=fresh: by_batches(c, shuffled, vocabulary), len(cache)))
        warm = TreeCache.open(folder, open_shards=len(cache.rows))
        by_batches(warm, starts, vocabulary)
        results["decoded"].append(rate(lambda c=warm: by_batches(c, shuffled, vocabulary), len(cache)))
        results["h5py"].append(rate(lambda: by_sentences(cache, few), few))
    size = sum((folder / row.file).stat().st_size for row in cache.rows)
    tokens = sum(row.tokens for row in cache.rows)
    for name, values in results.items():
        spread = f"({min(values):,.0f}-{max(values):,.0f})"
        print(f"{name:>10}: {statistics.median(values):12,.0f} sentences/s {spread}")
    median = {name: statistics.median(values) for name, values in results.items()}
    ratios = [a / b for a, b in zip(results["sequential"], results["h5py"], strict=True)]
    print(
        json.dumps(
            {
                "batch_sentences_per_s": round(median["sequential"]),
                "random_sentences_per_s": round(median["random"]),
                "decoded_sentences_per_s": round(median["decoded"]),
                "h5py_sentences_per_s": round(median["h5py"]),
                "ratio": round(statistics.median(ratios), 1),
                "ratio_spread": [round(min(ratios), 1), round(max(ratios), 1)],
                "bytes_per_token": round(size / tokens, 3),
                "rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
                "sentences": len(cache),
            }
        )
    )


if __name__ == "__main__":
    main()
