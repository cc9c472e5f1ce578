"""The resumable training loop that parsers, view encoders and fine-tuned towers share.

    state = TrainingState(module, descent, schedule.begin(steps))
    loop = TrainingLoop(state, steps, schedule, folder, identity={"data": sha256})
    if code := loop.run(descent.step, validate):   # 130 or 143 after a signal; a checkpoint was written
        return code
    loop.load_best()

A run that is killed at any moment and started again ends in the same bits, if machine, threads, processes and
versions are the same and there is no time limit. To this end the batches of an epoch may depend only on its
number, and a step only on its batch, the weights, the optimiser's state and torch's random numbers. The
random state of the CPU is in the checkpoints. With a seed,
:class:`runtime.training_step.GradientDescent` seeds torch before each step, on any device.

The folder has ``checkpoints/``, ``best/`` and ``log.jsonl``: a line per step (``"kind": "train"``) and per
evaluation (``{"kind": "evaluation", "step": ..., "epoch": ..., "minutes": ..., the mean of each metric of the
steps since the last one, the scores}``). Lines of steps that run again after a kill are removed first.
"""

import contextlib
import json
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic

import torch
from torch import Tensor

from runtime.cli import LOGGER
from runtime.errors import UserError
from runtime.files import atomic_path
from runtime.progress import Bar, progress
from runtime.training_state import Checkpoint, Checkpoints, Position, TrainingState, Values, load_parameters
from runtime.training_step import AnyBatch, AnyJob, StepMetrics, Steps, read_metrics, refuse_if_not_finite

log = logging.getLogger(LOGGER)
LOG = "log.jsonl"
SIGNALS = (signal.SIGTERM, signal.SIGINT)
CHECKPOINT_S = 60.0
"""The seconds between checkpoints; there is also one after each evaluation."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The length of a run, and when it is evaluated."""

    epochs: int = 1
    max_steps: int = 0
    """End after this many steps; 0 sets no limit."""
    max_minutes: float = 0.0
    """End after this time, counted over resumptions; 0 sets no limit."""
    evaluate_first: bool = False
    """Whether the weights are also scored before the first step; after the last step they always are."""
    evaluate_every: int = 0
    """Steps between evaluations; 0 evaluates after each epoch."""
    evaluate_parts: int = 0
    """The number of evaluations, evenly over the run; 0 leaves it to ``evaluate_every``."""
    select: str = ""
    """The name of the score that is largest for the best weights, or with a minus sign before it smallest.
    Without a name the newest weights are the best."""
    start_may_win: bool = True
    """Whether the weights before the first step may be the best."""
    patience: int = 0
    """End after this many evaluations in a row without a better score; 0 sets no limit."""
    read_every: int = 1
    """Steps after which the metrics are read."""

    def begin(self, steps: Steps[Any, Any]) -> Position:
        """Return the position before the first step, with the steps and the time limit of the whole run."""
        count = sum(len(steps.of_epoch(epoch)) for epoch in range(self.epochs))
        return Position(steps=min(count, self.max_steps or count), limit_s=60 * self.max_minutes)

    def evaluates_after(self, position: Position, progress_before: float, *, epoch_ends: bool) -> bool:
        """Tell whether to evaluate after a step, given the position after it and the progress before it."""
        if self.evaluate_parts:
            part_before = int(self.evaluate_parts * progress_before)
            return int(self.evaluate_parts * position.progress) != part_before
        return position.step % self.evaluate_every == 0 if self.evaluate_every else epoch_ends

    def is_better(self, scores: Values, position: Position) -> bool:
        """Tell whether the scores of the current weights are better than the best scores so far."""
        name, best = self.select.removeprefix("-"), position.best
        if not position.step and not self.start_may_win:
            return False
        if name not in scores or name not in best:
            return True
        rise = float(scores[name]) - float(best[name])
        return rise < 0 if self.select.startswith("-") else rise > 0


