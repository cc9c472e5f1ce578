"""The interface of worker pools, which run ``parse_shard`` for the driver."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from corpora.support.cli import LOGGER
from corpora.support.errors import UserError
from parsing.cache.format import Inventories, ShardResult
from parsing.pipeline.parse_shard import ShardOptions, inventories_of
from parsing.pipeline.split import ShardSpec
from parsing.trees.parsers import ConstituencyParser, DependencyParser

Parsed = tuple[ShardSpec, ShardResult]
"""A part of a shard and the result of parsing it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ParserFactories:
    """How a worker makes its parsers; called in the worker, so they must be picklable."""

    dependency: Callable[[], DependencyParser] | None = None
    constituency: Callable[[], ConstituencyParser] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadedParsers:
    """A worker's parsers."""

    dependency: DependencyParser | None
    constituency: ConstituencyParser | None

    @classmethod
    def make(cls, factories: ParserFactories, *, one_thread: bool = True) -> LoadedParsers:
        """Make the parsers; by default they leave the process one thread, because workers run in parallel."""
        loaded = cls(
            dependency=factories.dependency() if factories.dependency else None,
            constituency=factories.constituency() if factories.constituency else None,
        )
        if one_thread and "torch" in sys.modules:
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
    """Identities of the parsers, and the names of their ids."""

    dependency: dict[str, Any] | None
    constituency: dict[str, Any] | None
    inventories: Inventories


class WorkerPool(Protocol):
    """Workers that parse; a context manager that starts and ends them."""

    def describe(self) -> ParserDescription:
        """The parsers' description, once the first worker has loaded them."""
        ...

    def run(self, options: ShardOptions, parts: Iterator[ShardSpec]) -> Generator[Parsed, None, None]:
        """Parse every part of every shard; results come in the order in which they finish.

        Raises:
            UserError: the corpus could not be read, no worker is left, or a part's workers died twice.
            RuntimeError: the parsers failed twice on one part.
        """
        ...

    def __enter__(self) -> WorkerPool: ...

    def __exit__(self, *exception: object) -> None: ...


class Messages(logging.Handler):
    """Collects a worker's log lines for the driver to write; keeps the first ``LIMIT`` per part."""

    LIMIT = 20

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    @classmethod
    def install(cls) -> Messages:
        """Send this process's log lines to a new collector and nowhere else."""
        messages = cls()
        logger = logging.getLogger(LOGGER)
        logger.propagate = False
        logger.addHandler(messages)
        return messages

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line unless ``LIMIT`` is reached."""
        if len(self.lines) < self.LIMIT:
            self.lines.append(record.getMessage())

    def take(self) -> list[str]:
        """The lines since the last call."""
        lines, self.lines = self.lines, []
        return lines


MORE_MEMORY = "take fewer --workers, or free memory; the same command resumes"


def no_worker_left(reason: str) -> UserError:
    """The error that ends a run when the last of its workers could not load the parsers."""
    return UserError(f"no worker could load the parsers ({reason}); {MORE_MEMORY}")


@dataclass
class Failures:
    """Counts the failures of each part; the last of its attempts ends the run."""

    attempts: int = 2
    counts: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(self, spec: ShardSpec, reason: str, *, is_bug: bool) -> None:
        """Record a failure of ``spec``, which will be tried again.

        Args:
            spec: the part.
            reason: what went wrong, perhaps a traceback.
            is_bug: the parsing raised an error; otherwise its process was killed or had no memory.

        Raises:
            RuntimeError: it failed too often, at last by a bug; the message names the shard and its part.
            UserError: it failed too often, the last time for lack of memory.
        """
        key = spec.index, spec.part
        self.counts[key] = self.counts.get(key, 0) + 1
        where = f"shard {spec.index}, part {spec.part + 1} of {spec.parts}"
        if self.counts[key] >= self.attempts:
            if is_bug:
                raise RuntimeError(f"{where}: failed {self.attempts} times; {reason}")
            reason = reason.strip().splitlines()[-1]
            raise UserError(f"{where}: failed {self.attempts} times; {reason}; {MORE_MEMORY}")
        logging.getLogger(LOGGER).warning("%s: %s; trying again", where, reason.splitlines()[-1])
