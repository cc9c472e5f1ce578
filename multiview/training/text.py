"""A text as a source of steps: what is held out of it, the segments of each epoch, and how it scores."""

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
"""Steps that are read and planned before they are taken: reading and planning 400 sentences takes
milliseconds, a training step at the paper's size takes seconds, and numba and HDF5 release the interpreter
lock, so that one thread is enough."""


Compared = Callable[[Sequence[Sequence[Tensor]], Sequence[Tensor]], dict[str, Tensor]]
"""Takes the features of each view and the means of words, [B, W], of all steps; returns for the name of each
recall@1 the vectors [N, D] that it is measured on."""


class TextSteps:
    """The training sentences of a text in steps of segments, of which each process prepares its part.

    The validation sentences are read and planned once: later only the loader's thread uses the cache.
    """

    def __init__(
        self,
        source: StepSource,
        loop: LoopConfig,
        compared: Compared,
        distributed: DistributedContext,
        device: torch.device,
    ) -> None:
        self.source, self.compared, self.distributed, self.device = source, compared, distributed, device
        self.batch, self.segments_per_step = loop.batch, loop.segments or 1
        self.split = Split.of(source.documents, loop.validation, loop.batch)
        spans = self.split.validation
        pieces = [piece for span in spans for piece in cut_span(*span, loop.batch, shortest=2)]
        self.validation_steps: list[Step] = [source.prepare([piece]) for piece in pieces]
        numbers = np.concatenate([np.arange(0), *(np.arange(*piece) for piece in pieces)])
        self.held_out, self.positions = len(numbers), source.positions(numbers)

    def sample(self) -> list[Batch]:
        """Read training sentences over which features are brought to one scale."""
        spans = sample_ranges(self.split.training)
        return [self.source.cache.read(*span, self.source.fields) for span in spans]

    def of_epoch(self, epoch: int) -> list[Callable[[], Step]]:
        """List the steps of an epoch, which are read when they are called."""
        segments = self.split.shuffle_segments(epoch, self.batch, self.source.seed)
        per_step = self.segments_per_step
        starts = range(0, len(segments) - per_step + 1, per_step)  # the last segments may not fill a step
        return [partial(self.prepare, epoch, segments[first : first + per_step]) for first in starts]

    def prepare(self, epoch: int, segments: Sequence[SentenceRange]) -> Step:
        """Read and plan this process's part of a step, and queue its copy to the device."""
        rank, world = self.distributed.rank, self.distributed.world
        step = self.source.prepare(segments, epoch=epoch, rank=rank, world=world)
        step_on_device: Step = move_to_device(step, self.device)
        return step_on_device

    @torch.no_grad()
    def scores(self, network: MultiViewNetwork, *, autocast: bool = False) -> dict[str, float]:
        """Measure a network: ``anchors``, recall@1, accuracy@1, and per anchor the objective's own."""
        sums = torch.zeros(len(network.objective.metrics), dtype=torch.float64, device=self.device)
        anchors = 0
        features_of_steps: list[list[Tensor]] = []
        word_means: list[Tensor] = []  # over every table
        for step_on_host in self.validation_steps:
            step = move_to_device(step_on_host, self.device)
            (segment,) = step.segments
            (batch,) = segment.micro_batches
            leaves, (tokens,) = step.leaves(network.words), batch.tokens
            means = [embedding_bag(tokens, rows, batch.offsets, include_last_offset=True) for rows in leaves]
            word_means.append(torch.cat(means, dim=1))
            with torch.autocast(self.device.type, torch.bfloat16, enabled=autocast):
                features = network.encode(batch.tokens, batch.plans, leaves)
            sums = sums + network.objective(features, segment.targets, segment.teacher)[1]
            anchors += step.anchors
            features_of_steps.append(features)
        if not anchors:
            return {"anchors": 0}
        metrics = dict(zip(network.objective.metrics, (sums / anchors).tolist(), strict=True))
        accuracy = fmean(value for name, value in metrics.items() if "accuracy@1/" in name)
        vectors_of_recalls = self.compared(features_of_steps, word_means)
        recalls = {name: neighbour_recall(one, self.positions) for name, one in vectors_of_recalls.items()}
        return {"anchors": anchors, **recalls, "accuracy@1": accuracy, **metrics}
