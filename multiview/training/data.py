"""Makes training steps from a tree cache: chooses the sentences of each step, reads them and plans the trees.

Whole documents are held out for validation; the text between them is for training. Each epoch cuts the text
into segments of ``batch`` successive sentences, at different places in each epoch, and shuffles the segments.
A segment shorter than half of ``batch`` is dropped, and so are the last segments if they do not fill a step.
The seed, the epoch and the number of the step decide which sentences a step has, so a checkpoint needs no
other state to resume.

Legend of dimension suffixes: B sentences, N tokens, U distinct table rows of a step, E word-vector size, K
size of the target vectors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from multiview.encoders.meaning import SentenceRange
from multiview.encoders.registry import ViewStack, fields_of
from multiview.engines.plan import Plan, to_device
from multiview.folder.reading import select
from multiview.model_config import Boundary
from multiview.training.targets import UNUSABLE_FLAGS, Grades, Positions, Targets, neighbour_targets
from multiview.words.table import WordTable
from multiview.words.vectors import Float
from multiview.words.vocabulary import UNKNOWN_ROW
from parsing.names import find_trees
from parsing.trees.batch import Batch
from parsing.trees.cache import TreeCache
from runtime.errors import UserError
from runtime.files import read_array

OPEN_SHARDS = 32
"""How many decoded shards are kept in memory, at about 4 MB each. A corpus of up to 250,000 sentences fits,
so each of its shards is decoded only once."""


@dataclass(frozen=True)
class MicroBatch:
    """Sentences that are encoded together."""

    tokens: list[Tensor]
    """int64 [N], the index of each token's word in the step's ``rows``: one tensor for all views, or one for
    each view where views drop different words."""
    plans: list[Plan]
    """One plan per view."""
    offsets: Tensor
    """int64 [B + 1], the index of each sentence's first token, and at the end the number of tokens."""


@dataclass(frozen=True)
class Segment:
    """Sentences that the loss compares with each other, in the order of the micro-batches."""

    micro_batches: list[MicroBatch]
    targets: Targets | Grades
    target_vectors: Tensor | None
    """The teacher's or the start's vectors, to which those of the sentences are held, float [B, K]."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One process's part of a training step, or a validation step, read and planned."""

    segments: list[Segment]
    rows: NDArray[np.int64]
    """int64 [U], the distinct rows of the word tables that this process reads, ascending."""
    table_rows: Tensor
    """``rows`` as a tensor on the device."""
    vectors: Tensor | None
    """float32 [U, E], the word vectors of these rows if they are fixed, else None."""
    anchors: int
    """Number of anchors, over all processes."""
    sentences: int
    """Number of sentences, over all processes."""

    def leaves(self, words: WordTable) -> list[Tensor]:
        """Return the word vectors [U, E] of each table, as leaf tensors that receive gradients.

        Fixed vectors are a single tensor without a gradient.
        """
        if self.vectors is None:
            return words.leaves(self.table_rows)
        assert words.device_marker is not None
        return [self.vectors.to(words.device_marker)]


def move_to_device(part: Any, device: torch.device) -> Any:
    """Return a step, or a part of one, with its tensors on a device; the copies run in the background."""
    if device.type == "cpu":
        return part
    if isinstance(part, Tensor):
        return to_device(part, device)
    if isinstance(part, Plan):
        return part.to(device)
    if isinstance(part, list):
        return [move_to_device(item, device) for item in part]
    if is_dataclass(part) and not isinstance(part, type):
        copies = {field.name: move_to_device(getattr(part, field.name), device) for field in fields(part)}
        return replace(part, **copies)
    return part


def open_trees(trees: Path | None) -> TreeCache:
    """Open a tree cache; without a path, the only one under ``runs/trees``.

    Raises UserError if :func:`~parsing.names.find_trees` finds none, or several.
    """
    return TreeCache.open(find_trees(trees), open_shards=OPEN_SHARDS)


def open_teacher(path: Path, cache: TreeCache) -> Float:
    """Open a teacher's vectors [sentences, K]. Raises UserError if there is not a row for each sentence."""
    vectors: Float = read_array(path, 2)
    if len(vectors) != len(cache):
        shape = list(vectors.shape)
        raise UserError(f"teacher {path}: is {shape}; {cache.folder} has {len(cache)} sentences")
    return vectors


