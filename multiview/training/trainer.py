"""A training run: a program (:class:`TrainingProgram`) and the trainer that runs it (:class:`Trainer`).

The trainer gives the shared loop (:mod:`runtime.training_loop`) its three functions: step, validate and save.
Each step depends only on the configuration, the tree cache and the checkpoint (docs/promises.md).

The loop queues steps on a GPU faster than the GPU computes them, and reading a number waits until the GPU has
computed it. Therefore the metrics of many steps are read at once, and the device itself leaves the weights
alone where a gradient is not finite (docs/scaling.md says on which devices this ran).

The weights with the least loss on the held-out sentences are kept or, if there are graded pairs alone, those
whose cosines rank the held-out pairs best. Besides the loss a validation reports

- accuracy@1: how often the objective scores a neighbour highest;
- recall@1: how often the nearest of 400 successive sentences, by the cosine of the model's vectors, is a
  neighbour; recall@1/words is the same for the mean of the words' vectors.
"""

from __future__ import annotations

import itertools
import logging
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from multiview.config import ProgramConfig, decisive_options, options_of
from multiview.encoders.registry import ViewStack
from multiview.folder.card import Card, StartCard
from multiview.folder.files import Model, parsers_of, save_model
from multiview.training.data import Step
from multiview.training.gradient import (
    DistributedContext,
    MultiViewNetwork,
    Optimiser,
    StepResult,
    step_gradient,
)
from multiview.training.pairs import PairSteps
from multiview.training.text import AHEAD, TextSteps
from multiview.words.sources import WordSource
from parsing.trees.batch import Batch
from parsing.trees.cache import TreeCache
from runtime.cli import LOGGER, config_to_json
from runtime.device import chosen_threads, torch_threads
from runtime.errors import UserError
from runtime.training_loop import Schedule, TrainingLoop
from runtime.training_state import Position, TrainingState, Values
from runtime.training_step import StepMetrics, Steps, cosine_decay, ramp

log = logging.getLogger(LOGGER)
READ_EVERY = {"cuda": 20}
"""How many steps apart the metrics are read, by type of device; on other types they are read at each step."""
CLIP = 5.0
"""The norm to which a larger gradient is scaled down, over all parameters; only with the cosine schedule."""
WARM_UP = 0.01
"""The share of the steps over which the learning rate rises linearly; only with the cosine schedule."""


