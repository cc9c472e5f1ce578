"""What the application decides without a model."""

import asyncio
import os
import socket
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest
from starlette.testclient import TestClient

from multiview.serve import worker
from multiview.serve.__main__ import cli
from multiview.serve.app import Service
from multiview.serve.config import ServeConfig
from multiview.serve.queue import QueuedRequest, QueueFullError, WorkQueue
from runtime.errors import UserError


def queue_of(**changes: object) -> WorkQueue:
    options = {"workers": 1, "max_batch": 4, "size": 2, "timeout": 0.05, **changes}
    return WorkQueue(("builtin", None, "pairs", 10, 10), **options)  # type: ignore[arg-type]


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
    for headers in ({"Host": "x/health?"}, {"Host": "x/?"}, {"Authorization": "Basic secret"}):
        assert client.get("/v1/models", headers=headers).status_code == 401, headers
    assert client.get("/v1/models", headers={"Authorization": "bearer secret"}).status_code == 200
    (tmp_path / "token").write_text("two words")
    with pytest.raises(UserError, match="must hold one token"):
        ServeConfig(token_file=tmp_path / "token").token()


def test_a_full_queue_says_when_to_come_again() -> None:
    service = Service(ServeConfig())
    service.queue.size = 0
    answer = TestClient(service.app()).post("/v1/embeddings", json={"input": "a"})
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff", b"[" * 100_000, b'{"a":' * 100_000, b'{"input": NaN', b'{"input": "\\ud800"}'],
)
def test_what_is_not_json_is_said_so(body: bytes) -> None:
    client = TestClient(Service(ServeConfig()).app())
    for path in ("/v1/embeddings", "/rerank", "/judge", "/search", "/compare"):
        answer = client.post(path, content=body)
        assert answer.status_code == 400 and "not JSON in UTF-8" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "request_body", "field"),
    [
        *(
            ("/v1/embeddings", {"input": "a", "dimensions": value}, "dimensions")
            for value in (True, "5", 2.0, 0)
        ),
        ("/search", {"query": "a", "top": True}, "top"),
        ("/search", {"query": "a", "judge": "yes"}, "judge"),
        ("/rerank", {"query": "a", "documents": ["b"], "top_n": "1"}, "top_n"),
        ("/rerank", {"query": "a", "documents": ["b"], "return_documents": 1}, "return_documents"),
        ("/judge", {"pairs": [["a", 1]]}, "pairs.0.1"),
        ("/v1/embeddings", [], "the request"),
    ],
)
def test_no_value_is_taken_for_one_of_another_type(path: str, request_body: object, field: str) -> None:
    answer = TestClient(Service(ServeConfig()).app()).post(path, json=request_body)
    assert answer.status_code == 422 and answer.json()["error"]["message"].startswith(f"{field}: ")


def test_another_method_or_path_has_the_form_of_errors() -> None:
    client = TestClient(Service(ServeConfig()).app())
    for answer, status in (
        (client.get("/judge"), 405),
        (client.post("/health"), 405),
        (client.get("/x"), 404),
    ):
        assert (answer.status_code, answer.json()["error"]["type"]) == (status, "invalid_request_error")


def test_a_message_is_one_line() -> None:
    answer = TestClient(Service(ServeConfig()).app()).post("/rerank", json={
        "query": "a", "documents": ["b"], "model": "b\n\x1b"
    })  # fmt: skip
    assert answer.status_code == 404 and answer.json()["error"]["message"].isprintable()


def test_a_fault_of_the_server_has_the_form_of_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(ServeConfig())
    monkeypatch.setattr(service, "_read", None)
    answer = TestClient(service.app(), raise_server_exceptions=False).post("/judge", json={})
    assert answer.status_code == 500 and answer.json()["error"]["type"] == "server_error"


def test_an_error_of_the_server_shows_nothing_of_it(caplog: pytest.LogCaptureFixture) -> None:
    service = Service(ServeConfig())
    service.queue.submit = MagicMock(side_effect=RuntimeError("secret"))  # type: ignore[method-assign]
    answer = TestClient(service.app()).post("/v1/embeddings", json={"input": "a"})
    assert answer.status_code == 500
    assert answer.json()["error"]["message"] == "the server failed; its log says why"
    assert "secret" in caplog.text


def test_requests_and_their_items_are_counted_by_the_same_path() -> None:
    service = Service(ServeConfig())
    service.queue.submit = AsyncMock(return_value=[0.5, 0.6])  # type: ignore[method-assign]
    client = TestClient(service.app())
    body = {"query": "a", "documents": ["b", "c"]}
    assert [client.post(path, json=body).status_code for path in ("/rerank", "/v2/rerank")] == [200, 200]
    metrics = client.get("/metrics").text
    for path in ("/rerank", "/v2/rerank"):
        assert f'multiview_requests_total{{path="{path}",status="200"}} 1.0' in metrics
        assert f'multiview_items_total{{path="{path}"}} 2.0' in metrics


def test_a_request_that_waits_too_long_is_given_up() -> None:
    answer = TestClient(Service(ServeConfig(timeout=0.05)).app()).post("/v1/embeddings", json={"input": "a"})
    assert (answer.status_code, answer.json()["error"]["message"]) == (504, "no answer within 0.05 seconds")


