"""Training on a text: the steps of each epoch, the sentences that are held out, and the scores on these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from multiview.config import LoopConfig
from multiview.encoders.meaning import SentenceRange, sample_ranges
from multiview.training.data import Split, Step, StepSource, cut_span, move_to_device
from multiview.training.gradient import DistributedContext, MultiViewNetwork
from multiview.training.objective import neighbour_recall
from parsing.trees.batch import Batch

AHEAD = 4
"""How many steps a thread reads and plans ahead. One thread is enough, because reading and planning 400
sentences takes milliseconds, a training step at the paper's size takes seconds, and numba and HDF5 release
the interpreter lock."""

VectorsToCompare = Callable[[Sequence[Sequence[Tensor]], Sequence[Tensor]], dict[str, Tensor]]
"""A function that returns the vectors [N, D] that each recall@1 is measured on, by the recall's name.

Its arguments are lists with one item for each validation step: the vectors of each view, [B, width], and the
mean of the words' vectors, [B, W], of all word tables side by side."""


class TextSteps:
    """The training steps of a text, each of one or more segments, and its held-out sentences.

    The held-out sentences are read and planned in the constructor, because later the thread that reads ahead
    is the only one that may use the cache.

    Args:
        source: reads and plans sentences of the text.
        loop: the sizes of segments and steps, and the number of held-out sentences.
        vectors_to_compare: makes the vectors that recall@1 is measured on.
        distributed: the processes, each of which prepares its part of a step.
        device: where steps are copied to.
    """

    def __init__(
        self,
        source: StepSource,
        loop: LoopConfig,
        vectors_to_compare: VectorsToCompare,
        distributed: DistributedContext,
        device: torch.device,
    ) -> None:
        self.source, self.vectors_to_compare = source, vectors_to_compare
        self.distributed, self.device = distributed, device
        self.batch, self.segments_per_step = loop.batch, loop.segments or 1
        self.split = Split.of(source.documents, loop.validation, loop.batch)
        spans = self.split.validation
        pieces = [piece for span in spans for piece in cut_span(*span, loop.batch, shortest=2)]
        self.validation_steps: list[Step] = [source.prepare([piece]) for piece in pieces]
        rows = np.concatenate([np.arange(0), *(np.arange(*piece) for piece in pieces)])
        self.held_out, self.positions = len(rows), source.positions(rows)

    def sample(self) -> list[Batch]:
        """Read the training sentences on which the scale of features is measured."""
        spans = sample_ranges(self.split.training)
        return [self.source.cache.read(*span, self.source.fields) for span in spans]

    def of_epoch(self, epoch: int) -> list[Callable[[], Step]]:
        """Return the steps of an epoch as functions, each of which reads and plans its step when called."""
        shard_sentences = self.source.cache.manifest.shard_sentences
        segments = self.split.shuffle_segments(epoch, self.batch, self.source.seed, shard_sentences)
        per_step = self.segments_per_step
        starts = range(0, len(segments) - per_step + 1, per_step)  # the last segments may not fill a step
        return [partial(self.prepare, epoch, segments[first : first + per_step]) for first in starts]

    def prepare(self, epoch: int, segments: Sequence[SentenceRange]) -> Step:
        """Read and plan this process's part of a step of an epoch, and queue its copy to the device."""
        rank, world = self.distributed.rank, self.distributed.world
        step = self.source.prepare(segments, epoch=epoch, rank=rank, world=world)
        step_on_device: Step = move_to_device(step, self.device)
        return step_on_device

    @torch.no_grad()
    def scores(self, network: MultiViewNetwork, *, autocast: bool = False) -> dict[str, float]:
        """Return a network's scores on the held-out sentences.

        They are ``anchors`` (how many of the held-out sentences have a neighbour), each recall@1, accuracy@1
        and the metrics of the objective, which are means over anchors. Without anchors there are no others.
        """
        sums = torch.zeros(len(network.objective.metrics), dtype=torch.float64, device=self.device)
        anchors = 0
        view_vectors_of_steps: list[list[Tensor]] = []
        word_means: list[Tensor] = []  # [B, W] of each step, all tables side by side
        for step_on_host in self.validation_steps:
            step = move_to_device(step_on_host, self.device)
            (segment,) = step.segments
            (batch,) = segment.micro_batches
            leaves, (tokens,) = step.leaves(network.words), batch.tokens
            means = [embedding_bag(tokens, rows, batch.offsets, include_last_offset=True) for rows in leaves]
            word_means.append(torch.cat(means, dim=1))
            with torch.autocast(self.device.type, torch.bfloat16, enabled=autocast):
                view_vectors = network.encode(batch.tokens, batch.plans, leaves)
            sums = sums + network.objective(view_vectors, segment.targets, segment.target_vectors)[1]
            anchors += step.anchors
            view_vectors_of_steps.append(view_vectors)
        if not anchors:
            return {"anchors": 0}
        metrics = dict(zip(network.objective.metrics, (sums / anchors).tolist(), strict=True))
        accuracy = fmean(value for name, value in metrics.items() if "accuracy@1/" in name)
        vectors_by_recall = self.vectors_to_compare(view_vectors_of_steps, word_means)
        recalls = {
            name: neighbour_recall(vectors, self.positions) for name, vectors in vectors_by_recall.items()
        }
        return {"anchors": anchors, **recalls, "accuracy@1": accuracy, **metrics}
