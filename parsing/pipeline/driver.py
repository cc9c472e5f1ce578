"""From a corpus to a finished tree cache: hand out parts of shards, list what is done, resume killed runs.

Only this process writes. A run that is killed anywhere is finished by the same command, and the content hash
of the finished cache equals that of an uninterrupted run. A shard is handed out in parts, so that all cores
are busy to the end even if a corpus has only a few shards.

A pool calls methods of its :class:`Worker` objects and returns futures; that of a cluster is in
:mod:`parsing.pipeline.ray`. Workers have no say in what comes out.
"""

import ctypes
import functools
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from unittest.mock import patch

from corpora.text import Corpus, Document
from parsing.text_parser import TextParser
from parsing.trees.batch import REPLACED_BYTES, TOO_LONG, Batch, Inventories, join_batches
from parsing.trees.cache import NAME, SHARD_SENTENCES, Manifest, TreeCache, write_shard
from parsing.trees.check import ShardRow, open_shard
from runtime.cli import LOGGER, log_to, warn_once
from runtime.errors import UserError, out_of_memory
from runtime.files import lock_folder, write_json
from runtime.folders import refuse_others
from runtime.progress import progress
from runtime.surroundings import available_cores

PART_SENTENCES = 1024
"""About a second of work: no worker idles longer than that at the end."""
ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
SHOWN_FAULTS = 20
"""Faults of one part that the log has; all are flagged."""
FEWER = "take fewer --workers, or free memory; the same command resumes"
MakeParser = Callable[[], TextParser]
"""Loads the parsers where they are to work; it must be picklable for a pool of processes."""
log = logging.getLogger(LOGGER)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What is in the cache, and how many sentences this run parsed."""

    manifest: Manifest
    parsed_now: int
    seconds: float


@dataclass(slots=True)
class Shard:
    """The text of one shard, and in ``done`` the trees of its parts by their first sentence.

    ``flags`` are the reader's: TOO_LONG (it cut the sentence), REPLACED_BYTES. Documents of ``document_ids``
    start at the sentences ``document_starts``.
    """

    index: int
    sentences: list[tuple[str, ...]] = field(default_factory=list)
    flags: list[int] = field(default_factory=list)
    document_starts: list[int] = field(default_factory=list)
    document_ids: list[str] = field(default_factory=list)
    done: dict[int, Batch] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Part:
    """The sentences ``start`` to ``stop`` (excluded) of a shard."""

    shard: Shard
    start: int
    stop: int

    def __str__(self) -> str:
        return f"shard {self.shard.index}, sentences {self.start} to {self.stop}"


class Worker:
    """Parses, in this process, parts that a pool hands to it."""

    def __init__(self, make: MakeParser) -> None:
        self._make = make

    @functools.cached_property
    def parser(self) -> TextParser:
        """Load the parsers when they are first needed."""
        return self._make()

    def describe(self) -> tuple[dict[str, Any], Inventories]:
        """Say what decides the trees, and the names of their ids."""
        return self.parser.identity, self.parser.inventories

    def parse(self, sentences: Sequence[Sequence[str]], flags: Sequence[int]) -> tuple[Batch, list[str]]:
        """Parse the sentences of a part; return their trees and the faults that the log is to have."""
        faults: list[str] = []
        return self.parser.arrays(sentences, flags, faults.append), faults[:SHOWN_FAULTS]


class Pool(AbstractContextManager["Pool"]):
    """Parses in this process: for a few sentences that is faster than starting workers."""

    size = 1

    def __init__(self, make: MakeParser) -> None:
        self._worker = Worker(make)

    def __exit__(self, *error: object) -> None: ...

    def submit(self, method: str, *args: Any) -> Future[Any]:
        """Call a method of the worker at once; if it fails, its error is raised here."""
        future: Future[Any] = Future()
        future.set_result(getattr(self._worker, method)(*args))
        return future


class LocalPool(Pool):
    """Parses in spawned processes on this machine, one thread each; None is one per core.

    Several ``makes``, one per GPU, are shared evenly by the processes.
    """

    def __init__(self, makes: MakeParser | Sequence[MakeParser], workers: int | None = None) -> None:
        self._makes = [makes] if callable(makes) else list(makes)
        self.size = workers or available_cores()

    def __enter__(self) -> Pool:
        try:
            self._start()
        except (OSError, ImportError) as error:  # such as a read-only /dev/shm: no lock can be shared
            log.warning("no processes can be started (%s): this one parses alone", error)
            return Pool(self._makes[0])
        return self

    def __exit__(self, *error: object) -> None:
        if not hasattr(self, "_executor"):
            return
        self._alive.close()  # before the parts that wait for an idle process are worked off
        self._executor.shutdown(cancel_futures=True)

    def submit(self, method: str, *args: Any) -> Future[Any]:
        """Call a method of the next idle process's worker; all are started anew once one has died."""
        try:
            return self._executor.submit(_call, method, *args)
        except BrokenExecutor:
            self._start()
            return self._executor.submit(_call, method, *args)

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        end, self._alive = context.Pipe(duplex=False)
        begin = (self._makes, context.Value("i", 0), end)
        self._executor = ProcessPoolExecutor(self.size, context, _begin, begin)
        # A terminal sends Ctrl-C to all; processes that start now never see it, the driver does afterwards.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            # Of the standard library, patch.dict alone sets variables and puts the old ones back.
            with patch.dict(os.environ, ONE_THREAD):
                for _ in range(self.size):  # starts a process each, which loads its parsers
                    self._executor.submit(_call, "describe")
        except BaseException as error:
            self.__exit__()
            if isinstance(error, OSError):  # the system refuses another process
                reason = f"{self.size} workers cannot be started ({error.strerror})"
                raise UserError(f"{reason}; {FEWER}") from None
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


