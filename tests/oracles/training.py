"""Training as it is written: in float64, with an Adam, a clipping and rates of its own.

Figures of a float32 run are those of one processor's instructions. So a run is compared with its equations,
step by step: losses, gradients before the first update, and how far each tensor has moved at the end.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, nn

from multiview.config import NewViewsConfig
from multiview.encoders.meaning import SentenceRange
from multiview.encoders.registry import ViewStack
from multiview.training.data import StepSource
from runtime.training_state import Position, TrainingState
from runtime.training_step import GradientDescent, StepMetrics
from studies.finetune.examples import Examples, Stream
from studies.passages.ranker import Split, draw_pairs
from tests.oracles.objective import losses
from tests.oracles.tree_lstm import reference

Weights = dict[str, Tensor]


@dataclass
class Adam:
    """m ← β1 m + (1−β1) g, v ← β2 v + (1−β2) g², w ← w − rate (λ w + m̂ / (√v̂ + ε)).

    Kingma & Ba 2015; the decay λ as in Loshchilov & Hutter 2019.
    """

    betas: tuple[float, float]
    epsilon: float = 1e-8
    decay: float = 0.0
    steps: int = 0
    moments: dict[str, tuple[int, Tensor, Tensor]] = field(default_factory=dict)
    """By name: how many updates it had, m and v."""

    @torch.no_grad()
    def update(
        self,
        weights: Weights,
        gradients: Weights,
        rates: Mapping[str, float],
        rows: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        """Take a step on the weights that have a gradient; of the tables in ``rows`` only these rows move."""
        self.steps += 1
        first, second = self.betas
        for name, g in gradients.items():
            w = weights[name]
            t, m, v = self.moments.get(name, (0, torch.zeros_like(w), torch.zeros_like(w)))
            moving = torch.ones(len(w), dtype=torch.bool) if w.dim() else torch.tensor(True)
            if rows and name in rows:
                moving = torch.isin(torch.arange(len(w)), torch.tensor(rows[name]))
            moving = moving.view(-1, *[1] * (w.dim() - 1)) if w.dim() else moving
            m = torch.where(moving, first * m + (1 - first) * g, m)
            v = torch.where(moving, second * v + (1 - second) * g**2, v)
            t += 1
            self.moments[name] = t, m, v
            direction = (m / (1 - first**t)) / ((v / (1 - second**t)).sqrt() + self.epsilon)
            w -= torch.where(moving, rates[name] * (self.decay * w + direction), 0.0)

    def resolvable_in_float32(self) -> Weights:
        """Tell which numbers had a gradient that float32 resolves: rounding alone moves the others."""
        least = 1e-10 * max(v.max() for _, _, v in self.moments.values())
        return {name: v > least for name, (_, _, v) in self.moments.items()}


def norm(tensors: Mapping[str, Tensor]) -> float:
    """Return the Euclidean length of all numbers together."""
    return math.sqrt(sum(float((tensor.double() ** 2).sum()) for tensor in tensors.values()))


def clip_gradients(gradients: Weights, largest: float) -> Weights:
    """Scale all gradients by one factor, so that their length is at most ``largest``; 0 is no limit."""
    factor = min(1.0, largest / norm(gradients)) if largest else 1.0
    return {name: gradient * factor for name, gradient in gradients.items()}


def largest_relative_distance(
    ours: Mapping[str, Tensor], oracle: Weights, start: Weights, compared: Weights | None = None
) -> float:
    """Return the largest distance of two tensors of a name, in units of the oracle's way from the start.

    ``compared`` marks the numbers that count; without it all do, with it tensors that have none are left out.
    """
    masks = compared or {name: torch.ones_like(value, dtype=torch.bool) for name, value in oracle.items()}
    largest = 0.0
    for name, mask in masks.items():
        if mask.any():
            target = oracle[name][mask]
            distance = (target - ours[name].double()[mask]).norm()
            way = (target - start[name][mask]).norm()
            largest = max(largest, float(distance / way))
    return largest


class ViewTraining:
    """Views of a network, sentence after sentence through the equations, from the network's weights on.

    ``source`` reads the sentences; the whole run has ``steps`` steps.
    """

    def __init__(self, network: ViewStack, source: StepSource, config: NewViewsConfig, steps: int) -> None:
        self.source, self.config, self.steps = source, config, steps
        self.network: Any = copy.deepcopy(network).double()
        self.weights = {name: one.detach() for name, one in self.network.named_parameters()}
        self.start = {name: one.clone() for name, one in self.weights.items()}
        tables = {id(table) for table in self.network.words.tables}
        self.tables = [name for name, one in self.network.named_parameters() if id(one) in tables]
        self.adam = Adam((0.9, 0.999))
        self.losses: list[float] = []
        self.norms: list[float] = []

    def rate(self) -> float:
        """Return the rate of the next step: constant, or after a warm-up of 1 % half a cosine to a tenth."""
        loop, steps = self.config.loop, self.adam.steps
        if loop.schedule == "constant":
            return loop.learning_rate
        rising = min(1.0, (steps + 1) / (0.01 * self.steps))
        return loop.learning_rate * rising * (0.1 + 0.45 * (1 + math.cos(math.pi * steps / self.steps)))

    def gradients(self, segments: Sequence[SentenceRange]) -> tuple[float, Weights, list[int]]:
        """Return the mean loss over the anchors of a step, its gradient, and the rows of its words."""
        whole, anchors, rows = torch.zeros((), dtype=torch.float64), 0, set()
        for span in segments:
            batch = self.source.cache.read(*span, vocabulary=self.source.words.vocabulary)
            where = self.source.positions(np.arange(*span))
            tokens = batch.row.tolist()
            if self.config.objective.same:
                texts = [tuple(tokens[a:b]) for a, b in pairwise(batch.sentence_offsets.tolist())]
                where = dataclasses.replace(where, content=np.array([texts.index(text) for text in texts]))
            features = [
                reference(encoder, table[tokens], batch)[0]
                for encoder, table in zip(self.network.encoder_list, self.network.words.tables, strict=True)
            ]
            sums = losses(features, list(self.network.objective.bilinear), where, self.config.objective)
            whole, anchors, rows = whole + sums.whole, anchors + sums.anchors, rows | set(tokens)
        loss = whole / anchors
        gradients = torch.autograd.grad(loss, list(self.network.parameters()), allow_unused=True)
        named = zip(self.weights, gradients, strict=True)
        return loss.item(), {name: one for name, one in named if one is not None}, sorted(rows)

    def step(self, segments: Sequence[SentenceRange]) -> None:
        """Update the weights once."""
        loss, gradients, rows = self.gradients(segments)
        self.losses.append(loss)
        self.norms.append(norm(gradients))
        clip = 5.0 if self.config.loop.schedule == "cosine" else 0.0
        rate, table = self.rate(), self.config.table
        rates = {name: rate * (table.rate if name in self.tables else 1.0) for name in self.weights}
        moving = dict.fromkeys(self.tables, rows) if table.update == "rows" else None
        self.adam.update(self.weights, clip_gradients(gradients, clip), rates, moving)


def ranker_weights(
    scorer: nn.Module, part: Split, *, epochs: int, learning_rate: float, margin: float, seed: int
) -> list[Weights]:
    """Return the weights after each step of a scorer: AdamW on max(0, margin − s(q, p⁺) + s(q, p⁻))."""
    net, generator, history = copy.deepcopy(scorer).double(), np.random.default_rng(seed), []
    weights = {name: one.detach() for name, one in net.named_parameters()}
    adam, questions, passages = (
        Adam((0.9, 0.999), decay=0.01),
        part.question_ND.double(),
        part.passage_ND.double(),
    )
    for _ in range(epochs):
        for pairs in torch.from_numpy(draw_pairs(part.questions, generator)).split(64):
            question, right, wrong = pairs.unbind(1)
            question_QD = questions[question]
            gaps = margin - net(question_QD, passages[right]) + net(question_QD, passages[wrong])
            gradients = torch.autograd.grad(gaps.clamp(min=0).mean(), list(net.parameters()))
            named = dict(zip(weights, gradients, strict=True))
            adam.update(weights, named, dict.fromkeys(weights, learning_rate))
            history.append({name: one.clone() for name, one in weights.items()})
    return history


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a task is to be trained, as its paper or page has it."""

    rate: Callable[[int, int], float]
    """Gives the learning rate by the number of steps done and of all steps."""
    betas: tuple[float, float]
    epsilon: float = 1e-8
    decay: float = 0.0
    clip: float = 0.0
    average: Callable[[int], float] | None = None
    """Gives the part of the average of the weights that stays, by the number of steps done."""


