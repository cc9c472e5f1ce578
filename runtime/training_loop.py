"""The resumable training loop that parsers, view encoders and fine-tuned towers share.

    class Towers(Task[int]): ...                   # what is trained: batches, loss, learning rate, scores

    loop = Loop(Towers(...), Schedule(epochs=30), folder, identity={"data": sha256})
    if code := loop.run():                         # 130 or 143 after a signal; a checkpoint was written
        return code
    loop.load_best()

A run that is killed at any moment and started again ends in the same bits (same machine, threads, processes
and versions, no time limit), if the batches of an epoch depend only on its number, and a step only on its
batch, the weights, the optimiser's state and torch's random numbers. On a CPU their state is in the
checkpoints; with ``step_seed`` torch is seeded for each step, on any device.

The folder has ``checkpoints/``, ``best/`` and ``log.jsonl``: a line per step (``"kind": "train"``) and per
evaluation (``{"kind": "evaluation", "step": ..., "epoch": ..., "minutes": ..., the mean of each metric of the
steps since the last one, the scores}``). Lines of steps that run again after a kill are removed first.
"""

import json
import logging
import os
import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic

from torch import Tensor

from runtime.cli import LOGGER
from runtime.errors import UserError
from runtime.files import atomic_path
from runtime.progress import Bar, progress
from runtime.training_task import AnyBatch, Checkpoint, Checkpoints, Position, Row, Task, load_parameters

log = logging.getLogger(LOGGER)
LOG = "log.jsonl"
SIGNALS = (signal.SIGTERM, signal.SIGINT)
CHECKPOINT_S = 60.0
"""Seconds between checkpoints; there is one after each evaluation, too."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How long a run lasts, and when it is scored and saved."""

    epochs: int = 1
    max_steps: int = 0
    """End after this many steps; 0 sets no limit."""
    max_minutes: float = 0.0
    """End after this time, counted over resumptions; 0 sets no limit."""
    evaluate_first: bool = False
    """Score the weights before the first step, too; those after the last step always are."""
    evaluate_every: int = 0
    """Steps between evaluations; 0 evaluates after each epoch."""
    evaluate_parts: int = 0
    """Evaluate this many times instead, evenly over the run."""
    patience: int = 0
    """End after this many evaluations in a row that are no better; 0 goes on."""
    read_every: int = 1
    """Steps after which the metrics are read."""

    def set_end(self, task: Task[Any]) -> None:
        """Tell a task how many steps and how many seconds its run has."""
        steps = sum(len(task.batches(epoch)) for epoch in range(self.epochs))
        task.position.steps = min(steps, self.max_steps or steps)
        task.position.limit_s = 60 * self.max_minutes

    def evaluates_after(self, position: Position, progress_before: float, *, epoch_ends: bool) -> bool:
        """Tell whether an evaluation follows the last step, before which the run had this progress."""
        if self.evaluate_parts:
            part_before = int(self.evaluate_parts * progress_before)
            return int(self.evaluate_parts * position.progress) != part_before
        return position.step % self.evaluate_every == 0 if self.evaluate_every else epoch_ends


