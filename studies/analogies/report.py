"""Report of the analogy task: UNI's Tables 4 and 6 and its Figures 1 to 4 for our models."""

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

AVERAGES = {"semantic": "sem", "syntactic": "syn", "average": "Avg."}
RATES = [(level, rate) for level in LEVELS[1:] for rate in ("PPR", "PNR")]
TRANSFER_NOTE = (
    "PPR (PNR): of the semantic questions that are right (wrong) in words, the percentage that is right in "
    "phrases or sentences."
)
PATTERN = (("man", "woman"), ("king", "queen"), ("dad", "mom"))
"""The pairs of UNI's Figure 3 (its Table 7)."""
DIFFERENCES_SHOWN = 15
"""Per category and level."""
MERGED = {"capital-common": "capital-country", "capital-world": "capital-country"}
"""UNI calls the two sets of capitals one category."""


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
            Section("Accuracy (%)", [average_table(scores)]),
            *(Section(f"Accuracy by category, {level}s (%)", [_accuracy(scores, level)]) for level in levels),
            Section("Transfer from words (%)", [_transfer(scores)], note=TRANSFER_NOTE),
            Section("Open vocabulary", [_open(opened)]),
        ],
    )


def average_table(scores: Mapping[str, AnalogyScores]) -> Table:
    """One row per model (UNI Table 4)."""
    cells = [(level, key) for level in LEVELS for key in AVERAGES]
    rows = [
        [
            name,
            *(_percent(one.averages.get(level, {}).get(key)) for level, key in cells),
            _percent(one.overall),
        ]
        for name, one in scores.items()
    ]
    names = [*(f"{level} {AVERAGES[key]}" for level, key in cells), "All"]
    return Table(["model", *(Column(name, digits=1, best="high") for name in names)], rows)


def _accuracy(scores: Mapping[str, AnalogyScores], level: str) -> Table:
    """One row per model, one column per category that is asked at this level."""
    at_level = {name: one.accuracy[level] for name, one in scores.items() if level in one.accuracy}
    asked = [name for name in CATEGORIES if any(name in found for found in at_level.values())]
    rows = [[name, *(_percent(found.get(c)) for c in asked)] for name, found in at_level.items()]
    return Table(["model", *(Column(name, digits=1, best="high") for name in asked)], rows)


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
        yield Section(f"{name}: rank of the right answer, % of questions", _ranks(one))
        planes = [pattern(questions, vectors[name]), differences(questions, vectors[name])]
        yield Section(f"{name}: pairs in the plane", planes)


Pairs = dict[tuple[str, str], tuple[str, str]]
"""Texts of a pair at a level, by the pair's words."""


def pair_texts(questions: Sequence[Question], level: str, category: str) -> Pairs:
    """The distinct pairs of a category at a level, in the file's order."""
    words = {q.question_id: q for q in questions if q.level == "word"}
    found: Pairs = {}
    for q in questions:
        if q.level == level and q.category == category:
            word = words[q.word_question_id]
            found.setdefault((word.a, word.b), (q.a, q.b))
            found.setdefault((word.c, word.answer), (q.c, q.answer))
    return found


def pattern(questions: Sequence[Question], vectors: TextVectors) -> Block:
    """Words, phrases and sentences of one category in one plane, pairs joined (UNI Figure 3)."""
    present = {q.category for q in questions}
    category = "male-female" if "male-female" in present else next(c for c in CATEGORIES if c in present)
    texts: list[str] = []
    classes: list[int] = []
    for number, level in enumerate(LEVELS):
        found = pair_texts(questions, level, category)
        shown = sorted(found, key=lambda pair: pair not in PATTERN)[: len(PATTERN)]
        texts += [text for pair in shown for text in found[pair]]
        classes += [number] * (2 * len(shown))
    rows_ND = vectors(texts)
    if not has_plane(rows_ND):
        return NO_PLANE
    links = [(left, left + 1) for left in range(0, len(texts), 2)]
    caption = f"PCA of pairs of {category}"
    return plots.scatter(pca(rows_ND), classes, LEVELS, titles=texts, links=links, caption=caption)


def differences(questions: Sequence[Question], vectors: TextVectors) -> Block:
    """Right minus left of pairs of all categories and levels, coloured by category (UNI Figure 4)."""
    asked = [name for name, category in CATEGORIES.items() if category.contexts]
    names = list(dict.fromkeys(MERGED.get(name, name) for name in asked))
    rows: list[Float] = []
    classes: list[int] = []
    titles: list[str] = []
    for category in asked:
        for level in LEVELS:
            pairs = list(pair_texts(questions, level, category).values())[:DIFFERENCES_SHOWN]
            if pairs:
                rows.append(vectors([b for _, b in pairs]) - vectors([a for a, _ in pairs]))
                classes += [names.index(MERGED.get(category, category))] * len(pairs)
                titles += [f"{a} → {b}" for a, b in pairs]
    if not rows or not has_plane(np.concatenate(rows)):
        return NO_PLANE
    caption = "t-SNE of right minus left in words, phrases and sentences"
    return plots.scatter(tsne(np.concatenate(rows)), classes, names, titles=titles, caption=caption)


def _ranks(scores: AnalogyScores) -> list[Block]:
    """Semantic questions by the rank of the right answer, per level (UNI Figures 1 and 2)."""
    blocks: list[Block] = []
    for level, by_category in scores.rank_counts.items():
        semantic = [name for name in by_category if CATEGORIES[name].semantic]
        most = max((len(by_category[name]) for name in semantic), default=0)
        ranks = [f"rank {rank + 1}" for rank in range(most)]
        percent = {
            (ranks[rank], category): 100 * count / sum(by_category[category])
            for category in semantic
            for rank, count in enumerate(by_category[category])
        }
        blocks.append(plots.bars(ranks, semantic, percent, caption=f"{level}s"))
    return blocks
