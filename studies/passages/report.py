"""Report of passage ranking: rows like EMP's Table 3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from corpora.ranking.questions import PassageSet
from senteval_runner.report.page import Page, Section
from senteval_runner.report.significance import bootstrap
from senteval_runner.report.table import Cell, Column, Score, Table
from studies.kit import Figures, published
from studies.passages.metrics import METRICS

Label = tuple[str, str, str]
"""Model, feature and scorer of a row."""
Rows = dict[tuple[str, Label], list[Figures]]
"""Figures of the seeds by set and label."""
COLUMNS: tuple[str | Column, ...] = (
    "model",
    "feature",
    "scorer",
    *(Column(name.upper(), digits=1, best="high") for name in METRICS),
)
INTERVALS = "In brackets: 95 % interval from resampling questions. ±: standard deviation over seeds."
MARGIN_0 = (
    "Pairwise hinge loss with margin 0, as EMP prints it: equal scores are a minimum, so a scorer that gives "
    "every passage one score has loss 0, and a pair in the right order teaches nothing."
)
PUBLISHED = "Published, not computed here: Ma et al. 2019, Universal Text Representation from BERT, Table 3"
NOTE = (
    "Other candidates, splits and encoders may stand behind the published rows. The paper's R@k of Quasar-T "
    "and SearchQA stands under S@k, whether a relevant passage is among the first k: as a fraction of all "
    "relevant passages, of which most questions have several, R@1 could not reach 76."
)


def page(rows: Rows, sets: Sequence[PassageSet], margin: float) -> Page:
    """A section per set.

    Args:
        rows: what the tables show.
        sets: which were ranked.
        margin: of the ranking loss.
    """
    sections = []
    for data in sets:
        own = {label: found for (name, label), found in rows.items() if name == data.name}
        note = ". ".join([*map(_count, data.counts().items()), *data.notes]) + "."
        sections.append(Section(data.name, [_table(data.name, own)], note=note))
    loss = f"Pairwise hinge loss with margin {margin:g}." if margin else MARGIN_0
    return Page("Passage ranking", sections, f"{loss} {INTERVALS}")


def _count(counted: tuple[str, Mapping[str, int]]) -> str:
    split, n = counted
    return (
        f"{split}: {n['questions']:,} questions, {n['candidates']:,} candidates, {n['relevant']:,} relevant"
    )


def _scores(seeds: Sequence[Figures]) -> list[Score]:
    """Percentages, deviations over several seeds, an interval of MAP."""
    found = []
    for metric in METRICS:
        score = Score.over_seeds([100 * figures[metric] for figures in seeds])
        assert score is not None
        if metric == "map":
            values = np.mean([figures["average_precisions"] for figures in seeds], axis=0)
            over = bootstrap(100 * values, np.arange(len(values)))
            score = Score(score.value, score.deviation, (over.low, over.high))
        found.append(score)
    return found


def _table(name: str, rows: Mapping[Label, Sequence[Figures]]) -> Table:
    """The rows of a set, and below them those that the paper has for it."""
    quoted: list[list[Cell]] = []
    for model, figures in published(Path(__file__).with_name("published.csv")).items():
        row = [figures.get(f"{name.lower()} {metric}") for metric in METRICS]
        if any(row):
            quoted.append([model, "", "", *row])
    return Table(
        COLUMNS,
        [[*label, *_scores(seeds)] for label, seeds in rows.items()],
        notes=[NOTE] if quoted else [],
        quoted=quoted,
        quoted_title=PUBLISHED if quoted else "",
    )
