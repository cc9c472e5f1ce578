"""From a tree cache to prepared training steps: validation set, segments, order, plans.

Whole documents are kept for validation; the text between them is for training. Each epoch cuts it into
segments of ``batch`` successive sentences, at other places than the last epoch, and shuffles them. Segments
shorter than half of ``batch`` are dropped, and so are the last ones when they do not fill a step. The epoch
and step alone decide which sentences a step has, so a checkpoint needs nothing else to resume.

Legend of dimension suffixes: B sentences, N tokens, U distinct table rows of a step, E word-vector size.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import islice, pairwise
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from corpora.support.errors import UserError
from multiview.config import ObjectiveConfig
from multiview.encoders.registry import Encoder, fields_of
from multiview.engines.memory import to_device
from multiview.engines.plan import Plan
from multiview.teacher import TeacherMatrix
from multiview.training.objective import (
    UNUSABLE_FLAGS,
    Positions,
    Targets,
    TeacherVectors,
    count_anchors,
    neighbour_targets,
)
from multiview.words.table import WordTable
from multiview.words.vocabulary import UNKNOWN_ROW
from parsing.cache.reader import TreeCache

# Decoded shards to keep, about 8 MB each. A corpus of up to 250k sentences is decoded only once.
OPEN_SHARDS = 32

Job = TypeVar("Job")
Prepared = TypeVar("Prepared")
Span = tuple[int, int]
"""Sentences ``start`` to ``stop`` (excluded) of the corpus."""
Part = tuple[list[NDArray[np.int32]], list[Plan], int]
"""Sentences that are read together: table rows of their tokens [N], for all views or for each, a plan per
view, their number B."""


@dataclass(frozen=True)
class MicroBatch:
    """Sentences that are encoded together."""

    tokens: list[Tensor]
    """int64 [N], for all views or for each: each token's word among the step's distinct table rows."""
    plans: list[Plan]
    """One plan per view."""
    sentences: int
    """B."""

    def to(self, device: torch.device) -> MicroBatch:
        """The same on a device: one copy per plan, which views of the same kind share."""
        moved = {id(plan): plan.to(device) for plan in self.plans}
        tokens = to_device({str(i): token.numpy() for i, token in enumerate(self.tokens)}, device)
        return MicroBatch(list(tokens.values()), [moved[id(plan)] for plan in self.plans], self.sentences)


@dataclass(frozen=True)
class Group:
    """Sentences that are contrasted with each other."""

    micro_batches: list[MicroBatch]
    positions: Positions
    """Positions of this process's sentences, in the order of the micro-batches."""
    targets: Targets
    """Of these sentences, among themselves or among those of all processes."""
    sizes: list[int]
    """Sentences of each process when negatives are gathered; otherwise only of this one."""
    teacher: TeacherVectors | None = None
    """The teacher's vectors of these sentences and of those that they are compared with."""

    def to(self, device: torch.device) -> Group:
        """The same on a device."""
        return replace(
            self,
            micro_batches=[micro_batch.to(device) for micro_batch in self.micro_batches],
            targets=self.targets.to(device),
            teacher=None if self.teacher is None else self.teacher.to(device),
        )


@dataclass(frozen=True)
class Rows:
    """The words of a step, each once."""

    host: NDArray[np.int64]
    """int64 [U], distinct rows of the word tables, ascending."""
    table: Tensor
    """The same on the device."""
    vectors: Tensor | None
    """float32 [U, E], their vectors if these are fixed."""

    @classmethod
    def of(cls, rows: NDArray[np.int64], words: WordTable) -> Rows:
        """On the host; fixed vectors are read from their file."""
        fixed = None if words.fixed is None else torch.from_numpy(words.fixed_rows(rows))
        return cls(rows, torch.from_numpy(rows), fixed)

    def to(self, device: torch.device) -> Rows:
        """The same on a device, in one copy."""
        arrays = {"table": self.table.numpy()}
        if self.vectors is not None:
            arrays["vectors"] = self.vectors.numpy()
        moved = to_device(arrays, device)
        return Rows(self.host, moved["table"], moved.get("vectors"))

    def leaves(self, words: WordTable) -> list[Tensor]:
        """Vectors [U, E] per view, as leaf tensors that receive gradients.

        With fixed vectors, a single entry without gradient for all views.
        """
        if self.vectors is None:
            return words.leaves(self.table)
        assert words.unknown_E is not None
        return [self.vectors.to(words.unknown_E)]


