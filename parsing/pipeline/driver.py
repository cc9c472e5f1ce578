"""From a corpus to a finished tree cache: hand out parts of shards, list what is done, resume killed runs.

Only this process writes. A run that is killed anywhere is finished by the same command, and the content hash
of the finished cache equals that of an uninterrupted run. A shard is handed out in parts, so that all cores
are busy to the end even if a corpus has only a few shards.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpora.inputs import encodable
from corpora.support.cli import LOGGER, log_to
from corpora.support.errors import UserError
from corpora.support.files import locked, sweep, write_json
from corpora.support.progress import progress
from corpora.text import Corpus, Document
from parsing.cache.files import (
    NAME,
    SHARD_SENTENCES,
    Manifest,
    ShardRow,
    check_shard,
    difference,
    write_shard,
)
from parsing.cache.format import REPLACED_BYTES, TOO_LONG, Batch, join
from parsing.pipeline.workers import FEWER, Part, Pool, parse_parts

PART_SENTENCES = 1024
"""About a second of work: no worker idles longer than that at the end."""
log = logging.getLogger(LOGGER)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What is in the cache, and what this run added."""

    manifest: Manifest
    parsed_now: int
    """Sentences parsed in this run (the others were there already)."""
    seconds: float


@dataclass(slots=True)
class Shard:
    """The text of one shard."""

    index: int
    """From 0; it starts at sentence ``index * shard_sentences``."""
    sentences: list[tuple[str, ...]] = dataclasses.field(default_factory=list)
    """Tokens, as the corpus gave them."""
    flags: list[int] = dataclasses.field(default_factory=list)
    """Flags that the reader set for each sentence: TOO_LONG (it was cut), REPLACED_BYTES."""
    document_starts: list[int] = dataclasses.field(default_factory=list)
    """Sentences of this shard at which a document starts."""
    document_ids: list[str] = dataclasses.field(default_factory=list)
    """Identifiers of these documents."""


def run_corpus(
    corpus: Corpus,
    output: Path,
    pool: Pool,
    *,
    shard_sentences: int = SHARD_SENTENCES,
    part_sentences: int = PART_SENTENCES,
    expected: Callable[[], int | None] = lambda: None,
    config: dict[str, Any] | None = None,
) -> RunSummary:
    """Parse ``corpus`` into the tree cache ``output``, or finish one begun before.

    Args:
        corpus: documents of tokenised sentences.
        output: the cache's folder.
        pool: the workers, not started; the content does not depend on their number.
        shard_sentences: sentences per shard.
        part_sentences: sentences that a worker gets at once.
        expected: estimates the number of sentences for the progress bar; called while workers start.
        config: resolved configuration, saved as ``config.json`` next to the shards, with a log.

    Raises:
        UserError: the folder holds another corpus's cache or is in use; what :func:`parse_parts` raises.
    """
    began = time.monotonic()
    with locked(output):
        stored = Manifest.read(output) if (output / NAME).exists() else None
        sweep(output)
        with pool:
            description = pool.submit("describe")
            total = expected()
            try:
                parsers, inventories = description.result()
            except (BrokenExecutor, MemoryError) as error:
                raise UserError(f"no worker could load the parsers ({error}); {FEWER}") from None
            identity = {**parsers, "corpus": {"name": corpus.name, **corpus.identity}}
            identity["options"] = {**parsers["options"], "shard_sentences": shard_sentences}
            changed = difference(stored.identity, identity) if stored else None
            if changed:
                raise UserError(
                    f"{output}: holds the trees of another run ({changed}); use another --output or delete it"
                )
            manifest = stored or Manifest(
                identity=identity,
                relations=inventories.relations,
                labels=inventories.labels,
                tags=inventories.tags,
                shard_sentences=shard_sentences,
            )
            if config is not None:  # only now: a refused run changes nothing
                log_to(output)
                write_json(output / "config.json", config)
            rows = {row.index: row for row in sound_shards(output, manifest)}
            before = listed(manifest, rows, complete=False).total("sentences")
            if not manifest.complete or len(rows) < len(manifest.shards):
                shards = (one for one in shards_of(corpus, shard_sentences) if one.index not in rows)
                with progress(total=total, initial=before, description="parsing") as bar:
                    for part, row in written(pool, shards, part_sentences, output):
                        bar.update(len(part.sentences))
                        if row is not None:
                            rows[row.index] = row
                            manifest = listed(manifest, rows, complete=False)
                            manifest.write(output)
                if not rows:
                    raise UserError(f"{corpus.name}: has no sentences")
                manifest = listed(manifest, rows, complete=True)
                manifest.write(output)
    return RunSummary(manifest, manifest.total("sentences") - before, time.monotonic() - began)


def listed(manifest: Manifest, rows: dict[int, ShardRow], *, complete: bool) -> Manifest:
    """The manifest with these shards."""
    return dataclasses.replace(manifest, shards=tuple(rows[i] for i in sorted(rows)), complete=complete)


def sound_shards(folder: Path, manifest: Manifest) -> Iterator[ShardRow]:
    """The shards whose files are as they were written; the log tells of the others."""
    for row in manifest.shards:
        try:
            check_shard(folder / row.file, row)
        except UserError as error:
            log.warning("%s; parsing it again", error)
        else:
            yield row


def written(
    pool: Pool, shards: Iterator[Shard], size: int, output: Path
) -> Iterator[tuple[Part, ShardRow | None]]:
    """Parse shards in parts of ``size`` sentences; the last part of each comes with the row of its file."""
    waiting: dict[int, tuple[Shard, dict[int, Batch]]] = {}

    def parts() -> Iterator[Part]:
        for shard in shards:
            waiting[shard.index] = shard, {}
            for start in range(0, len(shard.sentences), size):
                inside = slice(start, start + size)
                yield Part(shard.index, start, shard.sentences[inside], shard.flags[inside])

    for part, batch in parse_parts(pool, parts()):
        shard, done = waiting[part.shard]
        done[part.start] = batch
        row = None
        if sum(map(len, done.values())) == len(shard.sentences):
            whole = join([done[start] for start in sorted(done)])
            row = write_shard(output, shard.index, whole, shard.document_starts, shard.document_ids)
            del waiting[shard.index]
        yield part, row


def shards_of(documents: Iterable[Document], size: int) -> Iterator[Shard]:
    """Cut documents into shards of ``size`` sentences."""
    shard = Shard(0)
    for document in documents:
        for position, sentence in enumerate(document.sentences):
            if position == 0 and not document.continued:
                shard.document_starts.append(len(shard.sentences))
                shard.document_ids.append(encodable(document.id))
            shard.sentences.append(sentence.tokens)
            shard.flags.append(TOO_LONG * sentence.truncated | REPLACED_BYTES * sentence.replaced_bytes)
            if len(shard.sentences) == size:
                yield shard
                shard = Shard(shard.index + 1)
    if shard.sentences:
        yield shard
