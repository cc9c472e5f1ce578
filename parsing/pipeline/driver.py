"""Parses a corpus into a tree cache with a pool of workers; a run that was killed is resumed.

The driver sends parts of shards to the workers, writes each shard whose parts are all parsed, and lists it in
the manifest. Parts are smaller than shards, so that all cores are busy to the end even if a corpus has only a
few shards. Only the driver writes. The same command resumes a run that was killed at any point; the content
hash of the finished cache equals that of an uninterrupted run, and does not depend on the number of workers.

A pool calls methods of its workers and returns futures; the pool of a Ray cluster is in
:mod:`parsing.pipeline.ray`.
"""

import contextlib
import functools
import itertools
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from corpora.text import Corpus, Document, Sentence
from parsing.names import MANIFEST
from parsing.text_parser import TextParser
from parsing.trees.batch import REPLACED_BYTES, TOO_LONG, Batch, join_batches
from parsing.trees.cache import SHARD_SENTENCES, Manifest, TreeCache, write_shard
from parsing.trees.check import ShardRow, open_shard
from runtime.cli import LOGGER, log_to, warn_once
from runtime.errors import UserError, out_of_memory
from runtime.files import lock_folder, write_json
from runtime.folders import refuse_others
from runtime.pool import Pool
from runtime.progress import progress