@dataclass(frozen=True)
class Step:
    """One prepared optimiser step of one process."""

    groups: list[Group]
    rows: Rows
    """The words of this process."""
    anchors: int
    """Number of anchors, over all processes."""
    sentences: int
    """Number of sentences, over all processes."""

    def to(self, device: torch.device) -> Step:
        """The same on a device; itself on the CPU. The copies are queued: nothing waits for them."""
        if device.type == "cpu":
            return self
        return replace(self, groups=[group.to(device) for group in self.groups], rows=self.rows.to(device))


def open_trees(trees: Path | None, root: Path = Path("runs/trees")) -> TreeCache:
    """Open a tree cache; without a path, the only one under ``root``.

    Raises:
        UserError: there is none, or several (they are listed), or the folder is not a cache of this format.
    """
    if trees is not None:
        return TreeCache.open(trees, open_shards=OPEN_SHARDS)
    found = sorted(path.parent for path in root.glob("*/manifest.json"))
    if not found:
        raise UserError(f"no tree cache under {root}: make one with python -m parsing.run, or give --trees")
    if len(found) > 1:
        raise UserError(
            f"several tree caches under {root}: choose with --trees {' | '.join(map(str, found))}"
        )
    return TreeCache.open(found[0], open_shards=OPEN_SHARDS)


def required_fields(requires: Collection[str], cache: TreeCache, views: Sequence[str]) -> tuple[str, ...]:
    """The cache fields that hold the annotations ``requires``.

    Raises:
        UserError: the cache lacks one of them.
    """
    for need in sorted(set(requires) - {"tokens"}):
        if not cache.has(need):
            raise UserError(
                f"the tree cache has no {need} trees, which --views {','.join(views)} needs; "
                "parse the corpus again with them"
            )
    return fields_of(requires)


