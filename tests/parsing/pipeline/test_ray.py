"""Actors of Ray give the cache of a run in this process, also when a worker dies in the middle."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from corpora.support.errors import UserError
from parsing.pipeline.driver import Pool, run_corpus
from tests.parsing.pipeline.toy_parsers import FailingDependencyParser, corpus_of_sentences, die, toys

ray = pytest.importorskip("ray")

# Ray leaves sockets and processes to the operating system.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.timeout(900),
]


@pytest.mark.slow
def test_content_equals_the_local_pool_with_a_worker_killed(tmp_path: Path) -> None:
    from parsing.pipeline.ray import RayPool

    sentences = [("word",) * (1 + i % 9) for i in range(600)]
    sentences[300] = ("fail", "here")
    corpus = corpus_of_sentences(sentences)
    here = run_corpus(corpus, tmp_path / "here", Pool(toys), shard_sentences=64)
    dying = partial(toys, partial(FailingDependencyParser, die, tmp_path / "died"))
    pool = RayPool(dying, 2, address="local")
    there = run_corpus(corpus, tmp_path / "ray", pool, shard_sentences=64)
    assert (tmp_path / "died").exists()
    assert there.manifest.content_sha256() == here.manifest.content_sha256()

    with pytest.raises(UserError, match="the cluster has no GPUs"), RayPool(toys, 1, address="local", gpus=1):
        pass
    assert not ray.is_initialized()
