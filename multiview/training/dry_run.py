"""``--dry-run``: configuration, sizes, memory and time of a training run, from a few real steps."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from statistics import median

import torch

from corpora.support.dry_run import dry_run_text
from multiview.training.trainer import Trainer
from parsing.networks.device import torch_threads

CALIBRATION_STEPS = 4
CALIBRATION_S = 5.0
"""No step but the second starts after this many seconds."""


def step_rate(trainer: Trainer) -> tuple[float, int]:
    """Steps per second, measured on a few real steps, and the number of sentences in the largest."""
    sentences, seconds = [], []
    jobs = itertools.islice(trainer.jobs(), CALIBRATION_STEPS)
    began = time.perf_counter()
    for step in trainer.prepared(list(jobs)):
        start = time.perf_counter()
        trainer.update(trainer.gradient(step))
        trainer.unread.read()  # the rate is that of work done, not of work queued
        seconds.append(time.perf_counter() - start)
        sentences.append(step.sentences)
        if time.perf_counter() - began > CALIBRATION_S and len(seconds) > 1:
            break
    return 1 / median(seconds[1:] or seconds), max(sentences)  # the first step compiles


def dry_run(trainer: Trainer) -> int:
    """Print what a run would do and how long it would take; write nothing."""
    config, split, network = trainer.config, trainer.split, trainer.network
    with torch_threads(trainer.threads):
        per_s, sentences = step_rate(trainer)
    steps: float = trainer.position.steps
    if config.loop.max_minutes:
        steps = min(steps, 60 * config.loop.max_minutes * per_s)
    cuda = trainer.device.type == "cuda"
    parameters: Counter[str] = Counter()
    for name, parameter in network.named_parameters():
        parameters[name.split(".")[0]] += parameter.numel()
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
            parameters=parameters,
            memory_bytes=torch.cuda.max_memory_allocated(trainer.device) if cuda else None,
            disk_bytes=4.0 * sum(parameters.values()),
            work=("train", steps, "steps", per_s),
        )
    )
    return 0


def _threads(trainer: Trainer) -> str:
    """How many CPU threads the run takes, and why."""
    threads = trainer.threads
    if trainer.config.loop.threads:
        return f"{threads}, as --loop.threads says"
    why = "large products" if threads > 1 else "small products, or one core"
    return f"{threads} ({why}); --loop.threads sets another number"