@dataclass(frozen=True)
class Split:
    """Training and validation sentences."""

    training: list[Span]
    validation: list[Span]

    @classmethod
    def of(cls, documents: NDArray[np.int64], sentences: int, batch: int) -> Split:
        """Keep whole documents for validation, in up to ten blocks spread evenly over the corpus.

        They are spread because neighbouring documents are alike. No block is shorter than a segment.

        Args:
            documents: int64 [K + 1], sentence offsets of the documents.
            sentences: size of the validation set; at most a tenth of the corpus is taken.
            batch: sentences of a segment.
        """
        total = int(documents[-1])
        wanted = min(sentences, total // 10)
        blocks = max(1, min(10, wanted // batch))
        held: list[Span] = []
        each = max(wanted // blocks, 1)
        last = 0
        for block in range(blocks if wanted else 0):
            start_document = int(np.searchsorted(documents, (2 * block + 1) * total // (2 * blocks)))
            start = max(int(documents[min(start_document, len(documents) - 1)]), last)
            stop_document = int(np.searchsorted(documents, start + each))
            stop = int(documents[min(stop_document, len(documents) - 1)])
            # Skip a document far longer than a block: it would use up the training data.
            if start < stop <= start + 4 * each + 1:
                held.append((start, stop))
                last = stop
        edges = [0, *(edge for span in held for edge in span), total]
        training = [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if b > a]
        return cls(training, held)

    def epoch(self, epoch: int, batch: int, seed: int) -> list[Span]:
        """The shuffled segments of one epoch."""
        random = np.random.default_rng([seed, epoch])
        offset = int(random.integers(batch)) if epoch else 0
        pieces: list[Span] = []
        for start, stop in self.training:
            pieces += cut(start, stop, batch, offset)
        if not pieces and self.training:
            pieces = [max(self.training, key=lambda span: span[1] - span[0])]
        order = random.permutation(len(pieces))
        return [pieces[index] for index in order]


def cut(start: int, stop: int, batch: int, offset: int = 0, *, least: int = 0) -> list[Span]:
    """Cut a span at ``start + offset + k * batch``; drop pieces shorter than ``least`` (by default half)."""
    edges = [start, *range(start + offset, stop, batch), stop]
    least = least or max(batch // 2, 2)
    return [(a, b) for a, b in pairwise(edges) if b - a >= least]


class StepSource:
    """Prepares steps from a cache. It keeps no state between steps, so any thread may use it.

    Args:
        cache: the trees.
        words: maps words to table rows.
        encoders: one per view.
        views: their names, for messages.
        objective: which sentences are neighbours, and which may be negatives.
        teacher: vectors of the cache's sentences by a teacher, if there is one.
    """

    def __init__(
        self,
        cache: TreeCache,
        words: WordTable,
        encoders: Sequence[Encoder],
        views: Sequence[str],
        objective: ObjectiveConfig,
        teacher: TeacherMatrix | None = None,
    ) -> None:
        self.cache = cache
        self.words = words
        self.encoders = list(encoders)
        self.boundary = objective.boundary
        self.masks_duplicates = objective.duplicates == "masked"
        self.teacher = teacher
        self.fields = required_fields({n for e in encoders for n in e.requires}, cache, views)
        self.documents = np.asarray(cache.documents())
        self.usable = (np.asarray(cache.flags()) & UNUSABLE_FLAGS) == 0

    def positions(self, start: int, stop: int) -> Positions:
        """Positions of sentences ``start`` to ``stop`` (excluded)."""
        sentence = np.arange(start, stop, dtype=np.int64)
        document = np.searchsorted(self.documents, sentence, side="right") - 1
        content = self._content(start, stop) if self.masks_duplicates else None
        return Positions(sentence, document, self.usable[start:stop], content)

    def _content(self, start: int, stop: int) -> NDArray[np.int64]:
        """A hash of each sentence's words as the tables know them, int64 [B]."""
        batch = self.cache.read(start, stop, fields=("token",), vocabulary=self.words.vocabulary)
        offsets = batch.sentence_offsets.tolist()
        words = np.ascontiguousarray(batch.token, dtype=np.int64)
        digests = [blake2b(words[a:b].tobytes(), digest_size=8).digest() for a, b in pairwise(offsets)]
        return np.frombuffer(b"".join(digests), dtype=np.int64)

    def _taught(self, own: Positions, candidates: Positions) -> TeacherVectors | None:
        if self.teacher is None:
            return None
        own_BK = self.teacher.rows(own.sentence)
        return TeacherVectors(own_BK, own_BK if candidates is own else self.teacher.rows(candidates.sentence))

    def read(self, start: int, stop: int) -> tuple[NDArray[np.int32], list[Plan]]:
        """Table rows of the tokens, int32 [N], and the plan of each view.

        Views of the same kind share a plan, since it depends only on the trees.
        """
        batch = self.cache.read(start, stop, fields=self.fields, vocabulary=self.words.vocabulary)
        plans: dict[str, Plan] = {}
        for encoder in self.encoders:
            if encoder.name not in plans:
                plans[encoder.name] = encoder.plan(batch)
        return np.asarray(batch.token), [plans[encoder.name] for encoder in self.encoders]

    def prepare(
        self,
        segments: Sequence[Span],
        *,
        micro_batch: int = 0,
        gathered: bool = False,
        rank: int = 0,
        world: int = 1,
        dropout: Dropout | None = None,
    ) -> Step:
        """Read and plan this process's part of a step.

        Args:
            segments: all segments of the step, those of other processes included.
            micro_batch: sentences per micro-batch, 0 for whole segments.
            gathered: contrast all segments of the step with each other.
            rank: number of this process.
            world: number of processes; each takes every ``world``-th segment.
            dropout: which words to replace by the unknown word; none by default.
        """
        mine = list(segments[rank::world])
        read: list[list[Part]] = []
        for start, stop in mine:
            size = micro_batch or stop - start
            spans = [(a, min(a + size, stop)) for a in range(start, stop, size)]
            parts = [(*self.read(a, b), b - a) for a, b in spans]
            read.append([([token], plans, size) for token, plans, size in parts])
        if dropout is not None and dropout.fraction:
            read = [dropout.of(parts, span) for parts, span in zip(read, mine, strict=True)]
        tokens = [token for parts in read for each, _, _ in parts for token in each]
        table_rows, inverse = np.unique(np.concatenate(tokens), return_inverse=True)
        pieces = iter(torch.from_numpy(inverse.astype(np.int64)).split([len(t) for t in tokens]))
        built = [
            [MicroBatch([next(pieces) for _ in each], plans, size) for each, plans, size in parts]
            for parts in read
        ]
        every = [self.positions(*segment) for segment in segments]
        if gathered:
            per_rank = [Positions.concatenate(every[r::world]) for r in range(world)]
            flat = [micro_batch for parts in built for micro_batch in parts]
            everyone = Positions.concatenate(per_rank)
            targets = neighbour_targets(per_rank[rank], everyone, self.boundary)
            sizes = [len(positions) for positions in per_rank]
            taught = self._taught(per_rank[rank], everyone)
            groups = [Group(flat, per_rank[rank], targets, sizes, taught)]
            pool = Positions.concatenate(every)
            anchors = count_anchors(pool, self.boundary, pool)
        else:
            own = every[rank::world]
            groups = [
                Group(
                    parts,
                    where,
                    neighbour_targets(where, where, self.boundary),
                    [len(where)],
                    self._taught(where, where),
                )
                for parts, where in zip(built, own, strict=True)
            ]
            anchors = sum(count_anchors(where, self.boundary) for where in every)
        rows = Rows.of(table_rows.astype(np.int64), self.words)
        return Step(groups, rows, anchors, sum(len(where) for where in every))


@dataclass(frozen=True)
class Dropout:
    """Replaces random words by the unknown word."""

    fraction: float
    """Of the words."""
    seed: tuple[int, ...]
    """Picks them, together with the segment."""
    views: int = 1
    """1: the same words for all views; more: words of its own for each of so many views."""

    def of(self, parts: Sequence[Part], segment: Span) -> list[Part]:
        """The parts of a segment without those words; the choice does not depend on the micro-batches."""
        total = sum(len(tokens[0]) for tokens, _, _ in parts)
        draws = [
            np.random.default_rng([*self.seed, segment[0], total, *([view] if view else [])])
            for view in range(self.views)
        ]
        return [
            ([self._without(tokens[0], draw) for draw in draws], plans, size) for tokens, plans, size in parts
        ]

    def _without(self, token: NDArray[np.int32], draw: np.random.Generator) -> NDArray[np.int32]:
        return np.where(draw.random(len(token)) < self.fraction, UNKNOWN_ROW, token).astype(np.int32)


def prefetch(jobs: Iterator[Job], prepare: Callable[[Job], Prepared], depth: int) -> Iterator[Prepared]:
    """Yield ``prepare(job)`` for each job in order; a thread works up to ``depth`` jobs ahead.

    One thread is enough: reading and planning 400 sentences takes milliseconds, a training step at the
    paper's size takes seconds, and numba and HDF5 release the interpreter lock.
    """
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="loader") as pool:
        waiting: list[Future[Prepared]] = [pool.submit(prepare, job) for job in islice(jobs, depth)]
        try:
            while waiting:
                ready = waiting.pop(0).result()
                waiting += [pool.submit(prepare, job) for job in islice(jobs, 1)]
                yield ready
        finally:
            for future in waiting:
                future.cancel()