PART_SENTENCES = 1024
"""The number of sentences of a part. At the end of a run, workers are idle for at most its time, a second."""
MAX_FAULTS = 20
"""The largest number of faults of a part that are logged; every such sentence is flagged."""
ADVICE = "take fewer --workers, or free memory; the same command resumes"
MakeParser = Callable[[], TextParser]
"""Loads the parsers in the worker process; for a pool of processes it must be picklable."""
log = logging.getLogger(LOGGER)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The manifest of the cache, and the number of sentences that this run parsed, with its seconds."""

    manifest: Manifest
    parsed_now: int
    seconds: float

    def describe(self, folder: Path) -> str:
        """Describe in indented lines what the cache in ``folder`` holds, and how fast this run was."""
        rate = self.parsed_now / self.seconds
        work = f"parsed {self.parsed_now:,} now in {self.seconds:.1f} s: {rate:,.0f} sentences/s"
        work = work if self.parsed_now else "everything was there already"
        return f"{self.manifest.describe(folder)}\n  {work}"


@dataclass(slots=True)
class Shard:
    """The text of one shard, and the trees of those of its parts that are parsed."""

    index: int
    sentences: list[Sentence] = field(default_factory=list)
    document_starts: list[int] = field(default_factory=list)  # sentences
    document_ids: list[str] = field(default_factory=list)
    trees: dict[int, Batch] = field(default_factory=dict)  # by the first sentence of the part


@dataclass(frozen=True, slots=True)
class ShardPart:
    """The sentences ``first`` to ``stop`` (excluded) of a shard, which one worker parses."""

    shard: Shard
    first: int
    stop: int

    def __str__(self) -> str:
        return f"shard {self.shard.index}, sentences {self.first} to {self.stop}"


@dataclass(frozen=True, slots=True)
class ParsedPart:
    """A part of a shard, parsed by a worker."""

    trees: Batch
    faults: list[str]
    """A line for each of the first faults, to be logged by the driver."""


class Worker:
    """Parses parts of shards in a process or Ray actor of a pool."""

    def __init__(self, make: MakeParser) -> None:
        self._make = make

    @functools.cached_property
    def parser(self) -> TextParser:
        """The parsers, which are loaded when they are first needed."""
        return self._make()

    def describe(self) -> Manifest:
        """Return a manifest without shards: the identity of the parsers and the names of their ids."""
        return Manifest(identity=self.parser.identity, **asdict(self.parser.inventories))

    def parse(self, sentences: Sequence[Sentence]) -> ParsedPart:
        """Parse the sentences of a part."""
        faults: list[str] = []
        flags = [TOO_LONG * s.is_truncated + REPLACED_BYTES * s.has_replaced_bytes for s in sentences]
        trees = self.parser.parse_to_batch([s.tokens for s in sentences], flags, faults.append)
        return ParsedPart(trees, faults[:MAX_FAULTS])


def run_corpus(
    corpus: Corpus,
    output: Path,
    pool: Pool,
    *,
    shard_sentences: int = SHARD_SENTENCES,
    config: dict[str, Any] | None = None,
) -> RunSummary:
    """Parse a corpus into a tree cache, or resume a run of the same corpus and options.

    Args:
        corpus: the documents.
        output: the folder of the tree cache.
        pool: the workers, which are started here.
        shard_sentences: the number of sentences of a shard.
        config: the options of the command, which are written to ``config.json`` beside the shards, with a
            log; None writes neither.

    Raises UserError if the folder holds the cache of another run.
    """
    start_time = time.monotonic()
    with lock_folder(output):
        refuse_others(output, "dep_model")
        old_manifest = Manifest.read(output) if (output / MANIFEST).exists() else None
        identity = {"corpus": {"name": corpus.name, **corpus.identity}}
        _refuse_other_run(output, old_manifest, identity)  # before the workers load parsers
        next(iter(corpus), None)  # raises UserError if the corpus has no sentences
        with pool, contextlib.ExitStack() as until_the_end:
            new_manifest = _make_manifest(pool, identity, shard_sentences)
            _refuse_other_run(output, old_manifest, new_manifest.identity)
            manifest = old_manifest or new_manifest
            if config is not None:  # only now, so that a refused run changes nothing
                until_the_end.enter_context(log_to(output))
                write_json(output / "config.json", config)
            rows = tuple(intact_shards(output, manifest))
            old_sentences = sum(row.sentences for row in rows)
            if not manifest.complete or len(rows) < len(manifest.shards):
                manifest = _parse_shards(replace(manifest, shards=rows), corpus, output, pool)
    return RunSummary(manifest, manifest.total("sentences") - old_sentences, time.monotonic() - start_time)


def _refuse_other_run(output: Path, manifest: Manifest | None, identity: Mapping[str, Any]) -> None:
    """Raise UserError if the manifest of a cache has another value for a key of ``identity``."""
    old_identity = {key: manifest.identity.get(key) for key in identity} if manifest else identity
    if change := first_difference(old_identity, identity):
        reason = f"holds the trees of another run ({change})"
        raise UserError(f"{output}: {reason}; use another --output or delete it")


def first_difference(old: Any, new: Any, name: str = "") -> str | None:
    """Return the first difference of two identities, as ``corpus.sha256: 'a' is now 'b'``, or None."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = sorted({*old, *new})
        changes = (first_difference(old.get(key), new.get(key), f"{name}.{key}") for key in keys)
        return next(filter(None, changes), None)
    return None if old == new else f"{name.lstrip('.')}: {old!r} is now {new!r}"


def _make_manifest(pool: Pool, corpus: Mapping[str, Any], shard_sentences: int) -> Manifest:
    """Return the manifest of a corpus and of the workers' parsers, without shards."""
    description = pool.submit("describe")
    try:
        parsers: Manifest = description.result()
    except (BrokenExecutor, MemoryError) as error:
        raise UserError(f"no worker could load the parsers ({error}); {ADVICE}") from None
    options = {**parsers.identity["options"], "shard_sentences": shard_sentences}
    identity = {**parsers.identity, **corpus, "options": options}
    return replace(parsers, identity=identity, shard_sentences=shard_sentences)


