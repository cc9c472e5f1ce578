"""Scores of models on the questions and their report: UNI's Tables 4 and 6 and its Figures 1 to 4."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Literal, cast

import numpy as np

from corpora.support.files import sha256_file
from senteval_runner.report import plots
from senteval_runner.report.page import Block, Cell, Column, Page, Section, Table
from senteval_runner.report.plots import NO_PLANE, has_plane, pca, tsne
from senteval_runner.vectors.encoders import open_model
from studies.analogies.config import ScoreConfig
from studies.analogies.questions import CATEGORIES, LEVELS, Question, read_questions
from studies.analogies.score import AnalogyScores, Float, TextVectors, answer_ranks, summarise
from studies.kit import runner
from studies.kit.runner import Figures, Run

AVERAGES = {"semantic": "sem", "syntactic": "syn", "average": "Avg."}
RATES = {"PPR": "PPR", "PNR": "PNR"}
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
ByModel = Mapping[str, AnalogyScores]


def score(config: ScoreConfig, run: Run) -> Page:
    """Score the models on the questions.

    Raises:
        UserError: a file or model that cannot be opened.
    """
    questions, digest = read_questions(config.questions), sha256_file(config.questions)
    models = {spec: open_model(spec) for spec in config.models}

    @cache
    def vectors(name: str) -> TextVectors:
        return TextVectors(questions, models[name])

    def compute(name: str, folder: Path) -> Figures:
        return {**summarise(questions, answer_ranks(questions, vectors(name)))}

    cells = {
        name: runner.Cell(name=name, identity=[digest, *model.identity], compute=partial(compute, name))
        for name, model in models.items()
    }
    scores = {name: cast(AnalogyScores, found) for name, found in run.figures(cells).items()}
    page = tables(scores)
    drawn = figures(questions, scores, {name: vectors(name) for name in scores})
    return replace(page, sections=[*page.sections, *drawn])


def tables(scores: ByModel) -> Page:
    """Everything that follows from scores alone, by model."""
    sections = [Section("Accuracy (%)", [_table(scores, "averages", LEVELS, AVERAGES)])]
    for level in LEVELS:
        asked = {
            name: name
            for name in CATEGORIES
            if any(name in s["accuracy"].get(level, {}) for s in scores.values())
        }
        if asked:
            rows = _table(scores, "accuracy", [level], asked)
            sections.append(Section(f"Accuracy by category, {level}s (%)", [rows]))
    transfer = _table(scores, "transfer", LEVELS[1:], RATES)
    sections.append(Section("Transfer from words (%)", [transfer], note=TRANSFER_NOTE))
    return Page("Analogies of words, phrases and sentences", sections)


def _table(
    scores: ByModel,
    what: Literal["averages", "accuracy", "transfer"],
    levels: Sequence[str],
    names: Mapping[str, str],
) -> Table:
    """One row per model, the columns of each level side by side, and the mean over levels after averages."""
    columns = [
        f"{level} {short}" if len(levels) > 1 else short for level in levels for short in names.values()
    ]
    rows: list[list[Cell]] = []
    for model, found in scores.items():
        values = [found[what].get(level, {}).get(key) for level in levels for key in names]
        values += [found["overall"]] if what == "averages" else []
        rows.append([model, *(None if value is None else 100 * value for value in values)])
    columns += ["All"] if what == "averages" else []
    return Table(["model", *(Column(name, digits=1, best="high") for name in columns)], rows)


def figures(
    questions: Sequence[Question], scores: ByModel, vectors: Mapping[str, TextVectors]
) -> Iterator[Section]:
    """Ranks of the right answers, and pairs in the plane, per model."""
    for name, one in scores.items():
        yield Section(f"{name}: rank of the right answer, % of questions", _ranks(one))
        planes = [pattern(questions, vectors[name]), differences(questions, vectors[name])]
        yield Section(f"{name}: pairs in the plane", planes)


def pair_texts(
    questions: Sequence[Question], level: str, category: str
) -> dict[tuple[str, str], tuple[str, str]]:
    """The distinct pairs of a category at a level by the pair's words, in the file's order."""
    words = {q.question_id: q for q in questions if q.level == "word"}
    found: dict[tuple[str, str], tuple[str, str]] = {}
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
    return plots.scatter(pca(rows_ND), classes, LEVELS, links=links, caption=caption)


def differences(questions: Sequence[Question], vectors: TextVectors) -> Block:
    """Right minus left of pairs of all categories and levels, coloured by category (UNI Figure 4)."""
    asked = [name for name, category in CATEGORIES.items() if category.kind]
    names = list(dict.fromkeys(MERGED.get(name, name) for name in asked))
    rows: list[Float] = []
    classes: list[int] = []
    for category in asked:
        for level in LEVELS:
            pairs = list(pair_texts(questions, level, category).values())[:DIFFERENCES_SHOWN]
            if pairs:
                rows.append(vectors([b for _, b in pairs]) - vectors([a for a, _ in pairs]))
                classes += [names.index(MERGED.get(category, category))] * len(pairs)
    if not rows or not has_plane(np.concatenate(rows)):
        return NO_PLANE
    caption = "t-SNE of right minus left in words, phrases and sentences"
    return plots.scatter(tsne(np.concatenate(rows)), classes, names, caption=caption)


def _ranks(scores: AnalogyScores) -> list[Block]:
    """Semantic questions by the rank of the right answer, per level (UNI Figures 1 and 2)."""
    blocks: list[Block] = []
    for level, by_category in scores["rank_counts"].items():
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
