"""The training loop both parsers share: resumable to the bit, annealed over a budget.

A :class:`Task` brings the model, the loss of a batch and the dev scores; the loop brings batches
of similar length, Adam with warm-up and linear decay to zero, gradient clipping, dev evaluation
after every epoch, the best weights kept, atomic checkpoints and a JSON-lines log.

The budget is a number of epochs or of minutes. With epochs, a run that was killed and resumed
ends in the same bits as an uninterrupted one (same thread count and versions). With minutes the
learning rate follows the clock, summed over resumptions, so two runs differ as clocks do.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save
from torch import Tensor, nn

from corpora.support.config import config_to_json
from corpora.support.dry_run import Work, by_part, dry_run_text, rate
from corpora.support.errors import UserError
from corpora.support.files import atomic_path, write_json
from corpora.support.progress import progress
from parsing.networks.config import TrainingConfig

CHECKPOINT, BEST, LOG = "checkpoint.safetensors", "best.safetensors", "log.jsonl"


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


@dataclass
class _State:
    """Where a run stands; saved in every checkpoint as JSON."""

    epoch: int = 0
    batch: int = 0
    step: int = 0
    elapsed_s: float = 0.0
    loss_sum: float = 0.0
    best: float = -math.inf
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


def learning_rate_factor(progress_part: float, warmup: float) -> float:
    """min(p / w, (1 - p) / (1 - w)): linear rise over the first part w, linear fall to 0."""
    p = min(max(progress_part, 0.0), 1.0)
    return min(p / warmup if warmup else 1.0, (1 - p) / (1 - warmup))


class Trainer:
    """One training run in one folder; see the module's docstring."""

    def __init__(self, task: Task, config: TrainingConfig, folder: Path, run_config: dict[str, Any]) -> None:
        """Prepare a run, or take up the one the folder holds.

        Args:
            task: what is trained; its module must have been built after :func:`seed_everything`.
            config: optimisation and budget.
            folder: where checkpoint, best weights and log go.
            run_config: everything that decides the run (JSON); a checkpoint of another one is refused.
        """
        self.task, self.config, self.folder = task, config, folder
        self.run_config = run_config
        self.parameters = dict(task.module.named_parameters())
        self.optimizer = torch.optim.Adam(
            self.parameters.values(),
            lr=config.learning_rate,
            betas=(config.beta1, config.beta2),
            eps=config.epsilon,
            fused=True,
        )
        self.state = _State()
        self.averages = {k: p.detach().clone() for k, p in self.parameters.items()} if config.average else {}
        if (folder / CHECKPOINT).exists():
            self._resume()

    def run(self) -> dict[str, Any]:
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
        summary = {
            "epochs": state.epoch,
            "steps": state.step,
            "minutes": round(state.elapsed_s / 60, 2),
            "best_epoch": state.best_epoch,
            **state.best_scores,
        }
        write_json(self.folder / "summary.json", summary)
        return summary

    def dry_run(self, config: Any) -> str:
        """What this run would take, from a few steps that are thrown away (``--dry-run``)."""
        sizes = self.task.sizes()
        batches = self._batches(epoch=0)
        rest: float = len(batches) * (self.config.epochs - self.state.epoch)

        def one_step(batch: list[int]) -> float:
            self._step(batch, self.config.learning_rate)
            return 1

        per_s = rate(one_step, batches[:12])
        if self.config.minutes is not None:
            rest = per_s * max(60 * self.config.minutes - self.state.elapsed_s, 0)
        words = sum(sizes) / len(batches)
        return dry_run_text(
            config,
            facts={"sentences": f"{len(sizes):,}", "speed": f"{per_s * words:,.0f} words/s"},
            parameters=by_part({name: p.numel() for name, p in self.task.module.named_parameters()}),
            disk_bytes=4.0 * 4 * _size(self.task.module),  # checkpoint (weights, two moments), best weights
            work=[Work(name="train", units=rest, unit=f"steps of {words:.0f} words", per_s=per_s)],
            not_counted="dev scores after each epoch",
        )

    def best_tensors(self) -> dict[str, Tensor]:
        """The weights that scored best on dev."""
        return load_file(self.folder / BEST)

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
            group["lr"] = learning_rate
        loss = self.task.loss(sentences)
        value = float(loss.detach())
        if not math.isfinite(value):
            raise UserError(f"training loss is {value} at step {self.state.step}: lower --learning-rate")
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters.values(), self.config.clip)
        self.optimizer.step()
        if self.config.average:
            # A young average forgets faster, or the random start would stay in it.
            decay = min(self.config.average, (1 + self.state.step) / (10 + self.state.step))
            for name, parameter in self.parameters.items():
                self.averages[name].lerp_(parameter.detach(), 1 - decay)
        return value

    def _end_epoch(self) -> None:
        state = self.state
        kept = {k: p.detach().clone() for k, p in self.parameters.items()}
        with torch.no_grad():
            for name, average in self.averages.items():
                self.parameters[name].copy_(average)
        self.task.module.eval()
        scores = dict(self.task.evaluate())
        if scores[self.task.metric] > state.best:
            state.best, state.best_scores, state.best_epoch = scores[self.task.metric], scores, state.epoch
            with atomic_path(self.folder / BEST) as temporary:
                temporary.write_bytes(save({k: v.detach().contiguous() for k, v in self.parameters.items()}))
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
        tensors = {f"model.{k}": p.detach() for k, p in self.parameters.items()}
        tensors |= {f"average.{k}": v for k, v in self.averages.items()}
        for name, parameter in self.parameters.items():
            for key, value in self.optimizer.state.get(parameter, {}).items():
                tensors[f"adam.{key}.{name}"] = torch.as_tensor(value)
        tensors["random"] = torch.get_rng_state()
        metadata = {
            "state": json.dumps(vars(self.state)),
            "config": json.dumps(self.run_config, sort_keys=True),
            "training": json.dumps(config_to_json(self.config), sort_keys=True),
        }
        with atomic_path(self.folder / CHECKPOINT) as temporary:
            temporary.write_bytes(save({k: v.contiguous() for k, v in tensors.items()}, metadata))

    def _resume(self) -> None:
        path = self.folder / CHECKPOINT
        with safe_open(path, "pt") as stream:
            metadata = stream.metadata()
        saved = {**json.loads(metadata["config"]), **json.loads(metadata["training"])}
        wanted = {**self.run_config, **config_to_json(self.config)}
        for key in sorted(saved.keys() | wanted.keys()):
            if key != "checkpoint_s" and saved.get(key) != wanted.get(key):
                raise UserError(
                    f"{path}: was made with {key}={saved.get(key)!r}, not {wanted.get(key)!r}; "
                    "give another --output or delete the folder"
                )
        tensors = load_file(path)
        self.state = _State(**json.loads(metadata["state"]))
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(tensors[f"model.{name}"])
                if name in self.averages:
                    self.averages[name].copy_(tensors[f"average.{name}"])
                self.optimizer.state[parameter] = {
                    key: tensors[f"adam.{key}.{name}"]
                    for key in ("step", "exp_avg", "exp_avg_sq")
                    if f"adam.{key}.{name}" in tensors
                }
        torch.set_rng_state(tensors["random"])

    def _trim_log(self) -> None:
        """Drop log lines of epochs that ended after the checkpoint: they are run again."""
        path = self.folder / LOG
        if path.exists():
            lines = path.read_text(encoding="utf-8").splitlines()
            kept = [line for line in lines[: self.state.epoch] if line.endswith("}")]
            with atomic_path(path) as temporary:
                temporary.write_text("".join(line + "\n" for line in kept), encoding="utf-8")


def _size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def seed_everything(config: TrainingConfig) -> None:
    """Fix thread count and random state; call before the model is built."""
    torch.set_num_threads(config.threads)
    torch.manual_seed(config.seed)
