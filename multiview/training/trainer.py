"""One training run of views: what the shared loop (:mod:`parsing.training.loop`) does in a step.

Each step depends only on the configuration, the cache and what a checkpoint holds. So a run that is killed
at any moment and started again with the same command ends with the same bits, given the same type of
device, threads, processes and versions, and no time limit.

A GPU runs behind the program that feeds it. Reading a number waits until the device has caught up, and then
the device waits for the program. So the metrics of a step stay on the device, and those of many steps are
read at once. What must not wait, the refusal of a gradient that is not finite, is decided on the device.

Validation compares the vectors that users get, all views concatenated, by cosine within blocks of 400
successive sentences. recall@1 is the fraction of sentences whose nearest other sentence is the one before or
after it in its document.

Legend of dimension suffixes: N validation sentences, A anchors and B sentences of a block, D embedding size.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from corpora.support.cli import LOGGER
from corpora.support.errors import UserError
from multiview.config import TrainConfig
from multiview.training.data import Span, Split, Step, StepSource, cut, open_teacher, prefetch
from multiview.training.gradient import DistributedContext, MultiViewNetwork, StepResult, step_gradient
from multiview.training.objective import Positions, neighbour_targets, retrieved
from multiview.training.optimiser import Optimiser
from parsing.cache.reader import TreeCache
from parsing.networks.device import chosen_threads, pick_device, torch_threads
from parsing.training.loop import Loop, Plan
from parsing.training.task import Checkpoint, Checkpoints, Position, Row, Task, cosine, load_parameters, ramp

log = logging.getLogger(LOGGER)
READ_EVERY = {"cuda": 20}
"""Steps between readings of the metrics, by type of device; elsewhere each step."""
BLOCK_SENTENCES = 400
CLIP = 5.0
"""With the cosine schedule: the largest norm of the whole gradient."""
WARM_UP = 0.01
"""With the cosine schedule: part of the steps over which the rate rises linearly."""


@dataclass(frozen=True)
class Job:
    """A step to prepare and train on."""

    epoch: int
    segments: list[Span]


class Trainer(Task[Job]):
    """One training run on one process of possibly several.

    Args:
        config: for one model, so ``words`` is not ``both``.
        cache: the trees.
        distributed: this process among all.
    """

    finished = ""
    """Why the run is over; empty until then."""

    def __init__(
        self, config: TrainConfig, cache: TreeCache, distributed: DistributedContext | None = None
    ) -> None:
        self.config = config
        self.cache = cache
        self.distributed = distributed or DistributedContext()
        self.device = pick_device(config.device, self.distributed.local_rank)
        loop, world = config.loop, self.distributed.world
        if loop.segments % world:
            raise UserError(f"--loop.segments {loop.segments}: must be a multiple of the {world} processes")
        teacher = None if config.teacher.vectors is None else open_teacher(config.teacher.vectors, cache)
        self.network = MultiViewNetwork.new(config, cache, 0 if teacher is None else teacher.shape[1])
        self.source = StepSource(config, cache, self.network, teacher)
        self.split = Split.of(self.source.documents, loop.validation, loop.batch)
        self.validation_set = ValidationSet(self.source, self.split.validation, loop.batch)
        self.network.to(self.device)
        self.updates = Optimiser(self.network, table_rate=config.table.rate, table_update=config.table.update)
        super().__init__(self.network, self.updates.adam)
        steps = sum(len(self.batches(epoch)) for epoch in range(loop.epochs))
        if not steps:
            raise UserError(
                f"--loop.batch {loop.batch} --loop.segments {loop.segments}: the cache has only {len(cache)} "
                "sentences, which do not fill one step; lower them"
            )
        self.position = Position(steps=min(steps, loop.max_steps or steps), limit_s=60 * loop.max_minutes)
        self.threads = loop.threads or chosen_threads(
            loop.micro_batch or loop.batch, config.encoder.dim, self.device
        )
        self.unread = Unread(self.network.objective.metrics, self.device)
        self.read_every = READ_EVERY.get(self.device.type, 1)
        self._lines: list[tuple[float, int]] = []
        self._read_at = time.perf_counter()
        self._keep: Callable[[Trainer, Row], None] = lambda trainer, best: None
        self._scores: Row = {}

    def batches(self, epoch: int) -> list[Job]:
        """The steps of an epoch."""
        segments = self.split.epoch(epoch, self.config.loop.batch, self.config.seed)
        size = self.config.loop.segments
        whole = len(segments) - len(segments) % size
        return [Job(epoch, segments[start : start + size]) for start in range(0, whole, size)]

    def jobs(self) -> Iterator[Job]:
        """The steps of all epochs."""
        for epoch in range(self.config.loop.epochs):
            yield from self.batches(epoch)

    def prepare(self, job: Job) -> Step:
        """Read and plan this process's part of a step, and queue its copy to the device."""
        here = self.distributed
        step = self.source.prepare(job.segments, epoch=job.epoch, rank=here.rank, world=here.world)
        return step.to(self.device)

    def prepared(self, batches: Sequence[Job]) -> Iterable[Step]:
        """Steps that a thread reads and plans ahead."""
        return prefetch(iter(batches), self.prepare)

    def gradient(self, step: Step) -> StepResult:
        """Compute the gradient and metrics of a step."""
        self.updates.zero()
        autocast = self.config.loop.precision == "bfloat16"
        return step_gradient(self.network, step, self.distributed, autocast=autocast)

    def loss(self, batch: Step) -> Tensor:
        """Of a step, its metric; :meth:`gradient` differentiates it in parts."""
        return self.gradient(batch).metrics[0]

    def learning_rate(self, position: Position) -> float:
        """Constant, or a linear warm-up and half a cosine."""
        rate = self.config.loop.learning_rate
        if self.config.loop.schedule == "constant":
            return rate
        return rate * ramp(position.step + 1, WARM_UP * position.steps) * cosine(position.progress)

    def update(self, result: StepResult) -> float:
        """Clip and apply a gradient, unless it or the loss is not finite; return the learning rate.

        Nothing is read from the device: ``unread`` keeps the metrics, and its next reading raises if the
        weights were left alone.
        """
        norm = self.updates.gradient_norm(result.row_gradients)
        self.unread.add(self.position.step + 1, result.metrics, norm)
        scale = None
        if self.config.loop.schedule == "cosine":
            scale = (CLIP / norm.double().clamp_min(1e-12)).clamp_max(1.0).to(norm.dtype)
        rate = self.learning_rate(self.position)
        self.updates.step(
            result.table_rows, result.row_gradients, rate=rate, scale=scale, skip=self.unread.stopped
        )
        return rate

    def step(self, position: Position, batch: Step) -> None:
        """One update of the weights."""
        self.network.train()
        rate = self.update(self.gradient(batch))
        position.extra["sentences"] = position.extra.get("sentences", 0) + batch.sentences
        self._lines.append((rate, batch.sentences))

    def read(self) -> list[Row]:
        """Metrics of the steps since the last call.

        Raises:
            UserError: a loss or gradient was not finite; the weights are those before that step.
        """
        metrics = self.unread.read()
        lines, self._lines = self._lines, []
        before, self._read_at = self._read_at, time.perf_counter()
        per_s = sum(sentences for _, sentences in lines) / max(self._read_at - before, 1e-9)
        return [
            {**values, "learning_rate": rate, "sentences_per_s": per_s}
            for values, (rate, _) in zip(metrics, lines, strict=True)
        ]

    def evaluate(self) -> Mapping[str, float]:
        """Metrics of the current weights on the validation set."""
        autocast = self.config.loop.precision == "bfloat16"
        self._scores = self.validation_set.scores(self.network, autocast=autocast)
        if not self.position.step:
            self.position.extra["untrained"] = {"step": 0, **self._scores}
        return self._scores

    def is_better(self, row: Row, best: Row) -> bool:
        """By neighbour retrieval; without a validation set the newest weights count as the best."""
        return not row["anchors"] or not best or row["recall@1"] > best["recall@1"]

    def keep_best(self, bests: Checkpoints, row: Row) -> None:
        """Write the model folder."""
        self._keep(self, {"step": row["step"], **self._scores})

    def optimiser_state(self) -> dict[str, Tensor]:
        """Moments of dense parameters and of word tables."""
        return self.updates.state()

    def load(self, found: Checkpoint) -> None:
        """Take up weights and moments."""
        load_parameters(self.network, found.weights)
        self.updates.load(found.optimiser)

    def run(self, keep_model: Callable[[Trainer, Row], None]) -> int:
        """Train until the end, a limit or a signal, from the newest checkpoint on.

        Args:
            keep_model: called (first process only) with the metrics of weights that are the best so far.

        Returns:
            0 when finished, 130 after Ctrl-C and 143 after SIGTERM (a checkpoint was written).
        """
        self._keep, options = keep_model, self.config.loop
        plan = Plan(
            epochs=options.epochs,
            max_steps=options.max_steps,
            max_minutes=options.max_minutes,
            evaluate_first=bool(self.validation_set.steps),
            evaluate_parts=10,
            read_every=self.read_every,
        )
        loop = Loop(self, plan, self.config.folder, processes=self.distributed)
        self.position = loop.position
        before = self.position.extra
        if not options.threads:  # a run keeps the number that it began with
            self.threads = before.get("threads", self.threads)
        now = {"threads": self.threads, "world": self.distributed.world}
        if loop.resumed and not loop.over():
            log.info("resuming %s at step %d", self.config.folder, self.position.step)
            for name, value in now.items():
                if before[name] != value:
                    log.warning(
                        "resuming with %s %s instead of %s: last bits may differ", name, value, before[name]
                    )
        before |= now
        self._read_at = time.perf_counter()
        with torch_threads(self.threads):
            code = loop.run()
        self.finished = loop.over()
        return code


