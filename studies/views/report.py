"""The report of ``studies.views``: who is ahead and by how much, learning curves, the paper's tables."""

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
    """The result of :func:`score`."""
    results: dict[str, TaskResult]
    """Results by task."""

    @cached_property
    def metrics(self) -> dict[str, dict[str, float]]:
        """Metrics by task."""
        return {task: result.metrics for task, result in self.results.items()}

    @cached_property
    def resamples(self) -> dict[str, dict[str, Any]]:
        """Metrics by task, an array on resamples of the items each, or a number where items are not known."""
        return {task: result.metrics | resample_scores([result]) for task, result in self.results.items()}

    def csv_row(self, config: ViewsConfig) -> dict[str, Any]:
        """Make the row of rows.csv, with every score."""
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
"""All scores at one scale: by row of a table, seed by seed."""


def scores_by_task(metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return each task's main score in percent, for the paper's tasks as in its mean (footnote 6)."""
    return {**headlines(metrics), **task_means(paper_row(metrics))}


def mean_over_tasks(metrics: Mapping[str, Mapping[str, Any]], task: str = "") -> Any:
    """Take the mean of all tasks' scores, or one task's: of numbers, or of arrays of resamples."""
    by_task = scores_by_task(metrics)
    return by_task[task] if task else sum(by_task.values()) / len(by_task)


def ahead(
    left: Sequence[SystemScores], right: Sequence[SystemScores], task: str = ""
) -> tuple[Score, float] | None:
    """Measure how far one row is ahead of another in the mean over tasks or in one; with p of no difference.

    Rows are paired by seed; words that have no seed are compared with every seed. The variance of the mean is
    that over seeds plus that over resampled items, the same for both rows, with the degrees of freedom of
    Welch and Satterthwaite. None if no seed is in both rows.
    """
    right_of_seed = {scores.system.seed: scores for scores in right}
    if len(right) == 1 and right[0].system.name in (AVERAGE, RANDOM):
        right_of_seed = dict.fromkeys((scores.system.seed for scores in left), right[0])
    pairs = [(a, right_of_seed[a.system.seed]) for a in left if a.system.seed in right_of_seed]
    if not pairs:
        return None
    gain_S = [mean_over_tasks(a.metrics, task) - mean_over_tasks(b.metrics, task) for a, b in pairs]
    gains = (mean_over_tasks(a.resamples, task) - mean_over_tasks(b.resamples, task) for a, b in pairs)
    of_items = np.var(sum(gains) / len(pairs))
    of_seeds = np.var(gain_S, ddof=1) / len(pairs) if len(pairs) > 1 else 0.0
    value, error = fmean(gain_S), np.sqrt(of_items + of_seeds)
    if not error:
        return Score(value, interval=(value, value)), float(value == 0)
    freedom = (of_items + of_seeds) ** 2 * (len(pairs) - 1) / of_seeds**2 if of_seeds else np.inf
    low, high = t.interval(0.95, freedom, value, error)
    return Score(value, interval=(float(low), float(high))), float(2 * t.sf(abs(value) / error, freedom))


def comparison(rows: Rows, pair: str) -> list[Table | Figure]:
    """Compare every row with that of a pair of views, in the mean over tasks and in each: table and dots."""
    first, *_ = rows.values()
    names = list(scores_by_task(first[0].metrics))
    tasks = {"mean over tasks": "", **({name: name for name in names} if len(names) > 1 else {})}
    leads = {}
    for (row, seeds), (name, task) in product(rows.items(), tasks.items()):
        best = replace(seeds[0].system, name=pair, of="").row
        if row != best and (lead := ahead(rows.get(best, ()), seeds, task)):
            leads[row, name] = lead
    corrected = dict(zip(leads, holm([p for _, p in leads.values()]), strict=True))
    texts = {
        key: ("p < 0.001" if p < 0.001 else f"p {p:.3f}") + "*" * (p < 0.05) for key, p in corrected.items()
    }
    lines: list[list[TableCell]] = []
    panels: dict[str, dict[str, tuple[list[float], str]]] = {name: {} for name in tasks}
    for row, seeds in rows.items():
        for name, task in tasks.items():
            values = [mean_over_tasks(scores.metrics, task) for scores in seeds]
            panels[name][row] = values, texts.get((row, name), "")
        cells = [(row, name) for name in tasks]
        gains = [f"{format_cell(leads[key][0])}, {texts[key]}" if key in leads else None for key in cells]
        lines.append([row, len(seeds), Score.over_seeds(panels["mean over tasks"][row][0]), *gains])
    heads = ["system", "seeds", "mean over tasks", f"{pair} ahead", *(f"on {task}" for task in [*tasks][1:])]
    caption = f"Every seed (dots) and their mean; p of no difference from {pair}, corrected"
    return [Table(heads, lines, notes=[NOTE]), plots.dots(panels, caption=caption)]


def sections_of(rows: Rows, scale: Scale, pair: str) -> list[Section]:
    """Make the sections of one scale: the comparison with a pair of views, and scores, none of them bold."""
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
    """Draw the mean over tasks by sentences of training, with the 95 % interval of its mean over seeds."""
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
