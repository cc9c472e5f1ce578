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
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from corpora.support.errors import UserError
from multiview.config import TrainConfig
from multiview.encoders.registry import ViewStack, fields_of
from multiview.engines.plan import Plan, to_device
from multiview.training.objective import (
    UNUSABLE_FLAGS,
    Positions,
    Targets,
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


@dataclass(frozen=True)
class MicroBatch:
    """Sentences that are encoded together."""

    tokens: list[Tensor]
    """int64 [N], for all views or for each: each token's word among the step's distinct table rows."""
    plans: list[Plan]
    """One plan per view."""

    @property
    def sentences(self) -> int:
        """B."""
        return self.plans[0].sentences

    def to(self, device: torch.device) -> MicroBatch:
        """The same on a device: one copy per plan, which views of the same kind share."""
        moved = {id(plan): plan.to(device) for plan in self.plans}
        tokens = to_device({str(i): token.numpy() for i, token in enumerate(self.tokens)}, device)
        return MicroBatch(list(tokens.values()), [moved[id(plan)] for plan in self.plans])


@dataclass(frozen=True)
class Segment:
    """Sentences that are contrasted with each other."""

    micro_batches: list[MicroBatch]
    positions: Positions
    """In the order of the micro-batches."""
    targets: Targets
    teacher: Tensor | None
    """The teacher's vectors of the sentences, float [B, K]."""

    def to(self, device: torch.device) -> Segment:
        """The same on a device."""
        return replace(
            self,
            micro_batches=[micro_batch.to(device) for micro_batch in self.micro_batches],
            targets=self.targets.to(device),
            teacher=None if self.teacher is None else to_device({"": self.teacher.numpy()}, device)[""],
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

    segments: list[Segment]
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
        return replace(self, segments=[one.to(device) for one in self.segments], rows=self.rows.to(device))


def open_trees(trees: Path | None, root: Path = Path("runs/trees")) -> TreeCache:
    """Open a tree cache; without a path, the only one under ``root``.

    Raises:
        UserError: there is none, or several (they are listed), or the folder is not a cache of this format.
    """
    if trees is not None:
        return TreeCache.open(trees, open_shards=OPEN_SHARDS)
    found = sorted(path.parent for path in root.glob("*/manifest.json"))
    if len(found) != 1:
        listed = " | ".join(map(str, found)) or "none; make one with python -m parsing.run"
        raise UserError(f"--trees: needed unless {root} has just one tree cache; it has {listed}")
    return TreeCache.open(found[0], open_shards=OPEN_SHARDS)


def open_teacher(path: Path, cache: TreeCache) -> NDArray[np.floating]:
    """A teacher's vectors [sentences, K], memory-mapped.

    Args:
        path: a ``.npy`` with one row per sentence of the cache, in its order.
        cache: the trees.

    Raises:
        UserError: the file is missing, damaged, or of another number of sentences.
    """
    try:
        vectors: NDArray[np.floating] = np.load(path, mmap_mode="r")
    except (OSError, ValueError) as error:
        raise UserError(f"--teacher.vectors {path}: cannot be loaded ({error})") from None
    if vectors.ndim != 2 or len(vectors) != len(cache):
        raise UserError(
            f"--teacher.vectors {path}: is {list(vectors.shape)}; {cache.folder} has {len(cache)} sentences"
        )
    return vectors


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
        config: of the training.
        cache: the trees.
        network: its words and views.
        teacher: [sentences, K], the teacher's vectors, if there is one.

    Raises:
        UserError: the cache lacks trees that a view needs.
    """

    def __init__(
        self,
        config: TrainConfig,
        cache: TreeCache,
        network: ViewStack,
        teacher: NDArray[np.floating] | None = None,
    ) -> None:
        self.config = config
        self.cache = cache
        self.words = network.words
        self.encoders = network.encoder_list
        self.teacher = teacher
        requires = {need for encoder in self.encoders for need in encoder.requires}
        for need in sorted(requires - {"tokens"}):
            if not cache.has(need):
                raise UserError(
                    f"the tree cache has no {need} trees, which --views {config.views} needs; "
                    "parse the corpus again with them"
                )
        self.fields = fields_of(requires)
        self.documents = np.asarray(cache.documents())
        self.usable = (np.asarray(cache.flags()) & UNUSABLE_FLAGS) == 0

    def positions(self, start: int, stop: int) -> Positions:
        """Positions of sentences ``start`` to ``stop`` (excluded)."""
        sentence = np.arange(start, stop, dtype=np.int64)
        document = np.searchsorted(self.documents, sentence, side="right") - 1
        return Positions(sentence, document, self.usable[start:stop])

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
        read = [self._read(*span, epoch) for span in spans[rank::world]]
        tokens = [token for parts, _ in read for each, _ in parts for token in each]
        table_rows, inverse = np.unique(np.concatenate(tokens), return_inverse=True)
        pieces = iter(torch.from_numpy(inverse.astype(np.int64)).split([len(t) for t in tokens]))
        segments = []
        for parts, positions in read:
            built = [MicroBatch([next(pieces) for _ in each], plans) for each, plans in parts]
            targets = neighbour_targets(positions, self.config.objective.boundary)
            taught = None if self.teacher is None else torch.from_numpy(self.teacher[positions.sentence])
            segments.append(Segment(built, positions, targets, taught))
        everywhere = [self.positions(*span) for span in spans]
        anchors = sum(count_anchors(where, self.config.objective.boundary) for where in everywhere)
        rows = Rows.of(table_rows.astype(np.int64), self.words)
        return Step(segments, rows, anchors, sum(map(len, everywhere)))

    def _read(
        self, start: int, stop: int, epoch: int | None
    ) -> tuple[list[tuple[list[NDArray[np.int32]], list[Plan]]], Positions]:
        """Tokens (int32 [N], for all views or each) and plans of each part of a segment; its positions."""
        size = (self.config.loop.micro_batch if epoch is not None else 0) or stop - start
        tokens: list[NDArray[np.int32]] = []
        plans: list[list[Plan]] = []
        contents: dict[bytes, int] = {}
        content: list[int] = []
        for a in range(start, stop, size):
            batch = self.cache.read(
                a, min(a + size, stop), fields=self.fields, vocabulary=self.words.vocabulary
            )
            # Views of the same kind share a plan, since it depends only on the trees.
            planned = {encoder.name: encoder for encoder in self.encoders}
            made = {name: encoder.plan(batch) for name, encoder in planned.items()}
            plans.append([made[encoder.name] for encoder in self.encoders])
            tokens.append(np.asarray(batch.token))
            sentences = [tokens[-1][i:j].tobytes() for i, j in pairwise(batch.sentence_offsets.tolist())]
            content += [contents.setdefault(words, len(contents)) for words in sentences]
        positions = self.positions(start, stop)
        if self.config.objective.same:
            # A sentence that finds itself must not be told that its copies are others.
            positions = replace(positions, content=np.array(content))
        return list(zip(self._dropped(tokens, start, epoch), plans, strict=True)), positions

    def _dropped(
        self, tokens: Sequence[NDArray[np.int32]], start: int, epoch: int | None
    ) -> list[list[NDArray[np.int32]]]:
        """The parts of a segment with random words unknown, whatever the parts.

        In a term that asks views for the same sentence, each view loses words of its own: else what is
        missing would give the sentence away.
        """
        fraction = self.config.table.dropout
        if epoch is None or not fraction:
            return [[token] for token in tokens]
        views = len(self.encoders) if self.config.objective.same else 1
        seed = [self.config.seed, epoch, start, sum(map(len, tokens))]
        draws = [np.random.default_rng([*seed, *([view] if view else [])]) for view in range(views)]
        return [
            [
                np.where(draw.random(len(token)) < fraction, UNKNOWN_ROW, token).astype(np.int32)
                for draw in draws
            ]
            for token in tokens
        ]


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
