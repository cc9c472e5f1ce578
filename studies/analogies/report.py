"""Scores of models on the questions and their report: UNI's Tables 4 and 6 and its Figures 1 to 4."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace

import numpy as np

from corpora.support.config import config_to_json
from corpora.support.errors import UserError
from corpora.support.files import sha256_file, write_json, write_text
from senteval_runner.report import plots
from senteval_runner.report.page import Block, Page, Section
from senteval_runner.report.projections import NO_PLANE, has_plane, pca, tsne
from senteval_runner.report.table import Column, Table
from senteval_runner.vectors.embed import as_vectors
from senteval_runner.vectors.encoders import open_model
from studies.analogies.config import ScoreConfig
from studies.analogies.questions import CATEGORIES, LEVELS, Question, read_questions
from studies.analogies.score import AnalogyScores, Float, TextVectors, score_analogies

AVERAGES = {"semantic": "sem", "syntactic": "syn", "average": "Avg."}
RATES = ("PPR", "PNR")
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


def run(config: ScoreConfig) -> None:
    """Score the models and write the report.

    Raises:
        UserError: no model, or a file that cannot be read.
    """
    if not config.models:
        raise UserError("no model given; name one or more, see --help")
    questions = read_questions(config.questions)
    vectors = {spec: TextVectors(questions, as_vectors(open_model(spec))) for spec in config.models}
    scores = {spec: score_analogies(questions, found) for spec, found in vectors.items()}
    page = tables(scores)
    write_text(config.output / "tables.md", page.markdown())
    drawn = figures(questions, scores, vectors)
    write_text(config.output / "report.html", replace(page, sections=[*page.sections, *drawn]).html())
    write_json(
        config.output / "results.json",
        {
            "config": config_to_json(config),
            "questions_sha256": sha256_file(config.questions),
            "models": {spec: asdict(found) for spec, found in scores.items()},
        },
    )
    print(page.markdown())
    print(f"{config.output}/report.html, results.json, tables.md")


def tables(scores: ByModel) -> Page:
    """Everything that follows from scores alone, by model."""
    averages = {
        f"{level} {short}": {name: one.averages.get(level, {}).get(key) for name, one in scores.items()}
        for level in LEVELS
        for key, short in AVERAGES.items()
    }
    averages["All"] = {name: one.overall for name, one in scores.items()}
    transfer = {
        f"{level} {rate}": {name: one.transfer.get(level, {}).get(rate) for name, one in scores.items()}
        for level in LEVELS[1:]
        for rate in RATES
    }
    levels = [level for level in LEVELS if any(level in one.accuracy for one in scores.values())]
    return Page(
        "Analogies of words, phrases and sentences",
        [
            Section("Accuracy (%)", [_percentages(averages, scores)]),
            *(
                Section(
                    f"Accuracy by category, {level}s (%)", [_percentages(_accuracy(scores, level), scores)]
                )
                for level in levels
            ),
            Section("Transfer from words (%)", [_percentages(transfer, scores)], note=TRANSFER_NOTE),
        ],
    )


def _accuracy(scores: ByModel, level: str) -> dict[str, dict[str, float | None]]:
    """By category that is asked at this level, and by model."""
    found = {name: one.accuracy.get(level, {}) for name, one in scores.items()}
    asked = [category for category in CATEGORIES if any(category in one for one in found.values())]
    return {category: {name: one.get(category) for name, one in found.items()} for category in asked}


def _percentages(columns: Mapping[str, Mapping[str, float | None]], models: ByModel) -> Table:
    """One row per model."""
    rows = [
        [name, *(None if (value := column[name]) is None else 100 * value for column in columns.values())]
        for name in models
    ]
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
    return plots.scatter(pca(rows_ND), classes, LEVELS, titles=texts, links=links, caption=caption)


def differences(questions: Sequence[Question], vectors: TextVectors) -> Block:
    """Right minus left of pairs of all categories and levels, coloured by category (UNI Figure 4)."""
    asked = [name for name, category in CATEGORIES.items() if category.kind]
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
