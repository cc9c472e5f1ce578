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
from collections.abc import Iterator
from functools import cached_property
from itertools import chain

import torch

from multiview.config import TrainConfig, decisive_options, options_of
from multiview.encoders.meaning import sample_spans
from multiview.encoders.registry import ViewStack, trained_views
from multiview.folder.card import Card
from multiview.folder.files import Member, parsers_of, save_model
from multiview.training.data import Step, StepSource, open_teacher
from multiview.training.gradient import (
    DistributedContext,
    MultiViewNetwork,
    Optimiser,
    StepResult,
    step_gradient,
)
from multiview.training.text import Job, TextSteps
from multiview.words.sources import new_table
from parsing.trees.batch import Batch
from parsing.trees.cache import TreeCache
from runtime.cli import LOGGER, config_to_json
from runtime.device import chosen_threads, pick_device, torch_threads
from runtime.errors import UserError
from runtime.training_loop import Loop, Schedule
from runtime.training_state import Position, Row, TrainingState
from runtime.training_step import Measures, cosine, ramp

log = logging.getLogger(LOGGER)
READ_EVERY = {"cuda": 20}
"""Steps between readings of the metrics, by type of device; elsewhere each step."""
CLIP = 5.0
"""With the cosine schedule: the largest norm of the whole gradient."""
WARM_UP = 0.01
"""With the cosine schedule: part of the steps over which the rate rises linearly."""


class Trainer:
    """One training run on one process of possibly several: what a step, a validation and saving are."""

    end_reason = ""
    """Why the run is over; empty until then."""

    def __init__(
        self, config: TrainConfig, cache: TreeCache, distributed: DistributedContext | None = None
    ) -> None:
        loop, table = config.loop, config.table
        self.config, self.cache, self.folder, self.card = config, cache, config.folder, Card(config, cache)
        self.distributed = distributed or DistributedContext()
        self.device = pick_device(config.device, self.distributed.local_rank)
        self.network, self.source = _new_network_and_source(config, cache)
        self.text = TextSteps(
            self.source, loop, seed=config.seed, distributed=self.distributed, device=self.device
        )
        self.schedule = Schedule(
            epochs=loop.epochs,
            max_steps=loop.max_steps,
            max_minutes=loop.max_minutes,
            evaluate_first=bool(self.text.validation_set.steps),
            evaluate_parts=10,
            select="-loss",
            patience=loop.patience,
            read_every=READ_EVERY.get(self.device.type, 1),
        )
        self.position = self.schedule.begin(self.text.steps)
        if not self.position.steps:
            raise UserError(
                f"--loop.batch {loop.batch} --loop.segments {self.text.segments_per_step}: the cache has "
                f"only {len(cache)} sentences, which do not fill one step; lower them"
            )
        self.network.to(self.device)
        self.updates = Optimiser(self.network, table_rate=table.rate, table_update=table.update)
        self.state = TrainingState(self.network, self.updates, self.position)
        self.threads = chosen_threads(loop.micro_batch or loop.batch, config.encoder.dim, self.device)
        self.autocast = loop.precision == "bfloat16"
        self.has_diverged = torch.zeros((), device=self.device)
        """float32 scalar: 1 from the first step on whose loss or gradient is not finite."""

    def jobs(self) -> Iterator[Job]:
        """List the steps of all epochs."""
        return chain.from_iterable(map(self.text.of_epoch, range(self.schedule.epochs)))

    def gradient(self, step: Step) -> StepResult:
        """Compute the gradient and metrics of a step."""
        self.updates.clear_gradients()
        return step_gradient(self.network, step, self.distributed, autocast=self.autocast)

    def learning_rate(self, position: Position) -> float:
        """Return the constant rate, or one that warms up linearly and goes down half a cosine."""
        peak = self.config.loop.learning_rate
        if self.config.loop.schedule == "constant":
            return peak
        return peak * ramp(position.step + 1, WARM_UP * position.steps) * cosine(position.progress)

    def update(self, result: StepResult, sentences: int = 0) -> Measures:
        """Clip and apply a gradient, unless it or the loss is not finite; return what was measured.

        Nothing is read from the device: who reads the measures learns that the weights were left alone.
        """
        norm = self.updates.gradient_norm(result.row_gradients)
        is_finite = torch.isfinite(result.metrics[0]) & torch.isfinite(norm)
        self.has_diverged = torch.maximum(self.has_diverged, (~is_finite).float())
        scale = None
        if self.config.loop.schedule != "constant":
            scale = (CLIP / norm.double().clamp_min(1e-12)).clamp_max(1.0).to(norm.dtype)
        rate = self.learning_rate(self.position)
        values = torch.cat([result.metrics, norm.double()[None], result.metrics.new_full((1,), rate)])
        self.updates.step(result, rate=rate, scale=scale, skip=self.has_diverged)
        names = [*self.network.objective.metrics, "gradient_norm", "learning_rate"]
        return Measures(names, values, sentences)

    def step(self, position: Position, step: Step) -> Measures:
        """Update the weights once."""
        self.network.train()
        return self.update(self.gradient(step), step.sentences)

    def validate(self) -> Row:
        """Return the metrics of the current weights on the validation set."""
        return self.text.validation_set.scores(self.network, autocast=self.autocast)

    def save(self, scores: Row) -> None:
        """Write the model folder, with the current weights and their metrics."""
        identity, position = self.cache.identity, self.position
        training: Row = {
            "config": config_to_json(self.config),
            "trees": str(identity.get("content_sha256", "")),
            "step": position.step,
            "sentences": position.sentences,
            "best": {"step": position.step, **scores},
            "untrained": position.first,
            "words": self.network.words.origin,
        }
        network = self.network_to_keep(with_words=self.card.includes_words(scores))
        member = Member(network, parsers_of(identity), identity.get("corpus") or {}, training)
        verdict = self.card.verdict(training["untrained"], training["best"])
        save_model([member], self.folder, card=self.card.text(member, verdict))

    @cached_property
    def scale_sample(self) -> list[Batch]:
        """Training sentences over which features are brought to one scale; the paper's have none."""
        spans = sample_spans(self.text.split.training) if self.config.preset != "paper" else []
        return [self.cache.read(*span, self.source.fields) for span in spans]

    def network_to_keep(self, *, with_words: bool) -> ViewStack:
        """Return the views, alone or followed by the mean of their words, and measure their scale."""
        network = self.network.with_bag() if with_words else self.network
        if self.scale_sample:
            network.measure(self.scale_sample, self.cache.folder.name)
        return network

    def run(self) -> int:
        """Train until the end, a limit or a signal, from the newest checkpoint on.

        Returns 0 when finished, 130 after Ctrl-C and 143 after SIGTERM (a checkpoint was written).
        """
        content = {"content of --trees": str(self.cache.identity.get("content_sha256", ""))}
        loop = Loop(
            self.state,
            self.text.steps,
            self.schedule,
            self.folder,
            identity=decisive_options(options_of(self.config)) | content,
            defaults=decisive_options(options_of(TrainConfig())),
            processes=self.distributed,
            option="--name",
        )
        position, world = self.position, self.distributed.world
        self.threads = position.threads or self.threads  # a run keeps the number that it began with
        if loop.is_resumed and position.world != world and not loop.reason_to_stop():
            log.warning("resuming with world %s instead of %s: last bits may differ", world, position.world)
        position.threads, position.world = self.threads, world
        _ = self.scale_sample  # read now, since later only the loader's thread uses the cache
        with torch_threads(self.threads):
            code = loop.run(self.step, self.validate, self.save)
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
