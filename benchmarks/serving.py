"""Load a running service: latency, workers, a burst, closed connections, a killed worker, memory.

    OMP_NUM_THREADS=1 python -m benchmarks.serving [--requests 10000]

Clients are threads of this process, whose connections stay open. Processor time is measured for the server,
its workers and the clients. On a machine with other work wall time depends on that work; compare processor
times there. The last line is JSON.
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
"""Number of requests that are sent at once."""
Result = dict[str, Any]


@configuration
class ServingConfig:
    """Options of ``benchmarks.serving``."""

    requests: Count = 10_000
    """Requests before the memory is read for the last time; the first time is after a tenth of them."""
    sentences: Count = 2000
    """Sentences of the throughput, in requests of ten."""


class Clients(threading.local):
    """Clients with one connection per thread."""

    def __init__(self, server: Server) -> None:
        self.connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=120)

    def status(self, texts: Sequence[str]) -> int:
        """Request the embeddings of texts, and return the status of the response."""
        body = json.dumps({"input": texts, "encoding_format": "base64"})
        self.connection.request("POST", "/v1/embeddings", body, {"Content-Type": "application/json"})
        response = self.connection.getresponse()
        response.read()
        return response.status


def sentence(number: int) -> str:
    """Return a sentence; every number has another one."""
    subject, verb = SUBJECTS[number % 10], VERBS[number // 10 % 5]
    return f"The {subject} {verb} {number} old men in the garden."


def processor_seconds(pids: Sequence[int]) -> float:
    """Return the processor time that processes have used, their children left out."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])  # in user mode, and in the kernel
    return ticks / os.sysconf("SC_CLK_TCK")


def memory_mb(server: Server) -> float:
    """Return the memory of the server and its workers; pages that they share are counted once."""
    total = 0
    for pid in (server.process.pid, *server.workers()):
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        total += int(text.partition("\nPss:")[2].split()[0])
    return total * 1024 / 1e6  # Linux counts in KiB


@contextlib.contextmanager
def timed(server: Server, result: Result, count: int) -> Iterator[None]:
    """Put into ``result`` the milliseconds that the block takes for each of ``count`` units.

    These are wall time and the processor time of the server, the workers and the clients.
    """
    pids = {"server": [server.process.pid], "workers": server.workers()}
    before = {name: processor_seconds(pids_of_name) for name, pids_of_name in pids.items()}
    clients, began = time.process_time(), time.perf_counter()
    yield
    result["clock_ms"] = round(1000 * (time.perf_counter() - began) / count, 2)
    result["clients_ms"] = round(1000 * (time.process_time() - clients) / count, 2)
    for name, pids_of_name in pids.items():
        result[f"{name}_ms"] = round(1000 * (processor_seconds(pids_of_name) - before[name]) / count, 2)


def latency(server: Server) -> Result:
    """Return percentiles of the time of a request for one sentence, sent one after the other."""
    clients = Clients(server)
    result: Result = {}
    milliseconds = []
    with timed(server, result, 300):
        for number in range(300):
            began = time.perf_counter()
            clients.status([sentence(number)])
            milliseconds.append(1000 * (time.perf_counter() - began))
    p50, p99 = np.percentile(milliseconds, (50, 99))
    return {"p50_ms": round(float(p50), 1), "p99_ms": round(float(p99), 1), **result}


def throughput(server: Server, count: int) -> Result:
    """Return the times of a sentence, in requests of ten sentences from many clients at once.

    All requests are sent twice, and the second time is measured, when each worker has had such batches.
    """
    clients, result = Clients(server), Result()
    batches = [[sentence(number + offset) for offset in range(10)] for number in range(0, count, 10)]
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(clients.status, batches))
        with timed(server, result, count):
            assert set(pool.map(clients.status, batches)) == {200}
    return result


def burst(server: Server) -> Result:
    """Return the statuses of many requests at once, each by a connection of its own.

    Requests for which the queue has no place get status 429.
    """
    clients, began = Clients(server), time.perf_counter()
    with ThreadPoolExecutor(BURST) as pool:
        statuses = Counter(pool.map(lambda number: clients.status([sentence(number)]), range(BURST)))
    return {"statuses": dict(sorted(statuses.items())), "seconds": round(time.perf_counter() - began, 1)}


def hang_up(server: Server) -> Result:
    """Close 100 connections while their responses are computed; return the status of the next request."""
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
    """Kill a worker during a request; return the statuses of that request and of the next one."""
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(Clients(server).status, [sentence(number) for number in range(1000)])
        time.sleep(0.3)
        os.kill(server.workers()[0], signal.SIGKILL)
        return {"its_request": answer.result(), "next": Clients(server).status([sentence(0)])}


def memory(server: Server, count: int) -> Result:
    """Return the memory after a tenth of the requests, and after all of them."""
    clients = Clients(server)
    sizes = []
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
    """Print each measurement, then all in a line of JSON."""
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
