"""A process per device parses for all workers: the same bytes, killed and resumed, one line when it is lost.

The process does not know what its parsers compute on, so toy parsers and parsers on the CPU stand for a GPU.
"""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from corpora.support.errors import UserError
from parsing.cache.manifest import Manifest
from parsing.models import load_constituency_parser, load_dependency_parser
from parsing.pipeline.local import LocalPool
from parsing.pipeline.workers import ParserFactories
from parsing.run import ParseConfig, main
from parsing.trees.parsers import DependencyParse, DeviceLost
from tests.parsing.pipeline.test_driver import (
    SHARD,
    TOYS,
    content,
    launch,
    run,
    wait_for_rows,
    whole,
)
from tests.parsing.pipeline.toy_corpus import ToyCorpus
from tests.parsing.pipeline.toy_parsers import (
    SlowDependencyParser,
    ToyConstituencyParser,
    ToyDependencyParser,
)

__all__ = ["whole"]


class FailingDependencyParser(ToyDependencyParser):
    """Fails after some batches, once.

    Args:
        marker: file that says it has happened.
        ending: ``lost``, ``killed`` or ``fault``.
    """

    def __init__(self, marker: Path, ending: str) -> None:
        self.marker, self.ending, self.batches = marker, ending, 0

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[DependencyParse]:
        self.batches += 1
        if self.batches > 4 and not self.marker.exists():
            self.marker.touch()
            if self.ending == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.ending == "lost":
                raise DeviceLost("cuda:0 was lost (CUDA error); the same command goes on from what is done")
            raise ValueError("an odd sentence")
        return super().parse(sentences)


def refused() -> ToyDependencyParser:
    raise UserError("device 'cuda:7' cannot be used; --device takes another")


def pool(factories: ParserFactories, devices: int = 1) -> functools.partial[LocalPool]:
    return functools.partial(LocalPool, devices=[factories] * devices)


@pytest.mark.parametrize(("workers", "devices"), [(1, 1), (3, 2)])
def test_the_same_bytes(whole: Path, tmp_path: Path, workers: int, devices: int) -> None:
    run(ToyCorpus(500), tmp_path / "c", workers=workers, pool=pool(TOYS, devices))
    for path in [*whole.glob("shard-*"), whole / "manifest.json"]:
        assert path.read_bytes() == (tmp_path / "c" / path.name).read_bytes(), path.name


def test_the_builtin_parsers_give_the_same_bytes(tmp_path: Path) -> None:
    builtin = ParserFactories(
        dependency=functools.partial(load_dependency_parser, "builtin"),
        constituency=functools.partial(load_constituency_parser, "builtin"),
    )
    run(ToyCorpus(90), tmp_path / "plain", builtin)
    run(ToyCorpus(90), tmp_path / "device", builtin, workers=2, pool=pool(builtin))
    names = sorted(path.name for path in (tmp_path / "plain").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "device").iterdir())
    for name in names:
        plain, device = ((tmp_path / side / name).read_bytes() for side in ("plain", "device"))
        assert plain == device, name


def test_killed_runs_resume_to_the_same_content(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    slow = functools.partial(SlowDependencyParser, seconds=0.05)
    parsers = ParserFactories(dependency=slow, constituency=ToyConstituencyParser)
    script = (
        "import functools; from parsing.pipeline.local import LocalPool\n"
        "run_corpus(*values, workers=2, options=OPTIONS,"
        f" pool=functools.partial(LocalPool, devices=[values[2]]), shard_sentences={SHARD})"
    )
    for rows in (1, 3):
        process = launch(script, ToyCorpus(500), folder, parsers)
        wait_for_rows(folder, rows)
        process.kill()
        process.communicate()
        assert not Manifest.read(folder).complete
    assert run(ToyCorpus(500), folder, pool=pool(TOYS)).content_sha256 == content(whole)
    assert not list(folder.glob(".*.tmp"))


@pytest.mark.parametrize(
    ("ending", "message"),
    [
        ("lost", r"^cuda:0 was lost .*; the same command goes on"),
        ("killed", r"^the process of the device has ended; the same command goes on"),
    ],
)
def test_a_lost_device_ends_the_run_and_nothing_is_lost(
    whole: Path, tmp_path: Path, ending: str, message: str
) -> None:
    failing = functools.partial(FailingDependencyParser, tmp_path / "marker", ending)
    parsers = ParserFactories(dependency=failing, constituency=ToyConstituencyParser)
    with pytest.raises(UserError, match=message):
        run(ToyCorpus(500), tmp_path / "c", TOYS, pool=pool(parsers), workers=2)
    assert not Manifest.read(tmp_path / "c").complete
    assert run(ToyCorpus(500), tmp_path / "c", pool=pool(parsers)).content_sha256 == content(whole)


def test_a_parser_that_cannot_be_loaded_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^device 'cuda:7' cannot be used"):
        run(ToyCorpus(20), tmp_path / "c", TOYS, pool=pool(ParserFactories(dependency=refused)))


def test_faults_of_sentences_come_back_as_such(whole: Path, tmp_path: Path) -> None:
    failing = functools.partial(FailingDependencyParser, tmp_path / "marker", "fault")
    parsers = ParserFactories(dependency=failing, constituency=ToyConstituencyParser)
    assert run(ToyCorpus(500), tmp_path / "c", pool=pool(parsers)).content_sha256 == content(whole)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "cuda"}, r"device 'cuda' cannot be used"),
        ({"device": "tpu9"}, r"device 'tpu9' cannot be used"),
        ({"gpus_per_worker": 0.5}, r"--gpus-per-worker 0\.5: needs --pool ray"),
        ({"device": "cuda", "pool": "ray"}, r"--device cuda: with --pool ray it needs --gpus-per-worker"),
        ({"device": "cpu", "pool": "ray", "gpus_per_worker": 1.0}, r"with --pool ray it needs --device cuda"),
    ],
)
def test_bad_options_are_one_line(tmp_path: Path, options: dict, message: str) -> None:
    (tmp_path / "a.txt").write_text("It rains .\n")
    with pytest.raises(UserError, match=message):
        main(ParseConfig(corpus=str(tmp_path / "a.txt"), output=tmp_path / "c", tokenize="space", **options))
    assert not (tmp_path / "c").exists()
