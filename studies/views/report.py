"""Make the report of ``studies.views``: differences between systems, learning curves, the paper's tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from scipy.stats import sem, t

from parsing.trees.cache import TreeCache
from runtime.files import read_json
from senteval_runner.protocol.config import TaskResult
from senteval_runner.protocol.statistics import holm, resample_scores
from senteval_runner.report import plots
from senteval_runner.report.page import Figure, Score, Section, Table, TableCell, format_cell
from senteval_runner.report.tables import ModelScores, headlines, paper_row, score_sections, task_means
from studies.runner import Figures
from studies.views.config import Scale, ViewsConfig
from studies.views.systems import AVERAGE, RANDOM, System

NOTE = (
    "Points ahead [95 % interval] and p of no difference, by Student's t over seeds and items (of one seed: "
    "items alone), corrected by Holm's method for the comparisons of this table; * below 0.05."
)


@dataclass(frozen=True)
class SystemScores:
    """The scores of one system at one scale."""

    system: System
    folder: Path
    figures: Figures
    """What training and scoring returned: the commit of the code, the best step, the held-out loss."""
    results: dict[str, TaskResult]
    """Results by task."""

    @cached_property
    def metrics(self) -> dict[str, dict[str, float]]:
        """Metrics by task."""
        return {task: result.metrics for task, result in self.results.items()}

    @cached_property
    def resamples(self) -> dict[str, dict[str, Any]]:
        """Metrics by task: arrays [R] on resamples of the items or, of those without resamples, numbers."""
        return {task: result.metrics | resample_scores([result]) for task, result in self.results.items()}

    def csv_row(self, config: ViewsConfig) -> dict[str, Any]:
        """Return the row of rows.csv, with every score."""
        system = self.system
        scores = scores_by_task(self.metrics)
        scores[f"mean of {len(scores)}"] = mean_over_tasks(self.metrics)
        return {
            **self.figures,
            "words": system.words,
            "system": system.name,
            "text": system.trees.name if system.is_trained else "",
            "rate": system.rate if system.is_trained else "",
            "seed": system.seed,
            "scale": self.folder.name,
            "protocol": config.protocol,
            **{name: f"{score:.2f}" for name, score in scores.items()},
        }


Rows = Mapping[str, Sequence[SystemScores]]
"""All scores at one scale: by the name of a table's row, a list with one entry per seed."""


