"""One training run of views: what the shared loop (:mod:`runtime.training_loop`) does in a step.

Each step depends only on the configuration, the cache and what a checkpoint holds (docs/promises.md).

A GPU runs behind the program that feeds it, and to read a number waits for it. So the metrics of many steps
are read at once, and the device itself refuses a gradient that is not finite. It ran on an H100 on 26
November 2026 (docs/scaling.md).

The weights of least loss on the validation set are kept. Beside the loss stand accuracy@1, how often the
objective finds a neighbour, and recall@1, how often the nearest of 400 successive sentences is one, by the
cosine of all views side by side, each number centred and at one deviation. recall@1/words is that of the
words' mean, recall@1/both that of views and mean: where it is larger, the model has the mean as its last view
(``--beside``).
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from statistics import fmean

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from multiview.config import LoopConfig, TrainConfig, decisive_options, options_of
from multiview.encoders.meaning import Scale, Span, sample_spans
from multiview.encoders.registry import ViewStack, trained_views
from multiview.folder.card import Card
from multiview.folder.files import Member, parsers_of, save_model
from multiview.training.data import Split, Step, StepSource, cut_span, move_to_device, open_teacher
from multiview.training.gradient import (
    DistributedContext,
    MultiViewNetwork,
    Optimiser,
    StepResult,
    step_gradient,
)
from multiview.training.objective import neighbour_recall
from multiview.words.sources import new_table
from parsing.trees.batch import Batch
from parsing.trees.cache import TreeCache
from runtime.cli import LOGGER, config_to_json
from runtime.device import chosen_threads, pick_device, torch_threads
from runtime.errors import UserError
from runtime.training_loop import Loop, Schedule
from runtime.training_task import Checkpoint, Checkpoints, Position, Row, Task, cosine, load_parameters, ramp

log = logging.getLogger(LOGGER)
AHEAD = 4
"""Steps that are read and planned before they are taken."""
READ_EVERY = {"cuda": 20}
"""Steps between readings of the metrics, by type of device; elsewhere each step."""
CLIP = 5.0
"""With the cosine schedule: the largest norm of the whole gradient."""
WARM_UP = 0.01
"""With the cosine schedule: part of the steps over which the rate rises linearly."""


@dataclass(frozen=True)
class Job:
    """A step that is still to be read and taken."""

    epoch: int
    segments: list[Span]


class Trainer(Task[Job]):
    """One training run on one process of possibly several."""

    end_reason = ""
    """Why the run is over; empty until then."""

    def __init__(
        self, config: TrainConfig, cache: TreeCache, distributed: DistributedContext | None = None
    ) -> None:
        loop, table = config.loop, config.table
        self.cache, self.folder, self.card = cache, config.folder, Card(config, cache)
        self.distributed = distributed or DistributedContext()
        self.device = pick_device(config.device, self.distributed.local_rank)
        self.network, self.source = _new_network_and_source(config, cache)
        self.options = config_to_json(config)
        """Every option as JSON, for the model's record."""
        content = str(cache.identity.get("content_sha256", ""))
        self.identity = {**decisive_options(options_of(config)), "content of --trees": content}
        """Options and text that a resumed run must have in common with the one before."""
        self.split = Split.of(self.source.documents, loop.validation, loop.batch)
        self.validation_set = ValidationSet(self.source, self.split.validation, loop.batch)
        self.network.to(self.device)
        self.updates = Optimiser(self.network, table_rate=table.rate, table_update=table.update)
        super().__init__(self.network, self.updates.adam)
        self.batch, self.seed, self.segments_per_step = loop.batch, config.seed, loop.segments or 1
        self.schedule = self._set_schedule(loop)
        self.peak_rate, self.rate_is_constant = loop.learning_rate, loop.schedule == "constant"
        self.has_scale = config.preset != "paper"  # the paper's features have none
        self.threads = chosen_threads(loop.micro_batch or loop.batch, config.encoder.dim, self.device)
        self.autocast = loop.precision == "bfloat16"
        self.has_diverged = torch.zeros((), device=self.device)
        """float32 scalar: 1 from the first step on whose loss or gradient is not finite."""
        self.unread_metrics: list[Tensor] = []
        """For each step since the last reading: its metrics, norm of the gradient, learning rate."""
        self._time_of_reading = time.perf_counter()
        self._sentences_since_reading = 0
        self._validation_scores: Row = {}

    def _set_schedule(self, loop: LoopConfig) -> Schedule:
        """Return how long the run lasts; a cache too small for one step is a UserError."""
        schedule = Schedule(
            epochs=loop.epochs,
            max_steps=loop.max_steps,
            max_minutes=loop.max_minutes,
            evaluate_first=bool(self.validation_set.steps),
            evaluate_parts=10,
            patience=loop.patience,
            read_every=READ_EVERY.get(self.device.type, 1),
        )
        schedule.set_end(self)
        if not self.position.steps:
            raise UserError(
                f"--loop.batch {loop.batch} --loop.segments {self.segments_per_step}: the cache has only "
                f"{len(self.cache)} sentences, which do not fill one step; lower them"
            )
        return schedule

    def batches(self, epoch: int) -> list[Job]:
        """List the steps of an epoch."""
        segments, per_step = self.split.shuffle_segments(epoch, self.batch, self.seed), self.segments_per_step
        starts = range(0, len(segments) - per_step + 1, per_step)  # the last segments may not fill a step
        return [Job(epoch, segments[start : start + per_step]) for start in starts]

    def jobs(self) -> Iterator[Job]:
        """List the steps of all epochs."""
        return chain.from_iterable(map(self.batches, range(self.schedule.epochs)))

    def prepare(self, job: Job) -> Step:
        """Read and plan this process's part of a step, and queue its copy to the device."""
        rank, world = self.distributed.rank, self.distributed.world
        step = self.source.prepare(job.segments, epoch=job.epoch, rank=rank, world=world)
        step_on_device: Step = move_to_device(step, self.device)
        return step_on_device

    def prepare_batches(self, batches: Sequence[Job]) -> Iterator[Step]:
        """Yield the steps, which a thread reads and plans ahead.

        One is enough: reading and planning 400 sentences takes milliseconds, a training step at the paper's
        size takes seconds, and numba and HDF5 release the interpreter lock.
        """
        jobs = iter(batches)
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="loader") as pool:
            waiting = [pool.submit(self.prepare, job) for job in islice(jobs, AHEAD)]
            try:
                while waiting:
                    ready = waiting.pop(0).result()
                    waiting += [pool.submit(self.prepare, job) for job in islice(jobs, 1)]
                    yield ready
            finally:
                pool.shutdown(cancel_futures=True)

    def gradient(self, step: Step) -> StepResult:
        """Compute the gradient and metrics of a step."""
        self.updates.clear_gradients()
        return step_gradient(self.network, step, self.distributed, autocast=self.autocast)

    def learning_rate(self, position: Position) -> float:
        """Return the constant rate, or one that warms up linearly and goes down half a cosine."""
        if self.rate_is_constant:
            return self.peak_rate
        return self.peak_rate * ramp(position.step + 1, WARM_UP * position.steps) * cosine(position.progress)

    def update(self, result: StepResult) -> float:
        """Clip and apply a gradient, unless it or the loss is not finite; return the learning rate.

        Nothing is read from the device: :meth:`take_metrics` raises later if the weights were left alone.
        """
        norm = self.updates.gradient_norm(result.row_gradients)
        is_finite = torch.isfinite(result.metrics[0]) & torch.isfinite(norm)
        self.has_diverged = torch.maximum(self.has_diverged, (~is_finite).float())
        scale = None
        if not self.rate_is_constant:
            scale = (CLIP / norm.double().clamp_min(1e-12)).clamp_max(1.0).to(norm.dtype)
        rate = self.learning_rate(self.position)
        rate_tensor = result.metrics.new_full((1,), rate)
        self.unread_metrics.append(torch.cat([result.metrics, norm.double()[None], rate_tensor]))
        self.updates.step(result, rate=rate, scale=scale, skip=self.has_diverged)
        return rate

    def step(self, position: Position, batch: Step) -> None:
        """Update the weights once."""
        self.network.train()
        self.update(self.gradient(batch))
        position.extra["sentences"] = position.extra.get("sentences", 0) + batch.sentences
        self._sentences_since_reading += batch.sentences

    def take_metrics(self) -> list[Row]:
        """Wait for the device and return metrics and speed of the steps since the last call.

        A loss or gradient that was not finite is a UserError; the weights are those before that step.
        """
        values_by_step = torch.stack(self.unread_metrics).tolist() if self.unread_metrics else []
        self.unread_metrics = []
        now = time.perf_counter()
        sentences_per_s = self._sentences_since_reading / max(now - self._time_of_reading, 1e-9)
        self._time_of_reading = now
        self._sentences_since_reading = 0
        names = [*self.network.objective.metrics, "gradient_norm", "learning_rate", "sentences_per_s"]
        rows = [dict(zip(names, [*values, sentences_per_s], strict=True)) for values in values_by_step]
        for step, row in enumerate(rows, self.position.step - len(rows) + 1):
            if not (math.isfinite(row["loss"]) and math.isfinite(row["gradient_norm"])):
                raise UserError(
                    f"step {step}: loss {row['loss']}, gradient norm {row['gradient_norm']}; stopped before "
                    "the update. Lower --loop.learning-rate and give another --name"
                )
        return rows

    def evaluate(self) -> Mapping[str, float]:
        """Return the metrics of the current weights on the validation set."""
        self._validation_scores = self.validation_set.scores(self.network, autocast=self.autocast)
        if not self.position.step:
            self.position.extra["untrained"] = {"step": 0, **self._validation_scores}
        return self._validation_scores

    def is_better(self, row: Row, best: Row) -> bool:
        """Tell whether the validation loss fell; without a validation set the newest weights are best."""
        return not row["anchors"] or not best or float(row["loss"]) < float(best["loss"])

    def keep_best(self, best_checkpoints: Checkpoints, row: Row) -> None:
        """Write the model folder, with the current weights and their metrics."""
        identity, extra = self.cache.identity, self.position.extra
        training = {
            "config": self.options,
            "trees": str(identity.get("content_sha256", "")),
            "step": row["step"],
            "sentences": extra.get("sentences", 0),
            "best": {"step": row["step"], **self._validation_scores},
            "untrained": extra.get("untrained", {}),
            "words": self.network.words.origin,
        }
        network = self.network_to_keep(with_words=self.card.includes_words(self._validation_scores))
        member = Member(network, parsers_of(identity), identity.get("corpus") or {}, training)
        verdict = self.card.verdict(training["untrained"], training["best"])
        save_model([member], self.folder, card=self.card.text(member, verdict))

    @cached_property
    def scale_sample(self) -> list[Batch]:
        """Training sentences over which features are brought to one scale."""
        spans = sample_spans(self.split.training) if self.has_scale else []
        return [self.cache.read(*span, self.source.fields) for span in spans]

    def network_to_keep(self, *, with_words: bool) -> ViewStack:
        """Return the views, alone or followed by the mean of their words, and measure their scale."""
        network = self.network.with_bag() if with_words else self.network
        if self.scale_sample:
            network.measure(self.scale_sample, self.cache.folder.name)
        return network

    def optimiser_state(self) -> dict[str, Tensor]:
        """Return the moments of dense parameters and of word tables."""
        return self.updates.state()

    def load(self, checkpoint: Checkpoint) -> None:
        """Take up weights and moments."""
        load_parameters(self.network, checkpoint.weights)
        self.updates.load(checkpoint.optimiser)

    def run(self) -> int:
        """Train until the end, a limit or a signal, from the newest checkpoint on.

        Returns 0 when finished, 130 after Ctrl-C and 143 after SIGTERM (a checkpoint was written).
        """
        processes, world = self.distributed, self.distributed.world
        loop = Loop(
            self, self.schedule, self.folder, identity=self.identity, processes=processes, option="--name"
        )
        extra = self.position.extra
        self.threads = extra.setdefault("threads", self.threads)  # a run keeps the number that it began with
        if loop.is_resumed and not loop.reason_to_stop():
            log.info("resuming %s at step %d", self.folder, self.position.step)
            if (before := extra["world"]) != world:
                log.warning("resuming with world %s instead of %s: last bits may differ", world, before)
        extra["world"] = world
        self._time_of_reading = time.perf_counter()
        _ = self.scale_sample  # read now, since later only the loader's thread uses the cache
        with torch_threads(self.threads):
            code = loop.run()
        self.end_reason = loop.reason_to_stop()
        return code


