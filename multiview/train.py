"""Train on a parsed text or on pairs: go on from builtin, or train new views of a sentence from nothing.

    python -m multiview.train --trees runs/trees/books
    python -m multiview.train --start none --views dep,const --trees runs/trees/books
    python -m multiview.train --preset paper --vectors glove.840B.300d.txt
    torchrun --nproc-per-node 4 -m multiview.train --preset gpu --views dep,const

By default all views of ``builtin`` and its read-out are trained further, by contrast with a sentence's
neighbours. ``--start none``, and the presets ``paper`` and ``gpu``, begin with new weights, as in Simoulin &
Crabbé 2021, sections 3 and 4.

Input: a tree cache written by ``python -m parsing.run``, ``--pairs``, or both. Output: the folder
``runs/models/NAME/`` with the model, ``log.jsonl``, ``curves.png`` and checkpoints. The model has the weights
with the least loss on the held-out sentences or, if it learns from graded pairs alone, those whose cosines
rank the held-out pairs best; these may be the weights before the first step. The same command resumes an
interrupted run. Exit codes: 0 done, 2 bad input or a loss that is not finite, 130 or 143 stopped by Ctrl-C or
SIGTERM after a checkpoint, 1 a bug.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import logging
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from corpora.ranking.queries import QuerySet, read_queries, report_lines
from multiview.config import LAPTOP, NewViewsConfig, ProgramConfig, TrainConfig, preset_options
from parsing.costs import PAPER_SENTENCES, SAMPLE, paper_cost
from parsing.names import find_trees
from runtime.cli import LOGGER, Command, Estimate, check, log_to
from runtime.errors import MissingExtraError, UserError, collect_refusals, extra
from runtime.files import atomic_path, lock_folder, read_json, write_json
from runtime.process import available_cores, peak_memory
from runtime.progress import progress

if TYPE_CHECKING:
    from multiview.training.gradient import DistributedContext
    from multiview.training.trainer import Trainer
    from multiview.words.vectors import WordVectors

CALIBRATION_STEPS, CALIBRATION_S = 4, 20.0
"""The number of steps that a dry run measures, and the seconds after which it stops earlier, from the second
step on."""


def main(options: TrainConfig | ProgramConfig) -> int:
    """Train one model, or two with ``--words both``; return the exit code.

    The options of the command line are first resolved into the configuration of one program. If a dry run
    of the preset ``paper`` has to be refused, for instance because data are missing, its cost is first
    estimated from a sample.
    """
    options = check(options)
    config = options.resolve() if isinstance(options, TrainConfig) else options
    text_checks = [lambda: find_trees(config.trees)] if config.reads_text else []
    problems = " | ".join(collect_refusals(*text_checks, config.check))
    if problems:
        if isinstance(config, NewViewsConfig) and config.dry_run and config.preset == "paper":
            estimate_on_sample(config, problems)
        raise UserError(problems)
    with join_processes(config) as (config, distributed):
        return train(config, distributed)


@contextlib.contextmanager
def join_processes(config: ProgramConfig) -> Iterator[tuple[ProgramConfig, DistributedContext]]:
    """Join the processes of torchrun; yield the configuration for them, and the joined processes.

    Without ``--loop.segments``, the configuration has one segment a step for each of several processes.
    Raises UserError if the number of segments is not a multiple of the number of processes.
    """
    from multiview.training.gradient import DistributedContext

    with contextlib.closing(DistributedContext.from_environment(config.device)) as distributed:
        segments, processes = config.loop.segments, distributed.world
        if segments % processes:
            raise UserError(f"--loop.segments {segments}: must be a multiple of the {processes} processes")
        if processes > 1 and not segments:
            config = dataclasses.replace(config, loop=dataclasses.replace(config.loop, segments=processes))
        yield config, distributed


def train(config: ProgramConfig, distributed: DistributedContext) -> int:
    """Train the model, or both models of ``--words both``, in a locked folder; return the exit code."""
    models, writes = config.models, distributed.is_first and not config.dry_run
    with lock_folder(config.folder, option="--name or --output") if writes else contextlib.nullcontext():
        for model in models:
            code = train_one(model, distributed)
            if config.dry_run and len(models) > 1:
                print("two models   this is the one of trained words; the other takes at most as long")
            # A dry run measures the first model alone: the second would write its fixed vectors to a file.
            if code or config.dry_run:
                return code
        if len(models) > 1 and distributed.is_first:
            # The paper's 4,800 dimensions, which it does not explain, may be those of 2 models x 2 views.
            both = "+".join(str(model.folder) for model in models)
            print(f"model      {both}, the name of both side by side")
        return 0


def train_one(config: ProgramConfig, distributed: DistributedContext) -> int:
    """Train one model, or resume its interrupted run; return the exit code."""
    # Before training, because a bad file would otherwise be found only after hours.
    queries = None if config.queries is None else read_queries(config.queries)
    trainer = open_trainer(config, distributed)
    if config.dry_run:
        dry_run(config, trainer)
        return 0
    word_source = trainer.program.word_source if distributed.is_first else None
    new_words = word_source.new_words() if word_source else None
    with log_to(trainer.folder) as logger:
        logger.setLevel("INFO" if distributed.is_first else "ERROR")
        if config.reads_text:
            why_these = "" if config.trees else ", the only tree cache under runs/trees"
            trees = trainer.program.trees
            logger.info("trees      %s (%s sentences%s)", trees.folder, f"{len(trees):,}", why_these)
        code = trainer.run()
        if distributed.is_first:
            finish(trainer, None if code else new_words)
            if queries is not None and not code:
                start = trainer.program.start
                report_queries(queries, [*([start] if start else []), str(trainer.folder)])
        return code


def open_trainer(config: ProgramConfig, distributed: DistributedContext | None = None) -> Trainer:
    """Build the program of a configuration, and return the trainer that runs it."""
    from multiview.training.continued import continued_program
    from multiview.training.gradient import DistributedContext
    from multiview.training.new_views import new_views_program
    from multiview.training.trainer import Trainer

    distributed = distributed or DistributedContext()
    if isinstance(config, NewViewsConfig):
        return Trainer(config, new_views_program(config, distributed), distributed)
    return Trainer(config, continued_program(config, distributed), distributed)


def finish(trainer: Trainer, new_words: WordVectors | None) -> None:
    """Complete the model folder after a run, and print the result of the run.

    The words of ``new_words`` are added if the model has no added words yet. The time is recorded, and the
    curves are drawn.
    """
    from multiview.folder.files import TIME
    from multiview.model import MultiViewEncoder

    folder, position = trainer.folder, trainer.position
    if new_words is not None and not read_json(folder / "config.json")["words"]["expanded"]:
        encoder = MultiViewEncoder.load(folder, "cpu")
        words_added = encoder.expand_vocabulary(new_words)
        encoder.write(folder)
        print(f"expanded   {words_added:,} words, by {new_words.summary}")
    write_json(folder / TIME, {"seconds": position.seconds})
    try:
        plot_curves(folder)
    except MissingExtraError as error:
        print(f"no curves.png: {error}", file=sys.stderr)
    print(f"model      {folder}")
    print(f"state      {trainer.end_reason or 'interrupted; the same command resumes'}")
    print(f"words      {trainer.program.words_origin}")
    print(f"trained    {position.step} steps, {position.sentences} sentences, {position.seconds:.0f} s")
    for label, finding in trainer.program.card.verdict(position.first, position.best):
        logging.getLogger(LOGGER).info("%-10s %s", label, finding)  # to the terminal and log.txt


def report_queries(queries: QuerySet, names: Sequence[str]) -> None:
    """Print how well each model, and lexical search, finds the relevant sentences of the queries.

    ``names`` are model folders, or ``builtin``.
    """
    from multiview.model import MultiViewEncoder

    encoders = {name: MultiViewEncoder.load(name) for name in names}
    vectors = {
        name: (encoder.encode(queries.queries), encoder.encode(queries.texts))
        for name, encoder in encoders.items()
    }
    for label, finding in report_lines(queries, vectors):
        logging.getLogger(LOGGER).info("%-10s %s", label, finding)


def estimate_on_sample(config: NewViewsConfig, problems: str) -> None:
    """Print the ``problems`` that prevent the paper's training, and its cost here, from a sample of books."""
    from corpora.registry import open_corpus
    from parsing.pipeline.driver import Worker, run_corpus
    from parsing.text_parser import load
    from runtime.pool import Pool

    table = dataclasses.replace(config.table, expand=0)
    config = dataclasses.replace(config, words="trained", table=table)
    config.check()
    with join_processes(config) as (sampled, distributed), tempfile.TemporaryDirectory() as folder:
        print(problems, "What it would cost is estimated from a sample.", sep="\n", flush=True)
        workers = available_cores()
        parsing = paper_cost(workers)
        facts = {
            "sample": f"{SAMPLE:,} sentences of books, for {PAPER_SENTENCES:,}; one of two models",
            "parsing": f"{parsing.seconds(PAPER_SENTENCES)} by {workers} workers, "
            f"{parsing.facts['memory']}, with the builtin parsers (BERT's take longer)",
            "trees": f"{parsing.facts['disk']} on disk",
        }
        run_corpus(open_corpus("books", limit=SAMPLE), Path(folder), Pool(Worker, load))
        trainer = open_trainer(dataclasses.replace(sampled, trees=Path(folder)), distributed)
        dry_run(config, trainer, facts, config.table.size)


