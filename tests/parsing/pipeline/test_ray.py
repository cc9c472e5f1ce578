"""Actors of Ray give the cache of a run in this process, also when a worker dies in the middle."""

from concurrent.futures import BrokenExecutor, Future
from functools import partial
from unittest.mock import MagicMock

import pytest

from parsing.pipeline.driver import Worker, run_corpus
from runtime.errors import UserError
from runtime.pool import Pool
from tests.parsing.pipeline.toy_parsers import FailingDependencyParser, corpus_of, die, documents_of, toys

ray = pytest.importorskip("ray")

# Ray leaves sockets and processes to the operating system.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.timeout(900),
]


@pytest.mark.slow
def test_content_equals_the_local_pool_with_a_worker_killed(tmp_path) -> None:
    from parsing.pipeline.ray import RayPool

    sentences = [("word",) * (1 + i % 9) for i in range(600)]
    sentences[300] = ("fail", "here")
    corpus = corpus_of(documents_of(sentences))
    local_cache = run_corpus(corpus, tmp_path / "here", Pool(Worker, toys), shard_sentences=64)
    worker = partial(toys, partial(FailingDependencyParser, die, tmp_path / "died"))
    pool = RayPool(worker, 2, address="local")
    ray_cache = run_corpus(corpus, tmp_path / "ray", pool, shard_sentences=64)
    assert (tmp_path / "died").exists()
    assert ray_cache.manifest.content_sha256() == local_cache.manifest.content_sha256()
    assert not ray.is_initialized()


@pytest.mark.parametrize("gpus", [0, 1])
def test_no_more_actors_than_a_cluster_has_room_for(gpus: int, monkeypatch) -> None:
    """A cluster of two, on which every call fails without a word."""
    from parsing.pipeline import ray as module

    cluster, answers = MagicMock(), [Future[None]() for _ in range(3)]
    cluster.cluster_resources.return_value = {"CPU": 2.0, "GPU": 2.0}
    start = cluster.remote.return_value.return_value.remote
    start.return_value.describe.remote.return_value.future.side_effect = answers
    monkeypatch.setattr(module, "ray", cluster)
    with module.RayPool(toys, 5, address="auto", gpus=gpus) as pool:
        assert pool.size == start.call_count == 2
        answer = pool.submit("describe")
        answers[-1].set_exception(RuntimeError())
        with pytest.raises(BrokenExecutor, match="RuntimeError"):
            answer.result(timeout=1)
    cluster.cluster_resources.return_value = {}
    without = "GPUs" if gpus else "cores"
    with pytest.raises(UserError, match=f"the cluster has no {without}"):
        module.RayPool(toys, 1, address="local", gpus=gpus).__enter__()
    assert cluster.shutdown.call_count == 2
