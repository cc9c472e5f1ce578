"""Report of passage ranking: rows like EMP's Table 3, pairs that tie, learning curves; one page of HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from corpora.ranking.questions import PassageSet
from senteval_runner.report import html
from senteval_runner.report.tables import markdown
from studies.passages.metrics import METRICS

LABELS = ("model", "feature", "scorer")
HEADERS = (*LABELS, *(name.upper() for name in METRICS))
PAIR_HEADERS = (*LABELS, "pairs", "tied at the start", "tied", "loss 0", "chosen pass", "tied on test")
INTERVALS = "In brackets: 95 % interval from resampling questions. ±: standard deviation over seeds."
TIES = (
    "Shares of training pairs (a relevant and an irrelevant passage of one question). Tied: scores differ by "
    "at most 1e-6. Loss 0: the pair teaches nothing any more."
)
Row = Mapping[str, Any]


def name(row: Row) -> str:
    """One line that tells rows of a set apart."""
    return " ".join(str(row[label]) for label in LABELS if row[label] not in ("none", "words"))


def margin_note(margin: float) -> str:
    """What a zero margin allows."""
    if margin:
        return f"Pairwise hinge loss with margin {margin:g}."
    return (
        "Pairwise hinge loss with margin 0, as EMP prints it: equal scores are a minimum, so a scorer that "
        "gives every passage one score has loss 0, and a pair in the right order teaches nothing."
    )


def score_cells(row: Row) -> list[str]:
    """Percentages with one decimal, deviations over several seeds, an interval of MAP."""
    shown = []
    for metric in METRICS:
        value = row["metrics"][metric]
        cell = f"{100 * value['mean']:.1f}"
        if row["seeds"] > 1:
            cell += f" ± {100 * value['sd']:.1f}"
        if metric == "map":
            cell += f" [{100 * value['low']:.1f}, {100 * value['high']:.1f}]"
        shown.append(cell)
    return shown


def trained(rows: Sequence[Row]) -> list[Row]:
    """Rows of scorers trained on frozen vectors."""
    return [row for row in rows if "after" in row["info"][0]]


def pair_cells(row: Row) -> list[str]:
    """How the training pairs stood before and after, means over seeds."""

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


def tables(rows: Sequence[Row], sets: Sequence[PassageSet], margin: float) -> str:
    """Markdown of everything."""
    parts = [f"{margin_note(margin)} {INTERVALS}\n"]
    for data in sets:
        own = [row for row in rows if row["set"] == data.name]
        parts.append(f"\n## {data.name}\n\n{describe(data)}\n\n")
        parts.append(markdown(HEADERS, [[*(str(r[c]) for c in LABELS), *score_cells(r)] for r in own]))
        learnt = trained(own)
        if learnt:
            pairs = markdown(PAIR_HEADERS, [[*(str(r[c]) for c in LABELS), *pair_cells(r)] for r in learnt])
            parts.append(f"\n{TIES}\n\n{pairs}")
    return "".join(parts)


def _curves(rows: Sequence[Row]) -> html.Html:
    """Development score after each pass, first seeds."""
    lines = {name(row): list(enumerate(row["info"][0]["curve"])) for row in trained(rows)}
    return html.curve(lines, x_label="pass", y_label="dev")


def _set_section(data: PassageSet, own: Sequence[Row]) -> html.Html:
    best = {m: max((r["metrics"][m]["mean"] for r in own), default=0.0) for m in METRICS}
    cells: list[list[html.Cell]] = []
    for row in own:
        shown = [
            html.Html(f"<b>{cell}</b>") if row["metrics"][m]["mean"] == best[m] else cell
            for m, cell in zip(METRICS, score_cells(row), strict=True)
        ]
        cells.append([*(str(row[c]) for c in LABELS), *shown])
    heights = {(m.upper(), name(r)): 100 * r["metrics"][m]["mean"] for r in own for m in ("mrr", "map")}
    half = {
        (m.upper(), name(r)): 50 * (r["metrics"][m]["high"] - r["metrics"][m]["low"])
        for r in own
        for m in ("mrr", "map")
    }
    parts = [
        html.table(HEADERS, cells),
        html.bars(("MRR", "MAP"), [name(r) for r in own], heights, spread=half),
    ]
    learnt = trained(own)
    if learnt:
        pairs = [[*(str(r[c]) for c in LABELS), *pair_cells(r)] for r in learnt]
        parts += [html.paragraph(TIES), html.table(PAIR_HEADERS, pairs), _curves(own)]
    return html.section(data.name, *parts, note=describe(data))


def page(rows: Sequence[Row], sets: Sequence[PassageSet], margin: float) -> str:
    """The whole report."""
    parts = [html.paragraph(f"{margin_note(margin)} {INTERVALS}")]
    parts += [_set_section(data, [row for row in rows if row["set"] == data.name]) for data in sets]
    return html.page("Passage ranking", parts)
