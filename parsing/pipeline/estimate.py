"""How many sentences a corpus has, about, and how long parsing them would take."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from corpora.documents import Corpus
from corpora.support.dry_run import dry_run_text
from corpora.support.errors import UserError
from parsing.cache.shard import write_shard
from parsing.pipeline.driver import shards_of
from parsing.text_parser import TextParser

SAMPLE = 2048
WARM_UP = 64
COUNT_S = 3.0
"""Seconds spent on counting; what is left of a file is estimated from its bytes."""
BLOCK_BYTES = 1 << 20


def dry_run(config: Any, corpus: Corpus, parser: TextParser, workers: int) -> str:
    """Parse the first sentences in this process, scale up, and return the text to print.

    Args:
        config: options of ``parsing.run``.
        corpus: what would be parsed.
        parser: the parsers.
        workers: number of worker processes.

    Raises:
        UserError: the corpus has no sentences.
    """
    sample = next(shards_of(corpus, SAMPLE), None)
    if sample is None:
        raise UserError(f"{corpus.name}: has no sentences")
    parser.arrays(sample.sentences[:WARM_UP])
    began = time.perf_counter()
    batch = parser.arrays(sample.sentences, sample.flags)
    per_s = len(batch) / (time.perf_counter() - began)
    with tempfile.TemporaryDirectory() as folder:
        row = write_shard(Path(folder), 0, batch, sample.document_starts, sample.document_ids)
        size = (Path(folder) / row.file).stat().st_size / len(batch)
    whole = len(batch) < SAMPLE  # which keeps one worker busy
    total = len(batch) if whole else expected_sentences(corpus, config.corpus)
    return dry_run_text(
        config,
        facts={"sample": f"{len(batch):,} sentences, parsed by one worker of {workers}"},
        parameters={},
        disk_bytes=None if total is None else total * size,
        work=("parse", total, "sentences", per_s * (1 if whole else workers)),
    )


def expected_sentences(corpus: Corpus, spec: str) -> int | None:
    """Approximate number of sentences of a corpus; None if it cannot be found quickly.

    Args:
        corpus: it is counted for a few seconds; the rest of files is estimated from their bytes.
        spec: its name or path on the command line.
    """
    from corpora.inputs import list_files, readable
    from corpora.registry import NAMED

    end = time.monotonic() + COUNT_S
    count = seen_bytes = 0
    for document in corpus:
        count += len(document.sentences)
        seen_bytes += sum(len(w.encode("utf-8", "replace")) for s in document.sentences for w in s.tokens)
        if time.monotonic() > end:
            break
    else:
        return count
    limit = corpus.identity.get("first_sentences")
    bound = None if limit is None else int(limit)
    if spec in NAMED:  # even if there is a folder of that name
        return bound
    total_bytes = 0
    for path in list_files(Path(spec)):
        with readable(path) as stream:
            while block := stream.read(BLOCK_BYTES):
                total_bytes += len(block.translate(None, b" \t\r\n"))
    estimate = total_bytes * count // max(seen_bytes, 1)
    return estimate if bound is None else min(estimate, bound)
