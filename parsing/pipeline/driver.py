"""From a corpus to a finished tree cache: hand out shards, list what is done, resume killed runs.

Only this process writes the manifest. A run that is killed anywhere is finished by the same command, and
the content hash of the finished cache equals that of an uninterrupted run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpora.documents import Corpus, Document
from corpora.support.cli import LOGGER, log_to
from corpora.support.errors import UserError
from corpora.support.files import locked, sweep, write_json
from corpora.support.progress import Bar, progress
from parsing.cache.format import REPLACED_BYTES, SHARD_SENTENCES, TOO_LONG, ShardResult, shard_name
from parsing.cache.manifest import NAME, Manifest, difference
from parsing.cache.shard_file import open_listed, write_shard
from parsing.pipeline.local import LocalPool
from parsing.pipeline.parse_shard import ShardOptions
from parsing.pipeline.split import ShardSpec, merge_parts, split_shard
from parsing.pipeline.workers import Parsed, ParserDescription, ParserFactories, WorkerPool

log = logging.getLogger(LOGGER)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSummary:
    """What is in the cache, and what this run added."""

    sentences: int
    tokens: int
    documents: int
    shards: int
    flagged: int
    reasons: dict[str, int]
    """Flagged sentences by reason."""
    parsed_now: int
    """Sentences parsed in this run (the others were there already)."""
    seconds: float
    content_sha256: str


def run_corpus(
    corpus: Corpus,
    output: Path,
    parsers: ParserFactories,
    *,
    options: ShardOptions | None = None,
    workers: int | None = None,
    shard_sentences: int = SHARD_SENTENCES,
    expected: Callable[[], int | None] = lambda: None,
    pool: Callable[[ParserFactories, int | None], WorkerPool] = LocalPool,
    config: dict[str, Any] | None = None,
) -> RunSummary:
    """Parse ``corpus`` into the tree cache ``output``, or finish one begun before.

    Args:
        corpus: documents of tokenised sentences.
        output: the cache's folder.
        parsers: factories of the parsers; None leaves a view out.
        options: limits of parsers and micro-batches.
        workers: processes or actors, default one per core; the content does not depend on them.
        shard_sentences: sentences per shard.
        expected: estimates the number of sentences for the progress bar; called while workers start.
        pool: makes the workers from the factories and their number.
        config: resolved configuration, saved as ``config.json`` next to the shards, with a log.

    Raises:
        UserError: the folder holds another corpus's cache, is in use, or cannot be written.
    """
    options = options or ShardOptions()
    began = time.monotonic()
    wanted = {
        "corpus": {"name": corpus.name, **corpus.identity},
        "options": {**dataclasses.asdict(options), "shard_sentences": shard_sentences},
    }
    with locked(output):
        manifest = _existing(output, wanted)
        sweep(output)
        with pool(parsers, workers) as running:
            total = expected()
            manifest = _agree(manifest, wanted, running.describe(), shard_sentences, output)
            if config is not None:  # only now: a refused run changes nothing
                log_to(output)
                write_json(output / "config.json", config)
            before = sum(row.sentences for row in manifest.rows.values())
            if not manifest.complete:
                specs = shard_specs(corpus, shard_sentences, skip=frozenset(manifest.rows))
                parts = itertools.chain.from_iterable(
                    split_shard(spec, options.part_sentences) for spec in specs
                )
                bar = progress(total=total, initial=before, description="parsing")
                with bar, contextlib.closing(running.run(options, parts)) as results:
                    _store(results, manifest, output, bar)
                _finish(manifest, output, corpus)
    return _summary(manifest, before, time.monotonic() - began)


def shard_specs(
    documents: Iterable[Document], size: int, skip: frozenset[int] = frozenset()
) -> Iterator[ShardSpec]:
    """Cut documents into shards of ``size`` sentences; those in ``skip`` are read and left out."""
    spec = _empty(0)
    for document in documents:
        for position, sentence in enumerate(document.sentences):
            if position == 0 and not document.continued:
                spec.document_starts.append(len(spec.sentences))
                spec.document_ids.append(document.id)
            spec.sentences.append(tuple(sentence.tokens))
            spec.flags.append(TOO_LONG * sentence.truncated | REPLACED_BYTES * sentence.replaced_bytes)
            if len(spec.sentences) == size:
                if spec.index not in skip:
                    yield spec
                spec = _empty(spec.index + 1)
    if spec.sentences and spec.index not in skip:
        yield spec


def _empty(index: int) -> ShardSpec:
    return ShardSpec(index=index, sentences=[], flags=[], document_starts=[], document_ids=[])


def _existing(output: Path, wanted: dict[str, Any]) -> Manifest | None:
    """The manifest of an earlier run of the same corpus and options, without its damaged shards."""
    if not (output / NAME).exists():
        return None
    manifest = Manifest.read(output)
    _refuse_change(manifest, {**manifest.identity, **wanted}, output)
    for row in list(manifest.rows.values()):
        try:
            open_listed(output, row).close()
        except UserError as error:
            log.warning("%s; parsing it again", error)
            del manifest.rows[row.index]
            manifest.complete = False
    return manifest


def _refuse_change(manifest: Manifest, wanted: dict[str, Any], output: Path) -> None:
    changed = difference(manifest.identity, wanted)
    if changed:
        raise UserError(
            f"{output}: holds the trees of another run ({changed}); use another --output or delete it"
        )


def _agree(
    manifest: Manifest | None,
    wanted: dict[str, Any],
    parsers: ParserDescription,
    shard_sentences: int,
    output: Path,
) -> Manifest:
    """The manifest to continue: a new one, or the earlier run's if the parsers are the same."""
    identity = {**wanted, "dependency": parsers.dependency, "constituency": parsers.constituency}
    if manifest is not None:
        _refuse_change(manifest, identity, output)
        return manifest
    return Manifest(identity=identity, inventories=parsers.inventories, shard_sentences=shard_sentences)


