"""``--dry-run``: configuration, sizes, memory and time of a training run, from a few real steps."""

from __future__ import annotations

import itertools

import torch

from corpora.support.dry_run import Work, dry_run_text, rate
from multiview.encoders.stack import parameter_counts
from multiview.training.data import Step, prefetch
from multiview.training.trainer import Trainer

CALIBRATION_STEPS = 4


def step_rate(trainer: Trainer) -> tuple[float, int]:
    """Steps per second, measured on a few real steps, and the number of sentences in the largest."""
    sentences: list[int] = []

    def update(step: Step) -> int:
        trainer.update(trainer.gradient(step))
        trainer.unread.read()  # the rate is that of work done, not of work queued
        sentences.append(step.sentences)
        return 1

    jobs = itertools.islice(trainer.jobs(), CALIBRATION_STEPS)
    return rate(update, prefetch(jobs, trainer.prepare, trainer.config.loop.prefetch)), max(sentences)


def dry_run(trainer: Trainer) -> int:
    """Print what a run would do and how long it would take; write nothing."""
    config, split, network = trainer.config, trainer.split, trainer.network
    per_s, sentences = step_rate(trainer)
    steps: float = trainer.total_steps
    if config.loop.max_minutes:
        steps = min(steps, 60 * config.loop.max_minutes * per_s)
    cuda = trainer.device.type == "cuda"
    print(
        dry_run_text(
            config,
            facts={
                "cache": f"{trainer.cache.folder}: {len(trainer.cache)} sentences",
                "training": f"{sum(stop - start for start, stop in split.training)} sentences; "
                f"validation set {trainer.validation_set.sentences}",
                "words": f"{len(network.words.vocabulary)} of size {network.words.dim}",
                "speed": f"{sentences * per_s:,.0f} sentences/s on {trainer.device}",
                "threads": _threads(trainer),
            },
            parameters=parameter_counts(network),
            memory_bytes=torch.cuda.max_memory_allocated(trainer.device) if cuda else None,
            disk_bytes=4.0 * sum(parameter_counts(network).values()),
            work=[Work(name="train", units=steps, unit="steps", per_s=per_s)],
            not_counted="validation and checkpoints",
        )
    )
    return 0


def _threads(trainer: Trainer) -> str:
    """How many CPU threads the run takes, and why."""
    threads = trainer.position.threads
    if trainer.config.loop.threads:
        return f"{threads}, as --loop.threads says"
    why = "large products, idle cores" if threads > 1 else "small products, or no other core is idle"
    return f"{threads} ({why}); --loop.threads sets another number"
