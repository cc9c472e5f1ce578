"""The sections of an evaluation's report.

Tables with the best marked, mean ± standard deviation over seeds, paired bootstrap between models, bars per
task, a heat map of the probing tasks, sentence vectors in the plane.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

from corpora.senteval.files import TaskData
from corpora.support.progress import progress
from senteval_runner.protocol.results import TaskResult
from senteval_runner.report import plots, tables
from senteval_runner.report.page import Block, Section
from senteval_runner.report.projections import NO_PLANE, has_plane, pca, tsne
from senteval_runner.report.published import CONTROLS, NOTE, SENTEVAL
from senteval_runner.report.table import mean_and_deviation
from senteval_runner.vectors.embed import SentenceVectors

SICK_NOTE = "SICK-R times 100; lower MSE is better."
NO_AVERAGE_NOTE = "No average: it needs every task of the multi-view paper's table."
MAX_POINTS = 400


def score_sections(
    models: tables.Models,
    parsed: Sequence[str] = (),
    parser_labelled: Sequence[str] = (),
    published: bool = True,
    efforts: Mapping[str, tables.Effort] | None = None,
) -> list[Section]:
    """The tables of scores.

    Args:
        models: scores by model.
        parsed: models that read parses.
        parser_labelled: probing tasks whose labels a parser gave; marked when a model reads parses.
        published: add the multi-view paper's rows that have one of our scores, below ours.
        efforts: dimensions and hours of training by model.
    """
    found: list[Section] = []
    if columns := tables.paper_columns(models):
        notes = [SICK_NOTE] if any(name.startswith("SICK-R") for name in columns) else []
        if tables.AVERAGE not in columns:
            notes.append(NO_AVERAGE_NOTE)
        table = tables.paper_table(models, (*SENTEVAL, *CONTROLS) if published else (), notes, efforts)
        if table.quoted:
            table = replace(table, notes=[*notes, NOTE])
        blocks: list[Block] = [table]
        if published and tables.AVERAGE in columns:
            blocks.append(tables.pair_table())
        found.append(Section("Classification and relatedness", blocks))
    if (similarity := tables.similarity_table(models)) is not None:
        found.append(Section("Similarity", [similarity]))
    if (other := tables.other_table(models)) is not None:
        found.append(Section("Other tasks", [other]))
    if (probing := tables.probing_table(models, parsed, parser_labelled)) is not None:
        found.append(Section("Probing", [probing]))
    return found


def comparison_sections(models: Mapping[str, Sequence[Mapping[str, TaskResult]]]) -> list[Section]:
    """Bars per task, and the significance of differences between models.

    Args:
        models: results by task of each model, one entry per seed; at least one model.
    """
    scores = {name: [{t: r.metrics for t, r in by.items()} for by in seeds] for name, seeds in models.items()}
    found = [_bars(scores)]
    if len(models) > 1:
        first = {name: seeds[0] for name, seeds in models.items()}
        found.append(Section("Differences between models", [tables.difference_table(first)]))
    return found


def _bars(scores: tables.Models) -> Section:
    tasks = tables.tasks_of(scores)
    heights, spread = {}, {}
    by_model = tables.headlines(scores, tasks)
    for name, task in itertools.product(by_model, tasks):
        values = [one[task] for one in by_model[name] if task in one]
        if values:
            heights[name, task], spread[name, task] = mean_and_deviation(values)
    return Section("Per task", [plots.bars(list(scores), tasks, heights, spread=spread)])


def projection_section(models: Mapping[str, SentenceVectors], task: TaskData) -> Section:
    """Sentences of one task in the plane, coloured by class, by PCA and t-SNE per model."""
    split = next(name for name in ("test", "all", *task.splits) if name in task.splits)
    part = task.splits[split]
    rows = range(0, len(part), -(-len(part) // MAX_POINTS))
    sentences = [part.a[row] for row in rows]
    classes = [int(part.y[row]) for row in rows]
    titles = [" ".join(tokens) for tokens in sentences]
    blocks: list[Block] = []
    with progress(total=len(models), unit="model", description="report: t-SNE") as bar:
        for name, vectors in models.items():
            points_ND = vectors(sentences)
            bar.update(1)
            if not has_plane(points_ND):
                blocks.append(f"{name}: {NO_PLANE}")
                continue
            for method, flat_N2 in (("PCA", pca(points_ND)), ("t-SNE", tsne(points_ND))):
                caption = f"{name}, {method}"
                blocks.append(plots.scatter(flat_N2, classes, task.classes, titles=titles, caption=caption))
    return Section(f"{task.name} sentences in the plane", blocks)
