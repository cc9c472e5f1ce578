"""Runs: any number of workers, killed, damaged, changed or twice at once, give the same cache or one line."""

import dataclasses
import errno
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from unittest.mock import Mock, patch

import h5py
import pytest

from corpora.text import Document, Sentence
from parsing.pipeline.driver import (
    ParsedPart,
    Shard,
    ShardPart,
    Worker,
    cut_into_shards,
    parse_parts,
    run_corpus,
)
from parsing.run import cli
from parsing.text_parser import TextParser
from parsing.trees.batch import DeviceLost
from parsing.trees.cache import Manifest, TreeCache
from runtime.errors import UserError
from runtime.files import lock_folder, sha256_file
from runtime.pool import LocalPool, Pool
from tests.fixtures.files import differing
from tests.fixtures.processes import ROOT
from tests.parsing.pipeline.toy_parsers import (
    FailingDependencyParser,
    ToyDependencyParser,
    corpus_of,
    die,
    documents_of,
    load_toys,
    lose_device,
    no_memory,
    toy_corpus,
    toys,
)

SHARD = 64


def run(corpus, folder: Path, pool=None, part_sentences: int = 40, **options):
    with patch("parsing.pipeline.driver.PART_SENTENCES", part_sentences):
        return run_corpus(corpus, folder, pool or Pool(Worker, toys), **{"shard_sentences": SHARD, **options})


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """An uninterrupted run of 500 sentences in this process."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    run(toy_corpus(500), folder)
    return folder


def test_shards_cut_documents_and_record_it() -> None:
    documents = [
        Document(str(i), tuple(Sentence((f"{i}.{j}",)) for j in range(size)))
        for i, size in enumerate((3, 0, 9, 1))
    ]
    documents.append(
        Document("3", (Sentence(("3.1",)),), is_continuation=True)
    )  # a document in pieces is one
    shards = list(cut_into_shards(documents, 4))
    assert [[s.tokens[0] for s in shard.sentences] for shard in shards] == [
        ["0.0", "0.1", "0.2", "2.0"],
        ["2.1", "2.2", "2.3", "2.4"],
        ["2.5", "2.6", "2.7", "2.8"],
        ["3.0", "3.1"],
    ]
    assert [shard.document_starts for shard in shards] == [[0, 3], [], [], [0]]
    assert [shard.document_ids for shard in shards] == [["0", "2"], [], [], ["3"]]


def content(folder: Path) -> str:
    return TreeCache.open(folder).identity["content_sha256"]


@pytest.mark.parametrize(
    ("pool", "part"), [(LocalPool(Worker, [toys, toys], 2), 40), (Pool(Worker, toys), 7)]
)
def test_workers_have_no_say_in_the_content(whole: Path, tmp_path: Path, pool, part: int) -> None:
    run(toy_corpus(500), tmp_path / "again", pool, part_sentences=part)
    for path in [*whole.glob("shard-*"), whole / "manifest.json"]:
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes(), path.name


def test_without_shared_locks_one_process_parses(whole: Path, tmp_path: Path, monkeypatch, caplog) -> None:
    """As where /dev/shm is missing or read-only."""

    refused = OSError(errno.EROFS, "Read-only file system", "/dev/shm/pym-1")
    context = Mock(Value=Mock(side_effect=refused), Pipe=multiprocessing.Pipe)
    monkeypatch.setattr("multiprocessing.get_context", lambda kind: context)
    run(toy_corpus(500), tmp_path / "again", LocalPool(Worker, toys, 3))
    assert content(whole) == content(tmp_path / "again")
    assert "this one works alone" in caplog.text


def test_a_script_on_standard_input_has_workers(whole: Path, tmp_path: Path) -> None:
    """As ``python - <<EOF`` in a README; its main module has a file's name and no file."""
    work = "t.run(t.toy_corpus(500), t.Path('again'), t.LocalPool(t.Worker, t.toys, 2))"
    script = f"import tests.parsing.pipeline.test_driver as t; {work}"
    done = subprocess.run(
        [sys.executable, "-"], input=script, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert content(whole) == content(tmp_path / "again")


def slow_run(folder: str) -> None:
    """The run of ``whole`` with two workers, slowed down to 0.1 s a part."""
    slow = partial(toys, partial(FailingDependencyParser, partial(time.sleep, 0.1), word="a"))
    run(toy_corpus(500), Path(folder), LocalPool(Worker, slow, 2))


def started(script: str, folder: Path) -> subprocess.Popen:
    """Python in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for_rows(folder: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if (folder / "manifest.json").exists() and len(Manifest.read(folder).shards) >= count:
            return
        time.sleep(0.01)
    pytest.fail(f"{folder}: fewer than {count} shards after 60 s")


def test_a_killed_run_resumes_to_the_same_content(whole: Path, tmp_path: Path) -> None:
    process = started("from tests.parsing.pipeline import test_driver as t; t.slow_run('.')", tmp_path)
    wait_for_rows(tmp_path, 2)
    time.sleep(random.uniform(0, 0.2))
    process.kill()
    process.communicate()  # returns once the workers have ended, too: they hold the pipe
    manifest = Manifest.read(tmp_path)
    assert not manifest.complete and all((tmp_path / row.file).exists() for row in manifest.shards)
    run(toy_corpus(500), tmp_path)
    assert differing(whole, tmp_path) <= {"log.txt"}


FAILING = corpus_of(documents_of([("all", "well")] * 100 + [("fail", "here")]))


@pytest.mark.parametrize("failure", [die, no_memory])
def test_a_dead_worker_is_replaced_and_its_shard_tried_again(tmp_path: Path, failure) -> None:
    failing = partial(toys, partial(FailingDependencyParser, failure, tmp_path / "failed"))
    run(FAILING, tmp_path / "a", LocalPool(Worker, failing, 2))
    run(FAILING, tmp_path / "b")
    assert (tmp_path / "failed").exists() and content(tmp_path / "a") == content(tmp_path / "b")


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (die, r"shard 1, sentences 0 to 37: its worker failed twice \(BrokenProcess.*; take fewer --workers"),
        (lose_device, "^cuda:0 was lost .*; the same command goes on"),
    ],
)
def test_a_shard_that_kills_two_workers_is_a_clear_fault(tmp_path: Path, failure, message: str) -> None:
    failing = LocalPool(Worker, partial(toys, partial(FailingDependencyParser, failure)), 1)
    with pytest.raises(UserError, match=message):
        run(FAILING, tmp_path, failing)
    manifest = Manifest.read(tmp_path)
    assert not manifest.complete and [row.index for row in manifest.shards] == [0]  # what was done is kept


def test_an_error_does_not_lose_what_was_parsed_at_the_same_time() -> None:
    """Twenty futures end at once, one of them with an error that ends the run."""
    shards = [Shard(index, [Sentence(("a",))]) for index in range(20)]
    parts = [ShardPart(shard, 0, 1) for shard in shards]
    futures: list[Future[ParsedPart]] = [Future() for _ in parts]
    futures[0].set_exception(DeviceLost("cuda:0 was lost"))
    for future in futures[1:]:
        future.set_result(ParsedPart(trees=Mock(), faults=[]))
    pool = Mock(size=10)
    pool.submit.side_effect = futures
    with pytest.raises(DeviceLost):
        list(parse_parts(pool, iter(parts)))
    assert all(shard.trees for shard in shards[1:])


def test_no_worker_that_can_load_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no worker could load the parsers \(.*terminated.*fewer --workers"):
        run(toy_corpus(50), tmp_path, LocalPool(Worker, partial(toys, die), 2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"corpus": toy_corpus(500, seed=1)}, "corpus.input_sha256: 'toy 0' is now 'toy 1'"),
        ({"shard_sentences": 32}, "options.shard_sentences: 64 is now 32"),
        (
            {"pool": Pool(Worker, lambda: TextParser(ToyDependencyParser(), None))},
            "constituency: .* is now None",
        ),
    ],
)
def test_a_change_is_refused(whole: Path, change: dict, message: str) -> None:
    before = {path.name: path.read_bytes() for path in whole.iterdir()}
    with pytest.raises(UserError, match=message):
        run(**{"corpus": toy_corpus(500), "folder": whole, **change})
    assert {path.name: path.read_bytes() for path in whole.iterdir()} == before


def test_damaged_and_missing_shards_are_parsed_again(whole: Path, tmp_path: Path) -> None:
    run(toy_corpus(500), tmp_path)
    flipped = bytearray((tmp_path / "shard-000001.h5").read_bytes())
    flipped[len(flipped) // 2] ^= 16
    (tmp_path / "shard-000001.h5").write_bytes(flipped)
    (tmp_path / "shard-000002.h5").write_bytes(flipped[:100])
    (tmp_path / "shard-000004.h5").unlink()
    with h5py.File(tmp_path / "shard-000003.h5", "r+") as file:
        file["head"][:] = 1  # listed as if it were right: its hash alone would not tell
    manifest = Manifest.read(tmp_path)
    rows = list(manifest.shards)
    rows[3] = dataclasses.replace(rows[3], sha256=sha256_file(tmp_path / "shard-000003.h5"))
    dataclasses.replace(manifest, shards=tuple(rows)).write(tmp_path)
    assert run(toy_corpus(500), tmp_path).parsed_now == 4 * SHARD
    assert run(toy_corpus(500), tmp_path).parsed_now == 0
    for name in ("manifest.json", "shard-000001.h5", "shard-000003.h5", "shard-000004.h5"):
        assert (tmp_path / name).read_bytes() == (whole / name).read_bytes()


WORDS = ["text.txt", "--tokenize", "space", "--workers", "1", "--output", "trees"]
COMMAND = f"""import sys, parsing.run, parsing.text_parser, tests.parsing.pipeline.toy_parsers as toy
parsing.text_parser.load = toy.{{load}}
toy.run_corpus.__kwdefaults__["shard_sentences"] = {SHARD}
sys.exit(parsing.run.cli({WORDS}))
"""
"""``parsing.run`` with one worker, toy parsers and small shards."""


@pytest.mark.parametrize("send", [os.kill, os.killpg])
def test_ctrl_c_ends_a_run_within_seconds_and_it_resumes(tmp_path: Path, monkeypatch, send) -> None:
    """As a terminal sends it, to all processes of the group, and to the driver alone."""
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("A cat .\n" * SHARD + "fail .\n")
    process = started(COMMAND.format(load="load_sleeping"), tmp_path)
    wait_for_rows(Path("trees"), 1)
    while not Path("asleep").exists() and process.poll() is None:
        time.sleep(0.01)
    send(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 130 and "the same command resumes" in errors.splitlines()[-1]
    assert "Traceback" not in errors
    assert [row.sentences for row in Manifest.read(Path("trees")).shards] == [SHARD]
    monkeypatch.setattr("parsing.text_parser.load", load_toys)
    monkeypatch.setattr(LocalPool, "_start", lambda self: None)  # this process parses
    monkeypatch.setitem(run_corpus.__kwdefaults__, "shard_sentences", SHARD)
    assert cli(WORDS) == 0 and len(TreeCache.open("trees")) == SHARD + 1
    Path("trees").rename("killed")
    assert cli(WORDS) == 0 and differing(Path("trees"), Path("killed")) <= {"log.txt"}


def test_a_full_disk_is_one_line_and_the_listed_shards_stay(tmp_path: Path) -> None:
    """RLIMIT_FSIZE stands for the full disk: writes beyond it fail, as ENOSPC does."""
    (tmp_path / "text.txt").write_text("A cat sat on the mat .\n" * 200)
    limit = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (6000, resource.RLIM_INFINITY))\n"
    )
    process = started(limit + COMMAND.format(load="load_toys"), tmp_path)
    _, errors = process.communicate()
    assert process.returncode == 2, errors
    assert "shard-000000.h5: no space left on the disk" in errors.splitlines()[-1]


def test_bad_corpora_and_places_end_the_run(tmp_path: Path) -> None:
    def broken():
        yield from list(toy_corpus(500))[:6]
        raise UserError("input.txt, line 7: nonsense")

    for documents, message in ((broken, "line 7"), (list, "holds no sentences")):
        with pytest.raises(UserError, match=message):
            run(dataclasses.replace(toy_corpus(500), documents=documents), tmp_path / "a")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        run(toy_corpus(10), tmp_path / "file" / "cache")
    (tmp_path / "config.json").write_text('{"views": ["dep"]}')
    with pytest.raises(UserError, match="holds something else"):
        run(toy_corpus(10), tmp_path)
    (tmp_path / "config.json").unlink()
    with lock_folder(tmp_path), pytest.raises(UserError, match="another run is writing here"):
        run(toy_corpus(10), tmp_path)