_worker: Worker
"""The worker of this process, if it is one of a :class:`LocalPool`."""
_at_work = threading.Lock()


def _begin(makes: Sequence[MakeParser], started: Any, pool: Connection) -> None:
    """Set up a worker's process: it takes its turn among ``makes``, and ends with its pool."""
    global _worker

    # Where the driver is killed, each worker would wait for its next part for ever. So a thread
    # 1. waits until the driver's end of a pipe is closed, by the driver or, once that is dead, by the system;
    # 2. waits a second where the worker is not computing: it may be sending its answer, and a driver that
    #    lives and closes its pool would wait for ever for the rest of half an answer;
    # 3. ends the process at once, since the main thread leaves neither its computation nor its wait.
    def end_with_pool() -> None:
        pool.poll(None)
        if not _at_work.locked():
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=end_with_pool, daemon=True).start()
    with started.get_lock():
        _worker = Worker(makes[started.value % len(makes)])
        started.value += 1


def _call(method: str, *args: Any) -> Any:
    """Call a method of this process's worker."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    with _at_work:
        try:
            return getattr(_worker, method)(*args)
        finally:
            give_memory_back()


def _refuse_other(output: Path, stored: Manifest | None, identity: Mapping[str, Any]) -> None:
    """Refuse a cache that was made with another value of one of these parts of its identity."""
    identity_of_cache = {part: stored.identity.get(part) for part in identity} if stored else identity
    if changed := difference(identity_of_cache, identity):
        other = f"the trees of another run ({changed})"
        raise UserError(f"{output}: holds {other}; use another --output or delete it")


def run_corpus(
    corpus: Corpus,
    output: Path,
    pool: Pool,
    *,
    shard_sentences: int = SHARD_SENTENCES,
    part_sentences: int = PART_SENTENCES,
    config: dict[str, Any] | None = None,
) -> RunSummary:
    """Parse ``corpus`` into the tree cache ``output``, or finish one begun before.

    The pool is not started; the content does not depend on its number of workers, each of which gets
    ``part_sentences`` at once. ``config`` is saved as ``config.json`` next to the shards, with a log. A
    UserError says that the folder holds another corpus's cache.
    """
    began = time.monotonic()
    with lock_folder(output):
        refuse_others(output, "dep_model")
        stored = Manifest.read(output) if (output / NAME).exists() else None
        text = {"corpus": {"name": corpus.name, **corpus.identity}}
        _refuse_other(output, stored, text)  # before workers load parsers
        next(iter(corpus), None)  # so is one without sentences
        with pool as pool:
            manifest = _manifest(pool, text, shard_sentences)
            _refuse_other(output, stored, manifest.identity)
            manifest = stored or manifest
            if config is not None:  # only now: a refused run changes nothing
                log_to(output)
                write_json(output / "config.json", config)
            sound = tuple(sound_shards(output, manifest))
            before = sum(row.sentences for row in sound)
            if not manifest.complete or len(sound) < len(manifest.shards):
                manifest = _finish(replace(manifest, shards=sound), corpus, output, pool, part_sentences)
    return RunSummary(manifest, manifest.total("sentences") - before, time.monotonic() - began)


def _finish(manifest: Manifest, corpus: Corpus, output: Path, pool: Pool, part_sentences: int) -> Manifest:
    """Parse the shards that are not listed, list each when it is written, and return the whole manifest."""
    rows = {row.index: row for row in manifest.shards}
    parts = (
        Part(shard, start, min(start + part_sentences, len(shard.sentences)))
        for shard in shards_of(corpus, manifest.shard_sentences)
        if shard.index not in rows
        for start in range(0, len(shard.sentences), part_sentences)
    )
    with progress(
        with_estimated_total=True, initial=manifest.total("sentences"), description="parsing"
    ) as bar:
        for part, batch in parse_parts(pool, parts):
            bar.total = corpus.expected()
            bar.update(len(batch))
            shard, done = part.shard, part.shard.done
            done[part.start] = batch
            if sum(map(len, done.values())) == len(shard.sentences):
                trees = join_batches([done[start] for start in sorted(done)])
                starts, ids = shard.document_starts, shard.document_ids
                rows[shard.index] = write_shard(output, shard.index, trees, starts, ids)
                shards = tuple(row for _, row in sorted(rows.items()))
                manifest = replace(manifest, shards=shards, complete=False)
                manifest.write(output)
    manifest = replace(manifest, complete=True)
    manifest.write(output)
    return manifest


def _manifest(pool: Pool, text: Mapping[str, Any], shard_sentences: int) -> Manifest:
    """Make the manifest of a text that the workers' parsers will parse; it lists no shard yet."""
    description = pool.submit("describe")
    try:
        parsers, inventories = description.result()
    except (BrokenExecutor, MemoryError) as error:
        raise UserError(f"no worker could load the parsers ({error}); {FEWER}") from None
    options = {**parsers["options"], "shard_sentences": shard_sentences}
    identity = {**parsers, **text, "options": options}
    return Manifest(identity=identity, shard_sentences=shard_sentences, **asdict(inventories))


