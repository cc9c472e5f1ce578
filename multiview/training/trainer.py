"""The training loop: gradients, updates, validation and checkpoints.

Each step depends only on the configuration, the cache and what a checkpoint holds. So a run that is killed
at any moment and started again with the same command ends with the same bits, given the same type of
device, threads, processes and versions, and no time limit.
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field

from corpora.support.cli import LOGGER
from corpora.support.errors import UserError
from corpora.support.progress import Bar, progress
from multiview.config import TrainConfig
from multiview.teacher import TeacherMatrix
from multiview.training.data import Dropout, Span, Split, Step, StepSource, prefetch
from multiview.training.distributed import DistributedContext
from multiview.training.gradient import StepResult, step_gradient
from multiview.training.log import TrainingLog
from multiview.training.network import MultiViewNetwork
from multiview.training.optimiser import Optimiser, learning_rate_factor
from multiview.training.unread import Unread
from multiview.training.validation import ValidationScores, ValidationSet
from parsing.cache.reader import TreeCache
from parsing.networks.device import pick_device
from parsing.networks.threads import chosen_threads
from parsing.training.checkpoints import Checkpoint, Checkpoints

log = logging.getLogger(LOGGER)
KeepModel = Callable[["Trainer"], None]
TIME_LIMIT = "time limit"
READ_EVERY = {"cuda": 20}
"""Steps between readings of the metrics, by type of device; elsewhere each step."""


@dataclass
class Position:
    """How far a run has come; the JSON part of a checkpoint."""

    step: int = 0
    """Steps done."""
    epoch: int = 0
    """Epoch of the next step."""
    within: int = 0
    """Steps of that epoch already done."""
    seconds: float = 0.0
    """Training time, counted over resumptions."""
    sentences: int = 0
    """Sentences trained on."""
    best: dict[str, float] = field(default_factory=dict)
    """Step and validation metrics of the best weights; step 0 is the start."""
    untrained: dict[str, float] = field(default_factory=dict)
    """Validation metrics before the first step."""
    waited: int = 0
    """Validations since the best one."""
    finished: str = ""
    """Why the run is over; empty until then."""
    threads: int = 0
    world: int = 1


@dataclass(frozen=True)
class Line:
    """What the log says about a step besides its metrics."""

    step: int
    epoch: int
    sentences: int
    learning_rate: float
    seconds: float
    """Until the step was queued."""


@dataclass(frozen=True)
class Job:
    """A step to prepare and train on."""

    epoch: int
    within: int
    segments: list[Span]


class Trainer:
    """One training run on one process of possibly several.

    Args:
        config: for one model, so ``words`` is not ``both``.
        cache: the trees.
        distributed: this process among all.
    """

    def __init__(
        self, config: TrainConfig, cache: TreeCache, distributed: DistributedContext | None = None
    ) -> None:
        self.config = config
        self.cache = cache
        self.distributed = distributed or DistributedContext()
        self.device = pick_device(config.device, self.distributed.local_rank)
        loop = config.loop
        self.autocast = loop.precision == "bfloat16"
        if loop.segments % self.distributed.world:
            raise UserError(
                f"--loop.segments {loop.segments}: must be a multiple of the {self.distributed.world} "
                "processes"
            )
        teacher = TeacherMatrix.open(config.teacher.vectors, cache) if config.teacher.vectors else None
        self.network = MultiViewNetwork.new(config, cache, teacher.dim if teacher else 0)
        self.source = StepSource(
            cache,
            self.network.words,
            self.network.encoder_list,
            config.view_list,
            config.objective,
            teacher,
        )
        self.split = Split.of(self.source.documents, config.validation.sentences, loop.batch)
        self.validation_set = ValidationSet(self.source, self.split.validation, loop.batch)
        self.network.to(self.device)
        self.optimiser = Optimiser(
            self.network,
            learning_rate=config.optimiser.learning_rate,
            table_rate=config.table.rate,
            table_update=config.table.update,
        )
        self.epoch_steps = [len(self._epoch(e)) // loop.segments for e in range(loop.epochs)]
        self.total_steps = sum(self.epoch_steps)
        if not self.total_steps:
            raise UserError(
                f"--loop.batch {loop.batch} --loop.segments {loop.segments}: the cache has only {len(cache)} "
                "sentences, which do not fill one step; lower them"
            )
        if loop.max_steps:
            self.total_steps = min(self.total_steps, loop.max_steps)
        threads = loop.threads or chosen_threads(
            loop.micro_batch or loop.batch, config.encoder.dim, self.device
        )
        self.position = Position(threads=threads, world=self.distributed.world)
        self.checkpoints = Checkpoints(config.folder / "checkpoints", loop.keep)
        self.unread = Unread(self.network.objective.metrics, self.device)
        self.read_every = loop.read_every or READ_EVERY.get(self.device.type, 1)
        self._lines: list[Line] = []
        self._signal = 0

    def _epoch(self, epoch: int) -> list[Span]:
        return self.split.epoch(epoch, self.config.loop.batch, self.config.seed)

    def jobs(self) -> Iterator[Job]:
        """The steps that remain, from the current position."""
        size, left = self.config.loop.segments, self.total_steps - self.position.step
        within = self.position.within
        for epoch in range(self.position.epoch, self.config.loop.epochs):
            segments = self._epoch(epoch)
            for index in range(within, self.epoch_steps[epoch]):
                if left <= 0:
                    return
                left -= 1
                yield Job(epoch, index, segments[index * size : (index + 1) * size])
            within = 0

    def prepare(self, job: Job) -> Step:
        """Read and plan this process's part of a step, and queue its copy to the device."""
        step = self.source.prepare(
            job.segments,
            micro_batch=self.config.loop.micro_batch,
            gathered=self.config.objective.negatives == "step",
            rank=self.distributed.rank,
            world=self.distributed.world,
            dropout=Dropout(
                self.config.table.dropout,
                (self.config.seed, job.epoch),
                len(self.config.view_list) if self.config.table.dropout_views == "each" else 1,
            ),
        )
        return step.to(self.device)

    def gradient(self, step: Step) -> StepResult:
        """Compute the gradient and metrics of a step."""
        self.optimiser.zero()
        return step_gradient(self.network, step, self.distributed, autocast=self.autocast)

    def update(self, result: StepResult) -> float:
        """Clip and apply a gradient, unless it or the loss is not finite; return the learning rate.

        Nothing is read from the device: ``unread`` keeps the metrics, and its next reading raises if the
        weights were left alone.
        """
        norm = self.optimiser.gradient_norm(result.row_gradients)
        self.unread.add(self.position.step + 1, result.metrics, norm)
        config = self.config.optimiser
        scale = None
        if config.clip:
            scale = (config.clip / norm.double().clamp_min(1e-12)).clamp_max(1.0).to(norm.dtype)
        factor = learning_rate_factor(
            self.position.step, warmup=config.warmup_steps, progress=self.progress, schedule=config.schedule
        )
        self.optimiser.step(
            result.table_rows,
            result.row_gradients,
            factor=factor,
            scale=scale,
            skip=self.unread.stopped,
        )
        return config.learning_rate * factor

    @property
    def progress(self) -> float:
        """Fraction of the run that is done, by steps or by the clock, whichever is further."""
        done = self.position.step / self.total_steps
        limit_s = 60 * self.config.loop.max_minutes
        return min(max(done, self.position.seconds / limit_s if limit_s else 0.0), 1.0)

    def validate(self) -> ValidationScores:
        """Metrics of the current weights on the validation set."""
        return self.validation_set.scores(self.network, autocast=self.autocast)

    def save(self) -> None:
        """Write a checkpoint of the current position (first process only)."""
        if self.distributed.first:
            try:
                checkpoint = Checkpoint(
                    self.network.state_dict(), self.optimiser.state(), asdict(self.position)
                )
                self.checkpoints.save(self.position.step, checkpoint)
            except OSError as error:
                log.warning("checkpoint not written (%s); training goes on, the previous one is kept", error)

    def resume(self) -> bool:
        """Continue from the newest complete checkpoint; False if there is none."""
        found = self.checkpoints.newest()
        if found is None:
            return False
        known = Position.__dataclass_fields__
        stored = Position(**{k: v for k, v in found.state.items() if k in known})
        if not self.config.loop.threads:  # the number was chosen by what was idle when the run began
            self.position.threads = stored.threads
        for name in ("threads", "world"):
            before, now = getattr(stored, name), getattr(self.position, name)
            if before != now:
                log.warning("resuming with %s %s instead of %s: last bits may differ", name, now, before)
                setattr(stored, name, now)
        self.network.load_state_dict(found.weights)
        self.optimiser.load(found.optimiser)
        self.position = stored
        if stored.finished.startswith(TIME_LIMIT) and self.progress < 1:  # the limit was raised
            stored.finished = ""
        return True

    def run(self, keep_model: KeepModel) -> int:
        """Train until the end, a limit or a signal.

        Args:
            keep_model: called (first process only) when the weights are the best so far.

        Returns:
            0 when finished, 130 after Ctrl-C and 143 after SIGTERM (a checkpoint was written).
        """
        if self.position.finished:
            return 0
        previous = {s: signal.signal(s, self._stop) for s in (signal.SIGINT, signal.SIGTERM)}
        writer = TrainingLog(self.config.folder, self.position.step) if self.distributed.first else None
        try:
            return self._run(keep_model, writer)
        finally:
            if writer is not None:
                writer.close()
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _run(self, keep_model: KeepModel, writer: TrainingLog | None) -> int:
        loop, every, position = self.config.loop, self.config.validation.every, self.position
        if position.step == 0:
            self._validated(writer, keep_model)
        bar = progress(
            total=self.total_steps * loop.batch * loop.segments,
            initial=position.step * loop.batch * loop.segments,
            description="train",
            show=None if self.distributed.first else False,
        )
        began, before = time.perf_counter(), position.seconds
        jobs = list(self.jobs())
        with bar:
            for job, step in zip(jobs, prefetch(iter(jobs), self.prepare, loop.prefetch), strict=True):
                start, tenth = time.perf_counter(), int(10 * self.progress)
                rate = self.update(self.gradient(step))
                position.step += 1
                position.epoch, position.within = job.epoch, job.within + 1
                position.sentences += step.sentences
                position.seconds = self._agreed(before + time.perf_counter() - began)
                spent = time.perf_counter() - start
                self._lines.append(Line(position.step, job.epoch, step.sentences, rate, spent))
                due = int(10 * self.progress) > tenth
                if every:
                    due = position.step % every == 0
                due = due or self.progress >= 1
                if due or len(self.unread) >= self.read_every:
                    self._report(writer, bar)
                if due:
                    self._validated(writer, keep_model)
                position.finished = self._over()
                reason = self._agreed_signal()
                if position.finished or reason or position.step % loop.checkpoint_every == 0:
                    self._report(writer, bar)  # raises rather than let a bad step be saved
                    self.save()
                if reason and not position.finished:
                    log.info("stopped at step %d; the same command resumes", position.step)
                    return 128 + reason
                if position.finished:
                    break
        return 0

    def _over(self) -> str:
        config, position = self.config, self.position
        if position.step >= self.total_steps:
            return f"all {self.total_steps} steps done"
        patience = config.validation.patience
        if patience and position.waited >= patience:
            return f"no better step in {position.waited} validations"
        if self.progress >= 1:
            return f"{TIME_LIMIT} of {config.loop.max_minutes:g} minutes"
        return ""

    def _stop(self, number: int, _frame: object) -> None:
        self._signal = number

    def _agreed(self, seconds: float) -> float:
        """The seconds of the first process, on all: learning rate and time limit must agree."""
        return self.distributed.sum_on_hosts([seconds if self.distributed.first else 0.0])[0]

    def _agreed_signal(self) -> int:
        """The signal that any process received, so that all stop after the same step."""
        asked = [float(self._signal == number) for number in (signal.SIGINT, signal.SIGTERM)]
        interrupted, terminated = self.distributed.sum_on_hosts(asked)
        return int(signal.SIGTERM if terminated else signal.SIGINT if interrupted else 0)

    def _validated(self, writer: TrainingLog | None, keep_model: KeepModel) -> None:
        """Validate, log, and keep the model when it is the best so far."""
        position = self.position
        scores = self.validate()
        values = {"step": position.step, **scores.as_json()}
        # Without a validation set the newest weights count as the best.
        better = not position.best or not scores.anchors or self._merit(values) > self._merit(position.best)
        if writer is not None and scores.anchors:
            writer.write("validation", position.step, {k: v for k, v in values.items() if k != "step"})
            message = "step %d validation: loss %.3f recall@1 %.4f"
            log.info(message, position.step, scores.loss, scores.recall_at_1)
        if position.step:
            position.waited = 0 if better else position.waited + 1
        else:
            position.untrained = values
        # The untrained weights stay if training never beats them on the validation set.
        if better and (position.step or scores.anchors):
            position.best = values
            if self.distributed.first:
                keep_model(self)

    def _merit(self, values: dict[str, float]) -> float:
        """What the kept step has most of: the neighbour recall, or that divided by the loss."""
        recall = values["recall@1"]
        return recall / values["loss"] if self.config.validation.select == "both" else recall

    def _report(self, writer: TrainingLog | None, bar: Bar) -> None:
        """Read the metrics of the steps since the last time, and log them.

        Raises:
            UserError: a loss or gradient was not finite; the weights are those before that step.
        """
        start = time.perf_counter()
        metrics = self.unread.read()
        lines, self._lines = self._lines, []
        if writer is None or not lines:
            return
        sentences = sum(line.sentences for line in lines)
        per_s = sentences / (sum(line.seconds for line in lines) + time.perf_counter() - start)
        for line, values in zip(lines, metrics, strict=True):
            values |= {"learning_rate": line.learning_rate, "epoch": line.epoch, "sentences_per_s": per_s}
            writer.write("train", line.step, values)
        bar.update(sentences)
        hit = max(value for name, value in metrics[-1].items() if name.startswith("accuracy"))
        bar.set_postfix({"loss": f"{metrics[-1]['loss']:.3f}", "hit": f"{hit:.3f}"})