class FollowedTraining:
    """A descent in float64, on the batches and with the dropout of the one that trains.

    The losses are the task's, which the tests of the tasks compare with loops; all else is of this file.
    """

    def __init__(self, descent: GradientDescent[Any], recipe: Recipe) -> None:
        self.descent, self.recipe, self.real_losses = descent, recipe, descent.losses
        self.real_averages: Mapping[str, Tensor] = {}
        named = descent.module.named_parameters()
        self.parameters: dict[str, nn.Parameter] = {name: one for name, one in named if one.requires_grad}
        self.weights = {name: one.detach().double() for name, one in self.parameters.items()}
        self.start = {name: one.clone() for name, one in self.weights.items()}
        self.averages = {name: one.clone() for name, one in self.weights.items()}
        self.adam = Adam(recipe.betas, recipe.epsilon, recipe.decay)
        self.off: dict[str, float] = {"losses": 0.0}
        descent.losses = self.losses

    @contextmanager
    def in_double(self) -> Iterator[None]:
        """Give the module these weights while the context lasts."""
        data_of_name = {name: one.data for name, one in self.parameters.items()}
        for name, one in self.parameters.items():
            one.data = self.weights[name]
        yield
        for name, one in self.parameters.items():
            one.data = data_of_name[name]

    def losses(self, batch: Any) -> Mapping[str, Tensor]:
        """Return the task's losses; ours and its gradient are taken first, with the same random numbers."""
        state = torch.get_rng_state()
        with self.in_double():
            (loss,) = self.real_losses(batch).values()
            gradients = torch.autograd.grad(loss, list(self.parameters.values()), allow_unused=True)
        named = zip(self.parameters, gradients, strict=True)
        self.gradients = {name: one for name, one in named if one is not None}
        torch.set_rng_state(state)
        losses = self.real_losses(batch)
        (real,) = losses.values()
        self.off["losses"] = max(self.off["losses"], abs(real.item() / loss.item() - 1))
        return losses

    def follow(self, position: Position) -> None:
        """Take the step that the task has just taken."""
        recipe, steps = self.recipe, self.adam.steps
        gradients = clip_gradients(self.gradients, recipe.clip)
        rate = recipe.rate(steps, position.steps)
        self.adam.update(self.weights, gradients, dict.fromkeys(self.weights, rate))
        if not steps:
            real = {name: one.grad for name, one in self.parameters.items() if one.grad is not None}
            zero = {name: torch.zeros_like(one) for name, one in gradients.items()}
            self.off["gradients"] = self.distance(real, gradients, zero)
        if recipe.average:
            share = recipe.average(steps)
            for name, weight in self.weights.items():
                self.averages[name] = share * self.averages[name] + (1 - share) * weight
        if self.adam.steps == position.steps:
            real = {name: one.detach() for name, one in self.parameters.items()}
            self.off["weights"] = self.distance(real, self.weights, self.start)

    def averaged(self) -> float:
        """Return how far the task's average of the weights is off, after its last step."""
        return self.distance(self.real_averages, self.averages, self.start)

    def distance(self, ours: Mapping[str, Tensor], oracle: Weights, start: Weights) -> float:
        """Return the largest relative distance, of the numbers whose gradient float32 resolves."""
        return largest_relative_distance(ours, oracle, start, self.adam.resolvable_in_float32())