@dataclass(frozen=True, kw_only=True)
class TrainingProgram:
    """What a run trains, what it learns from, what validates it and what is saved.

    :func:`~multiview.training.new_views.new_views_program` and
    :func:`~multiview.training.continued.continued_program` build one from their configurations. A
    :class:`Trainer` runs it: it takes the steps that :meth:`of_epoch` lists, updates the network by the
    optimiser in each, calls :meth:`validate` from time to time, and :meth:`save` when the scores are the
    best so far.
    """

    device: torch.device
    network: MultiViewNetwork
    """The network that is trained, on the device, with its objective."""
    optimiser: Optimiser
    text: TextSteps | None
    """The text to learn from, with the sentences of it that are held out."""
    pairs: PairSteps | None = None
    """The pairs to learn from, with those that are held out. A program has a text, pairs, or both."""
    trees: TreeCache
    """The trees of the text or, without a text, of the pairs."""
    content_digests: Mapping[str, str]
    """Digests of the start and of the pairs, by name; a run is resumed only if they are the same."""
    select: str = "-loss"
    """The score by which weights are chosen: the largest one, or with a minus sign in front the smallest."""
    scale_sample: Sequence[Batch] = ()
    """The sentences on which the scale of the features is measured before saving; none if the network has a
    scale already, or is to have none."""
    card: Card | StartCard
    """What writes the model folder's README.md."""
    words_origin: str
    """Where the word vectors are from, as it is printed."""
    word_source: WordSource | None = None
    """The source of the words that are added after training."""
    start: str | None = None
    """The name of the model that training goes on from."""
    training_record: Mapping[str, Any] = field(default_factory=dict)
    """What is recorded of the training in the model folder beside what the trainer knows."""
    structure: float = 0.0
    """The model's default λ, the share of structure in its vectors."""
    structure_size: int = 1024
    """The model's default size of a structure vector."""

    @property
    def parts(self) -> list[TextSteps | PairSteps]:
        """The text and the pairs, as far as there are any."""
        return [part for part in (self.text, self.pairs) if part is not None]

    def of_epoch(self, epoch: int, epochs: int) -> list[Callable[[], Step]]:
        """Return the steps of an epoch as functions, each of which reads and prepares its step when called.

        The text and the pairs take turns and have as many steps each: the shorter one is filled up with its
        steps of epochs beyond the last of the ``epochs``.
        """
        steps_of_parts = [part.of_epoch(epoch) for part in self.parts]
        count = max(map(len, steps_of_parts)) if all(steps_of_parts) else 0
        for part, steps in zip(self.parts, steps_of_parts, strict=True):
            for further_epoch in itertools.count(epoch + epochs, epochs):
                if len(steps) >= count:
                    break
                steps += part.of_epoch(further_epoch)
        turns = zip(*(steps[:count] for steps in steps_of_parts), strict=True)
        return list(itertools.chain.from_iterable(turns))

    def validate(self, *, autocast: bool) -> Values:
        """Return the network's scores on the held-out sentences and pairs, whose losses are added."""
        scores: Values = {}
        for part in self.parts:
            scores_of_part: Values = part.scores(self.network, autocast=autocast)
            if "loss" in scores_of_part:
                scores_of_part["loss"] += scores.get("loss", 0.0)
            scores |= scores_of_part
        return scores

    def network_to_keep(self, scores: Values) -> ViewStack:
        """Return the network to save, with the mean of the words as its last view if the card says so.

        The scale of its features is measured on ``scale_sample``.
        """
        network = self.network.with_bag() if self.card.includes_words(scores) else self.network
        if self.scale_sample:
            network.measure(self.scale_sample, self.trees.folder.name)
        return network

    def save(self, folder: Path, training: Values, scores: Values) -> None:
        """Write the model folder, with the record of the training and the scores of the weights."""
        identity = self.trees.identity
        corpus = identity.get("corpus") or {}
        training = {**training, **self.training_record}
        model = Model(self.network_to_keep(scores), parsers_of(identity), corpus, training)
        card = self.card.text(model, self.card.verdict(training["untrained"], training["best"]))
        save_model(model, folder, card=card, structure=self.structure, structure_size=self.structure_size)


