"""The training loop both parsers share: resumable to the bit, annealed over a budget.

A :class:`Task` brings the model, the loss of a batch and the dev scores; the loop brings batches
of similar length, Adam with warm-up and linear decay to zero, gradient clipping, dev evaluation
after every epoch, the best weights kept, atomic checkpoints and a JSON-lines log.

The budget is a number of epochs or of minutes. With epochs, a run that was killed and resumed
ends in the same bits as an uninterrupted one (same thread count and versions). With minutes the
learning rate follows the clock, summed over resumptions, so two runs differ a little.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from corpora.support.config import config_to_json
from corpora.support.errors import UserError
from corpora.support.files import atomic_path, write_json
from corpora.support.progress import progress
from parsing.networks.adam_state import adam_tensors, load_adam
from parsing.networks.checkpoints import (
    Checkpoint,
    Checkpoints,
    check_same_run,
    load_parameters,
    parameters_of,
)
from parsing.networks.config import LoopConfig
from parsing.networks.schedule import ramp
from parsing.networks.sentence_encoder import DROPOUT_RANDOM

LOG = "log.jsonl"
PRETRAINED = ".subwords.model."
"""In the names of the weights that a transformer brings."""


class Task(Protocol):
    """What is trained: the loop knows nothing else about a parser."""

    metric: str
    """Which of the dev scores decides on the best weights; larger is better."""

    @property
    def module(self) -> nn.Module:
        """The module that is trained."""
        ...

    def sizes(self) -> Sequence[int]:
        """Number of words of each training sentence."""
        ...

    def loss(self, sentences: Sequence[int]) -> Tensor:
        """Mean training loss of the sentences with these indices, to be differentiated."""
        ...

    def evaluate(self) -> Mapping[str, float]:
        """Scores on the dev treebank, the module being in eval mode."""
        ...


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Result of a finished run."""

    epochs: int
    steps: int
    minutes: float
    best_epoch: int
    """From 0."""
    best_scores: dict[str, float]
    """On dev, after that epoch."""


@dataclass
class _State:
    """Progress of a run; saved in every checkpoint as JSON."""

    epoch: int = 0
    batch: int = 0
    step: int = 0
    elapsed_s: float = 0.0
    loss_sum: float = 0.0
    best_scores: dict[str, float] = field(default_factory=dict)
    best_epoch: int = -1


def length_buckets(
    sizes: Sequence[int], batch_tokens: int, generator: np.random.Generator
) -> list[list[int]]:
    """Shuffled batches of sentences of similar length.

    Sentences are sorted by length with a little noise (so that batches differ between epochs), cut
    where a batch reaches ``batch_tokens`` words, and the batches are shuffled.
    """
    sizes_S = np.asarray(sizes)
    order = np.argsort(sizes_S + generator.uniform(0, 1, len(sizes_S)), kind="stable")
    batches: list[list[int]] = []
    words = batch_tokens
    for index in order.tolist():
        if words + sizes_S[index] > batch_tokens:
            batches.append([])
            words = 0
        batches[-1].append(index)
        words += int(sizes_S[index])
    return [batches[i] for i in generator.permutation(len(batches))]


def learning_rate_factor(progress: float, warmup: float) -> float:
    """Linear rise over the first fraction ``warmup`` of the run, then linear decay to 0 at its end."""
    p = min(max(progress, 0.0), 1.0)
    return ramp(p, warmup) * ramp(1 - p, 1 - warmup)


