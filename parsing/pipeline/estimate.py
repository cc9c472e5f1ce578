"""Estimate the time and disk space of a parsing run from a short calibration."""

from __future__ import annotations

import itertools
import tempfile
import time
from pathlib import Path
from typing import Any

from corpora.documents import Corpus
from corpora.support.dry_run import dry_run_text
from corpora.support.errors import UserError
from parsing.cache.shard_file import write_shard
from parsing.pipeline.driver import shard_specs
from parsing.pipeline.parse_shard import ShardOptions, parse_shard
from parsing.pipeline.split import split_shard
from parsing.pipeline.workers import LoadedParsers, ParserFactories

SAMPLE = 2048
WARM_UP = 64
COUNT_S = 3.0
"""Seconds spent on counting a named corpus; a file's length is estimated from its bytes."""
_BLOCK_BYTES = 1 << 20


def dry_run(
    config: Any, corpus: Corpus, spec: str, parsers: ParserFactories, options: ShardOptions, workers: int
) -> str:
    """Parse the first sentences in this process, scale up, and return the text to print.

    Args:
        config: options of the command.
        corpus: what would be parsed.
        spec: its name or path on the command line.
        parsers: factories of the parsers.
        options: limits of parsers and micro-batches.
        workers: number of worker processes.

    Raises:
        UserError: the corpus has no sentences.
    """
    sample = next(shard_specs(corpus, SAMPLE), None)
    if sample is None:
        raise UserError(f"{corpus.name}: has no sentences")
    warm_up = split_shard(sample, WARM_UP)[0]
    loaded = LoadedParsers.make(parsers)
    parse_shard(warm_up, loaded.dependency, loaded.constituency, options)
    began = time.perf_counter()
    result = parse_shard(sample, loaded.dependency, loaded.constituency, options)
    seconds = time.perf_counter() - began
    # A corpus smaller than the sample keeps one worker busy.
    whole = len(sample.sentences) < SAMPLE
    per_s = (1 if whole else workers) * len(sample.sentences) / seconds
    with tempfile.TemporaryDirectory() as folder:
        row = write_shard(Path(folder), result, identity={}, inventories=loaded.describe().inventories)
        stored = (Path(folder) / row.file).stat().st_size
    total = row.sentences if whole else expected_sentences(corpus, spec)
    size = stored / row.sentences
    facts = {"sample": f"{row.sentences:,} sentences, parsed by one worker of {workers}"}
    if not whole:  # the overhead of one small file says nothing about a million
        facts["per million"] = f"{1e6 / per_s / 60:.1f} min, {size:.0f} MB"
    views = {"dependency parser": loaded.dependency, "constituency parser": loaded.constituency}
    return dry_run_text(
        config,
        facts=facts,
        parameters={view: parameter_count(parser) for view, parser in views.items() if parser},
        disk_bytes=None if total is None else total * size,
        work=("parse", total, "sentences", per_s),
    )


def parameter_count(parser: object) -> int:
    """Number of parameters of a parser; 0 unless it is a network."""
    import torch

    models = [part for part in getattr(parser, "__dict__", {}).values() if isinstance(part, torch.nn.Module)]
    return sum(parameter.numel() for model in models for parameter in model.parameters())


def expected_sentences(corpus: Corpus, spec: str, sample: int = 5000) -> int | None:
    """Approximate number of sentences of a corpus; None if it cannot be found quickly.

    Args:
        corpus: the corpus.
        spec: its name or path on the command line. Files: their bytes without white space, divided by
            the mean of the first ``sample`` sentences. Named corpora are counted for a few seconds.
        sample: sentences to look at.
    """
    from corpora.inputs import list_files
    from corpora.registry import NAMED

    first_only = corpus.identity.get("first_sentences")
    bound = None if first_only is None else int(first_only)
    if spec in NAMED:  # even if there is a folder of that name
        counted, ended = count_sentences(corpus, COUNT_S)
        return counted if ended else bound
    total_bytes = sum(dense_bytes(path) for path in list_files(Path(spec)))
    first = list(itertools.islice((s for d in corpus for s in d.sentences), sample))
    if len(first) < sample:
        return len(first)
    seen_bytes = sum(len(word.encode("utf-8", "replace")) for s in first for word in s.tokens)
    estimate = total_bytes * len(first) // max(seen_bytes, 1)
    return estimate if bound is None else min(estimate, bound)


def dense_bytes(path: Path) -> int:
    """Bytes of a file other than white space, decompressed."""
    from corpora.inputs import readable

    total = 0
    with readable(path) as stream:
        while block := stream.read(_BLOCK_BYTES):
            total += len(block.translate(None, b" \t\r\n"))
    return total


def count_sentences(corpus: Corpus, budget_s: float) -> tuple[int, bool]:
    """How many sentences are read within a time budget, and whether that is all of them."""
    end = time.monotonic() + budget_s
    total = 0
    documents = iter(corpus)
    for document in documents:
        total += len(document.sentences)
        if time.monotonic() > end:
            return total, not any(True for _ in itertools.islice(documents, 1))
    return total, True
