"""What runs ``parse_shard`` for the driver: the contract of the local and the Ray engine."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from parsing.cache_types import Inventories, ShardRow
from parsing.shards import ShardOptions, ShardSpec, inventories_of
from parsing.types import ConstituencyParser, DependencyParser

LOGGER = "multiview_project"


@dataclass(frozen=True, kw_only=True, slots=True)
class ParserFactories:
    """How a worker makes its parsers; called in the worker, so they must survive pickling."""

    dependency: Callable[[], DependencyParser] | None = None
    constituency: Callable[[], ConstituencyParser] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadedParsers:
    """A worker's parsers."""

    dependency: DependencyParser | None
    constituency: ConstituencyParser | None

    @classmethod
    def make(cls, factories: ParserFactories) -> LoadedParsers:
        """Load what the factories name, on one thread: parallelism comes from the workers."""
        loaded = cls(
            dependency=factories.dependency() if factories.dependency else None,
            constituency=factories.constituency() if factories.constituency else None,
        )
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(1)
        return loaded

    def describe(self) -> ParserDescription:
        """Identities and inventories, for the manifest."""
        return ParserDescription(
            dependency=dict(self.dependency.identity) if self.dependency else None,
            constituency=dict(self.constituency.identity) if self.constituency else None,
            inventories=inventories_of(self.dependency, self.constituency),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ParserDescription:
    """Who parses, and the names of the ids that come out."""

    dependency: dict[str, Any] | None
    constituency: dict[str, Any] | None
    inventories: Inventories


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """What every worker needs to know besides a shard's text."""

    folder: str
    identity: dict[str, Any]
    inventories: Inventories
    options: ShardOptions


class Engine(Protocol):
    """Runs shards somewhere; used as a context manager."""

    def describe(self) -> ParserDescription:
        """The parsers' description, once the first worker has loaded them."""
        ...

    def run(self, job: Job, specs: Iterator[ShardSpec]) -> Iterator[ShardRow]:
        """Parse and store every shard; rows come in the order in which shards are done.

        Raises:
            UserError: a shard could not be written, or the corpus could not be read.
            RuntimeError: the worker of one shard died or failed twice.
        """
        ...

    def __enter__(self) -> Engine: ...

    def __exit__(self, *exception: object) -> None: ...


@dataclass
class Messages(logging.Handler):
    """Collects a worker's log lines, to be written by the driver; keeps the first few per shard."""

    limit: int = 20
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    @classmethod
    def install(cls) -> Messages:
        """Make this process's log lines go into a new collector, and nowhere else."""
        messages = cls()
        logger = logging.getLogger(LOGGER)
        logger.propagate = False
        logger.addHandler(messages)
        return messages

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line unless there are enough."""
        if len(self.lines) < self.limit:
            self.lines.append(record.getMessage())

    def take(self) -> list[str]:
        """The lines since the last call."""
        lines, self.lines = self.lines, []
        return lines

    def __hash__(self) -> int:
        return id(self)