class Runs(list[FollowedTraining]):
    """The trainings that were followed."""

    def __init__(self) -> None:
        self.batches = hashlib.sha256()
        """Digest of what they were trained on, in order."""


@contextmanager
def followed_trainings(recipe: Recipe | None) -> Iterator[Runs]:
    """Follow in float64 every task that trains while the context lasts; without a recipe, none may train."""
    runs = Runs()
    step, batch, evaluation = GradientDescent.step, Stream.batch, TrainingState.evaluation

    def followed(descent: GradientDescent[Any], position: Position, of: Any) -> StepMetrics:
        assert recipe, "a training without a recipe"
        if not runs or runs[-1].descent is not descent:
            runs.append(FollowedTraining(descent, recipe))
        runs.batches.update(repr(of).encode())
        metrics = step(descent, position, of)
        runs[-1].follow(position)
        return metrics

    def evaluated(state: TrainingState) -> Any:
        if runs and runs[-1].descent is state.optimiser:
            runs[-1].real_averages = state.averages
        return evaluation(state)

    def noted(stream: Stream, number: int) -> Examples:
        examples = batch(stream, number)
        runs.batches.update(repr((examples.first, examples.second, examples.target.tolist())).encode())
        return examples

    with (
        patch.object(GradientDescent, "step", followed),
        patch.object(TrainingState, "evaluation", evaluated),
        patch.object(Stream, "batch", noted),
    ):
        yield runs
