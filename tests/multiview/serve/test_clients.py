"""Clients that exist, against a running server; the code is that of docs/serving.md."""

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest

from benchmarks.servers import Server, running
from multiview.judge import Judge
from multiview.model import MultiViewEncoder
from runtime.files import sha256_file

pytestmark = [
    pytest.mark.process,
    # Libraries' clients leave their sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
TEXTS = [
    "The lawyer praised the doctor.",
    "The doctor was praised by the lawyer.",
    "Parcels arrive on Monday.",
]


@pytest.fixture
def encoder(packaged_encoder: MultiViewEncoder) -> MultiViewEncoder:
    return packaged_encoder


def post(server: Server, path: str, **content: object) -> httpx.Response:
    # Plain HTTP; to read whom a client trusts takes longer than a request.
    return httpx.post(f"{server.url}{path}", json=content, timeout=120, verify=False)


def refusal(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["message"]


def test_openai_gets_the_vectors_of_encode(server: Server, encoder: MultiViewEncoder) -> None:
    from openai import OpenAI

    client = OpenAI(base_url=f"{server.url}/v1", api_key="none")
    answer = client.embeddings.create(model="builtin", input=TEXTS)
    as_floats = client.embeddings.create(model="builtin", input=TEXTS, encoding_format="float")
    expected = encoder.encode(TEXTS)
    for given in (answer, as_floats):
        np.testing.assert_allclose([row.embedding for row in given.data], expected, atol=1e-5)
    assert answer.usage.total_tokens == 6 + 8 + 5
    short = client.embeddings.create(model="builtin", input=TEXTS[0], dimensions=64).data[0].embedding
    part = expected[0, :64]
    np.testing.assert_allclose(short, part / np.linalg.norm(part), atol=1e-5)
    assert [model.id for model in client.models.list()] == ["builtin"]


def test_langchain_gets_the_vectors_of_encode(server: Server, encoder: MultiViewEncoder) -> None:
    from langchain_openai import OpenAIEmbeddings

    embeddings = OpenAIEmbeddings(
        model="builtin", base_url=f"{server.url}/v1", api_key="none", check_embedding_ctx_length=False
    )
    np.testing.assert_allclose(embeddings.embed_documents(TEXTS), encoder.encode(TEXTS), atol=1e-5)
    np.testing.assert_allclose(embeddings.embed_query(TEXTS[0]), encoder.encode(TEXTS[0]), atol=1e-5)


def test_llama_index_gets_the_vectors_of_encode(server: Server, encoder: MultiViewEncoder) -> None:
    from llama_index.embeddings.openai_like import OpenAILikeEmbedding

    embedding = OpenAILikeEmbedding(model_name="builtin", api_base=f"{server.url}/v1", api_key="none")
    np.testing.assert_allclose(embedding.get_text_embedding(TEXTS[0]), encoder.encode(TEXTS[0]), atol=1e-5)
    np.testing.assert_allclose(embedding.get_text_embedding_batch(TEXTS), encoder.encode(TEXTS), atol=1e-5)


def test_cohere_s_client_reranks(server: Server) -> None:
    import cohere

    client = cohere.ClientV2(api_key="none", base_url=server.url)
    documents = ["Parcels arrive on Monday.", "To enable 2FA, open the settings."]
    answer = client.rerank(model="builtin", query="How do I enable 2FA?", documents=documents)
    assert [result.index for result in answer.results] == [1, 0]
    assert 1 >= answer.results[0].relevance_score > answer.results[1].relevance_score >= 0
    answer = post(
        server,
        "/rerank",
        query="2FA",
        documents=[{"text": d} for d in documents],
        top_n=1,
        return_documents=True,
    )
    assert [row["document"]["text"] for row in answer.json()["results"]] == [documents[1]]


def test_the_judge_judges_as_in_python(server: Server, judge: Judge) -> None:
    pairs = [["How do I enable 2FA?", "How do I disable 2FA?"], TEXTS[:2]]
    results = post(server, "/judge", pairs=pairs).json()["results"]
    judgements = judge.pairs(pairs)
    for result, judgement in zip(results, judgements, strict=True):
        assert result["probability"] == pytest.approx(judgement.probability, abs=1e-4)
        assert result["similarity"] == pytest.approx(judgement.similarity, abs=1e-4)
        assert result["slots"] == pytest.approx(judgement.slots, abs=1e-4)
        assert [reason["text"] for reason in result["reasons"]] == [
            str(reason) for reason in judgement.reasons
        ]


def test_search_finds_in_the_index_and_in_a_text(server: Server) -> None:
    (hit,) = post(server, "/search", query="When do parcels come?", top=1).json()["results"]
    assert (hit["index"], hit["text"]) == (0, "Parcels arrive on Monday.")
    (hit,) = post(server, "/search", query="How do invoices come?", top=1).json()["results"]
    assert (hit["index"], hit["text"]) == (1, "Invoices are sent by post.")  # the sentence, and its line
    text = "To disable 2FA, enter your password. To enable 2FA, open the settings. Cats sleep."
    hits = post(server, "/search", query="How do I enable 2FA?", text=text, judge=True).json()["results"]
    reasons = {hit["text"]: [r["kind"] for r in hit["judgement"]["reasons"]] for hit in hits}
    assert "opposite" in reasons["To disable 2FA, enter your password."]
    assert "opposite" not in reasons["To enable 2FA, open the settings."]


def test_comparing_marks_the_arcs_that_differ(server: Server) -> None:
    swapped = post(server, "/compare", a=TEXTS[0], b="The doctor praised the lawyer.").json()
    passive = post(server, "/compare", a=TEXTS[0], b=TEXTS[1]).json()
    assert all('class="differs"' in tree for tree in swapped["trees"])
    assert not any('class="differs"' in tree for tree in passive["trees"])
    twice = post(server, "/compare", a="The lawyer praised the lawyer.", b="The doctor praised the lawyer.")
    assert [tree.count('class="differs"') for tree in twice.json()["trees"]] == [1, 1]  # agents, not patients
    assert passive["structure"] > swapped["structure"] and passive["same"] and not swapped["same"]


def test_what_is_over_a_limit_is_refused_in_one_sentence(server: Server) -> None:
    assert refusal(post(server, "/v1/embeddings", input="word " * 101)) == (
        422, "item 0: a text of 101 words; this server takes 100"
    )  # fmt: skip
    assert refusal(post(server, "/v1/embeddings", input=["a"] * 301)) == (
        413, "a request has at most 300 items here, not 301"
    )  # fmt: skip
    assert refusal(post(server, "/v1/embeddings", input="x" * 70_000))[0] == 413
    assert refusal(post(server, "/v1/embeddings", input=[[5, 7]])) == (
        422, "input: token numbers of another model cannot be read here; send the text itself"
    )  # fmt: skip
    assert refusal(post(server, "/v1/embeddings", input="a", model="gpt"))[0] == 404
    assert refusal(post(server, "/v1/embeddings", input="a", dimensions=5000))[0] == 422
    assert refusal(post(server, "/v1/embeddings", text="a")) == (422, "input: field required")
    assert refusal(post(server, "/judge", pairs=[["a"]]))[0] == 422
    not_json = httpx.post(f"{server.url}/judge", content=b"\xff{", verify=False)
    assert refusal(not_json)[0] == 400
    assert refusal(post(server, "/search", query="a", text="Hi there. " * 301)) == (
        422, "item 0: a text of 301 sentences; this server takes 300"
    )  # fmt: skip
    assert refusal(post(server, "/search", query="a", text="word " * 101)) == (
        422, "item 0: a text of 101 words; this server takes 100"
    )  # fmt: skip
    assert refusal(httpx.get(f"{server.url}/nothing", verify=False)) == (404, "Not Found")


def test_many_requests_at_once_are_all_answered(server: Server) -> None:
    def ask(number: int) -> int:
        return post(server, "/v1/embeddings", input=f"Parcel {number} arrived.").status_code

    with ThreadPoolExecutor(50) as pool:
        statuses = list(pool.map(ask, range(200)))
    assert set(statuses) == {200}
    metrics = httpx.get(f"{server.url}/metrics", verify=False).text
    count = 'multiview_requests_total{path="/v1/embeddings",status="200"}'
    assert float(next(line for line in metrics.splitlines() if line.startswith(count)).split()[-1]) >= 200


def test_a_client_that_hangs_up_costs_nothing_further(server: Server) -> None:
    for _ in range(3):
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{server.url}/v1/embeddings", json={"input": TEXTS * 60}, timeout=0.05, verify=False)
    assert post(server, "/v1/embeddings", input=TEXTS).status_code == 200


def test_a_worker_that_is_killed_is_replaced(server: Server, tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(
            post, server, "/v1/embeddings", input=[f"Sentence {n} of many ." for n in range(300)]
        )
        time.sleep(0.1)
        (worker,) = server.workers()
        os.kill(worker, signal.SIGKILL)
        assert answer.result().status_code in (200, 503)
    assert post(server, "/v1/embeddings", input=TEXTS).status_code == 200
    assert server.workers() != [worker]
    assert "multiview_worker_deaths 1.0" in httpx.get(f"{server.url}/metrics", verify=False).text
    assert httpx.get(f"{server.url}/live", verify=False).status_code == 200


def test_a_server_that_is_ended_answers_what_it_has(tmp_path: Path) -> None:
    with running(tmp_path, "--timeout", "120") as server, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(post, server, "/v1/embeddings", input=[f"Sentence {n} ." for n in range(600)])
        time.sleep(1)  # for the request to arrive
        assert server.terminate() == -signal.SIGTERM  # as whoever sent it expects
        assert len(answer.result().json()["data"]) == 600
    log = (tmp_path / "log.txt").read_text()
    assert "%|" not in log and "Traceback" not in log


def test_models_are_exchanged_on_a_signal_and_workers_end_with_their_server(tmp_path: Path) -> None:
    """The old ones answer until the new ones do, and go on where those cannot be opened."""
    for seed in (1, 2):
        MultiViewEncoder.untrained("seq", dim=8, seed=seed).save(tmp_path / f"seed-{seed}")
    (tmp_path / "seed-1").rename(tmp_path / "model")

    def vector() -> list[float]:
        return post(server, "/v1/embeddings", input=TEXTS[0]).json()["data"][0]["embedding"]

    def health() -> dict[str, object]:
        return dict(httpx.get(f"{server.url}/health", verify=False).json())

    def signalled(has_happened: Callable[[], bool]) -> bool:
        server.process.send_signal(signal.SIGHUP)
        end = time.monotonic() + 120
        while time.monotonic() < end and not has_happened():
            time.sleep(0.2)
        return has_happened()

    with running(tmp_path, "--timeout", "120", model="model") as server:
        old = vector()
        (tmp_path / "model").rename(tmp_path / "old")
        (tmp_path / "seed-2").rename(tmp_path / "model")
        assert signalled(lambda: vector() != old)
        new = vector()
        assert health()["digest"] == sha256_file(tmp_path / "model/config.json")[:12]
        (tmp_path / "model" / "config.json").write_text("{}")
        log = tmp_path / "log.txt"
        assert signalled(lambda: "cannot be opened; the old ones go on" in log.read_text())
        assert vector() == new
        assert "multiview_reload_failed 1.0" in httpx.get(f"{server.url}/metrics", verify=False).text
        # Exchanged without a signal: a process that takes another's place must not answer by another model.
        (tmp_path / "model").rename(tmp_path / "damaged")
        (tmp_path / "old").rename(tmp_path / "model")
        os.kill(server.workers()[0], signal.SIGKILL)
        assert vector() == old
        assert health()["digest"] == sha256_file(tmp_path / "model/config.json")[:12]
        (worker,) = server.workers()
        server.process.kill()
        server.process.wait()
    end = time.monotonic() + 30
    while Path(f"/proc/{worker}").exists() and time.monotonic() < end:
        time.sleep(0.1)
    assert not Path(f"/proc/{worker}").exists()
