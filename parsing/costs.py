"""Estimates the time and disk space that parsing a corpus takes, from its first sentences.

The imports at the top are fast, because ``--help`` needs them.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.cli import Estimate
from runtime.process import peak_memory

if TYPE_CHECKING:
    from corpora.text import Corpus
    from parsing.text_parser import TextParser

SAMPLE, SAMPLE_PART = 2048, 512
"""The number of sentences of the sample, and of those that are parsed together."""
WARM_UP = 64
"""The number of sentences that are first parsed without a measurement."""
PAPER_SENTENCES = 40_000_000
"""The number of sentences of Simoulin & Crabbé 2021, section 3.1."""


def paper_cost(workers: int) -> Estimate:
    """Estimate the cost of parsing the paper's sentences, from a sample of books and the builtin parsers."""
    from corpora.registry import open_corpus
    from parsing.text_parser import load

    return parsing_cost(open_corpus("books", limit=SAMPLE), load(), workers, PAPER_SENTENCES)


def parsing_cost(corpus: Corpus, parser: TextParser, workers: int, sentences: int | None = None) -> Estimate:
    """Estimate the cost of parsing a corpus from a sample that is parsed in this process.

    Args:
        corpus: the sample is its first :data:`SAMPLE` sentences.
        parser: the parsers.
        workers: the number of worker processes of the run.
        sentences: the number of sentences of the run; None is the number that the corpus has.
    """
    from parsing.pipeline.driver import Worker, cut_into_shards
    from parsing.trees.batch import join_batches
    from parsing.trees.cache import write_shard
    from runtime.progress import progress

    shards = cut_into_shards(corpus, SAMPLE)  # kept, because estimate_length needs an open file
    sample = next(shards)
    worker = Worker(lambda: parser)
    worker.parse(sample.sentences[:WARM_UP])
    batches = []
    start_time = time.perf_counter()
    with progress(total=len(sample.sentences), description="sample") as bar:
        for first in range(0, len(sample.sentences), SAMPLE_PART):
            batches.append(worker.parse(sample.sentences[first : first + SAMPLE_PART]).trees)
            bar.update(len(batches[-1]))
    batch = join_batches(batches)
    per_second = len(batch) / (time.perf_counter() - start_time)
    with tempfile.TemporaryDirectory() as temporary:
        row = write_shard(Path(temporary), 0, batch, sample.document_starts, sample.document_ids)
        size = Path(temporary, row.file).stat().st_size / len(batch)
    is_whole_corpus = len(batch) < SAMPLE
    amount = len(batch) if is_whole_corpus else sentences or corpus.estimate_length()
    return Estimate(
        facts={
            "sample": f"{len(batch):,} sentences, parsed by one worker of {workers}",
            "memory": f"{peak_memory() / 2**20:,.0f} MiB at most while it was parsed",
            "disk": "unknown" if amount is None else f"{amount * size / 1e6:,.1f} MB",
        },
        amount=amount,
        unit="sentences",
        per_second=per_second if is_whole_corpus else per_second * workers,
        has_estimated_amount=not is_whole_corpus and sentences is None and corpus.length is None,
    )
