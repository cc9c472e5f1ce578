"""What a parsing run would take: a short calibration on the corpus's first sentences."""

from __future__ import annotations

import itertools
import tempfile
import time
from pathlib import Path

from corpora.support.errors import UserError
from corpora.types import Corpus
from parsing.driver import shard_specs
from parsing.engine import LoadedParsers, ParserFactories
from parsing.shard_writer import write_shard
from parsing.shards import ShardOptions, parse_shard

SAMPLE = 2048
WARM_UP = 64
COUNT_S = 20.0


def dry_run(corpus: Corpus, parsers: ParserFactories, options: ShardOptions, workers: int) -> str:
    """Parse the first sentences in this process and scale up; a few lines to print.

    Raises:
        UserError: the corpus has no sentences.
    """
    sample = next(shard_specs(corpus, SAMPLE), None)
    if sample is None:
        raise UserError(f"{corpus.name}: has no sentences")
    warm_up = next(shard_specs(corpus, WARM_UP))
    loaded = LoadedParsers.make(parsers)
    parse_shard(warm_up, loaded.dependency, loaded.constituency, options)
    began = time.perf_counter()
    result = parse_shard(sample, loaded.dependency, loaded.constituency, options)
    rate = workers * len(sample.sentences) / (time.perf_counter() - began)
    with tempfile.TemporaryDirectory() as folder:
        row = write_shard(Path(folder), result, identity={}, inventories=loaded.describe().inventories)
        size = (Path(folder) / row.file).stat().st_size / row.sentences
    total, ended = count_sentences(corpus, COUNT_S)
    return (
        f"corpus: {'' if ended else 'more than '}{total:,} sentences\n"
        f"speed: {rate:,.0f} sentences/s with {workers} workers "
        f"(one measured on {len(sample.sentences):,} sentences)\n"
        f"time: {'' if ended else 'more than '}{total / rate / 60:.1f} min; "
        f"{1e6 / rate / 60:.1f} min per million sentences\n"
        f"disk: {'' if ended else 'more than '}{total * size / 1e6:.1f} MB; "
        f"{size:.0f} MB per million sentences"
    )


def count_sentences(corpus: Corpus, budget_s: float) -> tuple[int, bool]:
    """Sentences met within a time budget, and whether that is all of them."""
    end = time.monotonic() + budget_s
    total = 0
    documents = iter(corpus)
    for document in documents:
        total += len(document.sentences)
        if time.monotonic() > end:
            return total, not any(True for _ in itertools.islice(documents, 1))
    return total, True