def _parse_shards(manifest: Manifest, corpus: Corpus, output: Path, pool: Pool) -> Manifest:
    """Parse the shards that the manifest does not list; return the final manifest, which is also written."""
    rows = {row.index: row for row in manifest.shards}
    parts = (
        ShardPart(shard, first, min(first + PART_SENTENCES, len(shard.sentences)))
        for shard in cut_into_shards(corpus, manifest.shard_sentences)
        if shard.index not in rows
        for first in range(0, len(shard.sentences), PART_SENTENCES)
    )
    old_sentences = manifest.total("sentences")
    with progress(with_estimated_total=True, initial=old_sentences, description="parsing") as bar:
        for part in parse_parts(pool, parts):
            bar.total = corpus.estimate_length()
            bar.update(part.stop - part.first)
            shard = part.shard
            if sum(map(len, shard.trees.values())) == len(shard.sentences):
                trees = join_batches([shard.trees[first] for first in sorted(shard.trees)])
                starts, ids = shard.document_starts, shard.document_ids
                rows[shard.index] = write_shard(output, shard.index, trees, starts, ids)
                sorted_rows = tuple(rows[index] for index in sorted(rows))
                manifest = replace(manifest, shards=sorted_rows, complete=False)
                manifest.write(output)
    manifest = replace(manifest, complete=True)
    manifest.write(output)
    return manifest


def intact_shards(folder: Path, manifest: Manifest) -> Iterator[ShardRow]:
    """Yield the rows of shards whose files are undamaged; log the others, which have to be parsed again."""
    fields = TreeCache(folder, manifest).fields
    for row in manifest.shards:
        try:
            open_shard(folder / row.file, row, row.index * manifest.shard_sentences, manifest, fields).close()
        except UserError as error:
            log.warning("%s; parsing it again", error)
        else:
            yield row


def cut_into_shards(documents: Iterable[Document], size: int) -> Iterator[Shard]:
    """Yield the sentences of documents in shards of ``size``."""
    shard = Shard(0)
    for document in documents:
        for position, sentence in enumerate(document.sentences):
            if position == 0 and not document.is_continuation:
                shard.document_starts.append(len(shard.sentences))
                shard.document_ids.append(document.id.encode("utf-8", "replace").decode("utf-8"))
            shard.sentences.append(sentence)
            if len(shard.sentences) == size:
                yield shard
                shard = Shard(shard.index + 1)
    if shard.sentences:
        yield shard


def parse_parts(pool: Pool, parts: Iterator[ShardPart]) -> Iterator[ShardPart]:
    """Send parts to the pool; yield each part when its trees are stored in its shard.

    A part that fails, or whose worker dies, is tried again when no other part is running. There may not be
    enough memory for two parts, and if a worker dies again it is clear which part is the reason. Dead workers
    are replaced.
    """
    running: dict[Future[ParsedPart], ShardPart] = {}
    failed_parts: list[ShardPart] = []
    while True:
        is_retry = bool(failed_parts) and not running
        next_parts: Iterable[ShardPart] = ()
        if is_retry:
            next_parts = [failed_parts.pop()]
        elif not failed_parts:
            next_parts = itertools.islice(parts, 2 * pool.size - len(running))
        for part in next_parts:
            running[pool.submit("parse", part.shard.sentences[part.first : part.stop])] = part
        if not running:
            return
        done = wait(running, return_when=FIRST_COMPLETED).done
        for future in sorted(done, key=_has_failed):  # an error may end the run; first keep what is parsed
            part = running.pop(future)
            try:
                parsed = future.result()
            except UserError:
                raise
            except Exception as error:
                if is_retry:
                    raise _error_of_second_failure(part, error) from error
                log.warning("%s: its worker failed (%s); trying again", part, _describe(error))
                failed_parts.append(part)
            else:
                for fault in parsed.faults:
                    warn_once(fault)
                part.shard.trees[part.first] = parsed.trees
                yield part


def _has_failed(future: Future[ParsedPart]) -> bool:
    return future.exception() is not None


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def _error_of_second_failure(part: ShardPart, error: Exception) -> UserError | RuntimeError:
    """Return the error that ends the run: UserError if a worker died or memory was short."""
    if isinstance(error, BrokenExecutor) or out_of_memory(error):
        return UserError(f"{part}: its worker failed twice ({_describe(error)}); {ADVICE}")
    return RuntimeError(f"{part}: failed twice")
