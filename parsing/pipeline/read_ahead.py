"""Read and tokenise in a thread while workers parse: a bounded queue."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator

from parsing.pipeline.split import ShardSpec

# Parts of shards; two shards of the usual sizes, about 20 MB of text.
PARTS = 16


class ReadAhead:
    """Parts of shards read ahead by a thread; at most PARTS are held."""

    def __init__(self, parts: Iterator[ShardSpec]) -> None:
        self._queue: queue.Queue[ShardSpec | BaseException | None] = queue.Queue(PARTS)
        self._stop = threading.Event()
        self.at_end = False
        self._thread = threading.Thread(target=self._fill, args=(parts,), daemon=True)
        self._thread.start()

    def next(self) -> ShardSpec | None:
        """The next part if one is ready, else None; re-raises errors of the reader."""
        try:
            item = self._queue.get_nowait()
        except queue.Empty:
            return None
        if isinstance(item, BaseException):
            raise item
        self.at_end = item is None
        return item

    def _fill(self, parts: Iterator[ShardSpec]) -> None:
        try:
            for part in parts:
                self._put(part)
                if self._stop.is_set():
                    return
            self._put(None)
        except BaseException as error:
            self._put(error)

    def _put(self, item: ShardSpec | BaseException | None) -> None:
        while not self._stop.is_set():
            with contextlib.suppress(queue.Full):
                self._queue.put(item, timeout=0.1)
                return

    def close(self) -> None:
        """Let the thread end."""
        self._stop.set()
        self._thread.join(timeout=5)


@contextlib.contextmanager
def read_ahead(parts: Iterator[ShardSpec]) -> Iterator[ReadAhead]:
    """Read ``parts`` in a thread for as long as the context lasts."""
    ahead = ReadAhead(parts)
    try:
        yield ahead
    finally:
        ahead.close()
