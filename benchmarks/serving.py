"""Load a running service: latency, workers, many requests at once, hang-ups, a killed worker, memory.

    OMP_NUM_THREADS=1 python -m benchmarks.serving [--requests 10000]

Clients are threads of this process with connections that stay open. Processor time is told by process: the
server's, its workers', and the clients'. On a machine with other work the times of the clock are not those of
a quiet one: compare the processor's. The last line is JSON.
"""

import contextlib
import http.client
import json
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.servers import Server, running
from runtime.cli import Command, Count, configuration

SUBJECTS = ["fox", "cat", "lawyer", "river", "child", "company", "engine", "letter", "storm", "queen"]
VERBS = ["saw", "followed", "painted", "forgot", "described"]
CLIENTS = 16
BURST = 1000
"""Requests that come at once."""
Result = dict[str, Any]


@configuration
class ServingConfig:
    """Options of ``benchmarks.serving``."""

    requests: Count = 10_000
    """Requests before the memory is read for the last time; the first time is after a tenth of them."""
    sentences: Count = 2000
    """Sentences of the throughput, in requests of ten."""


class Clients(threading.local):
    """One connection a thread."""

    def __init__(self, server: Server) -> None:
        self.connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=120)

    def status(self, texts: Sequence[str]) -> int:
        """Ask for the vectors of sentences, and return the status."""
        body = json.dumps({"input": texts, "encoding_format": "base64"})
        self.connection.request("POST", "/v1/embeddings", body, {"Content-Type": "application/json"})
        response = self.connection.getresponse()
        response.read()
        return response.status


def sentence(number: int) -> str:
    """Return one of many different sentences."""
    subject, verb = SUBJECTS[number % 10], VERBS[number // 10 % 5]
    return f"The {subject} {verb} {number} old men in the garden."


def processor_seconds(pids: Sequence[int]) -> float:
    """Return the time that processes have had of the processor."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(each[11]) + int(each[12]) for each in fields) / os.sysconf("SC_CLK_TCK")


def memory_mb(server: Server) -> float:
    """Return the memory of the server and its workers; pages that they share are counted once."""
    rollups = [
        Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in (server.process.pid, *server.workers())
    ]
    return sum(int(text.partition("\nPss:")[2].split()[0]) for text in rollups) / 1000


@contextlib.contextmanager
def timed(server: Server, result: Result, count: int) -> Iterator[None]:
    """Add to a result the milliseconds that each of ``count`` units took, by process and by the clock."""
    pids = {"server": [server.process.pid], "workers": server.workers()}
    before = {name: processor_seconds(each) for name, each in pids.items()}
    clients, began = time.process_time(), time.perf_counter()
    yield
    result["clock_ms"] = round(1000 * (time.perf_counter() - began) / count, 2)
    result["clients_ms"] = round(1000 * (time.process_time() - clients) / count, 2)
    for name, each in pids.items():
        result[f"{name}_ms"] = round(1000 * (processor_seconds(each) - before[name]) / count, 2)


def latency(server: Server) -> Result:
    """Ask for one sentence at a time."""
    clients, result, seconds = Clients(server), Result(), list[float]()
    with timed(server, result, 300):
        for number in range(300):
            began = time.perf_counter()
            clients.status([sentence(number)])
            seconds.append(1000 * (time.perf_counter() - began))
    p50, p99 = np.percentile(seconds, (50, 99))
    return {"p50_ms": round(float(p50), 1), "p99_ms": round(float(p99), 1), **result}


def throughput(server: Server, count: int) -> Result:
    """Ask for ten sentences at a time, many clients at once; times are of a sentence.

    All is asked twice, and the second time is measured: by then each worker has met such batches.
    """
    clients, result = Clients(server), Result()
    batches = [[sentence(number + offset) for offset in range(10)] for number in range(0, count, 10)]
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(clients.status, batches))
        with timed(server, result, count):
            assert set(pool.map(clients.status, batches)) == {200}
    return result


def burst(server: Server) -> Result:
    """Ask at once, each client by a connection of its own; beyond the queue the answer is 429."""
    clients, began = Clients(server), time.perf_counter()
    with ThreadPoolExecutor(BURST) as pool:
        statuses = Counter(pool.map(lambda number: clients.status([sentence(number)]), range(BURST)))
    return {"statuses": dict(sorted(statuses.items())), "seconds": round(time.perf_counter() - began, 1)}


def hang_up(server: Server) -> Result:
    """Close 100 connections while the answer is computed; return how the next request is answered."""
    body = json.dumps({"input": [sentence(number) for number in range(50)]}).encode()
    host, port = server.url.removeprefix("http://").split(":")
    for _ in range(100):
        with socket.create_connection((host, int(port))) as connection:
            head = f"POST /v1/embeddings HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body)
    began = time.perf_counter()
    return {
        "next": Clients(server).status([sentence(0)]),
        "after_s": round(time.perf_counter() - began, 2),
    }


def kill(server: Server) -> Result:
    """Kill a worker over a request; return how that is answered, and the next one."""
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(Clients(server).status, [sentence(number) for number in range(1000)])
        time.sleep(0.3)
        os.kill(server.workers()[0], signal.SIGKILL)
        return {"its_request": answer.result(), "next": Clients(server).status([sentence(0)])}


def memory(server: Server, count: int) -> Result:
    """Return the memory after a tenth of the requests, and after all."""
    clients, sizes = Clients(server), []
    with ThreadPoolExecutor(CLIENTS) as pool:
        for numbers in (range(count // 10), range(count // 10, count)):
            assert set(pool.map(lambda number: clients.status([sentence(number)]), numbers)) == {200}
            sizes.append(memory_mb(server))
    return {
        "first_mb": round(sizes[0]),
        "last_mb": round(sizes[1]),
        "growth": round(sizes[1] / sizes[0] - 1, 4),
    }


def main(config: ServingConfig) -> None:
    """Print each measurement, and all as a line of JSON."""
    results: dict[str, Any] = {"load": round(os.getloadavg()[0], 1)}

    def record(title: str, result: Result) -> Result:
        results[title] = result
        print(f"{title:16} {result}", flush=True)
        return result

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with running(folder, "--workers", "1", "--timeout", "600") as server:
            record("one sentence", latency(server))
            one = record("one worker", throughput(server, config.sentences))
            record("1,000 at once", burst(server))
            record("hang-ups", hang_up(server))
            record("memory", memory(server, config.requests))
            record("a killed worker", kill(server))
        with running(folder, "--workers", "2", "--timeout", "600") as server:
            two = record("two workers", throughput(server, config.sentences))
    by_clock = round(one["clock_ms"] / two["clock_ms"], 2)
    by_processor = round(2 * one["workers_ms"] / two["workers_ms"], 2)
    record("two : one", {"clock": by_clock, "processor": by_processor})
    print(json.dumps(results))


cli = Command(ServingConfig, main, "benchmarks.serving", "Load the service, and tell times and memory.")


if __name__ == "__main__":
    sys.exit(cli())