def scores_by_task(metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the main score of each task in percent.

    The score of a task of the paper is the mean of its metrics, as in the paper's average (footnote 6).
    """
    return {**headlines(metrics), **task_means(paper_row(metrics))}


def mean_over_tasks(metrics: Mapping[str, Mapping[str, Any]], task: str = "") -> Any:
    """Return the mean of the scores of all tasks, or the score of one ``task``.

    ``metrics`` are numbers, or arrays on resamples; so is the mean.
    """
    by_task = scores_by_task(metrics)
    return by_task[task] if task else sum(by_task.values()) / len(by_task)


def ahead(
    left: Sequence[SystemScores], right: Sequence[SystemScores], task: str = ""
) -> tuple[Score, float] | None:
    """Return the difference of two rows with its interval, and the p-value of no difference.

    The difference is ``left`` minus ``right`` in the mean over tasks, or in the score of one ``task``. Scores
    of the same seed are paired; an average of words that was scored with one seed is paired with every seed.
    The variance of the mean difference is the variance over seeds plus the variance over resampled items,
    which are the same for both rows; degrees of freedom are those of Welch and Satterthwaite. Returns None if
    no seed is in both rows.
    """
    right_of_seed = {scores.system.seed: scores for scores in right}
    if len(right) == 1 and right[0].system.name in (AVERAGE, RANDOM):
        right_of_seed = {scores.system.seed: right[0] for scores in left}
    gains = []
    resampled_gains = []
    for scores in left:
        if other := right_of_seed.get(scores.system.seed):
            gains.append(mean_over_tasks(scores.metrics, task) - mean_over_tasks(other.metrics, task))
            resampled_gains.append(
                mean_over_tasks(scores.resamples, task) - mean_over_tasks(other.resamples, task)
            )
    count = len(gains)
    if not count:
        return None
    variance_of_items = np.var(sum(resampled_gains) / count)
    variance_of_seeds = np.var(gains, ddof=1) / count if count > 1 else 0.0
    variance = variance_of_items + variance_of_seeds
    value, error = fmean(gains), np.sqrt(variance)
    if not error:
        return Score(value, interval=(value, value)), float(value == 0)
    freedom = variance**2 * (count - 1) / variance_of_seeds**2 if variance_of_seeds else np.inf
    low, high = t.interval(0.95, freedom, value, error)
    return Score(value, interval=(float(low), float(high))), float(2 * t.sf(abs(value) / error, freedom))


def comparison(rows: Rows, pair: str) -> list[Table | Figure]:
    """Return a table and a plot that compare every row with that of ``pair``, a pair of views.

    Rows are compared in the mean over tasks and, if there are several tasks, in each of them.
    """
    mean_title = "mean over tasks"
    names = list(scores_by_task(next(iter(rows.values()))[0].metrics))
    tasks = {mean_title: ""}
    if len(names) > 1:
        tasks |= {name: name for name in names}
    leads = {}
    for (row, seeds), (title, task) in product(rows.items(), tasks.items()):
        row_of_pair = replace(seeds[0].system, name=pair, of="").row
        if row != row_of_pair and (lead := ahead(rows.get(row_of_pair, ()), seeds, task)):
            leads[row, title] = lead
    texts = {}
    for key, p in zip(leads, holm([p for _, p in leads.values()]), strict=True):
        star = "*" if p < 0.05 else ""
        texts[key] = ("p < 0.001" if p < 0.001 else f"p {p:.3f}") + star
    lines: list[list[TableCell]] = []
    panels: dict[str, dict[str, tuple[list[float], str]]] = {title: {} for title in tasks}
    for row, seeds in rows.items():
        line: list[TableCell] = []
        for title, task in tasks.items():
            values = [mean_over_tasks(scores.metrics, task) for scores in seeds]
            panels[title][row] = values, texts.get((row, title), "")
            key = row, title
            line.append(f"{format_cell(leads[key][0])}, {texts[key]}" if key in leads else None)
        lines.append([row, len(seeds), Score.over_seeds(panels[mean_title][row][0]), *line])
    heads = ["system", "seeds", mean_title, f"{pair} ahead", *(f"on {title}" for title in list(tasks)[1:])]
    caption = f"Every seed (dots) and their mean; p of no difference from {pair}, corrected"
    return [Table(heads, lines, notes=[NOTE]), plots.dots(panels, caption=caption)]


def sections_of(rows: Rows, scale: Scale, pair: str) -> list[Section]:
    """Return the sections of one scale: the comparison with ``pair``, and tables of scores without bold."""
    models = []
    for row, seeds in rows.items():
        [model] = read_json(seeds[0].folder / "results.json")["models"].values()
        results = {scores.system.seed: scores.results for scores in seeds}
        models.append(ModelScores(name=row, results=results, dim=model["dim"], hours=model["hours"]))
    title = "Raw numbers" if scale == "none" else "Each number at one scale"
    curves = [curve(rows)] if len({seeds[0].system.trees for seeds in rows.values()}) > 1 else []
    sections = [Section(f"{title}: comparison", [*comparison(rows, pair), *curves])]
    for section in score_sections(models):
        tables = [block for block in section.blocks if isinstance(block, Table)]
        sections.append(Section(f"{title}: {section.title}", [table.without_best() for table in tables]))
    return sections


def curve(rows: Rows) -> Figure:
    """Draw the mean over tasks by the number of training sentences, with its 95 % interval over seeds."""
    points: dict[str, list[tuple[int, float]]] = {}
    spans: dict[str, list[tuple[float, float]]] = {}
    by_system = {seeds[0].system: seeds for seeds in rows.values() if seeds[0].system.is_trained}
    sizes = {system: len(TreeCache.open(system.trees)) for system in by_system}
    for system in sorted(by_system, key=sizes.__getitem__):
        means = [mean_over_tasks(scores.metrics) for scores in by_system[system]]
        value = fmean(means)
        span = (value, value)
        if len(means) > 1:  # Student's t
            span = t.interval(0.95, len(means) - 1, value, sem(means))
        name = f"{system.name}, {system.words} words, rate {system.rate:g}"
        points.setdefault(name, []).append((sizes[system], value))
        spans.setdefault(name, []).append(span)
    caption = "Mean over tasks by text, 95 % over seeds"
    return plots.curves(points, spans=spans, x_label="sentences", y_label="mean over tasks", caption=caption)
