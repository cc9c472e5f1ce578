"""Runs: any number of workers, killed, damaged, changed or twice at once, give the same cache or one line."""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from corpora.documents import Document, Sentence
from corpora.support.errors import UserError
from corpora.support.files import locked
from parsing.cache.manifest import Manifest
from parsing.cache.reader import TreeCache
from parsing.pipeline.driver import run_corpus, shard_specs
from parsing.pipeline.local import LocalPool
from parsing.pipeline.parse_shard import ShardOptions
from parsing.pipeline.workers import ParserFactories
from tests.conftest import ROOT
from tests.parsing.pipeline.toy_corpus import ListCorpus, ToyCorpus
from tests.parsing.pipeline.toy_parsers import (
    DyingDependencyParser,
    HungryDependencyParser,
    SlowDependencyParser,
    ToyConstituencyParser,
    ToyDependencyParser,
    killed_while_it_loads,
    too_large,
)

TOYS = ParserFactories(dependency=ToyDependencyParser, constituency=ToyConstituencyParser)
SHARD = 64
OPTIONS = ShardOptions(part_sentences=40)


def run(corpus, folder: Path, parsers: ParserFactories = TOYS, **options):
    return run_corpus(
        corpus, folder, parsers, **{"workers": 1, "shard_sentences": SHARD, "options": OPTIONS, **options}
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """An uninterrupted run of 500 sentences with one worker."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    run(ToyCorpus(500), folder)
    return folder


def content(folder: Path) -> str:
    return TreeCache.open(folder).identity["content_sha256"]


def test_shards_cut_documents_and_record_it() -> None:
    documents = [
        Document(str(i), tuple(Sentence((f"{i}.{j}",)) for j in range(size)))
        for i, size in enumerate((3, 0, 9, 1))
    ]
    specs = list(shard_specs(documents, 4))
    assert [[s[0] for s in spec.sentences] for spec in specs] == [
        ["0.0", "0.1", "0.2", "2.0"],
        ["2.1", "2.2", "2.3", "2.4"],
        ["2.5", "2.6", "2.7", "2.8"],
        ["3.0"],
    ]
    assert [spec.document_starts for spec in specs] == [[0, 3], [], [], [0]]
    assert [spec.document_ids for spec in specs] == [["0", "2"], [], [], ["3"]]
    assert [spec.continues for spec in specs] == [False, True, True, False]
    assert [spec.index for spec in shard_specs(documents, 4, skip=frozenset({1}))] == [0, 2, 3]


def test_a_document_in_pieces_is_one_document() -> None:
    pieces = [
        Document("long", (Sentence(("a",)), Sentence(("b",)))),
        Document("long", (Sentence(("c",)),), continued=True),
        Document("next", (Sentence(("d",)),)),
    ]
    (spec,) = shard_specs(pieces, 8)
    assert spec.document_starts == [0, 3] and spec.document_ids == ["long", "next"]


def test_the_cache_holds_the_corpus(whole: Path) -> None:
    cache, corpus = TreeCache.open(whole), ToyCorpus(500)
    documents = list(corpus)
    words = [list(s.tokens) for d in documents for s in d.sentences]
    assert list(cache.read(0, 500).words()) == words
    assert cache.documents().tolist() == np.cumsum([0, *(len(d.sentences) for d in documents)]).tolist()
    assert cache.document_ids() == [d.id for d in documents]


def test_workers_have_no_say_in_the_content(whole: Path, tmp_path: Path) -> None:
    summary = run(ToyCorpus(500), tmp_path / "two", workers=2)
    assert summary.content_sha256 == content(whole)
    for path in whole.glob("shard-*"):
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()
    assert (whole / "manifest.json").read_bytes() == (tmp_path / "two" / "manifest.json").read_bytes()


def test_a_finished_cache_is_not_parsed_again(whole: Path) -> None:
    before = (whole / "manifest.json").read_bytes()
    summary = run(ToyCorpus(500), whole)
    assert summary.parsed_now == 0 and summary.sentences == 500
    assert (whole / "manifest.json").read_bytes() == before


def launch(script: str, *values: object) -> subprocess.Popen:
    """Run ``script`` on ``values`` in a process of its own, which a test may kill."""
    prelude = (
        "import sys, pickle, base64; from parsing.pipeline.driver import run_corpus\n"
        "from tests.parsing.pipeline.test_driver import OPTIONS\n"
        "values = pickle.loads(base64.b64decode(sys.argv[1]))\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", prelude + script, base64.b64encode(pickle.dumps(values)).decode()],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
    )


def start(folder: Path, seconds: float) -> subprocess.Popen:
    """The run of ``whole`` with two workers, slowed down to ``seconds`` per micro-batch."""
    slow = functools.partial(SlowDependencyParser, seconds=seconds)
    parsers = ParserFactories(dependency=slow, constituency=ToyConstituencyParser)
    script = f"run_corpus(*values, workers=2, shard_sentences={SHARD}, options=OPTIONS)"
    return launch(script, ToyCorpus(500), folder, parsers)


def wait_for_rows(folder: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if (folder / "manifest.json").exists() and len(Manifest.read(folder).rows) >= count:
            return
        time.sleep(0.01)


def kill_and_resume(whole: Path, folder: Path, kills: int, seed: int) -> None:
    """SIGKILL the driver at random instants once it is at work; then let it end."""
    randomness = random.Random(seed)
    for _ in range(kills):
        done = len(Manifest.read(folder).rows) if (folder / "manifest.json").exists() else 0
        process = start(folder, seconds=0.1)
        wait_for_rows(folder, done + 1)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(randomness.uniform(0, 0.2))
        process.kill()
        process.communicate()
        for row in Manifest.read(folder).rows.values():
            assert (folder / row.file).exists()
    assert run(ToyCorpus(500), folder).content_sha256 == content(whole)
    assert not list(folder.glob(".*.tmp"))


def test_killed_runs_resume_to_the_same_content(whole: Path, tmp_path: Path) -> None:
    kill_and_resume(whole, tmp_path / "killed", kills=3, seed=1)


@pytest.mark.slow
def test_killed_twenty_times(whole: Path, tmp_path: Path) -> None:
    for seed in range(5):
        kill_and_resume(whole, tmp_path / f"killed-{seed}", kills=5, seed=seed)


def test_a_dead_worker_is_replaced_and_its_shard_tried_again(tmp_path: Path) -> None:
    sentences = [Sentence(("all", "well"))] * 100 + [Sentence(("die", "here"))]
    corpus = ListCorpus(sentences)
    dying = functools.partial(DyingDependencyParser, marker=tmp_path / "died")
    run(corpus, tmp_path / "a", ParserFactories(dependency=dying))
    assert (tmp_path / "died").exists()
    run(corpus, tmp_path / "b", ParserFactories(dependency=ToyDependencyParser))
    assert content(tmp_path / "a") == content(tmp_path / "b")


def test_a_worker_that_dies_idle_is_replaced() -> None:
    """Before, it ended the run: "a worker could not start"."""
    spec = next(shard_specs(ToyCorpus(5), 8))
    with LocalPool(TOYS, 2) as pool:
        pool.describe()
        while not all(worker.ready for worker in pool._workers):
            for worker, message in pool._events(None):
                pool._greet(worker, message)
        idle = pool._workers[0]  # work goes to the last one first
        idle.process.kill()
        idle.process.join()
        assert [part.index for part, _ in pool.run(OPTIONS, iter([spec]))] == [0]
        assert idle not in pool._workers and len(pool._workers) == 2


def test_a_shard_that_kills_two_workers_is_a_clear_fault(tmp_path: Path) -> None:
    corpus = ListCorpus([Sentence(("all", "well"))] * 100 + [Sentence(("die", "here"))])
    with pytest.raises(UserError, match=r"shard 1, part 1 of 1: failed 2 times; .* exit code 9"):
        run(corpus, tmp_path, ParserFactories(dependency=DyingDependencyParser))
    assert list(Manifest.read(tmp_path).rows) == [0]  # what was finished is kept


@pytest.mark.parametrize("load", [killed_while_it_loads, too_large])
def test_the_others_go_on_without_a_worker_that_cannot_load(whole: Path, tmp_path: Path, load) -> None:
    loading = functools.partial(load, marker=tmp_path / "first")
    parsers = ParserFactories(dependency=loading, constituency=ToyConstituencyParser)
    run(ToyCorpus(500), tmp_path / "cache", parsers, workers=2)
    assert (tmp_path / "first").exists() and content(tmp_path / "cache") == content(whole)


@pytest.mark.parametrize(
    ("load", "reason"),
    [(killed_while_it_loads, "its process ended with exit code -9"), (too_large, "Unable to allocate")],
)
def test_no_worker_that_can_load_is_one_line(tmp_path: Path, load, reason: str) -> None:
    parsers = ParserFactories(dependency=functools.partial(load, marker=None))
    with pytest.raises(UserError, match=rf"no worker could load the parsers \(.*{reason}") as refusal:
        run(ToyCorpus(50), tmp_path, parsers, workers=2)
    assert "\n" not in str(refusal.value) and "fewer --workers" in str(refusal.value)


def test_a_system_that_starts_no_more_processes_gets_fewer_workers(
    tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(pool: LocalPool):
        if pool._workers:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return original(pool)

    original = LocalPool._start
    monkeypatch.setattr(LocalPool, "_start", start)
    run(ToyCorpus(500), tmp_path, workers=3)
    assert content(tmp_path) == content(whole)


def test_no_memory_for_a_sentence_gives_no_fallback_tree(tmp_path: Path) -> None:
    corpus = ListCorpus([Sentence(("so", "much"))] * 3)
    hungry = functools.partial(HungryDependencyParser, marker=tmp_path / "once")
    run(corpus, tmp_path / "a", ParserFactories(dependency=hungry))
    run(corpus, tmp_path / "b", ParserFactories(dependency=ToyDependencyParser))
    assert (tmp_path / "once").exists() and content(tmp_path / "a") == content(tmp_path / "b")
    with pytest.raises(UserError, match=r"failed 2 times; MemoryError; take fewer --workers"):
        run(corpus, tmp_path / "c", ParserFactories(dependency=HungryDependencyParser))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"corpus": ToyCorpus(500, seed=1)}, "corpus.input_sha256: '500/0' is now '500/1'"),
        ({"shard_sentences": 32}, "options.shard_sentences: 64 is now 32"),
        ({"parsers": ParserFactories(dependency=ToyDependencyParser)}, "constituency: .* is now None"),
    ],
)
def test_a_change_is_refused(whole: Path, change: dict, message: str) -> None:
    before = {path.name: path.read_bytes() for path in whole.iterdir()}
    with pytest.raises(UserError, match=message):
        run(change.pop("corpus", ToyCorpus(500)), whole, change.pop("parsers", TOYS), **change)
    assert {path.name: path.read_bytes() for path in whole.iterdir()} == before


class OtherDependencyParser(ToyDependencyParser):
    identity = {**ToyDependencyParser.identity, "version": "2"}  # noqa: RUF012


def test_another_parser_version_is_refused(whole: Path) -> None:
    parsers = ParserFactories(dependency=OtherDependencyParser, constituency=ToyConstituencyParser)
    with pytest.raises(UserError, match=r"dependency\.version: '1' is now '2'"):
        run(ToyCorpus(500), whole, parsers)


def test_two_runs_at_once_are_refused(tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(UserError, match="another run is writing here"):
        run(ToyCorpus(10), tmp_path)
    run(ToyCorpus(10), tmp_path)


def test_damaged_and_missing_shards_are_parsed_again(whole: Path, tmp_path: Path) -> None:
    run(ToyCorpus(500), tmp_path)
    victim = tmp_path / "shard-000002.h5"
    victim.write_bytes(victim.read_bytes()[:100])
    (tmp_path / "shard-000004.h5").unlink()
    summary = run(ToyCorpus(500), tmp_path)
    assert summary.parsed_now == 2 * SHARD and summary.content_sha256 == content(whole)


def test_a_shard_with_a_flipped_bit_is_parsed_again(whole: Path, tmp_path: Path) -> None:
    run(ToyCorpus(500), tmp_path)
    manifest = tmp_path / "manifest.json"
    before = manifest.read_bytes()
    victim = tmp_path / "shard-000002.h5"
    content_bytes = bytearray(victim.read_bytes())
    content_bytes[len(content_bytes) // 2] ^= 16
    victim.write_bytes(content_bytes)
    assert run(ToyCorpus(500), tmp_path).parsed_now == SHARD
    assert manifest.read_bytes() == before
    assert victim.read_bytes() == (whole / victim.name).read_bytes()


def test_a_file_in_the_folders_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        run(ToyCorpus(10), tmp_path / "file" / "cache")


def test_a_full_disk_is_one_line_and_the_listed_shards_stay(whole: Path, tmp_path: Path) -> None:
    """RLIMIT_FSIZE stands for the full disk: writes beyond it fail, as ENOSPC does."""
    limit = (whole / "shard-000000.h5").stat().st_size - 500
    script = (
        "import resource, signal; from corpora.support.errors import UserError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, resource.RLIM_INFINITY))\n"
        "try:\n"
        f"    run_corpus(*values, workers=1, shard_sentences={SHARD}, options=OPTIONS)\n"
        "except UserError as error:\n"
        "    print('REFUSED', error, file=sys.stderr)\n"
    )
    process = launch(script, ToyCorpus(500), tmp_path, TOYS)
    _, errors = process.communicate(timeout=120)
    assert "REFUSED" in errors and "cannot be written" in errors, errors
    if (tmp_path / "manifest.json").exists():
        assert not Manifest.read(tmp_path).complete
    assert run(ToyCorpus(500), tmp_path).content_sha256 == content(whole)


def test_an_empty_corpus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no sentences"):
        run(ToyCorpus(0), tmp_path)


def test_a_corpus_that_cannot_be_read_ends_the_run(tmp_path: Path) -> None:
    class Broken(ToyCorpus):
        def __iter__(self):
            yield from list(super().__iter__())[:6]
            raise UserError("input.txt, line 7: nonsense")

    with pytest.raises(UserError, match="line 7"):
        run(Broken(500), tmp_path)


def test_interrupt_signal_leaves_a_resumable_cache(whole: Path, tmp_path: Path) -> None:
    process = start(tmp_path, seconds=0.6)
    wait_for_rows(tmp_path, 1)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    rows = json.loads((tmp_path / "manifest.json").read_text())["shards"]
    assert rows and (len(rows) < 8 or process.returncode == 0)  # a busy machine may be done before the signal
    assert run(ToyCorpus(500), tmp_path).content_sha256 == content(whole)
