"""What the application decides without a model."""

import asyncio
import time
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from multiview.serve import work
from multiview.serve.__main__ import cli
from multiview.serve.app import Service
from multiview.serve.config import ServeConfig
from multiview.serve.queue import Job, QueueFullError, WorkQueue
from runtime.errors import UserError


def queue_of(**changes: object) -> WorkQueue:
    options = {"workers": 1, "max_batch": 4, "size": 2, "timeout": 0.05, **changes}
    return WorkQueue(("builtin", None, 10), **options)  # type: ignore[arg-type]


def test_a_server_is_not_ready_before_its_models_are_open() -> None:
    client = TestClient(Service(ServeConfig(workers=3)).app())  # without its lifespan: nothing is started
    answer = client.get("/health")
    assert (answer.status_code, answer.json()["workers"]) == (503, {"ready": 0, "of": 3})


def test_a_token_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    client = TestClient(Service(ServeConfig(token_file=tmp_path / "token")).app())
    assert client.post("/judge", json={"pairs": []}).status_code == 401
    assert client.get("/v1/models", headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert client.get("/v1/models", headers={"Authorization": "Bearer secret"}).status_code == 200
    assert client.get("/").status_code == 200
    (tmp_path / "token").write_text("two words")
    with pytest.raises(UserError, match="must hold one token"):
        ServeConfig(token_file=tmp_path / "token").token()


def test_a_full_queue_says_when_to_come_again() -> None:
    service = Service(ServeConfig())
    service.queue.size = 0
    answer = TestClient(service.app()).post("/v1/embeddings", json={"input": "a"})
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")


def test_a_request_that_waits_too_long_is_given_up() -> None:
    answer = TestClient(Service(ServeConfig(timeout=0.05)).app()).post("/v1/embeddings", json={"input": "a"})
    assert (answer.status_code, answer.json()["error"]["message"]) == (504, "no answer within 0.05 seconds")


def test_waiting_requests_of_one_kind_are_taken_together() -> None:
    async def next_jobs() -> list[list[Job]]:
        queue = queue_of(size=9)
        future = asyncio.get_running_loop().create_future
        late = time.monotonic() + 9
        for function, count in ((work.embed, 1), (work.judge, 1), (work.embed, 2), (work.embed, 2)):
            queue.jobs.append(Job(function, ["a"] * count, future(), late))
        queue.jobs.append(Job(work.embed, ["a"], future(), time.monotonic() - 1))
        return [await queue._next_jobs() for _ in range(3)]

    taken = asyncio.run(next_jobs())
    kinds = [[(job.function.__name__, len(job.items)) for job in jobs] for jobs in taken]
    assert kinds == [[("embed", 1), ("embed", 2), ("embed", 1)], [("judge", 1)], [("embed", 2)]]


def test_beyond_its_size_a_queue_takes_nothing() -> None:
    async def fill() -> None:
        queue = queue_of()
        tasks = [asyncio.create_task(queue.submit(work.embed, ["a"])) for _ in range(2)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        with pytest.raises(QueueFullError):
            await queue.submit(work.embed, ["a"])
        assert all(
            isinstance(each, TimeoutError) for each in await asyncio.gather(*tasks, return_exceptions=True)
        )

    asyncio.run(fill())


def test_a_wrong_model_or_index_is_refused_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for options in (["nothing"], ["--index", "no.txt"], ["--token-file", "no.txt"]):
        assert cli(options) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
