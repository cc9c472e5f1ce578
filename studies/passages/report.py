"""Report of passage ranking: rows like EMP's Table 3, training pairs that tie, learning curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from corpora.ranking.questions import PassageSet
from senteval_runner.report import plots
from senteval_runner.report.page import Block, Page, Section
from senteval_runner.report.table import Column, Score, Table
from studies.passages import published
from studies.passages.metrics import METRICS

LABELS = ("model", "feature", "scorer")
COLUMNS: tuple[str | Column, ...] = (
    *LABELS,
    *(Column(name.upper(), digits=1, best="high", align="right") for name in METRICS),
)
PAIR_COLUMNS = (*LABELS, "pairs", "tied at the start", "tied", "loss 0", "chosen pass", "tied on test")
INTERVALS = "In brackets: 95 % interval from resampling questions. ±: standard deviation over seeds."
TIES = (
    "Fractions of training pairs (a relevant and an irrelevant passage of one question). Tied: scores differ "
    "by at most 1e-6. Loss 0: the pair teaches nothing any more."
)
Row = Mapping[str, Any]


def name(row: Row) -> str:
    """A name that is unique among the rows of a set."""
    return " ".join(str(row[label]) for label in LABELS if row[label] not in ("none", "words"))


def margin_note(margin: float) -> str:
    """What a zero margin allows."""
    if margin:
        return f"Pairwise hinge loss with margin {margin:g}."
    return (
        "Pairwise hinge loss with margin 0, as EMP prints it: equal scores are a minimum, so a scorer that "
        "gives every passage one score has loss 0, and a pair in the right order teaches nothing."
    )


def _scores(row: Row) -> list[Score]:
    """Percentages, deviations over several seeds, an interval of MAP."""
    found = []
    for metric in METRICS:
        value = row["metrics"][metric]
        deviation = 100 * value["sd"] if row["seeds"] > 1 else None
        interval = (100 * value["low"], 100 * value["high"]) if metric == "map" else None
        found.append(Score(100 * value["mean"], deviation, interval))
    return found


def _pairs(row: Row) -> list[str]:
    """Fractions of training pairs before and after training, means over seeds."""

    def average(when: str, what: str) -> str:
        return f"{100 * sum(info[when][what] for info in row['info']) / len(row['info']):.1f} %"

    epochs = ", ".join(str(info["epoch"]) for info in row["info"])
    pairs = f"{row['info'][0]['after']['pairs']:,}"
    tied = f"{100 * row['tied']:.1f} %"
    after = [average("after", "tied"), average("after", "satisfied")]
    return [pairs, average("before", "tied"), *after, epochs, tied]


def describe(data: PassageSet) -> str:
    """Counts and notes of a set."""
    counts = "; ".join(
        f"{split}: {n['questions']:,} questions, {n['candidates']:,} candidates, {n['relevant']:,} relevant"
        for split, n in data.counts().items()
    )
    return ". ".join([counts, *data.notes]) + "."


def _bars(rows: Sequence[Row]) -> Block:
    metrics = [
        (metric.upper(), name(row), row["metrics"][metric]) for row in rows for metric in ("mrr", "map")
    ]
    return plots.bars(
        ("MRR", "MAP"),
        [name(row) for row in rows],
        {(metric, method): 100 * value["mean"] for metric, method, value in metrics},
        spread={(metric, method): 50 * (value["high"] - value["low"]) for metric, method, value in metrics},
    )


def _set_section(data: PassageSet, rows: Sequence[Row]) -> Section:
    def labelled(row: Row) -> list[str]:
        return [str(row[label]) for label in LABELS]

    quoted = published.quoted(data.name)
    scores = Table(
        COLUMNS,
        [[*labelled(row), *_scores(row)] for row in rows],
        notes=[published.NOTE] if quoted else [],
        quoted=quoted,
        quoted_title=published.TITLE if quoted else "",
    )
    blocks: list[Block] = [scores, _bars(rows)]
    trained = [row for row in rows if "after" in row["info"][0]]
    if trained:
        blocks.append(Table(PAIR_COLUMNS, [[*labelled(row), *_pairs(row)] for row in trained], notes=[TIES]))
        curves = {name(row): list(enumerate(row["info"][0]["curve"])) for row in trained}
        caption = "Score on the development questions after each pass, first seeds"
        blocks.append(plots.curves(curves, x_label="pass", y_label="dev", caption=caption))
    return Section(data.name, blocks, note=describe(data))


def page(rows: Sequence[Row], sets: Sequence[PassageSet], margin: float) -> Page:
    """The whole report."""
    sections = [_set_section(data, [row for row in rows if row["set"] == data.name]) for data in sets]
    return Page("Passage ranking", sections, f"{margin_note(margin)} {INTERVALS}")
