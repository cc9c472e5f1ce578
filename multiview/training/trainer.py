"""One training run of views: what the shared loop (:mod:`runtime.training_loop`) does in a step.

Each step depends only on the configuration, the cache and what a checkpoint holds (docs/promises.md).

A GPU runs behind the program that feeds it, and to read a number waits for it. So the metrics of many steps
are read at once, and the device itself refuses a gradient that is not finite. It ran on an H100 on 26
November 2026 (docs/scaling.md).

The weights of least loss on the validation set are kept; of graded pairs alone those whose cosines rank them
best. Beside the loss stand accuracy@1, how often the
objective finds a neighbour, and recall@1, how often the nearest of 400 successive sentences is one, by the
cosine of all views side by side, each number centred and at one deviation. recall@1/words is that of the
words' mean, recall@1/both that of views and mean: where it is larger, the model has the mean as its last view
(``--beside``).
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import torch

from multiview.config import TrainConfig, decisive_options, options_of
from multiview.encoders.meaning import sample_ranges
from multiview.encoders.registry import ViewStack, trained_views
from multiview.folder.card import Card, StartCard
from multiview.folder.files import Model, parsers_of, save_model
from multiview.training.data import Step, StepSource, open_teacher
from multiview.training.gradient import (
    DistributedContext,
    MultiViewNetwork,
    Optimiser,
    StepResult,
    step_gradient,
)
from multiview.training.pairs import PairJob, PairSteps, parse_pairs, read_pair_sets
from multiview.training.start import StartModel
from multiview.training.text import AHEAD, Job, TextSteps
from multiview.words.sources import WordSource
from multiview.words.vectors import Float
from parsing.trees.batch import Batch
from parsing.trees.cache import TreeCache
from runtime.cli import LOGGER, config_to_json
from runtime.device import chosen_threads, pick_device, torch_threads
from runtime.errors import UserError
from runtime.training_loop import Schedule, TrainingLoop
from runtime.training_state import Position, Row, TrainingState
from runtime.training_step import StepMetrics, Steps, cosine_decay, ramp

log = logging.getLogger(LOGGER)
READ_EVERY = {"cuda": 20}
"""Steps between readings of the metrics, by type of device; elsewhere each step."""
CLIP = 5.0
"""With the cosine schedule: the largest norm of the whole gradient."""
WARM_UP = 0.01
"""With the cosine schedule: part of the steps over which the rate rises linearly."""


class Trainer:
    """One training run on one process of possibly several: what a step, a validation and saving are."""

    card: Card | StartCard
    end_reason = ""
    """Why the run is over; empty until then."""

    def __init__(
        self, config: TrainConfig, cache: TreeCache | None, distributed: DistributedContext | None = None
    ) -> None:
        loop, table = config.loop, config.table
        self.folder, self.start_name, self.epochs = config.folder, config.start, config.epochs
        self.options = config_to_json(config)
        """Every option as JSON, for the model's record."""
        self.identity = decisive_options(options_of(config))
        """Options that a resumed run must have in common with the one before."""
        self.peak_rate, self.rate_is_constant = config.learning_rate, loop.schedule == "constant"
        self.has_scale = config.preset != "paper"  # the paper's features have none
        self.distributed = distributed or DistributedContext()
        self.device = pick_device(config.device, self.distributed.local_rank)
        self.start = StartModel.open(config) if config.goes_on else None
        sets = read_pair_sets(config)
        pair_trees = None
        if self.start and sets:
            pair_trees = parse_pairs(sets, self.start.reader, self.start.requires)
        trees = [each for each in (cache, pair_trees) if each is not None]
        self.cache = trees[0]
        """The trees of the text, or without one of the pairs."""
        self.word_source = WordSource.of(config, self.cache)
        self.network, sources = _new_network_and_sources(config, trees, self.start, self.word_source)
        self.source = sources[0]
        self.text = self.pairs = None
        if cache is not None:
            self.text = TextSteps(
                self.source, loop, seed=config.seed, distributed=self.distributed, device=self.device
            )
        if sets:
            self.pairs = PairSteps(sets, sources[-1], batch=loop.batch, seed=config.seed, device=self.device)
        self.card = Card(config, self.cache)
        if self.start is not None:
            self.card = StartCard(config, self.cache, sorted(map(str, config.pairs)))
        self.steps = Steps(self.of_epoch, self.prepare, ahead=AHEAD)
        self.schedule = Schedule(
            epochs=config.epochs,
            max_steps=loop.max_steps,
            max_minutes=loop.max_minutes,
            evaluate_first=bool(self.pairs or (self.text and self.text.validation_set.steps)),
            evaluate_parts=10,
            select="pairs/spearman" if self.text is None and sets and sets[0].is_graded else "-loss",
            patience=loop.patience,
            read_every=READ_EVERY.get(self.device.type, 1),
        )
        self.position = self.schedule.begin(self.steps)
        if not self.position.steps:
            raise UserError(
                f"--loop.batch {loop.batch} --loop.segments {loop.segments or 1}: the cache has "
                f"only {len(self.cache)} sentences, which do not fill one step; lower them"
            )
        self.network.to(self.device)
        self.updates = Optimiser(self.network, table_rate=table.rate, table_update=table.update)
        self.state = TrainingState(self.network, self.updates, self.position)
        self.threads = chosen_threads(loop.micro_batch or loop.batch, self.network.config.dim, self.device)
        self.autocast = loop.precision == "bfloat16"
        self.has_diverged = torch.zeros((), device=self.device)
        """float32 scalar: 1 from the first step on whose loss or gradient is not finite."""

    def jobs(self) -> Iterator[Job | PairJob]:
        """List the steps of all epochs."""
        return itertools.chain.from_iterable(map(self.of_epoch, range(self.schedule.epochs)))

    def of_epoch(self, epoch: int) -> list[Job | PairJob]:
        """List the steps of an epoch: with text and pairs in turns, as many of each."""
        sources = [source for source in (self.text, self.pairs) if source is not None]
        jobs_of_sources: list[list[Job | PairJob]] = [list(source.of_epoch(epoch)) for source in sources]
        count = max(map(len, jobs_of_sources)) if all(jobs_of_sources) else 0
        for source, jobs in zip(sources, jobs_of_sources, strict=True):
            for further_epoch in itertools.count(epoch + self.epochs, self.epochs):
                if len(jobs) >= count:
                    break
                jobs += source.of_epoch(further_epoch)
        return list(
            itertools.chain.from_iterable(zip(*(jobs[:count] for jobs in jobs_of_sources), strict=True))
        )

    def prepare(self, job: Job | PairJob) -> Step:
        """Read and plan a step, and queue its copy to the device."""
        if isinstance(job, PairJob):
            assert self.pairs is not None
            return self.pairs.prepare(job)
        assert self.text is not None
        return self.text.prepare(job)

    def gradient(self, step: Step) -> StepResult:
        """Compute the gradient and metrics of a step."""
        self.updates.clear_gradients()
        return step_gradient(self.network, step, self.distributed, autocast=self.autocast)

    def learning_rate(self, position: Position) -> float:
        """Return the constant rate, or one that warms up linearly and goes down half a cosine."""
        if self.rate_is_constant:
            return self.peak_rate
        warm_up = ramp(position.step + 1, WARM_UP * position.steps)
        return self.peak_rate * warm_up * cosine_decay(position.progress)

    def update(self, result: StepResult, sentences: int = 0) -> StepMetrics:
        """Clip and apply a gradient, unless it or the loss is not finite; return what was measured.

        Nothing is read from the device: who reads the metrics learns that the weights were left alone.
        """
        norm = self.updates.gradient_norm(result.row_gradients)
        is_finite = torch.isfinite(result.metrics[0]) & torch.isfinite(norm)
        self.has_diverged = torch.maximum(self.has_diverged, (~is_finite).float())
        scale = None
        if not self.rate_is_constant:
            scale = (CLIP / norm.double().clamp_min(1e-12)).clamp_max(1.0).to(norm.dtype)
        rate = self.learning_rate(self.position)
        values = torch.cat([result.metrics, norm.double()[None], result.metrics.new_full((1,), rate)])
        self.updates.step(result, rate=rate, scale=scale, skip=self.has_diverged)
        names = [*result.names, "gradient_norm", "learning_rate"]
        return StepMetrics(names, values, sentences)

    def step(self, position: Position, step: Step) -> StepMetrics:
        """Update the weights once."""
        self.network.train()
        return self.update(self.gradient(step), step.sentences)

    def validate(self) -> Row:
        """Return the metrics of the current weights on the validation set."""
        scores: Row = {}
        if self.text is not None:
            scores |= self.text.validation_set.scores(self.network, autocast=self.autocast)
        if self.pairs is not None:
            scores |= self.pairs.scores(self.network, autocast=self.autocast)
            scores["loss"] = scores.get("loss", 0.0) + scores["pairs/loss"]
        return scores

    def save(self, scores: Row) -> None:
        """Write the model folder, with the current weights and their metrics."""
        identity, position = self.cache.identity, self.position
        training: Row = {
            "config": self.options,
            "trees": str(identity.get("content_sha256", "")),
            "step": position.step,
            "sentences": position.sentences,
            "best": {"step": position.step, **scores},
            "untrained": position.first,
            "words": self.network.words.origin,
        }
        options: dict[str, Any] = {}
        if self.start is not None:
            training["start"] = {"model": self.start_name, "sha256": self.start.sha256}
            options = {"structure": self.start.structure, "structure_size": self.start.structure_size}
        network = self.network_to_keep(with_words=self.card.includes_words(scores))
        model = Model(network, parsers_of(identity), identity.get("corpus") or {}, training)
        verdict = self.card.verdict(training["untrained"], training["best"])
        save_model(model, self.folder, card=self.card.text(model, verdict), **options)

    @cached_property
    def scale_sample(self) -> list[Batch]:
        """Training sentences over which features are brought to one scale, unless the start has one.

        The paper's have none.
        """
        needs_scale = self.network.scale is None and self.has_scale
        spans = sample_ranges(self.text.split.training) if needs_scale and self.text else []
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
        if self.start is not None:
            content["content of --start"] = self.start.sha256
        if self.pairs is not None:
            content["content of --pairs"] = self.pairs.sha256
        loop = TrainingLoop(
            self.state,
            self.steps,
            self.schedule,
            self.folder,
            identity=self.identity | content,
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


def _new_network_and_sources(
    config: TrainConfig, trees: Sequence[TreeCache], start: StartModel | None, word_source: WordSource
) -> tuple[MultiViewNetwork, list[StepSource]]:
    """Make the network, whose new weights the seed decides, and what prepares its steps from each cache."""
    objective, dropout = config.objective, config.table.dropout
    teachers: list[Float | None] = [None] * len(trees)
    if start is None:
        teacher = None if objective.teacher is None else open_teacher(objective.teacher, trees[0])
        teachers = [teacher]
        words = word_source.new_table(len(trained_views(config.view_list)))
        torch.manual_seed(config.seed)
        teacher_dim = 0 if teacher is None else teacher.shape[1]
        network = MultiViewNetwork(config.view_list, words, config.encoder, objective, teacher_dim)
    else:
        dropout = 0.0
        for cache in trees:
            start.check_trees(cache)
        teachers = [start.vectors(cache) for cache in trees]
        stack = start.model.network
        torch.manual_seed(config.seed)
        network = MultiViewNetwork(
            start.views, stack.words, stack.config, config.meaning_objective, start=start
        )
        if network.readout is not None:
            network.readout.origin += f"; went on with {', '.join(cache.folder.name for cache in trees)}"
    sources = [
        StepSource(
            cache,
            network,
            boundary=objective.boundary,
            finds_itself=objective.same > 0,
            micro_batch=config.loop.micro_batch,
            dropout=dropout,
            seed=config.seed,
            teacher=teacher,
        )
        for cache, teacher in zip(trees, teachers, strict=True)
    ]
    return network, sources