class Loop(Generic[AnyBatch]):
    """One training run in one folder; it continues from a checkpoint there.

    ``identity`` has the JSON values that determine the run. A checkpoint of another run is refused; the
    message names the ``option`` that sets the folder. Of ``processes`` that train together the first writes.
    """

    def __init__(
        self,
        task: Task[AnyBatch],
        schedule: Schedule,
        folder: Path,
        *,
        identity: Mapping[str, Any],
        processes: Any = None,
        option: str = "--output",
    ) -> None:
        self.task, self.schedule, self.folder = task, schedule, folder
        self.identity, self.processes = dict(identity), processes
        self.is_first = processes is None or bool(processes.first)
        self.checkpoints = Checkpoints(folder / "checkpoints", 2)
        self.best_checkpoints = Checkpoints(folder / "best", 1)
        checkpoint = self.checkpoints.load_newest()
        self.is_resumed = checkpoint is not None
        if checkpoint is not None:
            saved_identity = checkpoint.state["identity"]
            for key in sorted(saved_identity.keys() | self.identity.keys()):
                if saved_identity.get(key) != self.identity.get(key):
                    raise UserError(
                        f"{self.checkpoints.folder}: was made with {key}={saved_identity.get(key)!r}, not "
                        f"{self.identity.get(key)!r}; give another {option} or delete the folder"
                    )
            task.position = Position(**checkpoint.state["position"])
            task.load(checkpoint)
        schedule.set_end(task)
        self.position = task.position
        """How far the run is."""
        self._signal = 0

    @property
    def history(self) -> list[Row]:
        """The evaluations so far, as logged."""
        return [row for row in read_log(self.folder / LOG) if row["kind"] == "evaluation"]

    def reason_to_stop(self) -> str:
        """Say why the run is over; return "" while it is not."""
        schedule, position = self.schedule, self.position
        if position.step >= position.steps:
            return f"all {position.steps} steps done"
        if schedule.patience and position.waited >= schedule.patience:
            return f"patience: {position.waited} evaluations in a row were no better"
        return f"time limit of {schedule.max_minutes:g} minutes" if position.progress >= 1 else ""

    def run(self) -> int:
        """Train to the end or a limit and return 0; after Ctrl-C or SIGTERM, 130 or 143 and a checkpoint.

        In another thread than the main one signals are left to the caller.
        """
        position = self.position
        if self.is_first:
            self.folder.mkdir(parents=True, exist_ok=True)
            rows = read_log(self.folder / LOG) if self.is_resumed else []
            with atomic_path(self.folder / LOG) as temporary:
                lines = [json.dumps(row) + "\n" for row in rows if row["step"] <= position.step]
                temporary.write_text("".join(lines), encoding="utf-8")
        if not self.is_resumed and self.schedule.evaluate_first:
            self._evaluate(epoch=0)
        show = None if self.is_first else False
        self._handlers = {}
        if threading.current_thread() is threading.main_thread():
            # A handler that was not set in Python is None; it stays, since nothing could set it again.
            numbers = [number for number in SIGNALS if signal.getsignal(number) is not None]
            self._handlers = {number: signal.signal(number, self._stop) for number in numbers}
        try:
            with progress(
                total=position.steps, initial=position.step, unit="step", description="train", show=show
            ) as bar:
                return self._train(bar)
        finally:
            for number, handler in self._handlers.items():
                signal.signal(number, handler)

    def _stop(self, number: int, _: object) -> None:
        """Remember the first Ctrl-C or SIGTERM; the next one acts as usual."""
        signal.signal(number, self._handlers[signal.Signals(number)])
        self._signal = number

    def _train(self, bar: Bar) -> int:
        position, schedule = self.position, self.schedule
        seconds_before, start = position.seconds, time.perf_counter()
        last_saved_s = position.seconds
        while not self.reason_to_stop():
            epoch, batches = position.epoch, self.task.batches(position.epoch)
            for batch in self.task.prepare_batches(batches[position.within :]):
                progress_before = position.progress
                self.task.step(position, batch)
                position.step += 1
                position.within += 1
                epoch_ends = position.within == len(batches)
                if epoch_ends:
                    position.epoch, position.within = epoch + 1, 0
                received_signal = self._agree(seconds_before + time.perf_counter() - start)
                evaluates = bool(self.reason_to_stop()) or schedule.evaluates_after(
                    position, progress_before, epoch_ends=epoch_ends
                )
                is_due = position.seconds - last_saved_s >= CHECKPOINT_S
                saves = evaluates or bool(received_signal) or is_due
                if saves or position.step % schedule.read_every == 0:
                    self._take_metrics(bar)
                bar.update(1)
                if evaluates:
                    self._evaluate(epoch)
                if saves:
                    self.save()
                    last_saved_s = position.seconds
                if self.reason_to_stop():  # after an evaluation patience may be at its end
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
        load_parameters(self.task.module, checkpoint.weights)
        self.task.module.eval()

    def save(self) -> None:
        """Write a checkpoint of the current position."""
        if not self.is_first:
            return
        state = {"position": asdict(self.position), "identity": self.identity}
        try:
            weights: dict[str, Tensor] = dict(self.task.module.named_parameters())
            checkpoint = Checkpoint(weights, self.task.optimiser_state(), state)
            self.checkpoints.write(self.position.step, checkpoint)
            self.checkpoints.prune(self.position.step)
            if self.position.best:
                self.best_checkpoints.prune(self.position.best["step"])
        except OSError as error:
            log.warning("checkpoint not written (%s); training goes on, the previous one is kept", error)

    def _take_metrics(self, bar: Bar) -> None:
        rows = self.task.take_metrics()
        for step, row in enumerate(rows, self.position.step - len(rows) + 1):
            for name, value in row.items():
                total, count = self.position.sums.get(name, (0.0, 0))
                self.position.sums[name] = [total + value, count + 1]
            self._write({"kind": "train", "step": step, **row})
        if rows:
            losses = {name: f"{value:.3f}" for name, value in rows[-1].items() if "loss" in name}
            bar.set_postfix(losses)

    def _evaluate(self, epoch: int) -> None:
        position = self.position
        with self.task.evaluation_mode():
            scores = dict(self.task.evaluate())
            means = {name: total / count for name, (total, count) in sorted(position.sums.items())}
            minutes = round(position.seconds / 60, 3)
            row: Row = {"kind": "evaluation", "step": position.step, "epoch": epoch, "minutes": minutes}
            row |= {**means, **scores}
            # The first process decides for all, since their last bits may differ.
            is_better = self.is_first and self.task.is_better(row, position.best)
            (is_best,) = self._sum([float(is_better)])
            position.waited = 0 if is_best else position.waited + 1
            if is_best:
                position.best = row
                # Before the checkpoint that records it: after a kill in between, the steps are repeated.
                if self.is_first:
                    os.stat(self.folder / LOG)  # or a folder that was removed would be made again
                    self.task.keep_best(self.best_checkpoints, row)
        position.sums = {}
        self._write(row)
        self.task.after_evaluation(row)

    def _write(self, row: Row) -> None:
        if self.is_first:
            with open(self.folder / LOG, "r+", encoding="utf-8") as stream:  # "a" would make it if it is gone
                stream.seek(0, os.SEEK_END)
                stream.write(json.dumps(row) + "\n")

    def _agree(self, seconds: float) -> int:
        """Take the time from the first process; return a signal that any process received, or 0."""
        has_signal = [float(self._signal == number) for number in SIGNALS]
        self.position.seconds, *counts = self._sum([seconds if self.is_first else 0.0, *has_signal])
        received_signals = [int(number) for number, count in zip(SIGNALS, counts, strict=True) if count]
        return received_signals[0] if received_signals else 0

    def _sum(self, values: list[float]) -> list[float]:
        return values if self.processes is None else list(self.processes.sum_on_hosts(values))


def read_log(path: Path) -> list[Row]:
    """Read the lines of a log, without a last line that a kill cut off."""
    if not path.exists():
        return []
    rows = []
    for number, text in enumerate(path.read_bytes().split(b"\n")[:-1], start=1):
        try:
            row = json.loads(text)
            assert isinstance(row["kind"], str) and isinstance(row["step"], int)
        except (ValueError, RecursionError, KeyError, TypeError, AssertionError):
            start = text[:40].decode("utf-8", "replace")
            raise UserError(f"{path}, line {number}: {start!r} is not of a training log; remove it") from None
        rows.append(row)
    return rows