def difference(stored: Any, wanted: Any, at: str = "") -> str | None:
    """Name the first value that differs between two identities: ``corpus.sha256: 'a' is now 'b'``."""
    if isinstance(stored, dict) and isinstance(wanted, dict):
        for key in sorted(set(stored) | set(wanted)):
            first = difference(stored.get(key), wanted.get(key), f"{at}.{key}" if at else key)
            if first:
                return first
        return None
    return None if stored == wanted else f"{at}: {stored!r} is now {wanted!r}"


def sound_shards(folder: Path, manifest: Manifest) -> Iterator[ShardRow]:
    """Yield the listed shards whose files are unchanged and sound; log those to be parsed again."""
    fields = TreeCache(folder, manifest).fields
    for row in manifest.shards:
        try:
            open_shard(folder / row.file, row, row.index * manifest.shard_sentences, manifest, fields).close()
        except UserError as error:
            log.warning("%s; parsing it again", error)
        else:
            yield row


def shards_of(documents: Iterable[Document], size: int) -> Iterator[Shard]:
    """Cut documents into shards of ``size`` sentences."""
    shard = Shard(0)
    for document in documents:
        for position, sentence in enumerate(document.sentences):
            if position == 0 and not document.continued:
                shard.document_starts.append(len(shard.sentences))
                shard.document_ids.append(document.id.encode("utf-8", "replace").decode("utf-8"))
            shard.sentences.append(sentence.tokens)
            shard.flags.append(TOO_LONG * sentence.truncated | REPLACED_BYTES * sentence.replaced_bytes)
            if len(shard.sentences) == size:
                yield shard
                shard = Shard(shard.index + 1)
    if shard.sentences:
        yield shard


def parse_parts(pool: Pool, parts: Iterator[Part]) -> Iterator[tuple[Part, Batch]]:
    """Hand parts to the pool; yield each with its trees as soon as these are done.

    A part that fails, or whose worker dies, is tried again, then with nothing else at work: there may be no
    memory for two, and it shows which part is at fault. Dead workers are replaced. If it fails again, that is
    a UserError where workers died or had no memory, else a RuntimeError. The function is long because what is
    running and what is tried again change together.
    """
    running: dict[Future[tuple[Batch, list[str]]], Part] = {}
    again: list[Part] = []
    while True:
        alone = bool(again) and not running
        while (alone or not again) and len(running) < (1 if alone else 2 * pool.size):
            part = again.pop() if alone else next(parts, None)
            if part is None:
                break
            inside = slice(part.start, part.stop)
            running[pool.submit("parse", part.shard.sentences[inside], part.shard.flags[inside])] = part
        if not running:
            return
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            part = running.pop(future)
            try:
                batch, faults = future.result()
            except UserError:
                raise
            except Exception as error:
                no_memory = isinstance(error, BrokenExecutor) or out_of_memory(error)
                reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
                if alone and no_memory:
                    raise UserError(f"{part}: its worker failed twice ({reason}); {FEWER}") from None
                if alone:
                    raise RuntimeError(f"{part}: failed twice") from error
                log.warning("%s: its worker failed (%s); trying again", part, reason)
                again.append(part)
            else:
                for fault in faults:
                    warn_once(fault)
                yield part, batch


def give_memory_back() -> None:
    """Return freed memory to the system: glibc keeps the fragments left by batches of changing shapes."""
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)
