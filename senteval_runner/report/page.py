"""The HTML report of an evaluation: one self-contained page.

Tables with the best marked, mean ± standard deviation over seeds, paired bootstrap between models, bars per
task, a heat map of the probing tasks, sentence vectors in the plane, nearest neighbours of examples.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

from corpora.rows import text_lines
from corpora.senteval.files import TaskData
from corpora.senteval.tasks import PROBING_FILES, STS_SUBSETS
from corpora.support.errors import UserError
from senteval_runner.protocol.results import TaskResult
from senteval_runner.report import html, tables
from senteval_runner.report.projections import NO_PLANE, has_plane, nearest, pca, tsne
from senteval_runner.report.published import CONTROLS, NOTE, PAIR_AVERAGES, SENTEVAL
from senteval_runner.report.significance import paired_bootstrap
from senteval_runner.vectors.embed import SentenceVectors, Tokens

ByTask = Mapping[str, TaskResult]
Figures = Mapping[str, Sequence[Mapping[str, float]]]
"""Per model what its table shows by column, one entry per seed."""
APART = "Published, not computed here: model, dimensions (whose figures)"
MAX_POINTS = 400
BARS_PER_ROW = 9
MAX_NEIGHBOURS = 20_000


def score_sections(
    models: Mapping[str, Sequence[ByTask]],
    parsed: Sequence[str] = (),
    parser_labelled: Sequence[str] = (),
    published: bool = True,
) -> list[html.Html]:
    """Everything that follows from scores alone.

    Args:
        models: per model its results by task, one entry per seed.
        parsed: models that read parses.
        parser_labelled: probing tasks whose labels a parser gave; marked when a model reads parses.
        published: set the multi-view paper's rows below.
    """
    scores = {name: [{t: r.metrics for t, r in by.items()} for by in seeds] for name, seeds in models.items()}
    parts = []
    columns = [column for column, *_ in tables.PAPER_COLUMNS] + ["average"]
    rows = {name: [tables.paper_row(one) for one in seeds] for name, seeds in scores.items()}
    if any(row for per_seed in rows.values() for row in per_seed):
        note = "SICK-R times 100, of MSE less is better. The average is set only when no task is missing."
        quoted = (*SENTEVAL, *CONTROLS) if published else ()
        below = [
            [f"{one.model}, {one.dim} ({one.quoted_from})", *tables.published_cells(one)] for one in quoted
        ]
        if quoted:
            pairs = "; ".join(f"{pair}: {value:.1f}" for pair, value in PAIR_AVERAGES.items())
            note += f" {NOTE} Published averages per pair of views: {pairs}."
        parts.append(
            html.section("Classification and relatedness", _score_table(columns, rows, below), note=note)
        )
    others = tables.other_tasks(scores)
    plain = [task for task in others if task not in PROBING_FILES]
    if plain:
        figures = _headlines(scores, plain)
        note = "STS12-16: mean Spearman over subsets, times 100; STSBenchmark: Pearson times 100."
        parts.append(html.section("Other tasks", _score_table(plain, figures), note=note))
    probing = [task for task in others if task in PROBING_FILES]
    if probing:
        parts.append(_probing(scores, probing, parsed, parser_labelled))
    parts.append(_bars(scores))
    if len(models) > 1:
        parts.append(_significance(models))
    return parts


def _headlines(scores: Mapping[str, Sequence[tables.Scores]], tasks: Sequence[str]) -> Figures:
    return {
        name: [{t: tables.headline(t, one[t]) for t in tasks if t in one} for one in seeds]
        for name, seeds in scores.items()
    }


def _score_table(
    columns: Sequence[str], figures: Figures, published: Sequence[Sequence[str]] = ()
) -> html.Html:
    """Means with deviations; the best mean of each column is bold; ``published`` rows stand apart below."""
    means: dict[tuple[str, str], float] = {}
    for name, column in itertools.product(figures, columns):
        values = [one[column] for one in figures[name] if column in one]
        if values:
            means[name, column] = round(tables.mean_and_deviation(values)[0], 2)
    rows: list[list[html.Cell]] = []
    for name in figures:
        cells: list[html.Cell] = [name]
        for column in columns:
            shown = tables.show([one[column] for one in figures[name] if column in one])
            candidates = [means[m, column] for m in figures if (m, column) in means]
            best = min if column in tables.LOWER_IS_BETTER else max
            is_best = (name, column) in means and means[name, column] == best(candidates)
            cells.append(html.Html(f"<b>{shown}</b>") if is_best and len(figures) > 1 else shown)
        rows.append(cells)
    return html.table(["model", *columns], rows, words=(), apart=published, apart_title=APART)


def _probing(
    scores: Mapping[str, Sequence[tables.Scores]],
    tasks: Sequence[str],
    parsed: Sequence[str],
    parser_labelled: Sequence[str],
) -> html.Html:
    marks = {task: f"{task} †" if parsed and task in parser_labelled else task for task in tasks}
    figures = _headlines(scores, tasks)
    values = {
        (marks[task], name): tables.mean_and_deviation([one[task] for one in figures[name] if task in one])[0]
        for name, task in itertools.product(figures, tasks)
        if any(task in one for one in figures[name])
    }
    note = "Accuracy in percent."
    if list(marks) != list(marks.values()):
        note += (
            f" † A parser gave the labels, and {', '.join(parsed)} read a parser's trees: if it is the same "
            "parser, the probe asks for what was put in."
        )
    heat = html.heat_map(list(marks.values()), list(figures), values, low=0, high=100)
    return html.section("Probing", heat, note=note)


def _bars(scores: Mapping[str, Sequence[tables.Scores]]) -> html.Html:
    tasks = list(dict.fromkeys(task for seeds in scores.values() for one in seeds for task in one))
    heights, spread = {}, {}
    figures = _headlines(scores, tasks)
    for name, task in itertools.product(figures, tasks):
        values = [one[task] for one in figures[name] if task in one]
        if values:
            heights[name, task], spread[name, task] = tables.mean_and_deviation(values)
    drawn = [
        html.bars(list(scores), tasks[start : start + BARS_PER_ROW], heights, spread=spread)
        for start in range(0, len(tasks), BARS_PER_ROW)
    ]
    return html.section("Per task", *drawn)


def _significance(models: Mapping[str, Sequence[ByTask]]) -> html.Html:
    """First seeds compared pair by pair: a row per task."""
    first = {name: seeds[0] for name, seeds in models.items() if seeds}
    tasks = list(dict.fromkeys(task for by in first.values() for task in by))
    pairs = list(itertools.combinations(first, 2))
    rows: list[list[html.Cell]] = []
    for task in tasks:
        cells: list[html.Cell] = [task]
        for a, b in pairs:
            if task not in first[a] or task not in first[b]:
                cells.append(None)
                continue
            one, other = first[a][task], first[b][task]
            gain = _compared(one) - _compared(other)
            p = paired_bootstrap(one, other)
            cells.append(f"{gain:+.2f}{'*' if p < 0.05 else ''} (p {p:.3f})")
        rows.append(cells)
    headers = ["task", *(f"{a} − {b}" for a, b in pairs)]
    note = (
        "Difference in percent on the first seed, p by paired bootstrap over items (1,000 resamples, "
        "two-sided; * p < 0.05, not corrected for the number of comparisons). Relatedness, STS: Pearson."
    )
    return html.section("Differences between models", html.table(headers, rows, words=()), note=note)


def _compared(result: TaskResult) -> float:
    """The figure the bootstrap compares: accuracy, or Pearson times 100."""
    if result.task in STS_SUBSETS:
        return 100 * result["all.pearson.mean"]
    return result["acc"] if "acc" in result.metrics else 100 * result["pearson"]


def projection_section(models: Mapping[str, SentenceVectors], task: TaskData) -> html.Html:
    """Sentences of one task in the plane, coloured by class, by PCA and t-SNE per model."""
    split = next(name for name in ("test", "all", *task.splits) if name in task.splits)
    part = task.splits[split]
    step = -(-len(part) // MAX_POINTS)
    rows = range(0, len(part), step)
    sentences = [part.a[row] for row in rows]
    classes = [int(part.y[row]) for row in rows]
    titles = [" ".join(tokens) for tokens in sentences]
    figures = []
    for name, vectors in models.items():
        points = vectors(sentences)
        if not has_plane(points):
            figures.append(html.paragraph(f"{name}: {NO_PLANE}"))
            continue
        pair = []
        for method, flat in (("PCA", pca(points)), ("t-SNE", tsne(points))):
            drawn = html.scatter(flat.tolist(), classes, task.classes, titles=titles)
            caption = html.text(f"{name}, {method}")
            pair.append(f"<figure><figcaption>{caption}</figcaption>{drawn}</figure>")
        figures.append(html.Html(f"<div>{''.join(pair)}</div>"))
    return html.section(f"{task.name} sentences in the plane", *figures)


def neighbour_section(
    models: Mapping[str, SentenceVectors], examples: Sequence[Tokens], corpus: Sequence[Tokens]
) -> html.Html:
    """Nearest sentences of the evaluation data to each example, per model."""
    corpus = corpus[:MAX_NEIGHBOURS]
    rows: list[list[html.Cell]] = []
    for name, vectors in models.items():
        found = nearest(vectors(examples), vectors(corpus), corpus)
        for example, neighbours in zip(examples, found, strict=True):
            first = [[name, " ".join(example)], *[["", ""]] * (len(neighbours) - 1)]
            rows += [[*a, *b] for a, b in zip(first, neighbours, strict=True)]
    note = f"Among {len(corpus):,} sentences of the evaluated tasks, by cosine."
    return html.section(
        "Nearest neighbours", html.table(["model", "example", "cosine", "sentence"], rows), note=note
    )


def read_examples(path: Path) -> list[Tokens]:
    """Sentences, one per line, blank lines left out.

    Raises:
        UserError: no such file, not UTF-8, or nothing in it.
    """
    examples = [line.text.split() for line in text_lines(path)]
    if not examples:
        raise UserError(f"{path}: holds no sentence")
    return examples
