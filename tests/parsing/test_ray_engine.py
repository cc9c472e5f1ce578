"""The Ray engine gives the local engine's cache, also when a worker dies in the middle."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from parsing.driver import run_corpus
from parsing.engine import ParserFactories
from tests.parsing.toy_corpus import ListCorpus
from tests.parsing.toy_parsers import DyingDependencyParser, ToyConstituencyParser, ToyDependencyParser

ray = pytest.importorskip("ray")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    # Ray leaves sockets and processes to the operating system.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def test_content_equals_the_local_engine_with_a_worker_killed(tmp_path: Path) -> None:
    from corpora.types import Sentence
    from parsing.ray_engine import RayEngine

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
        engine=RayEngine,
    )
    assert (tmp_path / "died").exists()
    assert there.content_sha256 == local.content_sha256
