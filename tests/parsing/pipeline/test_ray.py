"""Actors of Ray give the local pool's cache, also when a worker dies in the middle."""

from __future__ import annotations

import functools
import time
from pathlib import Path

import pytest

from corpora.support.errors import UserError
from parsing.pipeline.driver import run_corpus
from parsing.pipeline.parse_shard import ShardOptions
from parsing.pipeline.read_ahead import ReadAhead
from parsing.pipeline.workers import ParserFactories
from tests.parsing.pipeline.toy_corpus import ListCorpus
from tests.parsing.pipeline.toy_parsers import (
    DyingDependencyParser,
    ToyConstituencyParser,
    ToyDependencyParser,
)

ray = pytest.importorskip("ray")


def test_a_slow_corpus_is_waited_for_asleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, the driver asked for the first part as often as it could, taking the reader's time."""
    from parsing.pipeline.ray import RayPool

    asked = 0

    def count(ahead: ReadAhead):
        nonlocal asked
        asked += 1
        return next_part(ahead)

    def parts():
        time.sleep(0.3)
        yield from ()

    next_part = ReadAhead.next
    monkeypatch.setattr(ReadAhead, "next", count)
    pool = RayPool(ParserFactories(), 1)
    pool._actors = [None]
    assert list(pool.run(ShardOptions(), parts())) == []
    assert asked < 50


@pytest.mark.parametrize("address", [None, "host:6379"])
def test_a_start_that_times_out_is_one_line(monkeypatch: pytest.MonkeyPatch, address: str | None) -> None:
    from parsing.pipeline.ray import RayPool

    def time_out(**_: object) -> None:
        raise Exception("The current node timed out during startup.\nThis could happen because ...")

    monkeypatch.setattr(ray, "init", time_out)
    where = "--pool ray" if address is None else f"--address {address}"
    with (
        pytest.raises(UserError, match=rf"{where}: .* \(The current node timed out during startup\.\)$"),
        RayPool(ParserFactories(), 1, address=address),
    ):
        pass


class Actor:
    """An actor that dies while it loads, or gives an answer."""

    def __init__(self, answer: object) -> None:
        self.answer = answer
        self.describe = self

    def remote(self) -> Actor:
        return self


def test_the_others_go_on_without_an_actor_that_cannot_load(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray.exceptions import RayActorError

    from parsing.pipeline.ray import RayPool

    def get(actor: Actor) -> object:
        if isinstance(actor.answer, Exception):
            raise actor.answer
        return actor.answer

    monkeypatch.setattr(ray, "wait", lambda actors: (actors[:1], actors[1:]))
    monkeypatch.setattr(ray, "get", get)
    pool = RayPool(ParserFactories(), 2)
    dead, alive = Actor(RayActorError()), Actor("description")
    pool._actors = [dead, alive]
    assert pool.describe() == "description" and pool._actors == [alive]
    pool._actors = [dead, dead]
    with pytest.raises(UserError, match="no worker could load the parsers"):
        pool.describe()


@pytest.mark.slow
@pytest.mark.timeout(900)
# Ray leaves sockets and processes to the operating system.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_content_equals_the_local_pool_with_a_worker_killed(tmp_path: Path) -> None:
    from corpora.documents import Sentence
    from parsing.pipeline.ray import RayPool

    sentences = [Sentence(("word",) * (1 + i % 9)) for i in range(600)]
    sentences[300] = Sentence(("die", "here"))
    corpus = ListCorpus(sentences)
    local = run_corpus(
        corpus,
        tmp_path / "local",
        ParserFactories(dependency=ToyDependencyParser, constituency=ToyConstituencyParser),
        workers=1,
        shard_sentences=64,
    )
    dying = functools.partial(DyingDependencyParser, marker=tmp_path / "died")
    there = run_corpus(
        corpus,
        tmp_path / "ray",
        ParserFactories(dependency=dying, constituency=ToyConstituencyParser),
        workers=2,
        shard_sentences=64,
        pool=RayPool,
    )
    assert (tmp_path / "died").exists()
    assert there.content_sha256 == local.content_sha256


def no_parser() -> ToyDependencyParser:
    raise UserError("runs/none: no such model folder")


@pytest.mark.slow
@pytest.mark.timeout(900)
# Ray leaves sockets and processes to the operating system.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_parser_that_is_not_there_is_the_users_error() -> None:
    """Before, it was Ray's: the actor's death, with a traceback."""
    from parsing.pipeline.ray import RayPool

    with (
        RayPool(ParserFactories(dependency=no_parser), 1) as pool,
        pytest.raises(UserError, match="no such model folder"),
    ):
        pool.describe()


def test_gpus_that_the_cluster_lacks_are_one_line() -> None:
    from parsing.pipeline.ray import RayPool

    pool = RayPool(ParserFactories(dependency=ToyDependencyParser), 1, gpus_per_worker=0.5)
    with pytest.raises(UserError, match=r"^--gpus-per-worker 0\.5: the cluster has 0 GPUs$"), pool:
        pass
    assert not ray.is_initialized()