class TrainingLoop(Generic[AnyJob, AnyBatch]):
    """One training run in one folder; it continues from a checkpoint there.

    Args:
        state: the module to train, with its optimiser and position.
        steps: the batches of the run.
        schedule: how long the run lasts.
        folder: the folder of the checkpoints, the best weights and the log.
        identity: the JSON values that determine the run; a checkpoint of another run is refused.
        defaults: the values of names that an older checkpoint does not have; by default None.
        processes: the processes that train together, of which the first one writes.
        option: the option that sets the folder, for messages.
    """

    def __init__(
        self,
        state: TrainingState,
        steps: Steps[AnyJob, AnyBatch],
        schedule: Schedule,
        folder: Path,
        *,
        identity: Mapping[str, Any],
        defaults: Mapping[str, Any] | None = None,
        processes: Any = None,
        option: str = "--output",
    ) -> None:
        self.state, self.steps, self.schedule, self.folder = state, steps, schedule, folder
        self.identity, self.processes, self.option = dict(identity), processes, option
        self.is_first = processes is None or bool(processes.is_first)
        self.checkpoints = Checkpoints(folder / "checkpoints", 2)
        self.best_checkpoints = Checkpoints(folder / "best", 1)
        self.position = state.position
        """The progress of the run."""
        checkpoint = self.checkpoints.load_newest()
        self.is_resumed = checkpoint is not None
        if checkpoint is not None:
            before = _flat(defaults or {}) | _flat(checkpoint.record["identity"])
            now = _flat(self.identity)
            for key in sorted(before.keys() | now.keys()):
                if before.get(key) != now.get(key):
                    raise UserError(
                        f"{self.checkpoints.folder}: was made with {key}={before.get(key)!r}, not "
                        f"{now.get(key)!r}; give another {option} or delete the folder"
                    )
            state.restore(checkpoint)
        self._random_state = None if checkpoint is None else checkpoint.random_state
        """The state of torch's generator at the next step; None leaves the caller's as it is."""
        self._signal = 0
        self._unread: list[StepMetrics] = []
        """The metrics of the steps since the last reading."""
        self._time_of_reading = time.perf_counter()

    @property
    def history(self) -> list[Values]:
        """The evaluations so far, as logged."""
        return [row for row in read_log(self.folder / LOG) if row["kind"] == "evaluation"]

    def reason_to_stop(self) -> str:
        """Return why the run has ended, or "" if it has not."""
        schedule, position = self.schedule, self.position
        if position.step >= position.steps:
            return f"all {position.steps} steps done"
        if schedule.patience and position.waited >= schedule.patience:
            return f"patience: {position.waited} evaluations in a row were no better"
        return f"time limit of {schedule.max_minutes:g} minutes" if position.progress >= 1 else ""

    def run(
        self,
        step: Callable[[Position, AnyBatch], StepMetrics],
        validate: Callable[[], Mapping[str, Any]],
        save: Callable[[Values], None] | None = None,
    ) -> int:
        """Train to the end or to a limit, and return the exit code.

        The code is 0; after Ctrl-C it is 130 and after SIGTERM 143, when a checkpoint has been written.
        Signals are handled only in the main thread. The steps draw from torch's own generators, because its
        dropout takes no other; their states are those of the caller again at the end.

        Args:
            step: updates the weights once.
            validate: returns the scores of the weights; called in eval mode, without gradients.
            save: stores the best weights so far, given their scores; by default in ``best/``.
        """
        position = self.position
        if self.is_first:
            self.folder.mkdir(parents=True, exist_ok=True)
            rows = read_log(self.folder / LOG) if self.is_resumed else []
            with atomic_path(self.folder / LOG) as temporary:
                lines = [json.dumps(row) + "\n" for row in rows if row["step"] <= position.step]
                temporary.write_text("".join(lines), encoding="utf-8")

        def evaluate(epoch: int) -> None:
            self._evaluate(epoch, validate, save or self._save_best)

        if self.is_resumed and not self.reason_to_stop():
            log.info("resuming %s at step %d", self.folder, position.step)
        show = None if self.is_first else False
        with self._random_state_of_run():
            if not self.is_resumed and self.schedule.evaluate_first:
                evaluate(0)
            bar = progress(
                total=position.steps, initial=position.step, unit="step", description="train", show=show
            )
            with self._signals_remembered(), bar:
                return self._train(bar, step, evaluate)

    @contextlib.contextmanager
    def _random_state_of_run(self) -> Iterator[None]:
        """Continue with the run's random state of torch, and restore the caller's at the end."""
        devices = {p.device for p in self.state.module.parameters() if p.is_cuda}
        with torch.random.fork_rng([*devices]):
            if self._random_state is not None:
                torch.set_rng_state(self._random_state)
            try:
                yield
            finally:
                self._random_state = torch.get_rng_state()

    @contextlib.contextmanager
    def _signals_remembered(self) -> Iterator[None]:
        """Store the first Ctrl-C or SIGTERM in ``_signal``; a second one acts as usual."""
        handlers: dict[int, Any] = {}

        def remember(number: int, _: object) -> None:
            signal.signal(number, handlers[number])
            self._signal = number

        if threading.current_thread() is threading.main_thread():
            # A handler that was not set in Python is None; it is kept, because it could not be restored.
            numbers = [number for number in SIGNALS if signal.getsignal(number) is not None]
            handlers |= {number: signal.signal(number, remember) for number in numbers}
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _train(
        self, bar: Bar, step: Callable[[Position, AnyBatch], StepMetrics], evaluate: Callable[[int], None]
    ) -> int:
        """Take the remaining steps; return 0, or 128 and the number of a signal that came."""
        position, schedule = self.position, self.schedule
        seconds_before, began = position.seconds, time.perf_counter()
        last_saved_s, self._time_of_reading = position.seconds, began
        while not self.reason_to_stop():
            epoch, jobs = position.epoch, self.steps.of_epoch(position.epoch)
            for batch in self.steps.stream(jobs[position.within :]):
                progress_before = position.progress
                metrics = step(position, batch)
                self._unread.append(metrics)
                position.sentences += metrics.sentences
                position.step += 1
                position.within += 1
                epoch_ends = position.within == len(jobs)
                if epoch_ends:
                    position.epoch, position.within = epoch + 1, 0
                received_signal = self._agree(seconds_before + time.perf_counter() - began)
                evaluates = bool(self.reason_to_stop()) or schedule.evaluates_after(
                    position, progress_before, epoch_ends=epoch_ends
                )
                is_due = position.seconds - last_saved_s >= CHECKPOINT_S
                saves = evaluates or bool(received_signal) or is_due
                if saves or position.step % schedule.read_every == 0:
                    self._log_metrics(bar)
                bar.update(1)
                if evaluates:
                    evaluate(epoch)
                if saves:
                    self.save()
                    last_saved_s = position.seconds
                if self.reason_to_stop():  # the patience may have ended with this evaluation
                    break
                if received_signal:
                    log.info("stopped at step %d; the same command resumes", position.step)
                    return 128 + received_signal
        return 0

    def load_best(self) -> None:
        """Load the best weights into the module, and put it into eval mode."""
        checkpoint = self.best_checkpoints.load_newest(self.position.best.get("step"))
        if checkpoint is None:
            raise UserError(
                f"{self.best_checkpoints.folder}: the best weights are damaged; delete {self.folder}"
            )
        load_parameters(self.state.module, checkpoint.weights)
        self.state.module.eval()

    def save(self) -> None:
        """Write a checkpoint, in the first process; if the disk is full, log it and go on."""
        if not self.is_first:
            return
        try:
            self.checkpoints.write(self.position.step, self.state.checkpoint(self.identity))
            self.checkpoints.prune(self.position.step)
            if self.position.best:
                self.best_checkpoints.prune(self.position.best["step"])
        except OSError as error:
            log.warning("checkpoint not written (%s); training goes on, the previous one is kept", error)

    def _save_best(self, scores: Values) -> None:
        """Store the current weights as the best ones so far."""
        # The previous best weights are kept until a checkpoint names these, because a killed run needs them.
        weights: dict[str, Tensor] = dict(self.state.module.named_parameters())
        self.best_checkpoints.write(self.position.step, Checkpoint(weights, {}, {"scores": scores}))

    def _log_metrics(self, bar: Bar) -> None:
        """Read and log the metrics of the steps since the last reading, and their speed."""
        rows = read_metrics(self._unread, self.position.step, self.option)
        sentences, now = sum(one.sentences for one in self._unread), time.perf_counter()
        if sentences:
            speed = sentences / max(now - self._time_of_reading, 1e-9)
            rows = [{**row, "sentences_per_s": speed} for row in rows]
        self._unread, self._time_of_reading = [], now
        for step, row in enumerate(rows, self.position.step - len(rows) + 1):
            for name, value in row.items():
                total, count = self.position.sums.get(name, (0.0, 0))
                self.position.sums[name] = [total + value, count + 1]
            self._write({"kind": "train", "step": step, **row})
        losses = {name: f"{value:.3f}" for name, value in rows[-1].items() if "loss" in name}
        bar.set_postfix(losses)

    def _evaluate(
        self, epoch: int, validate: Callable[[], Mapping[str, Any]], save: Callable[[Values], None]
    ) -> None:
        """Score the weights, save them if they are the best, and write the line of the evaluation."""
        position = self.position
        with self.state.evaluation():
            scores = dict(validate())
            numbers = {name: value for name, value in scores.items() if isinstance(value, float)}
            refuse_if_not_finite(position.step, numbers, "another folder")
            if not position.step:
                position.first = {"step": 0, **scores}
            means = {name: total / count for name, (total, count) in sorted(position.sums.items())}
            minutes = round(position.seconds / 60, 3)
            row: Values = {"kind": "evaluation", "step": position.step, "epoch": epoch, "minutes": minutes}
            row |= {**means, **scores}
            # The first process decides for all, because the scores of processes may differ in the last bits.
            is_better = self.is_first and self.schedule.is_better(scores, position)
            (is_best,) = self._sum([float(is_better)])
            position.waited = 0 if is_best else position.waited + 1
            if is_best:
                position.best = row
                # Before the checkpoint with their score: a kill between both only repeats steps.
                if self.is_first:
                    os.stat(self.folder / LOG)  # fails if the folder was removed, which save would make again
                    save(scores)
        position.sums = {}
        self._write(row)

    def _write(self, row: Values) -> None:
        """Append a line to the log, in the first process."""
        if self.is_first:
            with open(self.folder / LOG, "r+", encoding="utf-8") as stream:  # "a" would make a removed log
                stream.seek(0, os.SEEK_END)
                stream.write(json.dumps(row) + "\n")

    def _agree(self, seconds: float) -> int:
        """Set the time to that of the first process; return a signal that any process received, or 0."""
        has_signal = [float(self._signal == number) for number in SIGNALS]
        self.position.seconds, *counts = self._sum([seconds if self.is_first else 0.0, *has_signal])
        received_signals = [int(number) for number, count in zip(SIGNALS, counts, strict=True) if count]
        return received_signals[0] if received_signals else 0

    def _sum(self, values: list[float]) -> list[float]:
        """Return the sum of each value over all processes."""
        return values if self.processes is None else list(self.processes.sum_on_hosts(values))


def _flat(values: Mapping[str, Any], prefix: str = "") -> Values:
    """Return the values of nested mappings by names joined with dots."""
    flat: Values = {}
    for name, value in values.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return flat


def read_log(path: Path) -> list[Values]:
    """Return the lines of a log, without a last line that is incomplete after a kill."""
    if not path.exists():
        return []
    rows = []
    for number, text in enumerate(path.read_bytes().split(b"\n")[:-1], start=1):
        try:
            row = json.loads(text)
            assert isinstance(row["kind"], str) and isinstance(row["step"], int)
        except (ValueError, RecursionError, KeyError, TypeError, AssertionError):
            shown = text[:40].decode("utf-8", "replace")
            raise UserError(f"{path}, line {number}: {shown!r} is not of a training log; remove it") from None
        rows.append(row)
    return rows