@dataclass(frozen=True)
class Split:
    """The ranges of sentences to train on, and of those that are held out for validation."""

    training: list[SentenceRange]
    validation: list[SentenceRange]

    @classmethod
    def of(cls, documents: NDArray[np.int64], sentences: int, batch: int) -> Split:
        """Hold out whole documents for validation, in up to ten blocks spread evenly over the corpus.

        They are spread because neighbouring documents are alike. About ``sentences`` are held out, but at
        most a tenth of the corpus. No block is shorter than a segment of ``batch`` sentences. Of a document
        far longer than a block, such as a book, only a part is held out. ``documents`` are the first sentence
        of each document, and at the end the number of sentences, int64 [documents + 1].
        """

        def next_document(sentence: int) -> int:
            """Return the first sentence of the first document that begins at or after a sentence."""
            return int(documents[min(int(np.searchsorted(documents, sentence)), len(documents) - 1)])

        total = int(documents[-1])
        validation_sentences = min(sentences, total // 10)
        blocks = max(1, min(10, validation_sentences // batch))
        block_size = max(validation_sentences // blocks, 1)
        validation: list[SentenceRange] = []
        previous_stop = 0
        for block in range(blocks if validation_sentences else 0):
            middle = (2 * block + 1) * total // (2 * blocks)
            first = max(next_document(middle), previous_stop)
            stop = next_document(first + block_size)
            # A block with a whole long document would leave too little to train on.
            if not first < stop <= first + 4 * block_size + 1:
                first = max(middle, previous_stop)
                stop = min(first + block_size, total)
            if first < stop:
                validation.append((first, stop))
                previous_stop = stop
        edges = [0, *(edge for span in validation for edge in span), total]
        gaps = zip(edges[::2], edges[1::2], strict=True)
        return cls([(first, stop) for first, stop in gaps if stop > first], validation)

    def shuffle_segments(
        self, epoch: int, batch: int, seed: int, shard_sentences: int
    ) -> list[SentenceRange]:
        """Return the segments of one epoch in random order.

        A corpus of more than ``OPEN_SHARDS`` shards is divided at random into groups of that many shards, and
        the segments of one group come after those of another. Each shard is then decoded once an epoch; to
        decode one for each segment would take longer than a GPU's step.

        Args:
            epoch: the number of the epoch; each has other segments in another order.
            batch: the number of sentences of a segment.
            seed: the seed of the random order.
            shard_sentences: the number of sentences of a shard of the tree cache.
        """
        random = np.random.default_rng([seed, epoch])
        offset = int(random.integers(batch)) if epoch else 0
        segments = [segment for span in self.training for segment in cut_span(*span, batch, offset)]
        if not segments and self.training:
            segments = [max(self.training, key=lambda span: span[1] - span[0])]
        segments = [segments[index] for index in random.permutation(len(segments))]
        corpus_shards = math.ceil(self.training[-1][1] / shard_sentences) if self.training else 0
        group_of_shard = random.permutation(corpus_shards) // OPEN_SHARDS
        return sorted(segments, key=lambda segment: group_of_shard[segment[0] // shard_sentences])


def cut_span(first: int, stop: int, batch: int, offset: int = 0, *, shortest: int = 0) -> list[SentenceRange]:
    """Cut a range of sentences at ``first + offset + k * batch`` for k = 0, 1, ...; return the pieces.

    Args:
        first: the first sentence of the range.
        stop: one past its last sentence.
        batch: the number of sentences of a piece, except for those at the ends.
        offset: the number of sentences before the first cut.
        shortest: smaller pieces are dropped; by default half of ``batch``.
    """
    edges = [first, *range(first + offset, stop, batch), stop]
    shortest = shortest or max(batch // 2, 2)
    return [(first, stop) for first, stop in pairwise(edges) if stop - first >= shortest]


class _Part(NamedTuple):
    """Sentences that are encoded together, before they are planned."""

    batch: Batch
    rows_of_views: list[NDArray[np.int32]]
    """int32 [N], the table row of each token: one array for all views, or one for each view."""


_ReadSegment = tuple[list[_Part], Targets | Grades, Tensor | None]
"""The parts of a segment, its targets, and the vectors that its vectors are held to."""


class StepSource:
    """Reads sentences of a cache and plans steps of them. It keeps no state between steps.

    Args:
        cache: the parsed sentences.
        network: has the views and the words that steps are planned for.
        boundary: ``document`` if neighbours must share a document, else ``none``.
        micro_batch: sentences that are encoded at a time; 0 encodes a whole segment.
        seed: decides the order of segments and which words are dropped.
        target_vectors: the vector that each sentence of the cache is held to, [sentences, K].
        finds_itself: whether the objective looks for the same sentence in another view, too.
        dropout: the share of words that a training step reads as unknown.

    Raises UserError if the cache lacks the trees that a view reads, or has no sentence with a neighbour.
    """

    def __init__(
        self,
        cache: TreeCache,
        network: ViewStack,
        *,
        boundary: Boundary,
        micro_batch: int,
        seed: int,
        target_vectors: Float | None,
        finds_itself: bool = False,
        dropout: float = 0.0,
    ) -> None:
        self.cache, self.target_vectors = cache, target_vectors
        self.words, self.encoders = network.words, network.encoder_list
        self.boundary, self.finds_itself = boundary, finds_itself
        self.micro_batch, self.dropout, self.seed = micro_batch, dropout, seed
        requires = {annotation for encoder in self.encoders for annotation in encoder.requires}
        for annotation in sorted(requires - {"tokens"}):
            if not cache.has(annotation):
                views = ",".join(network.views)
                raise UserError(
                    f"the tree cache has no {annotation} trees, which --views {views} needs; parse the "
                    "corpus again with them"
                )
        self.fields = fields_of(requires)
        self.documents = np.asarray(cache.documents())
        self.usable = (np.asarray(cache.flags()) & UNUSABLE_FLAGS) == 0
        has_next = self.usable[:-1] & self.usable[1:]
        if boundary == "document":
            has_next[self.documents[1:-1] - 1] = False  # the last sentences of documents
        if not has_next.any():
            raise UserError(
                f"{cache.folder}: no sentence has a neighbour in its document to be contrasted with (blank "
                "lines end documents); give text of longer documents, or --objective.boundary none"
            )

    def positions(self, sentences: NDArray[np.int64]) -> Positions:
        """Return where sentences stand in the corpus, given their rows in the cache, int64 [B], ascending."""
        document = np.searchsorted(self.documents, sentences, side="right") - 1
        return Positions(sentences, document, self.usable[sentences])

    def prepare(
        self, spans: Sequence[SentenceRange], *, epoch: int | None = None, rank: int = 0, world: int = 1
    ) -> Step:
        """Read and plan one process's part of a step.

        Args:
            spans: the segments of the step, of all processes.
            epoch: the epoch of a training step, in which words are dropped and segments are encoded in
                micro-batches; None for a validation step.
            rank: the number of the process. Its part begins with this segment.
            world: the number of processes. The part has every ``world``-th segment.
        """
        segments: list[_ReadSegment] = []
        for span in spans[rank::world]:
            parts = self._read(*span, epoch)
            # If a sentence is to find itself, a copy of the sentence must not count as a wrong answer.
            contents = _number_contents([part.batch for part in parts]) if self.finds_itself else None
            segments.append((parts, self._targets(span, contents), self._target_vectors_of(slice(*span))))
        foreign_spans = [span for number, span in enumerate(spans) if number % world != rank]
        all_targets = [*(targets for _, targets, _ in segments), *map(self._targets, foreign_spans)]
        return self._step(
            segments,
            anchors=sum(len(targets.anchor) for targets in all_targets),
            sentences=sum(stop - first for first, stop in spans),
        )

    def prepare_sentences(self, rows_B: NDArray[np.int64], targets: Targets | Grades) -> Step:
        """Read and plan a step of any sentences of the cache, given by their rows, with these targets."""
        batch = select(self._all_sentences, rows_B)
        parts = [_Part(batch, [np.asarray(batch.row)])]
        vectors = self._target_vectors_of(rows_B)
        return self._step([(parts, targets, vectors)], anchors=len(targets.anchor), sentences=len(rows_B))

    @cached_property
    def _all_sentences(self) -> Batch:
        """Every sentence of the cache, read once; only pairs need it, whose caches are small."""
        return self.cache.read(0, len(self.cache), self.fields, self.words.vocabulary)

    def _target_vectors_of(self, rows: slice | NDArray[np.int64]) -> Tensor | None:
        """Return a copy of the target vectors of some sentences, [B, K], if there are any."""
        return None if self.target_vectors is None else torch.from_numpy(np.array(self.target_vectors[rows]))

    def _step(self, read_segments: Sequence[_ReadSegment], *, anchors: int, sentences: int) -> Step:
        """Return the step of some segments that were read; the two counts are over all processes."""
        all_rows = [rows_N for parts, *_ in read_segments for part in parts for rows_N in part.rows_of_views]
        distinct_rows = np.unique(np.concatenate(all_rows))
        rows = distinct_rows.astype(np.int64)
        encoders_by_name = {encoder.name: encoder for encoder in self.encoders}
        segments = []
        for parts, targets, vectors in read_segments:
            micro_batches = []
            for batch, rows_of_views in parts:
                # Views of the same kind share a plan, since it depends only on the trees.
                plans_by_name = {name: encoder.plan(batch) for name, encoder in encoders_by_name.items()}
                plans = [plans_by_name[encoder.name] for encoder in self.encoders]
                offsets = torch.from_numpy(np.array(batch.sentence_offsets, dtype=np.int64))
                tokens = [np.searchsorted(distinct_rows, rows_N) for rows_N in rows_of_views]
                micro_batches.append(MicroBatch(list(map(torch.from_numpy, tokens)), plans, offsets))
            segments.append(Segment(micro_batches, targets, vectors))
        return Step(
            segments=segments,
            rows=rows,
            table_rows=torch.from_numpy(rows),
            vectors=None
            if self.words.fixed_vectors is None
            else torch.from_numpy(self.words.fixed_rows(rows)),
            anchors=anchors,
            sentences=sentences,
        )

    def _targets(self, span: SentenceRange, contents: NDArray[np.int64] | None = None) -> Targets:
        """Return the targets of a segment; ``contents`` are numbers [B] that copies of a sentence share."""
        positions = self.positions(np.arange(*span, dtype=np.int64))
        return neighbour_targets(replace(positions, content=contents), self.boundary)

    def _read(self, first: int, stop: int, epoch: int | None) -> list[_Part]:
        """Read a segment in the parts that are encoded together; in training, drop words at random.

        If a sentence is to find itself, each view drops different words, because the same missing words would
        give the sentence away.
        """
        size = (0 if epoch is None else self.micro_batch) or stop - first
        batches = [
            self.cache.read(low, min(low + size, stop), self.fields, self.words.vocabulary)
            for low in range(first, stop, size)
        ]
        if epoch is None or not self.dropout:
            return [_Part(batch, [np.asarray(batch.row)]) for batch in batches]
        seed = [self.seed, epoch, first, sum(len(batch.row) for batch in batches)]
        generators = [np.random.default_rng(seed)]
        if self.finds_itself:
            generators += [np.random.default_rng([*seed, view]) for view in range(1, len(self.encoders))]

        def drop(rows_N: NDArray[np.int32], generator: np.random.Generator) -> NDArray[np.int32]:
            """Return the rows with a random share of them replaced by the unknown word's."""
            is_kept = generator.random(len(rows_N)) >= self.dropout
            return np.where(is_kept, rows_N, UNKNOWN_ROW).astype(np.int32)

        return [_Part(batch, [drop(batch.row, generator) for generator in generators]) for batch in batches]


def _number_contents(batches: Sequence[Batch]) -> NDArray[np.int64]:
    """Return a number for each sentence, [B]; sentences of the same words have the same number."""
    sentences = [
        words.tobytes() for batch in batches for words in np.split(batch.row, batch.sentence_offsets[1:-1])
    ]
    return np.unique(np.array(sentences, dtype=object), return_inverse=True)[1]
