"""Train and score every system of ``studies.views``, and compare them."""

import logging
import shlex
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from corpora.senteval.tasks import data_folder, expand_tasks
from multiview.encoders.registry import plugin_modules
from multiview.folder.card import training_command
from parsing.trees.cache import TreeCache
from runtime import __version__
from runtime.cli import LOGGER
from runtime.errors import UserError
from runtime.files import read_json
from runtime.progress import progress
from senteval_runner.evaluation import read_tasks
from senteval_runner.report.page import Page, Section
from senteval_runner.result_store import stored_results
from senteval_runner.results import write_csv
from studies.runner import Cell, Figures, StudyRun
from studies.views.config import Scale, ViewsConfig
from studies.views.report import SystemScores, sections_of
from studies.views.systems import System, all_systems, options_table, reference, training, training_options

log = logging.getLogger(LOGGER)


def train_and_score(
    config: ViewsConfig, system: System, scale: Scale, commit: str, work: Path, *, steps: int = 0
) -> Figures:
    """Train a system, unless that is finished, and score it; return commit, best step and held-out loss.

    Args:
        config: options of the study.
        system: what is trained and scored.
        scale: the scale of the numbers that are scored.
        commit: the commit of the code, which is returned with the figures.
        work: folder for the embeddings.
        steps: steps of a short trial; 0 trains in full.

    Raises UserError if a task has no score.
    """
    models = config.output / "models"
    report = config.output / system.score_folder(scale)
    train_config = training(config, system, steps=steps)
    if system.is_trained:
        _, _, module, *words = shlex.split(training_command(train_config))  # python -m MODULE ...
        _command(module, *words)
    arguments: list[object] = [system.spec(models, scale), "--no-baselines"]
    for plugin in plugin_modules(train_config.view_list):
        arguments += ["--plugin", plugin]
    arguments += ["--tasks", config.tasks, "--protocol", config.protocol, "--data", data_folder(config.data)]
    arguments += ["--output", report, "--cache", work / "vectors", "--random-seed", system.seed]
    _command("senteval_runner.run", *arguments)
    [model] = read_json(report / "results.json")["models"].values()
    for task, reason in model["skipped"].items():
        raise UserError(f"{system.label}: {task} has no score: {reason}")
    if not system.is_trained or system.words == "both":
        return {"commit": commit}
    record = read_json(models / system.label / "config.json")["training"]
    return {"commit": commit, "step": record["step"], "validation loss": record["best"].get("loss")}


def check_systems(config: ViewsConfig, systems: Sequence[System], task: str) -> None:
    """Train each pair of views that has no model yet for one step, and score it on ``task``.

    Raises UserError if a pair cannot be trained or scored.
    """
    models = config.output / "models"
    # One system of each pair, whatever its text, rate and seed; the first one, because later entries win.
    system_of_pair = {
        (system.name, system.words): system for system in reversed(systems) if system.is_trained
    }
    new = [system for system in system_of_pair.values() if not (models / system.label).exists()]
    with progress(total=len(new), unit="pair", description="first step and score of every pair") as bar:
        for system in reversed(new):
            with TemporaryDirectory(prefix="check-", dir=config.output) as work:
                trial = replace(config, output=Path(work), tasks=task, protocol="fast", validation=0)
                train_and_score(trial, system, "none", "", Path(work), steps=1)
            bar.update(1)


def print_plan(config: ViewsConfig) -> int:
    """Print what would be trained and scored, and the plan of the first training; return an exit code."""
    systems, tasks = all_systems(config), expand_tasks(config.tasks)
    trained = [system for system in systems if system.is_trained]
    begun = sum((config.output / "models" / system.label).exists() for system in trained)
    scorings = len(systems) * len(config.scales)
    print(f"trainings    {len(trained)}, {begun} of them begun or finished", flush=True)
    print(f"scorings     {scorings}, each of {len(tasks)} tasks: {', '.join(tasks)}", flush=True)
    print(f"one training {trained[0].label}:", flush=True)
    words = shlex.split(training_command(training(config, trained[0])))[1:]
    return subprocess.run([sys.executable, *words, "--dry-run"], check=False).returncode


def _command(module: str, *arguments: object) -> None:
    """Run ``python -m MODULE ARGUMENTS``, whose messages and progress go to the log.

    Raises UserError if the command refused its input, and RuntimeError if it failed.
    """
    words = [sys.executable, "-m", module, *map(str, arguments)]
    log.info("%s", shlex.join(words[1:]))
    lines: deque[str] = deque(["no message"], maxlen=30)
    with subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace"
    ) as process:
        for line in process.stderr or ():
            lines.append(line.rstrip())
            log.info("%s", lines[-1])
    if process.returncode == 2:
        raise UserError(lines[-1])
    if process.returncode:
        raise RuntimeError("\n".join([shlex.join(words), *lines]))


def code_version() -> str:
    """Return the commit of this checkout, with a + if files differ from it; without git the version."""
    words = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--abbrev=12", "--dirty=+"]
    try:
        commit = subprocess.run([*words, "--exclude=*"], capture_output=True, text=True)
    except OSError:
        return __version__
    return __version__ if commit.returncode else commit.stdout.strip()


def compare(config: ViewsConfig, run: StudyRun) -> Page:
    """Train and score what is missing, write rows.csv, and return the report."""
    for trees in config.trees:
        TreeCache.open(trees)  # a bad cache ends the study here, before the first training
    names = expand_tasks(config.tasks)
    data = read_tasks(names, data_folder(config.data, names))
    if data.missing:
        raise UserError("; ".join(data.missing.values()))
    systems = all_systems(config)
    smallest = min(data.data, key=lambda task: sum(map(len, task.splits.values())))
    check_systems(config, systems, smallest.name)
    commit = code_version()
    cells = {
        (system, scale): Cell(
            name=f"{system.label}, scale {scale}",
            identity=[training_options(config, system), scale, names, config.protocol, system.label],
            compute=partial(train_and_score, config, system, scale, commit),
        )
        for system, scale in product(systems, config.scales)
    }
    by_scale: dict[Scale, dict[str, list[SystemScores]]] = {scale: {} for scale in config.scales}
    for (system, scale), figures in run.compute(cells, stop_on_error=True).items():
        folder = config.output / system.score_folder(scale)
        [model] = read_json(folder / "results.json")["models"].values()
        results = stored_results(folder, f"{model['key']}-{config.protocol}-")
        scores = SystemScores(system, folder, figures, {task: results[task] for task in names})
        by_scale[scale].setdefault(system.row, []).append(scores)
    csv_rows: list[dict[str, Any]] = []
    sections: list[Section] = []
    for scale, rows in by_scale.items():
        for seeds in rows.values():
            csv_rows += [scores.csv_row(config) for scores in seeds]
        sections += sections_of(rows, scale, reference(config))
    write_csv(config.output / "rows.csv", csv_rows)
    sections.append(Section("Options that differ from the paper's", [options_table(config, systems)]))
    return Page("Pairs of views", sections, f"Preset {config.preset}, protocol {config.protocol}.")
