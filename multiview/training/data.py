"""From a tree cache to prepared training steps: validation set, segments, order, plans.

Whole documents are kept for validation; the text between them is for training. Each epoch cuts it into
segments of ``batch`` successive sentences, at other places than the last epoch, and shuffles them. Segments
shorter than half of ``batch`` are dropped, and so are the last ones when they do not fill a step. The epoch
and step alone decide which sentences a step has, so a checkpoint needs nothing else to resume.

Legend of dimension suffixes: B sentences, N tokens, U distinct table rows of a step, E word-vector size, K
size of the teacher's vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from multiview.config import Boundary, find_trees
from multiview.encoders.registry import ViewStack, fields_of
from multiview.engines.plan import Plan, to_device
from multiview.training.objective import UNUSABLE_FLAGS, Positions, Targets, neighbour_targets
from multiview.words.table import UNKNOWN_ROW, WordTable
from multiview.words.vectors import Float
from parsing.trees.batch import Batch
from parsing.trees.cache import SHARD_SENTENCES, TreeCache
from runtime.errors import UserError
from runtime.files import read_array

OPEN_SHARDS = 32
"""Decoded shards to keep, about 8 MB each. A corpus of up to 250k sentences is decoded only once."""
Span = tuple[int, int]
"""Sentences ``start`` to ``stop`` (excluded) of the corpus."""


@dataclass(frozen=True)
class MicroBatch:
    """Sentences that are encoded together."""

    tokens: list[Tensor]
    """int64 [N], for all views or for each: each token's word among the step's distinct table rows."""
    plans: list[Plan]
    """One plan per view."""
    offsets: Tensor
    """int64 [B + 1], where sentences begin among the tokens."""


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
        """Return the vectors [U, E] per view, as leaves that receive gradients; fixed ones once, without."""
        if self.vectors is None:
            return words.leaves(self.table_rows)
        assert words.place is not None
        return [self.vectors.to(words.place)]


def on_device(part: Any, device: torch.device) -> Any:
    """Return a step or a part of it with its tensors on a device, for whose copies nothing waits."""
    if device.type == "cpu":
        return part
    if isinstance(part, Tensor):
        return to_device(part, device)
    if isinstance(part, Plan):
        return part.to(device)
    if isinstance(part, list):
        return [on_device(each, device) for each in part]
    if is_dataclass(part) and not isinstance(part, type):
        copies = {field.name: on_device(getattr(part, field.name), device) for field in fields(part)}
        return replace(part, **copies)
    return part


def open_trees(trees: Path | None) -> TreeCache:
    """Open a tree cache; without a path, the only one under ``runs/trees`` (see :func:`find_trees`)."""
    return TreeCache.open(find_trees(trees), open_shards=OPEN_SHARDS)


def open_teacher(path: Path, cache: TreeCache) -> Float:
    """Open a teacher's vectors [sentences, K]: a ``.npy`` with one row per sentence of the cache.

    A file that is missing, damaged, or of another number of sentences is a UserError.
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

        They are spread because neighbouring documents are alike. No block is shorter than a segment of
        ``batch`` sentences. Of a document far longer than a block, such as a book, a part is kept. Documents
        are given by their offsets, int64 [documents + 1]; of ``sentences``, a tenth of the corpus is taken at
        most.
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
        """Return the shuffled segments of one epoch.

        A corpus of more shards than are kept open is shuffled by groups of as many, drawn at random: so a
        shard is decoded once an epoch, not once a segment, which would take longer than a GPU's step.
        """
        random = np.random.default_rng([seed, epoch])
        offset = int(random.integers(batch)) if epoch else 0
        pieces = [piece for span in self.training for piece in cut(*span, batch, offset)]
        if not pieces and self.training:
            pieces = [max(self.training, key=lambda span: span[1] - span[0])]
        shuffled = [pieces[index] for index in random.permutation(len(pieces))]
        shards = random.permutation(-(-self.training[-1][1] // SHARD_SENTENCES) if self.training else 0)
        return sorted(shuffled, key=lambda piece: shards[piece[0] // SHARD_SENTENCES] // OPEN_SHARDS)


def cut(start: int, stop: int, batch: int, offset: int = 0, *, least: int = 0) -> list[Span]:
    """Cut a span at ``start + offset + k * batch``; drop pieces shorter than ``least`` (by default half)."""
    edges = [start, *range(start + offset, stop, batch), stop]
    least = least or max(batch // 2, 2)
    return [(a, b) for a, b in pairwise(edges) if b - a >= least]


class StepSource:
    """Prepares steps from a cache. It keeps no state between steps, so any thread may use it.

    Views and words are those of ``network``. ``same`` says that a view is asked for the same sentence as
    well. ``micro_batch`` sentences are encoded at a time, 0 is all of a segment; in training a part of the
    words, ``dropout``, is read as unknown. ``teacher`` are vectors of the corpus's sentences [sentences, K].
    A cache that lacks trees of a view is a UserError.
    """

    def __init__(
        self,
        cache: TreeCache,
        network: ViewStack,
        *,
        boundary: Boundary,
        same: bool,
        micro_batch: int,
        dropout: float,
        seed: int,
        teacher: Float | None,
    ) -> None:
        self.cache, self.boundary, self.same, self.micro_batch = cache, boundary, same, micro_batch
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
        """Read and plan this process's part of a step: of all its segments every ``world``-th from ``rank``.

        In an ``epoch`` of training words are dropped and segments encoded in parts; without one it validates.
        """
        mine = spans[rank::world]
        read = [self._read(*span, whole=epoch is None) for span in mine]
        words = [self._tokens(batches, span[0], epoch) for batches, span in zip(read, mine, strict=True)]
        tokens = [token for parts in words for views in parts for token in views]
        table_rows, inverse = np.unique(np.concatenate(tokens), return_inverse=True)
        pieces = iter(torch.from_numpy(inverse).split([len(token) for token in tokens]))
        segments = []
        for span, batches, parts in zip(mine, read, words, strict=True):
            built = [
                MicroBatch(
                    [next(pieces) for _ in views],
                    self._plans(batch),
                    torch.from_numpy(np.array(batch.sentence_offsets, dtype=np.int64)),
                )
                for batch, views in zip(batches, parts, strict=True)
            ]
            taught = None if self.teacher is None else torch.from_numpy(np.array(self.teacher[slice(*span)]))
            # A sentence that finds itself must not be told that its copies are others.
            contents = _contents(batches) if self.same else None
            segments.append(Segment(built, self._targets(span, contents), taught))
        others = [span for place, span in enumerate(spans) if place % world != rank]
        anchors = sum(len(segment.targets.anchor) for segment in segments)
        anchors += sum(len(self._targets(span).anchor) for span in others)
        rows = table_rows.astype(np.int64)
        fixed = None if self.words.fixed is None else torch.from_numpy(self.words.fixed_rows(rows))
        sentences = sum(stop - start for start, stop in spans)
        return Step(segments, rows, torch.from_numpy(rows), fixed, anchors, sentences)

    def _targets(self, span: Span, contents: NDArray[np.int64] | None = None) -> Targets:
        positions = self.positions(np.arange(*span, dtype=np.int64))
        return neighbour_targets(replace(positions, content=contents), self.boundary)

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
        views = len(self.encoders) if self.same else 1
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