class Trainer:
    """One training run in one folder; see the module's docstring."""

    def __init__(
        self,
        task: Task,
        config: LoopConfig,
        folder: Path,
        run_config: Mapping[str, object],
        device: torch.device | None = None,
    ) -> None:
        """Prepare a run, or resume the one in the folder.

        Args:
            task: what is trained; its module must have been built after :func:`seed_everything`.
            config: optimisation and budget.
            folder: where checkpoint, best weights and log go.
            run_config: what else determines the run; a checkpoint of another run is refused.
            device: where to train; None is the CPU.

        Raises:
            UserError: ``parallel`` with a module that brings its own dropout.
        """
        if config.parallel > 1 and any(isinstance(layer, nn.Dropout) for layer in task.module.modules()):
            raise UserError("--loop.parallel must be 1: a transformer's dropout would depend on the threads")
        self.device = device or torch.device("cpu")
        if self.device.type != "cpu":
            if config.parallel > 1:
                raise UserError("--loop.parallel must be 1 on a GPU, which is busy with one batch")
            run_config = {**run_config, "device": self.device.type}
        self.task, self.config, self.folder = task, config, folder
        task.module.to(self.device)
        self.run_config = run_config
        self.parameters = dict(task.module.named_parameters())
        self.optimizer = torch.optim.Adam(
            self._groups(),
            lr=config.learning_rate,
            betas=(config.beta1, config.beta2),
            eps=config.epsilon,
            fused=True,
        )
        self.state = _State()
        self.averages = {k: p.detach().clone() for k, p in self.parameters.items()} if config.average else {}
        self.checkpoints = Checkpoints(folder / "checkpoints", keep=2)
        self.bests = Checkpoints(folder / "best", keep=1)
        self._resume()

    def run(self) -> Summary:
        """Train to the end of the budget; return the summary (best dev scores, epochs, time)."""
        config, state = self.config, self.state
        self._trim_log()
        self._clock = time.monotonic() - state.elapsed_s
        saved = time.monotonic()
        with progress(unit="epoch", description="training", initial=state.epoch) as bar:
            while not self._finished():
                batches = self._batches(state.epoch)
                while state.batch < len(batches):
                    factor = learning_rate_factor(self._part(len(batches)), config.warmup)
                    state.loss_sum += self._step(batches[state.batch], config.learning_rate * factor)
                    state.batch += 1
                    state.step += 1
                    if config.minutes is not None and self._elapsed() >= 60 * config.minutes:
                        break
                    if time.monotonic() - saved > config.checkpoint_s:
                        self._save()
                        saved = time.monotonic()
                self._end_epoch()
                self._save()
                saved = time.monotonic()
                bar.update(1)
        summary = Summary(
            epochs=state.epoch,
            steps=state.step,
            minutes=round(state.elapsed_s / 60, 2),
            best_epoch=state.best_epoch,
            best_scores=state.best_scores,
        )
        write_json(self.folder / "summary.json", asdict(summary))
        return summary

    def load_best(self) -> None:
        """Put the weights that scored best on dev into the module."""
        best = self.bests.newest()
        if best is None:
            raise UserError(
                f"{self.bests.folder}: no whole checkpoint of the best weights; delete {self.folder}"
            )
        load_parameters(self.task.module, best.weights)

    def _groups(self) -> list[dict[str, object]]:
        """The parameters by the scale of their learning rate: pretrained weights move more slowly."""
        of_scale: dict[float, list[nn.Parameter]] = {}
        for name, parameter in self.parameters.items():
            scale = self.config.pretrained_rate if PRETRAINED in f".{name}" else 1.0
            of_scale.setdefault(scale, []).append(parameter)
        return [{"params": parameters, "scale": scale} for scale, parameters in of_scale.items()]

    def _batches(self, epoch: int) -> list[list[int]]:
        generator = np.random.default_rng([self.config.seed, epoch])
        return length_buckets(self.task.sizes(), self.config.batch_tokens, generator)

    def _elapsed(self) -> float:
        return time.monotonic() - self._clock

    def _part(self, n_batches: int) -> float:
        if self.config.minutes is not None:
            return self._elapsed() / (60 * self.config.minutes)
        return (self.state.epoch + (self.state.batch + 0.5) / n_batches) / self.config.epochs

    def _finished(self) -> bool:
        if self.config.minutes is not None:
            return self.state.elapsed_s >= 60 * self.config.minutes
        return self.state.epoch >= self.config.epochs

    def _step(self, sentences: list[int], learning_rate: float) -> float:
        self.task.module.train()
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate * group["scale"]
        self.optimizer.zero_grad(set_to_none=True)
        if self.device.type != "cpu":  # checkpoints keep the CPU's random state, not a device's
            torch.manual_seed(self._seed(0))
        if self.config.parallel == 1:
            loss = self.task.loss(sentences)
            value = float(loss.detach())
            self._check(value)
            loss.backward()
        else:
            value = self._step_in_parts(sentences)
        nn.utils.clip_grad_norm_(self.parameters.values(), self.config.clip)
        self.optimizer.step()
        if self.config.average:
            # A young average forgets faster, so that the random initial weights fade from it.
            decay = min(self.config.average, (1 + self.state.step) / (10 + self.state.step))
            for name, parameter in self.parameters.items():
                self.averages[name].lerp_(parameter.detach(), 1 - decay)
        return value

    def _seed(self, part: int) -> int:
        """Of the dropout of a part of this step's batch."""
        return int(np.random.SeedSequence([self.config.seed, self.state.step, part]).generate_state(1)[0])

    def _check(self, loss: float) -> None:
        if not math.isfinite(loss):
            raise UserError(f"training loss is {loss} at step {self.state.step}: lower --loop.learning-rate")

    def _step_in_parts(self, sentences: list[int]) -> float:
        """Gradients of the mean over parts of a batch, each on its own thread.

        An LSTM's products are small: a second thread within them gains 0-15 %, a second part 1.8 times (two
        cores, 1,000 words a batch). Each part draws its dropout from its own source, so that the order in
        which threads run does not matter.
        """
        count = min(self.config.parallel, len(sentences))
        parameters = list(self.parameters.values())

        def gradients(part: int) -> tuple[float, Sequence[Tensor | None]]:
            DROPOUT_RANDOM.generator = torch.Generator().manual_seed(self._seed(part))
            loss = self.task.loss(sentences[part::count])
            value = float(loss.detach())
            self._check(value)
            return value, torch.autograd.grad(loss / count, parameters, allow_unused=True)

        with ThreadPoolExecutor(count) as pool:
            values, parts = zip(*pool.map(gradients, range(count)), strict=True)
        for parameter, *grads in zip(parameters, *parts, strict=True):
            known = [grad for grad in grads if grad is not None]
            parameter.grad = sum(known[1:], start=known[0]) if known else None
        return math.fsum(values) / count

    def _end_epoch(self) -> None:
        state = self.state
        kept = {k: p.detach().clone() for k, p in self.parameters.items()}
        with torch.no_grad():
            for name, average in self.averages.items():
                self.parameters[name].copy_(average)
        self.task.module.eval()
        scores = dict(self.task.evaluate())
        best = state.best_scores.get(self.task.metric, -math.inf)
        if scores[self.task.metric] > best:
            state.best_scores, state.best_epoch = scores, state.epoch
            # Saved before the state that records it: after a kill in between, the steps are repeated.
            self.bests.save(state.step, Checkpoint(parameters_of(self.task.module), {}, scores))
        with torch.no_grad():
            for name, value in kept.items():
                self.parameters[name].copy_(value)
        state.elapsed_s = self._elapsed()
        line = {
            "epoch": state.epoch,
            "step": state.step,
            "minutes": round(state.elapsed_s / 60, 3),
            "loss": round(state.loss_sum / max(state.batch, 1), 5),
            **{k: round(v, 4) for k, v in scores.items()},
        }
        with open(self.folder / LOG, "a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")
        state.epoch, state.batch, state.loss_sum = state.epoch + 1, 0, 0.0

    def _save(self) -> None:
        self.state.elapsed_s = self._elapsed()
        averages = {f"average.{name}": value for name, value in self.averages.items()}
        state = {**asdict(self.state), "identity": self._identity()}
        optimiser = adam_tensors(self.optimizer, "adam.") | averages
        self.checkpoints.save(self.state.step, Checkpoint(parameters_of(self.task.module), optimiser, state))

    def _resume(self) -> None:
        found = self.checkpoints.newest()
        if found is None:
            return
        check_same_run(self.checkpoints.folder, found.state["identity"], self._identity())
        self.state = _State(**{key: found.state[key] for key in asdict(self.state)})
        load_parameters(self.task.module, found.weights)
        load_adam(self.optimizer, found.optimiser, "adam.")
        for name, average in self.averages.items():
            average.copy_(found.optimiser[f"average.{name}"])

    def _identity(self) -> dict[str, object]:
        """What determines the run; the time between checkpoints does not."""
        loop = config_to_json(self.config)
        return {**self.run_config, **{key: value for key, value in loop.items() if key != "checkpoint_s"}}

    def _trim_log(self) -> None:
        """Drop log lines of epochs that ended after the checkpoint: they run again."""
        path = self.folder / LOG
        if path.exists():
            lines = path.read_text(encoding="utf-8").splitlines()
            kept = [line for line in lines[: self.state.epoch] if line.endswith("}")]
            with atomic_path(path) as temporary:
                temporary.write_text("".join(line + "\n" for line in kept), encoding="utf-8")


def count_parameters(tensors: Mapping[str, Tensor]) -> int:
    """Number of parameters in a model's tensors."""
    return sum(tensor.numel() for tensor in tensors.values())


def seed_everything(config: LoopConfig) -> None:
    """Fix thread count and random state; call before the model is built."""
    torch.set_num_threads(config.threads)
    torch.manual_seed(config.seed)