class Trainer:
    """Runs a program in this process, which may be one of several: takes steps, validates, saves.

    ``config`` is the configuration that ``program`` was built from; ``distributed`` joins the processes.
    """

    end_reason = ""
    """Why the run ended, as it is printed; empty before the end and after an interruption."""

    def __init__(
        self, config: ProgramConfig, program: TrainingProgram, distributed: DistributedContext
    ) -> None:
        loop = config.loop
        self.folder = config.folder
        self.program, self.distributed = program, distributed
        self.network, self.optimiser, self.device = program.network, program.optimiser, program.device
        self.options = config_to_json(config)
        """Every option as JSON, which the model folder records."""
        self.identity = {**decisive_options(options_of(config)), **program.content_digests}
        self.identity["content of --trees"] = str(program.trees.identity.get("content_sha256", ""))
        """The options and digests in which a resumed run must equal the interrupted one."""
        self.defaults = decisive_options(options_of(type(config)()))
        self.peak_rate, self.rate_is_constant = config.learning_rate, loop.schedule == "constant"
        self.steps = Steps(partial(program.of_epoch, epochs=config.epochs), operator.call, ahead=AHEAD)
        self.schedule = Schedule(
            epochs=config.epochs,
            max_steps=loop.max_steps,
            max_minutes=loop.max_minutes,
            evaluate_first=any(part.held_out for part in program.parts),
            evaluate_parts=10,
            select=program.select,
            patience=loop.patience,
            read_every=READ_EVERY.get(self.device.type, 1),
        )
        self.position = self.schedule.begin(self.steps)
        if not self.position.steps:
            raise UserError(
                f"--loop.batch {loop.batch} --loop.segments {loop.segments or 1}: the cache has "
                f"only {len(program.trees)} sentences, which do not fill one step; lower them"
            )
        self.state = TrainingState(self.network, self.optimiser, self.position)
        self.threads = chosen_threads(loop.micro_batch or loop.batch, self.network.config.dim, self.device)
        self.autocast = loop.precision == "bfloat16"
        self.has_diverged = torch.zeros((), device=self.device)
        """float32 scalar: 0, and 1 from the first step on whose loss or gradient is not finite."""

    def jobs(self) -> Iterator[Callable[[], Step]]:
        """Yield the steps of all epochs, as functions that prepare a step when they are called."""
        return itertools.chain.from_iterable(map(self.steps.of_epoch, range(self.schedule.epochs)))

    def gradient(self, step: Step) -> StepResult:
        """Compute the gradient and the metrics of a step; the weights stay as they are."""
        self.optimiser.clear_gradients()
        return step_gradient(self.network, step, self.distributed, autocast=self.autocast)

    def learning_rate(self, position: Position) -> float:
        """Return the learning rate at a position: constant, or a linear warm-up times half a cosine."""
        if self.rate_is_constant:
            return self.peak_rate
        warm_up = ramp(position.step + 1, WARM_UP * position.steps)
        return self.peak_rate * warm_up * cosine_decay(position.progress)

    def update(self, result: StepResult, sentences: int = 0) -> StepMetrics:
        """Clip a gradient and apply it by the optimiser; return the metrics of the step.

        If the loss or the gradient is not finite, the weights stay as they are, in this step and in all later
        ones. Nothing is read from the device here: the loop stops the run when it reads the metrics.
        """
        norm = self.optimiser.gradient_norm(result.row_gradients)
        is_finite = torch.isfinite(result.metrics[0]) & torch.isfinite(norm)
        self.has_diverged = torch.maximum(self.has_diverged, (~is_finite).float())
        scale = None
        if not self.rate_is_constant:
            scale = (CLIP / norm.double().clamp_min(1e-12)).clamp_max(1.0).to(norm.dtype)
        rate = self.learning_rate(self.position)
        values = torch.cat([result.metrics, norm.double()[None], result.metrics.new_full((1,), rate)])
        self.optimiser.step(result, rate=rate, scale=scale, skip=self.has_diverged)
        names = [*result.names, "gradient_norm", "learning_rate"]
        return StepMetrics(names, values, sentences)

    def step(self, position: Position, step: Step) -> StepMetrics:
        """Update the weights by one step, and return its metrics."""
        self.network.train()
        return self.update(self.gradient(step), step.sentences)

    def validate(self) -> Values:
        """Return the scores of the current weights on the held-out sentences and pairs."""
        return self.program.validate(autocast=self.autocast)

    def save(self, scores: Values) -> None:
        """Write the model folder, with the current weights and their scores."""
        position = self.position
        training: Values = {
            "config": self.options,
            "trees": self.identity["content of --trees"],
            "step": position.step,
            "sentences": position.sentences,
            "best": {"step": position.step, **scores},
            "untrained": position.first,
            "words": self.network.words.origin,
        }
        self.program.save(self.folder, training, scores)

    def run(self) -> int:
        """Train from the newest checkpoint on until the run ends, reaches a limit or gets a signal.

        Return the exit code: 0 when finished, 130 after Ctrl-C and 143 after SIGTERM, when a checkpoint was
        written.
        """
        loop = TrainingLoop(
            self.state,
            self.steps,
            self.schedule,
            self.folder,
            identity=self.identity,
            defaults=self.defaults,
            processes=self.distributed,
            option="--name",
        )
        position, world = self.position, self.distributed.world
        self.threads = position.threads or self.threads  # a resumed run keeps its number of threads
        if loop.is_resumed and position.world != world and not loop.reason_to_stop():
            log.warning("resuming with world %s instead of %s: last bits may differ", world, position.world)
        position.threads, position.world = self.threads, world
        with torch_threads(self.threads):
            code = loop.run(self.step, self.validate, self.save)
        self.end_reason = loop.reason_to_stop()
        return code