def _new_network_and_source(config: TrainConfig, cache: TreeCache) -> tuple[MultiViewNetwork, StepSource]:
    """Make the network, whose weights the seed decides, and what prepares its steps."""
    objective = config.objective
    teacher = None if objective.teacher is None else open_teacher(objective.teacher, cache)
    teacher_dim = 0 if teacher is None else teacher.shape[1]
    words = new_table(config, cache, len(trained_views(config.view_list)))
    torch.manual_seed(config.seed)
    network = MultiViewNetwork(config.view_list, words, config.encoder, objective, teacher_dim)
    source = StepSource(
        cache,
        network,
        boundary=objective.boundary,
        finds_itself=objective.same > 0,
        micro_batch=config.loop.micro_batch,
        dropout=config.table.dropout,
        seed=config.seed,
        teacher=teacher,
    )
    return network, source


class ValidationSet:
    """The validation sentences, read and planned once: later only the loader thread uses the cache."""

    def __init__(self, source: StepSource, spans: Sequence[Span], batch: int) -> None:
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
            embeddings.append(torch.cat([feature.float() for feature in features], dim=1))
        if not anchors:
            return {"anchors": 0}
        # The view BAG reads the first table.
        pairs = zip(embeddings, word_means, strict=True)
        views_and_words = [torch.cat([views, words[:, : network.words.dim]], dim=1) for views, words in pairs]
        vectors_by_metric = {
            "recall@1": embeddings,
            "recall@1/words": word_means,
            "recall@1/both": views_and_words,
        }
        recalls = {
            name: neighbour_recall(Scale.measure(parts)(torch.cat(parts)), self.positions)
            for name, parts in vectors_by_metric.items()
        }
        metrics = dict(zip(network.objective.metrics, (sums / anchors).tolist(), strict=True))
        accuracy = fmean(value for name, value in metrics.items() if "accuracy@1/" in name)
        return {"anchors": anchors, **recalls, "accuracy@1": accuracy, **metrics}