def _store(results: Iterator[Parsed], manifest: Manifest, output: Path, bar: Bar) -> None:
    """Merge, write and list each shard as soon as its last part has arrived."""
    waiting: dict[int, dict[int, ShardResult]] = {}
    for spec, result in results:
        done = waiting.setdefault(spec.index, {})
        done[spec.part] = result
        bar.update(len(spec.sentences))
        if len(done) < spec.parts:
            continue
        shard = merge_parts([done[part] for part in range(spec.parts)])
        del waiting[spec.index]
        manifest.rows[spec.index] = write_shard(
            output, shard, identity=manifest.identity, inventories=manifest.inventories
        )
        manifest.write(output)
    assert not waiting, "a part is missing"


def _finish(manifest: Manifest, output: Path, corpus: Corpus) -> None:
    if not manifest.rows:
        raise UserError(f"{corpus.name}: has no sentences")
    assert sorted(manifest.rows) == list(range(len(manifest.rows))), "a shard is missing"
    manifest.complete = True
    manifest.write(output)
    listed = {row.file for row in manifest.rows.values()}
    for path in output.glob(shard_name(0).replace("000000", "*")):
        if path.name not in listed:
            path.unlink()


def _summary(manifest: Manifest, before: int, seconds: float) -> RunSummary:
    rows = manifest.rows.values()
    reasons: Counter[str] = Counter()
    for row in rows:
        reasons.update(row.reasons)
    sentences = sum(row.sentences for row in rows)
    return RunSummary(
        sentences=sentences,
        tokens=sum(row.tokens for row in rows),
        documents=sum(row.documents for row in rows),
        shards=len(manifest.rows),
        flagged=sum(row.flagged for row in rows),
        reasons=dict(reasons),
        parsed_now=sentences - before,
        seconds=seconds,
        content_sha256=manifest.content_sha256(),
    )