def test_waiting_requests_of_one_kind_are_taken_together() -> None:
    async def next_jobs() -> list[list[QueuedRequest]]:
        queue = queue_of(size=9)
        future = asyncio.get_running_loop().create_future
        late = time.monotonic() + 9
        for function, count in ((worker.embed, 1), (worker.judge, 1), (worker.embed, 2), (worker.embed, 2)):
            queue.requests.append(QueuedRequest(function, ["a"] * count, future(), late))
        queue.requests.append(QueuedRequest(worker.embed, ["a"], future(), time.monotonic() - 1))
        return [await queue._next_requests() for _ in range(3)]

    taken = asyncio.run(next_jobs())
    kinds = [[(request.function.__name__, len(request.items)) for request in requests] for requests in taken]
    assert kinds == [[("embed", 1), ("embed", 2), ("embed", 1)], [("judge", 1)], [("embed", 2)]]


def test_a_worker_leaves_the_others_their_share() -> None:
    async def next_counts() -> list[int]:
        queue = queue_of(workers=2, max_batch=100)
        future = asyncio.get_running_loop().create_future
        for _ in range(6):
            queue.requests.append(QueuedRequest(worker.embed, ["a"], future(), time.monotonic() + 9))
        return [len(await queue._next_requests()) for _ in range(3)]

    assert asyncio.run(next_counts()) == [3, 2, 1]


def test_a_process_that_died_without_work_costs_no_request_an_attempt() -> None:
    async def attempts() -> int:
        queue = queue_of()
        queue.pools = [dead]
        answer = asyncio.get_running_loop().create_future()
        request = QueuedRequest(worker.embed, ["a"], answer, time.monotonic() + 9)
        assert not await queue._serve_batch(0, [request]) and queue.pools == [None]
        assert [*queue.requests] == [request] and queue.deaths == 1
        return request.attempts

    dead = MagicMock()
    dead.submit.side_effect = BrokenProcessPool()
    assert asyncio.run(attempts()) == 0
    dead.submit.side_effect = None
    dead.submit.return_value = Future()
    dead.submit.return_value.set_exception(BrokenProcessPool())
    assert asyncio.run(attempts()) == 1


def test_an_error_over_one_request_fails_no_other() -> None:
    def shout(items: Sequence[str]) -> list[str]:
        if "bad" in items:
            raise ValueError("bad")
        return [item.upper() for item in items]

    async def answers() -> list[Any]:
        queue, late = queue_of(), time.monotonic() + 9
        queue.pools = [ThreadPoolExecutor(1)]  # type: ignore[list-item]
        loop = asyncio.get_running_loop()
        requests = [QueuedRequest(shout, [text], loop.create_future(), late) for text in ("a", "bad", "b")]
        assert await queue._serve_batch(0, requests)
        return await asyncio.gather(*(each.answer for each in requests), return_exceptions=True)

    first, bad, last = asyncio.run(answers())
    assert (first, last) == (["A"], ["B"]) and isinstance(bad, ValueError)


def test_beyond_its_size_a_queue_takes_nothing() -> None:
    async def fill() -> None:
        queue = queue_of()
        tasks = [asyncio.create_task(queue.submit(worker.embed, ["a"])) for _ in range(2)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        with pytest.raises(QueueFullError):
            await queue.submit(worker.embed, ["a"])
        assert all(
            isinstance(each, TimeoutError) for each in await asyncio.gather(*tasks, return_exceptions=True)
        )
        assert not queue.requests  # though no worker has taken them
        await asyncio.wait_for(queue.stop(), 1)

    asyncio.run(fill())


def test_a_wrong_model_or_index_is_refused_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    Path("blank.txt").write_text("\n\n")
    for options in (
        ["nothing"],
        *(["--index", name] for name in ("no.txt", "blank.txt", "pipe", "-", ".")),
        *(["--token-file", name] for name in ("no.txt", "blank.txt", "pipe", ".")),
        *(["--port", "65536"], ["--host", ""], ["--host", "999.1.1.1"]),
    ):
        assert cli(options) == 2, options
        assert len(capsys.readouterr().err.splitlines()) == 1, options


def test_a_port_that_is_taken_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(WorkQueue, "start", None)  # no process is started
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert cli(["--port", port]) == 2
    assert f"--port {port}: the server cannot listen there (" in capsys.readouterr().err


def test_answers_do_not_wait_for_acknowledgements(monkeypatch: pytest.MonkeyPatch) -> None:
    options = []

    def run(server: object, sockets: list[socket.socket]) -> None:
        with socket.create_connection(sockets[0].getsockname()):
            accepted, _ = sockets[0].accept()
            with accepted:
                options.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    monkeypatch.setattr("uvicorn.Server.run", run)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    assert cli(["--port", port]) == 0
    assert options == [1]


def test_a_pair_that_cannot_be_explained_is_refused_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other clients' pairs come in the same call."""

    def explain(pair: tuple[str, str]) -> dict[str, Any]:
        if pair[0] == "long":
            raise UserError("a sentence of 200 words; the parsers read 128")
        return {"trees": []}

    monkeypatch.setattr(worker, "judge", lambda pairs: [{"probability": 0.5} for _ in pairs])
    monkeypatch.setattr(worker, "_comparison", explain)
    short, long = worker.compare([("short", "b"), ("long", "b")])
    assert short == {"probability": 0.5, "trees": []}
    assert long == worker.Refused("a sentence of 200 words; the parsers read 128")
