"""Report of the analogy task: tables like UNI's 4 and 6, rank distributions, projections of pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from senteval_runner.report import html, tables
from senteval_runner.report.projections import NO_PLANE, has_plane, pca, tsne
from studies.analogies.lexicon import CATEGORIES, LEVELS
from studies.analogies.questions import Question
from studies.analogies.score import AnalogyScores, Float, TextVectors

COLUMNS = (*CATEGORIES, "semantic", "syntactic", "overall")
ACCURACY_HEADERS = ("model", "level", *COLUMNS)
RATES = ("PPR", "PNR")
TRANSFER_HEADERS = ("model", *(f"{level} {rate}" for level in LEVELS[1:] for rate in RATES))
PAIRS_SHOWN = 30
DIFFERENCES_SHOWN = 40


def accuracy_rows(scores: Mapping[str, AnalogyScores]) -> list[list[html.Cell]]:
    """One row per model and level: accuracies in percent."""
    return [
        [name, level, *(_percent(result.accuracy[level].get(column)) for column in COLUMNS)]
        for level in LEVELS
        for name, result in scores.items()
        if level in result.accuracy
    ]


def transfer_rows(scores: Mapping[str, AnalogyScores]) -> list[list[html.Cell]]:
    """One row per model: PPR and PNR of phrases and sentences in percent."""
    return [
        [
            name,
            *(_percent(result.transfer.get(level, {}).get(rate)) for level in LEVELS[1:] for rate in RATES),
        ]
        for name, result in scores.items()
    ]


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def markdown(headers: Sequence[str], rows: Sequence[Sequence[html.Cell]]) -> str:
    """A Markdown table, figures with one decimal, a dash for none."""

    def shown(cell: html.Cell) -> str:
        return "–" if cell is None else f"{cell:.1f}" if isinstance(cell, float) else str(cell)

    return tables.markdown(headers, [[shown(cell) for cell in row] for row in rows])


def pair_points(questions: Sequence[Question], level: str, category: str) -> list[tuple[str, str]]:
    """The distinct (left, right) texts of a category's pairs at a level, in the file's order."""
    rows = [q for q in questions if q.level == level and q.category == category]
    return list(dict.fromkeys([(q.a, q.b) for q in rows] + [(q.c, q.answer) for q in rows]))


def pca_of_pairs(pairs: Sequence[tuple[str, str]], vectors: TextVectors) -> html.Html:
    """Left and right texts in the plane of their two main components (UNI Figure 3)."""
    texts = [text for pair in pairs[:PAIRS_SHOWN] for text in pair]
    rows_ND = vectors(texts)
    if not has_plane(rows_ND):
        return html.paragraph(NO_PLANE)
    sides = [0, 1] * (len(texts) // 2)
    return html.scatter(pca(rows_ND).tolist(), sides, ["left", "right"], titles=texts)


def tsne_of_differences(questions: Sequence[Question], level: str, vectors: TextVectors) -> html.Html:
    """Right minus left of pairs, coloured by category (UNI Figure 4)."""
    differences: list[Float] = []
    classes: list[int] = []
    titles: list[str] = []
    for number, category in enumerate(CATEGORIES):
        pairs = pair_points(questions, level, category)[:DIFFERENCES_SHOWN]
        if pairs:
            differences.append(vectors([b for _, b in pairs]) - vectors([a for a, _ in pairs]))
            classes += [number] * len(pairs)
            titles += [f"{a} → {b}" for a, b in pairs]
    rows_ND = np.concatenate(differences)
    if not has_plane(rows_ND):
        return html.paragraph(NO_PLANE)
    return html.scatter(tsne(rows_ND).tolist(), classes, list(CATEGORIES), titles=titles)


def rank_section(name: str, scores: AnalogyScores) -> html.Html:
    """Share of questions by the rank of the right answer, per level (UNI Figures 1 and 2)."""
    figures = []
    for size, title in ((5, "semantic: rank among 5"), (2, "syntactic: rank among 2")):
        values: dict[tuple[str, str], float] = {}
        for level, by_category in scores.rank_counts.items():
            counts = np.zeros(5)
            for category, found in by_category.items():
                if CATEGORIES[category].candidates == size:
                    counts[: len(found)] += found
            if counts.sum():
                shares = 100 * counts[:size] / counts.sum()
                values |= {(level, str(rank + 1)): float(share) for rank, share in enumerate(shares)}
        figures += [html.paragraph(title), html.bars(LEVELS, [str(r + 1) for r in range(size)], values)]
    return html.section(f"{name}: rank of the right answer, % of questions", *figures)


def page(
    questions: Sequence[Question], scores: Mapping[str, AnalogyScores], vectors: Mapping[str, TextVectors]
) -> str:
    """The whole report."""
    best = range(2, len(ACCURACY_HEADERS))
    parts = []
    for level in LEVELS:
        rows = [row for row in accuracy_rows(scores) if row[1] == level]
        if rows:
            parts.append(
                html.section(f"Accuracy, {level}s (%)", html.table(ACCURACY_HEADERS, rows, best=best))
            )
    note = (
        "PPR (PNR): share of right (wrong) word questions whose phrase or sentence question is right (wrong)."
    )
    table = html.table(TRANSFER_HEADERS, transfer_rows(scores), best=range(1, len(TRANSFER_HEADERS)))
    parts.append(html.section("Transfer from words (%)", table, note=note))
    for name, result in scores.items():
        parts.append(rank_section(name, result))
        for level in result.accuracy:
            category = next(c for c in CATEGORIES if c in result.accuracy[level])
            parts.append(
                html.section(
                    f"{name}, {level}s",
                    html.paragraph(f"PCA of pairs of {category}"),
                    pca_of_pairs(pair_points(questions, level, category), vectors[name]),
                    html.paragraph("t-SNE of right minus left"),
                    tsne_of_differences(questions, level, vectors[name]),
                )
            )
    return html.page("Analogies of words, phrases and sentences", parts)


def open_rows(opened: Mapping[str, Mapping[str, Mapping[str, float]]]) -> list[list[html.Cell]]:
    """One row per model and set: open-vocabulary accuracy in percent, and the number of questions."""
    return [
        [spec, name, 100 * row["accuracy"], int(row["questions"])]
        for spec, rows in opened.items()
        for name, row in rows.items()
    ]
