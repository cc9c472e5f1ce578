"""The tables: dev scores of every configuration, test scores of the best three, scores after every stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from senteval_runner.report.page import Page, Section
from senteval_runner.report.table import Cell, Column, Table
from studies.multitask.paper import TABLE_1, TABLE_2, Published
from studies.multitask.stages import TASKS, parse_stages

COLUMNS = ("SST", "Quora", "SemEval", "SNLI")
"""As in SEQ-MT's Table 1, the overall score left out."""
NOTE = "Percent: accuracy; SemEval (STS): Pearson x 100. In brackets: not trained yet."


@dataclass(frozen=True, kw_only=True)
class AfterStage:
    """Scores once a stage was trained."""

    stage: str
    trained: list[str]
    """Tasks that have had a stage."""
    dev: dict[str, float]
    """Fractions by task, Pearson's correlation for sts, and ``overall``."""


@dataclass(kw_only=True)
class Outcome:
    """One configuration."""

    name: str
    after: list[AfterStage]
    test: dict[str, float] | None = None
    """Scored for the best configurations only, as in the paper."""


def best(outcomes: Sequence[Outcome], most: int = 3) -> list[Outcome]:
    """The configurations with the highest overall dev score, best first; of equal ones the earlier.

    Without a Siamese stage a configuration is a baseline. SEQ-MT leaves those out of Table 2, SA-P-STS
    though it is third on dev; here they count where nothing else ran.
    """
    siamese = [o for o in outcomes if any(stage.pooling for stage in parse_stages(o.name))]
    return sorted(siamese or outcomes, key=lambda outcome: -outcome.after[-1].dev["overall"])[:most]


def report(outcomes: Sequence[Outcome]) -> Page:
    """Table 1 (dev), Table 2 (test), and what each stage did to the tasks before it (dev)."""
    dev = {outcome.name: _cells(outcome.after[-1].dev, outcome.after[-1].trained) for outcome in outcomes}
    test = {
        outcome.name: _cells(outcome.test, outcome.after[-1].trained)
        for outcome in best(outcomes)
        if outcome.test is not None
    }
    # Stages that several configurations share appear once.
    stages = {
        " → ".join(one.stage for one in outcome.after[: place + 1]): _cells(after.dev, after.trained)
        for outcome in outcomes
        for place, after in enumerate(outcome.after)
    }
    sections = [
        Section("Table 1: dev", [_table("configuration", dev, TABLE_1)]),
        Section("Table 2: test, the best on dev", [_table("configuration", test, TABLE_2)]),
        Section("Stages: dev", [_table("after stage", stages, {})]),
    ]
    return Page("Sequential multi-task fine-tuning", sections, NOTE)


def _table(first: str, rows: Mapping[str, list[Cell]], published: Mapping[str, Published]) -> Table:
    """Our rows, and those of the paper below where one has a name of ours."""
    quoted = [
        [
            _shown(name),
            *(None if score is None else f"{100 * score:.1f}" for score in row.scores()),
            row.overall,
        ]
        for name, row in published.items()
        if name in rows
    ]
    return Table(
        [first, *(Column(name, align="right") for name in COLUMNS), Column("Overall", digits=3)],
        [[_shown(name), *cells] for name, cells in rows.items()],
        quoted=quoted,
        quoted_title="published (SEQ-MT)" if quoted else "",
    )


def _shown(name: str) -> str:
    """A configuration's name in Markdown, where a bare star would begin or end italics."""
    return name.replace("*", "\\*")


def _cells(scores: Mapping[str, float], trained: Sequence[str]) -> list[Cell]:
    """Percent, in the order of the columns."""
    cells = {task: f"{100 * scores[task]:.1f}" for task in TASKS}
    return [*(cell if task in trained else f"({cell})" for task, cell in cells.items()), scores["overall"]]
