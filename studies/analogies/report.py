"""Report of the analogy task: tables like UNI's 4 and 6, rank distributions, projections of pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from senteval_runner.report import plots
from senteval_runner.report.page import Block, Page, Section
from senteval_runner.report.projections import NO_PLANE, has_plane, pca, tsne
from senteval_runner.report.table import Cell, Column, Table
from studies.analogies.lexicon import CATEGORIES, LEVELS
from studies.analogies.questions import Question
from studies.analogies.score import AnalogyScores, Float, OpenScores, TextVectors

COLUMNS = (*CATEGORIES, "semantic", "syntactic", "overall")
RATES = [(level, rate) for level in LEVELS[1:] for rate in ("PPR", "PNR")]
TRANSFER_NOTE = (
    "PPR (PNR): fraction of right (wrong) word questions whose phrase or sentence question is right (wrong)."
)
PAIRS_SHOWN = 30
DIFFERENCES_SHOWN = 40


def tables(scores: Mapping[str, AnalogyScores], opened: Mapping[str, OpenScores]) -> Page:
    """Everything that follows from scores alone.

    Args:
        scores: by model.
        opened: open-vocabulary scores by model.
    """
    levels = [level for level in LEVELS if any(level in one.accuracy for one in scores.values())]
    return Page(
        "Analogies of words, phrases and sentences",
        [
            *(Section(f"Accuracy, {level}s (%)", [_accuracy(scores, level)]) for level in levels),
            Section("Transfer from words (%)", [_transfer(scores)], note=TRANSFER_NOTE),
            Section("Open vocabulary", [_open(opened)]),
        ],
    )


def _accuracy(scores: Mapping[str, AnalogyScores], level: str) -> Table:
    """One row per model (UNI Table 4)."""
    rows = [
        [name, *(_percent(one.accuracy[level].get(column)) for column in COLUMNS)]
        for name, one in scores.items()
        if level in one.accuracy
    ]
    return Table(["model", *(Column(name, digits=1, best="high") for name in COLUMNS)], rows)


def _transfer(scores: Mapping[str, AnalogyScores]) -> Table:
    """One row per model (UNI Table 6)."""
    rows = [
        [name, *(_percent(one.transfer.get(level, {}).get(rate)) for level, rate in RATES)]
        for name, one in scores.items()
    ]
    columns = [Column(f"{level} {rate}", digits=1, best="high") for level, rate in RATES]
    return Table(["model", *columns], rows)


def _open(opened: Mapping[str, OpenScores]) -> Table:
    """One row per model and set of questions."""
    rows: list[list[Cell]] = [
        [spec, name, 100 * accuracy, count]
        for spec, sets in opened.items()
        for name, (accuracy, count) in sets.items()
    ]
    return Table(["model", "section", Column("%", digits=1), "questions"], rows)


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def figures(
    questions: Sequence[Question], scores: Mapping[str, AnalogyScores], vectors: Mapping[str, TextVectors]
) -> Iterator[Section]:
    """Ranks of the right answers, and pairs in the plane, per model."""
    for name, one in scores.items():
        yield _ranks(name, one)
        for level in one.accuracy:
            category = next(c for c in CATEGORIES if c in one.accuracy[level])
            pairs = pair_points(questions, level, category)
            yield Section(
                f"{name}, {level}s",
                [
                    _pairs_in_the_plane(pairs, vectors[name], f"PCA of pairs of {category}"),
                    _differences_in_the_plane(questions, level, vectors[name]),
                ],
            )


def pair_points(questions: Sequence[Question], level: str, category: str) -> list[tuple[str, str]]:
    """The distinct (left, right) texts of a category's pairs at a level, in the file's order."""
    rows = [q for q in questions if q.level == level and q.category == category]
    return list(dict.fromkeys([(q.a, q.b) for q in rows] + [(q.c, q.answer) for q in rows]))


def _pairs_in_the_plane(pairs: Sequence[tuple[str, str]], vectors: TextVectors, caption: str) -> Block:
    """Left and right texts in the plane of their two main components (UNI Figure 3)."""
    texts = [text for pair in pairs[:PAIRS_SHOWN] for text in pair]
    rows_ND = vectors(texts)
    if not has_plane(rows_ND):
        return NO_PLANE
    sides = [0, 1] * (len(texts) // 2)
    return plots.scatter(pca(rows_ND), sides, ["left", "right"], titles=texts, caption=caption)


def _differences_in_the_plane(questions: Sequence[Question], level: str, vectors: TextVectors) -> Block:
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
        return NO_PLANE
    caption = "t-SNE of right minus left"
    return plots.scatter(tsne(rows_ND), classes, list(CATEGORIES), titles=titles, caption=caption)


def _ranks(name: str, scores: AnalogyScores) -> Section:
    """Questions by the rank of the right answer, per level (UNI Figures 1 and 2)."""
    blocks = []
    for size, caption in ((5, "semantic: rank among 5"), (2, "syntactic: rank among 2")):
        percent: dict[tuple[str, str], float] = {}
        for level, by_category in scores.rank_counts.items():
            counts = np.zeros(5)
            for category, found in by_category.items():
                if CATEGORIES[category].candidates == size:
                    counts[: len(found)] += found
            if counts.sum():
                parts = 100 * counts[:size] / counts.sum()
                percent |= {(level, str(rank + 1)): float(part) for rank, part in enumerate(parts)}
        blocks.append(plots.bars(LEVELS, [str(r + 1) for r in range(size)], percent, caption=caption))
    return Section(f"{name}: rank of the right answer, % of questions", blocks)
