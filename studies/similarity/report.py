"""The tables: correlations and averages, SemEval-2013 5(a), published rows below ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from senteval_runner.report.page import Page, Section
from senteval_runner.report.table import Cell, Column, Table
from studies.similarity.columns import SEMEVAL, with_averages
from studies.similarity.correlations import Correlation
from studies.similarity.phrases import PhraseScores
from studies.similarity.published import Rows
from studies.similarity.tuning import TunedScores

FROZEN = ("frozen", "frozen F1", "threshold", "threshold F1")
TUNED = ("fine-tuned", "fine-tuned F1")


@dataclass(kw_only=True)
class Scores:
    """What one model scores, and what could not be scored."""

    correlations: dict[str, Correlation] = field(default_factory=dict)
    classified: PhraseScores | None = None
    """SemEval-2013 5(a) on frozen vectors."""
    tuned: TunedScores | None = None
    """SemEval-2013 5(a) with the encoder fine-tuned."""
    missing: list[str] = field(default_factory=list)
    """Word sets that are not there."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Why a sentence task has no score."""

    def phrases(self) -> dict[str, float]:
        """SemEval-2013 5(a) by column."""
        found: dict[str, float] = {}
        if self.tuned is not None:
            found |= zip(TUNED, (self.tuned.acc, self.tuned.f1), strict=True)
        if self.classified is not None:
            one = self.classified
            found |= zip(FROZEN, (one.acc, one.f1, one.threshold_acc, one.threshold_f1), strict=True)
        return found


def report(scored: Mapping[str, Scores], published: Rows) -> Page:
    """A row per model; no section where nothing was scored.

    Args:
        scored: by the name of the model.
        published: rows of the paper, quoted below ours; their SemEval-2013 5(a) is of fine-tuned encoders.
    """
    sections = []
    correlations = {
        model: with_averages({name: one.spearman for name, one in scores.correlations.items()})
        for model, scores in scored.items()
    }
    sets = list(dict.fromkeys(name for row in correlations.values() for name in row))
    if sets:
        quoted = {name: with_averages(row) for name, row in published.items()}
        sections.append(Section("Spearman × 100", [_table(correlations, sets, quoted, digits=1)]))
    phrases = {model: row for model, scores in scored.items() if (row := scores.phrases())}
    if phrases:
        quoted = {name: {TUNED[0]: row[SEMEVAL]} for name, row in published.items()}
        table = _table(phrases, (*TUNED, *FROZEN), quoted, digits=2)
        sections.append(Section("SemEval-2013 5(a), accuracy and F1 in percent, test part", [table]))
    return Page("Similarity of words, phrases and sentences", sections)


def _table(found: Rows, columns: Sequence[str], quoted: Rows, *, digits: int) -> Table:
    """Columns that were scored; published rows that have one of them."""
    columns = [column for column in columns if any(column in row for row in found.values())]

    def rows(of: Rows) -> list[list[Cell]]:
        return [[name, *(row.get(column) for column in columns)] for name, row in of.items()]

    theirs = rows({name: row for name, row in quoted.items() if not row.keys().isdisjoint(columns)})
    return Table(
        ["model", *(Column(column, digits=digits, best="high") for column in columns)],
        rows(found),
        quoted=theirs,
        quoted_title="published (BURT)" if theirs else "",
    )
