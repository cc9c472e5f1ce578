"""From a tree cache to prepared training steps: validation set, segments, order, plans.

Whole documents are kept for validation; the text between them is for training. Each epoch cuts it into
segments of ``batch`` successive sentences, at other places than the last epoch, and shuffles them. Segments
shorter than half of ``batch`` are dropped, and so are the last ones when they do not fill a step. The epoch
and step alone decide which sentences a step has, so a checkpoint needs nothing else to resume.

Legend of dimension suffixes: B sentences, N tokens, U distinct table rows of a step, E word-vector size, K
size of the teacher's vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from multiview.config import TREES, ObjectiveConfig, found_trees
from multiview.encoders.registry import ViewStack, fields_of
from multiview.engines.plan import Plan, to_device
from multiview.training.objective import (
    UNUSABLE_FLAGS,
    Positions,
    Targets,
    count_anchors,
    neighbour_targets,
)
from multiview.words.table import UNKNOWN_ROW, WordTable
from multiview.words.vectors import Float
from parsing.trees.batch import Batch
from parsing.trees.cache import TreeCache
from runtime.errors import UserError
from runtime.files import read_array

# Decoded shards to keep, about 8 MB each. A corpus of up to 250k sentences is decoded only once.
OPEN_SHARDS = 32

Job = TypeVar("Job")
Prepared = TypeVar("Prepared")
Piece = TypeVar("Piece")
Span = tuple[int, int]
"""Sentences ``start`` to ``stop`` (excluded) of the corpus."""


@dataclass(frozen=True)
class MicroBatch:
    """Sentences that are encoded together."""

    tokens: list[Tensor]
    """int64 [N], for all views or for each: each token's word among the step's distinct table rows."""
    plans: list[Plan]
    """One plan per view."""


@dataclass(frozen=True)
class Segment:
    """Sentences that are contrasted with each other, in the order of the micro-batches."""

    micro_batches: list[MicroBatch]
    targets: Targets
    teacher: Tensor | None
    """The teacher's vectors of the sentences, float [B, K]."""


@dataclass(frozen=True)
class Step:
    """One prepared optimiser step of one process."""

    segments: list[Segment]
    rows: NDArray[np.int64]
    """int64 [U], the words of this process: distinct rows of the word tables, ascending."""
    table_rows: Tensor
    """The same on the device."""
    vectors: Tensor | None
    """float32 [U, E], their vectors if these are fixed."""
    anchors: int
    """Number of anchors, over all processes."""
    sentences: int
    """Number of sentences, over all processes."""

    def leaves(self, words: WordTable) -> list[Tensor]:
        """Return the vectors [U, E] per view, as leaf tensors that receive gradients.

        With fixed vectors, a single entry without gradient for all views.
        """
        if self.vectors is None:
            return words.leaves(self.table_rows)
        assert words.place is not None
        return [self.vectors.to(words.place)]


def on_device(part: Piece, device: torch.device, plans: dict[int, Plan] | None = None) -> Piece:
    """Return a part of a step with its tensors on a device; itself on the CPU. Nothing waits for the copies.

    Args:
        part: a dataclass, list, tensor or plan.
        device: where it goes.
        plans: those that are there already, by their identity: views of the same kind share one.
    """
    plans = {} if plans is None else plans
    copy: Any = part
    if device.type == "cpu":
        return part
    if isinstance(part, Tensor):
        copy = to_device({"": part.numpy()}, device)[""]
    elif isinstance(part, Plan):
        if id(part) not in plans:
            plans[id(part)] = part.to(device)
        copy = plans[id(part)]
    elif isinstance(part, list):
        copy = [on_device(each, device, plans) for each in part]
    elif is_dataclass(part) and not isinstance(part, type):
        values = {field.name: getattr(part, field.name) for field in fields(part)}
        # One copy for all tensors of a dataclass.
        tensors = to_device({n: v.numpy() for n, v in values.items() if isinstance(v, Tensor)}, device)
        others = {n: on_device(v, device, plans) for n, v in values.items() if n not in tensors}
        copy = replace(part, **tensors, **others)
    result: Piece = copy
    return result


def open_trees(trees: Path | None, root: Path = TREES) -> TreeCache:
    """Open a tree cache; without a path, the only one under ``root``.

    Raises:
        UserError: there is none, or several (they are listed), or the folder is not a cache of this format.
    """
    return TreeCache.open(found_trees(trees, root), open_shards=OPEN_SHARDS)


