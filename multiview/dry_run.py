"""``--dry-run``: configuration, sizes, memory and time of a training run, from a few real steps."""

from __future__ import annotations

import json
import resource
import time
from statistics import median

import torch

from corpora.support.cli import config_to_json
from multiview.data import prefetch
from multiview.network import parameter_counts
from multiview.trainer import Trainer

CALIBRATION_STEPS = 4


def dry_run(trainer: Trainer) -> int:
    """Print what a run would do and cost; nothing is written.

    The first calibration step (compilation, allocation) is not timed.
    """
    config, split = trainer.config, trainer.split
    seconds: list[float] = []
    sentences: list[int] = []
    jobs = [job for job, _ in zip(trainer.jobs(), range(CALIBRATION_STEPS), strict=False)]
    for step in prefetch(iter(jobs), trainer.prepare, config.prefetch):
        start = time.perf_counter()
        trainer.update(trainer.gradient(step))
        seconds.append(time.perf_counter() - start)
        sentences.append(step.sentences)
    each_s = median(seconds[1:] or seconds)
    counts = parameter_counts(trainer.network)
    if trainer.device.type == "cuda":
        memory = torch.cuda.max_memory_allocated(trainer.device)
    else:
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    training = sum(stop - start for start, stop in split.training)
    total_s = each_s * trainer.total_steps
    print(json.dumps(config_to_json(config), indent=2, sort_keys=True))
    print(f"cache        {trainer.cache.folder}: {len(trainer.cache)} sentences")
    print(f"training     {training} sentences; held out {trainer.held_out.sentences}")
    print(f"words        {len(trainer.words.vocabulary)} of size {trainer.network.shape.word_dim}")
    for part, count in counts.items():
        print(f"parameters   {count:>13,}  {part}")
    print(f"parameters   {sum(counts.values()):>13,}  in all")
    print(f"memory       {memory / 2**20:,.0f} MiB peak on {trainer.device} in the calibration")
    print(f"speed        {median(sentences) / each_s:,.0f} sentences/s ({each_s:.3f} s a step)")
    print(f"time         {total_s / 60:,.1f} minutes for {trainer.total_steps} steps, validation not counted")
    return 0