class Unread:
    """The metrics of the steps since the last reading.

    Args:
        names: of a step's metrics; the first is the loss. The gradient's norm is added to them.
        device: where the metrics are.
    """

    def __init__(self, names: Sequence[str], device: torch.device) -> None:
        self.names = [*names, "gradient_norm"]
        self.stopped = torch.zeros((), device=device)
        """float32 scalar: 1 from the first step on whose loss or gradient is not finite."""
        self._steps: list[int] = []
        self._values: list[Tensor] = []

    def __len__(self) -> int:
        return len(self._steps)

    def add(self, step: int, metrics: Tensor, norm: Tensor) -> None:
        """Keep a step's metrics, and see whether it may still change the weights (:attr:`stopped`).

        Args:
            step: its number, from 1.
            metrics: float64 [M].
            norm: of the gradient, scalar.
        """
        finite = torch.isfinite(metrics[0]) & torch.isfinite(norm)
        self.stopped = torch.maximum(self.stopped, (~finite).float())
        self._steps.append(step)
        self._values.append(torch.cat([metrics, norm.double()[None]]))

    def read(self) -> list[dict[str, Any]]:
        """Wait for the device and return the metrics of each step.

        Raises:
            UserError: a loss or gradient was not finite; no weight was changed from that step on.
        """
        if not self._steps:
            return []
        rows = torch.stack(self._values).tolist()
        steps, self._steps, self._values = self._steps, [], []
        for step, row in zip(steps, rows, strict=True):
            loss, norm = row[0], row[-1]
            if not (math.isfinite(loss) and math.isfinite(norm)):
                raise UserError(
                    f"step {step}: loss {loss}, gradient norm {norm}; stopped before the update. Lower "
                    "--loop.learning-rate and give another --name"
                )
        return [dict(zip(self.names, row, strict=True)) for row in rows]