def open_teacher(path: Path, cache: TreeCache) -> Float:
    """Open a teacher's vectors [sentences, K]: a ``.npy`` with one row per sentence of the cache.

    Raises:
        UserError: the file is missing, damaged, or of another number of sentences.
    """
    vectors: Float = read_array(path, 2)
    if len(vectors) != len(cache):
        shape = list(vectors.shape)
        raise UserError(f"teacher {path}: is {shape}; {cache.folder} has {len(cache)} sentences")
    return vectors


@dataclass(frozen=True)
class Split:
    """Training and validation sentences."""

    training: list[Span]
    validation: list[Span]

    @classmethod
    def of(cls, documents: NDArray[np.int64], sentences: int, batch: int) -> Split:
        """Keep whole documents for validation, in up to ten blocks spread evenly over the corpus.

        They are spread because neighbouring documents are alike. No block is shorter than a segment. Of a
        document far longer than a block, such as a book, a part is kept.

        Args:
            documents: int64 [K + 1], sentence offsets of the documents.
            sentences: size of the validation set; at most a tenth of the corpus is taken.
            batch: sentences of a segment.
        """

        def edge(sentence: int) -> int:
            """Return the first start of a document that is not before a sentence."""
            return int(documents[min(int(np.searchsorted(documents, sentence)), len(documents) - 1)])

        total = int(documents[-1])
        wanted = min(sentences, total // 10)
        blocks = max(1, min(10, wanted // batch))
        validation: list[Span] = []
        each = max(wanted // blocks, 1)
        last = 0
        for block in range(blocks if wanted else 0):
            place = (2 * block + 1) * total // (2 * blocks)
            start = max(edge(place), last)
            stop = edge(start + each)
            if not start < stop <= start + 4 * each + 1:  # whole, it would use up the training data
                start = max(place, last)
                stop = min(start + each, total)
            if start < stop:
                validation.append((start, stop))
                last = stop
        edges = [0, *(bound for span in validation for bound in span), total]
        training = [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if b > a]
        return cls(training, validation)

    def epoch(self, epoch: int, batch: int, seed: int) -> list[Span]:
        """Return the shuffled segments of one epoch."""
        random = np.random.default_rng([seed, epoch])
        offset = int(random.integers(batch)) if epoch else 0
        pieces = [piece for span in self.training for piece in cut(*span, batch, offset)]
        if not pieces and self.training:
            pieces = [max(self.training, key=lambda span: span[1] - span[0])]
        return [pieces[index] for index in random.permutation(len(pieces))]


def cut(start: int, stop: int, batch: int, offset: int = 0, *, least: int = 0) -> list[Span]:
    """Cut a span at ``start + offset + k * batch``; drop pieces shorter than ``least`` (by default half)."""
    edges = [start, *range(start + offset, stop, batch), stop]
    least = least or max(batch // 2, 2)
    return [(a, b) for a, b in pairwise(edges) if b - a >= least]


class StepSource:
    """Prepares steps from a cache. It keeps no state between steps, so any thread may use it.

    Args:
        cache: the corpus.
        network: its views and words.
        objective: which sentences are contrasted.
        micro_batch: sentences encoded at a time; 0 is all of a segment.
        dropout: part of the words that a step of training reads as unknown.
        seed: of these words.
        teacher: vectors of the corpus's sentences [sentences, K].

    Raises:
        UserError: the cache lacks trees that a view needs.
    """

    def __init__(
        self,
        cache: TreeCache,
        network: ViewStack,
        *,
        objective: ObjectiveConfig,
        micro_batch: int = 0,
        dropout: float = 0.0,
        seed: int = 0,
        teacher: Float | None = None,
    ) -> None:
        self.cache, self.objective, self.micro_batch = cache, objective, micro_batch
        self.dropout, self.seed, self.teacher = dropout, seed, teacher
        self.words, self.encoders = network.words, network.encoder_list
        requires = {need for encoder in self.encoders for need in encoder.requires}
        for need in sorted(requires - {"tokens"}):
            if not cache.has(need):
                raise UserError(
                    f"the tree cache has no {need} trees, which --views {','.join(network.views)} needs; "
                    "parse the corpus again with them"
                )
        self.fields = fields_of(requires)
        self.documents = np.asarray(cache.documents())
        self.usable = (np.asarray(cache.flags()) & UNUSABLE_FLAGS) == 0

    def positions(self, sentences: NDArray[np.int64]) -> Positions:
        """Return the positions of sentences, [B], in ascending order."""
        document = np.searchsorted(self.documents, sentences, side="right") - 1
        return Positions(sentences, document, self.usable[sentences])

    def prepare(
        self, spans: Sequence[Span], *, epoch: int | None = None, rank: int = 0, world: int = 1
    ) -> Step:
        """Read and plan this process's part of a step.

        Args:
            spans: all segments of the step, those of other processes included.
            epoch: of training, in which words are dropped and segments encoded in parts; None validates.
            rank: number of this process.
            world: number of processes; each takes every ``world``-th segment.
        """
        everywhere = [self.positions(np.arange(*span, dtype=np.int64)) for span in spans]
        read = [self._read(*span, whole=epoch is None) for span in spans[rank::world]]
        words = [
            self._tokens(batches, start, epoch)
            for batches, (start, _) in zip(read, spans[rank::world], strict=True)
        ]
        tokens = [token for parts in words for views in parts for token in views]
        table_rows, inverse = np.unique(np.concatenate(tokens), return_inverse=True)
        pieces = iter(torch.from_numpy(inverse.astype(np.int64)).split([len(token) for token in tokens]))
        segments = []
        for where, batches, parts in zip(everywhere[rank::world], read, words, strict=True):
            if self.objective.same:
                # A sentence that finds itself must not be told that its copies are others.
                where = replace(where, content=_contents(batches))
            built = [
                MicroBatch([next(pieces) for _ in views], self._plans(batch))
                for batch, views in zip(batches, parts, strict=True)
            ]
            taught = None if self.teacher is None else torch.from_numpy(self.teacher[where.sentence])
            targets = neighbour_targets(where, self.objective.boundary)
            segments.append(Segment(built, targets, taught))
        anchors = sum(count_anchors(where, self.objective.boundary) for where in everywhere)
        rows = table_rows.astype(np.int64)
        fixed = None if self.words.fixed is None else torch.from_numpy(self.words.fixed_rows(rows))
        return Step(segments, rows, torch.from_numpy(rows), fixed, anchors, sum(map(len, everywhere)))

    def _read(self, start: int, stop: int, *, whole: bool) -> list[Batch]:
        """Return the parts of a segment that are encoded together."""
        size = (0 if whole else self.micro_batch) or stop - start
        ends = [(a, min(a + size, stop)) for a in range(start, stop, size)]
        vocabulary = self.words.vocabulary
        return [self.cache.read(*span, fields=self.fields, vocabulary=vocabulary) for span in ends]

    def _plans(self, batch: Batch) -> list[Plan]:
        """Return one per view; views of the same kind share a plan, since it depends only on the trees."""
        named = {encoder.name: encoder for encoder in self.encoders}
        made = {name: encoder.plan(batch) for name, encoder in named.items()}
        return [made[encoder.name] for encoder in self.encoders]

    def _tokens(
        self, batches: Sequence[Batch], start: int, epoch: int | None
    ) -> list[list[NDArray[np.int32]]]:
        """Return the table rows int32 [N] of each part of a segment; in training random words are unknown.

        In a term that asks views for the same sentence, each view loses words of its own: else what is
        missing would give the sentence away.
        """
        tokens = [np.asarray(batch.row) for batch in batches]
        if epoch is None or not self.dropout:
            return [[token] for token in tokens]
        views = len(self.encoders) if self.objective.same else 1
        seed = [self.seed, epoch, start, sum(map(len, tokens))]
        draws = [np.random.default_rng([*seed, *([view] if view else [])]) for view in range(views)]

        def dropped(token: NDArray[np.int32], draw: np.random.Generator) -> NDArray[np.int32]:
            return np.where(draw.random(len(token)) < self.dropout, UNKNOWN_ROW, token).astype(np.int32)

        return [[dropped(token, draw) for draw in draws] for token in tokens]


def _contents(batches: Sequence[Batch]) -> NDArray[np.int64]:
    """Return a number for each sentence, equal for those of the same words, [B]."""
    contents: dict[bytes, int] = {}
    numbers = [
        contents.setdefault(np.asarray(batch.row)[i:j].tobytes(), len(contents))
        for batch in batches
        for i, j in pairwise(batch.sentence_offsets.tolist())
    ]
    return np.array(numbers)


def prefetch(jobs: Iterator[Job], prepare: Callable[[Job], Prepared], depth: int = 4) -> Iterator[Prepared]:
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