def dry_run(
    config: ProgramConfig, trainer: Trainer, facts: Mapping[str, str] | None = None, table_size: int = 0
) -> None:
    """Print how large a run would be and how long it would take, from a few real steps; write no model.

    Args:
        config: the configuration of the run, which is printed as well.
        trainer: takes the steps.
        facts: lines to print in place of the line on the cache. If they are given, time and memory are scaled
            up to the paper's data.
        table_size: the words of each word table with the paper's data.
    """
    import torch

    steps_per_s, sentences = calibrate(trainer)
    cuda = trainer.device.type == "cuda"
    memory_bytes = torch.cuda.max_memory_allocated(trainer.device) if cuda else peak_memory()
    network = trainer.network
    steps = float(trainer.position.steps)
    parameters = sum(parameter.numel() for parameter in network.parameters())
    if facts:
        steps = config.epochs * PAPER_SENTENCES / sentences
        weights_not_in_sample = sum(
            (table_size - len(table)) * table.shape[1] for table in network.words.tables
        )
        parameters += weights_not_in_sample
        memory_bytes += 16 * weights_not_in_sample  # in float32 a weight, its gradient and two moments
    if config.loop.max_minutes:
        steps = min(steps, 60 * config.loop.max_minutes * steps_per_s)
    trees, held_out = trainer.program.trees, trainer.program.parts[0].held_out
    counts = f"{len(trees)} sentences, {held_out} for validation"
    estimate = Estimate(
        facts={
            **(facts or {"cache": f"{trees.folder}: {counts}"}),
            "speed": f"{sentences * steps_per_s:,.0f} sentences/s",
            "device": f"{trainer.device}, {trainer.threads} threads",
            "words": trainer.program.words_origin,
            "parameters": f"{parameters:,}",
            "memory": f"{memory_bytes / 2**20:,.0f} MiB at most in these steps",
            "disk": f"{4e-6 * parameters:,.1f} MB",
        },
        amount=steps,
        unit="steps",
        per_second=steps_per_s,
    )
    if trainer.distributed.is_first:
        print(estimate.text(config))


