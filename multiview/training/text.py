"""A text as a source of steps: what is held out of it, the segments of each epoch, and how it scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from multiview.config import LoopConfig
from multiview.encoders.meaning import Scale, SentenceRange
from multiview.training.data import Split, Step, StepSource, cut_span, move_to_device
from multiview.training.gradient import DistributedContext, MultiViewNetwork
from multiview.training.objective import MeaningObjective, neighbour_recall

AHEAD = 4
"""Steps that are read and planned before they are taken: reading and planning 400 sentences takes
milliseconds, a training step at the paper's size takes seconds, and numba and HDF5 release the interpreter
lock, so that one thread is enough."""


@dataclass(frozen=True)
class Job:
    """A step that is still to be read and taken."""

    epoch: int
    segments: list[SentenceRange]


class TextSteps:
    """The training sentences of a text in steps of segments, of which each process prepares its part."""

    def __init__(
        self,
        source: StepSource,
        loop: LoopConfig,
        *,
        seed: int,
        distributed: DistributedContext,
        device: torch.device,
    ) -> None:
        self.source, self.seed, self.distributed, self.device = source, seed, distributed, device
        self.batch, self.segments_per_step = loop.batch, loop.segments or 1
        self.split = Split.of(source.documents, loop.validation, loop.batch)
        self.validation_set = ValidationSet(source, self.split.validation, loop.batch)

    def of_epoch(self, epoch: int) -> list[Job]:
        """List the steps of an epoch."""
        segments, per_step = self.split.shuffle_segments(epoch, self.batch, self.seed), self.segments_per_step
        starts = range(0, len(segments) - per_step + 1, per_step)  # the last segments may not fill a step
        return [Job(epoch, segments[start : start + per_step]) for start in starts]

    def prepare(self, job: Job) -> Step:
        """Read and plan this process's part of a step, and queue its copy to the device."""
        rank, world = self.distributed.rank, self.distributed.world
        step = self.source.prepare(job.segments, epoch=job.epoch, rank=rank, world=world)
        step_on_device: Step = move_to_device(step, self.device)
        return step_on_device


class ValidationSet:
    """The validation sentences, read and planned once: later only the loader thread uses the cache."""

    def __init__(self, source: StepSource, spans: Sequence[SentenceRange], batch: int) -> None:
        pieces = [piece for span in spans for piece in cut_span(*span, batch, shortest=2)]
        self.steps: list[Step] = [source.prepare([piece]) for piece in pieces]
        numbers = np.concatenate([np.arange(0), *(np.arange(*piece) for piece in pieces)])
        self.sentences, self.positions = len(numbers), source.positions(numbers)

    @torch.no_grad()
    def scores(self, network: MultiViewNetwork, *, autocast: bool = False) -> dict[str, float]:
        """Measure a network: ``anchors``, recall@1, accuracy@1, and per anchor the objective's own."""
        device = next(network.parameters()).device
        sums = torch.zeros(len(network.objective.metrics), dtype=torch.float64, device=device)
        anchors = 0
        embeddings: list[Tensor] = []
        meanings: list[Tensor] = []
        word_means: list[Tensor] = []  # over every table
        for step_on_host in self.steps:
            step = move_to_device(step_on_host, device)
            (segment,) = step.segments
            (batch,) = segment.micro_batches
            leaves, (tokens,) = step.leaves(network.words), batch.tokens
            means = [embedding_bag(tokens, rows, batch.offsets, include_last_offset=True) for rows in leaves]
            word_means.append(torch.cat(means, dim=1))
            with torch.autocast(device.type, torch.bfloat16, enabled=autocast):
                features = network.encode(batch.tokens, batch.plans, leaves)
            sums = sums + network.objective(features, segment.targets, segment.teacher)[1]
            anchors += step.anchors
            if isinstance(network.objective, MeaningObjective):
                meanings.append(network.objective.meaning(features))
            embeddings.append(torch.cat([feature.float() for feature in features], dim=1))
        if not anchors:
            return {"anchors": 0}
        metrics = dict(zip(network.objective.metrics, (sums / anchors).tolist(), strict=True))
        accuracy = fmean(value for name, value in metrics.items() if "accuracy@1/" in name)
        # The view BAG reads the first table.
        pairs = zip(embeddings, word_means, strict=True)
        views_and_words = [torch.cat([views, words[:, : network.words.dim]], dim=1) for views, words in pairs]
        vectors_by_metric = {
            "recall@1": embeddings,
            "recall@1/words": word_means,
            "recall@1/both": views_and_words,
        }
        recalls = {}
        if meanings:
            recalls["recall@1"] = neighbour_recall(torch.cat(meanings), self.positions)
            vectors_by_metric = {"recall@1/words": word_means}
        recalls |= {
            name: neighbour_recall(Scale.measure(parts)(torch.cat(parts)), self.positions)
            for name, parts in vectors_by_metric.items()
        }
        return {"anchors": anchors, **recalls, "accuracy@1": accuracy, **metrics}