class ValidationSet:
    """The validation sentences, read and planned once, so that only the loader thread uses the cache later.

    Args:
        source: reads and plans.
        spans: the sentences.
        batch: sentences contrasted with each other, as in training.
    """

    def __init__(self, source: StepSource, spans: Sequence[Span], batch: int) -> None:
        pieces = [piece for span in spans for piece in cut(*span, batch, least=2)]
        self.steps: list[Step] = [source.prepare([piece]) for piece in pieces]
        self.sentences = sum(step.sentences for step in self.steps)

    @torch.no_grad()
    def scores(self, network: MultiViewNetwork, *, autocast: bool = False) -> dict[str, float]:
        """Metrics of a network: ``anchors``, ``recall@1``, and per anchor the objective's own metrics.

        Args:
            network: the network to evaluate.
            autocast: bfloat16 matrix products, as in training.
        """
        device = next(network.parameters()).device
        sums, anchors = torch.zeros(len(network.objective.metrics), dtype=torch.float64, device=device), 0
        embeddings: list[Tensor] = []
        positions: list[Positions] = []
        for step in self.steps:
            step = step.to(device)
            segment = step.segments[0]
            words = step.rows.leaves(network.words)
            (batch,) = segment.micro_batches
            with torch.autocast(device.type, torch.bfloat16, enabled=autocast):
                features = network.encode(batch.tokens, batch.plans, words)
            value = network.objective(features, segment.targets, segment.teacher)
            sums, anchors = sums + value.sums, anchors + value.anchors
            embeddings.append(torch.cat([feature.float() for feature in features], dim=1))
            positions.append(segment.positions)
        if not anchors:
            return {"anchors": 0}
        recall = neighbour_recall(torch.cat(embeddings), Positions.concatenate(positions))
        means = zip(network.objective.metrics, (sums / anchors).tolist(), strict=True)
        return {"anchors": anchors, "recall@1": recall, **dict(means)}


def neighbour_recall(embeddings_ND: Tensor, positions: Positions, block: int = BLOCK_SENTENCES) -> float:
    """Fraction of sentences whose nearest other sentence of their block, by cosine, is a neighbour.

    Args:
        embeddings_ND: [N, D], one row per sentence, in the order of the corpus.
        positions: of the N sentences.
        block: sentences compared with each other.
    """
    unit_ND = torch.nn.functional.normalize(embeddings_ND, dim=1)
    hits, anchors = 0, 0
    for start in range(0, len(positions), block):
        here = slice(start, start + block)
        targets = neighbour_targets(positions[here], "document").to(unit_ND.device)
        if len(targets.anchor):
            similarity_AB = unit_ND[here][targets.anchor] @ unit_ND[here].T
            hits += int(retrieved(similarity_AB, targets).sum())
            anchors += len(targets.anchor)
    return hits / max(anchors, 1)