def calibrate(trainer: Trainer) -> tuple[float, int]:
    """Take a few steps; return the number of steps per second, and the sentences of the largest step."""
    from runtime.device import torch_threads
    from runtime.training_step import read_metrics

    sentences: list[int] = []
    seconds: list[float] = []
    jobs = list(itertools.islice(trainer.jobs(), CALIBRATION_STEPS))
    with torch_threads(trainer.threads), progress(total=len(jobs), description="calibration") as bar:
        for number, step in enumerate(trainer.steps.stream(jobs), start=1):
            began = time.perf_counter()
            # Reading the metrics waits for the device, so that the time is that of the work itself.
            read_metrics([trainer.step(trainer.position, step)], number, "--name")
            seconds.append(time.perf_counter() - began)
            sentences.append(step.sentences)
            bar.update(1)
            if len(seconds) > 1 and sum(seconds) > CALIBRATION_S:
                break
    return 1 / median(seconds[1:] or seconds), max(sentences)  # without the first step, which compiles


def plot_curves(folder: Path) -> None:
    """Draw ``curves.png`` from the log of a run: the loss, and how often neighbours are found.

    Raises MissingExtraError if matplotlib is not installed.
    """
    with extra("report"):
        from matplotlib.figure import Figure

    from runtime.training_loop import read_log

    lines = read_log(folder / "log.jsonl")
    training = [line for line in lines if line["kind"] == "train"]
    validation = [line for line in lines if "recall@1" in line]
    figure = Figure(figsize=(10, 4), layout="constrained")
    loss_axis, retrieval_axis = figure.subplots(1, 2)
    loss_axis.set(xlabel="step", ylabel="loss per anchor", title=folder.name)
    title = "nearest is a neighbour (validation)"
    retrieval_axis.set(xlabel="step", ylabel="fraction of sentences", title=title)
    curves = [
        (loss_axis, training, "loss", "train", "-"),
        (loss_axis, validation, "loss", "validation", "o-"),
    ]
    rows_of_retrieval = validation or training
    for name in rows_of_retrieval[-1] if rows_of_retrieval else ():
        if "@1" in name:
            curves.append((retrieval_axis, rows_of_retrieval, name, name, "o-"))
    for axis, rows, name, label, style in curves:
        axis.plot([row["step"] for row in rows], [row.get(name) for row in rows], style, label=label)
        axis.grid(alpha=0.3)
        axis.legend()
    with atomic_path(folder / "curves.png") as temporary:
        figure.savefig(temporary, format="png", dpi=120)


cli = Command(
    TrainConfig,
    main,
    "multiview.train",
    (__doc__ or "").split("\n\n")[0],
    kept_work="checkpoints are kept; the same command resumes",
    defaults=lambda name: preset_options(name or LAPTOP),
    plugins=True,
)


if __name__ == "__main__":
    sys.exit(cli())
