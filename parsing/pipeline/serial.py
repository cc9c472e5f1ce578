"""Parse in this process: for a few sentences that is faster than starting workers."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from parsing.pipeline.parse_shard import ShardOptions, parse_shard
from parsing.pipeline.split import ShardSpec
from parsing.pipeline.workers import LoadedParsers, Parsed, ParserDescription, ParserFactories


class SerialPool:
    """A :class:`parsing.pipeline.workers.WorkerPool` without workers.

    Args:
        factories: how the parsers are made.
        workers: ignored.
    """

    def __init__(self, factories: ParserFactories, workers: int | None) -> None:
        self.parsers = LoadedParsers.make(factories, one_thread=False)

    def __enter__(self) -> SerialPool:
        return self

    def __exit__(self, *exception: object) -> None: ...

    def describe(self) -> ParserDescription:
        """Identities and inventories of the parsers."""
        return self.parsers.describe()

    def run(self, options: ShardOptions, parts: Iterator[ShardSpec]) -> Generator[Parsed, None, None]:
        """Parse part after part."""
        for part in parts:
            yield part, parse_shard(part, self.parsers.dependency, self.parsers.constituency, options)
