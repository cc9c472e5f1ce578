"""Start ``python -m multiview.serve`` in a process of its own, for benchmarks and tests."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx


@dataclass
class Server:
    """A running server."""

    url: str
    process: subprocess.Popen[str]

    def workers(self) -> list[int]:
        """Return the process numbers of the workers."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [int(pid) for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    def terminate(self) -> int:
        """Send SIGTERM and return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(150)


def free_port() -> int:
    """Return a port on which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextlib.contextmanager
def running(folder: Path, *options: str, model: str = "builtin") -> Iterator[Server]:
    """Start a server, wait until it is ready, and stop it at the end of the ``with`` block.

    ``folder`` is its working folder, which gets its log; ``options`` are those of ``multiview.serve``.
    """
    port = free_port()
    command = [sys.executable, "-m", "multiview.serve", model, "--port", str(port), *options]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    with open(folder / "log.txt", "w", encoding="utf-8") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stderr=log, text=True)
        server = Server(f"http://127.0.0.1:{port}", process)
        try:
            end = time.monotonic() + 200
            while time.monotonic() < end and process.poll() is None:
                with contextlib.suppress(httpx.TransportError):  # to read whom to trust takes long
                    if httpx.get(f"{server.url}/health", timeout=5, verify=False).status_code == 200:
                        break
                time.sleep(0.2)
            else:
                raise AssertionError((folder / "log.txt").read_text())
            yield server
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
