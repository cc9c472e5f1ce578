"""Report of FAQ retrieval: UNI's Table 8 for our models, and its Figure 6 (queries and answers)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from corpora.ranking.faq import FaqSet
from senteval_runner.report import plots
from senteval_runner.report.page import Block, Page, Section
from senteval_runner.report.projections import NO_PLANE, has_plane, tsne
from senteval_runner.report.table import Column, Table
from studies.faq.evaluate import Row, Vectors

COLUMNS = (
    "Method",
    Column("Acc.", digits=1, best="high"),
    Column("Std.", digits=1),
    Column("MRR", digits=3, best="high"),
)
"""UNI's Table 8."""
TRAINED = {None: "", "retrieved": " + FAQ", "random": " + FAQ, random negatives"}
"""What follows a model's name, by how its negatives were sampled."""
QUERIES_SHOWN = 150


def tables(rows: Sequence[Row], sets: Sequence[FaqSet]) -> Page:
    """A section per set, with a table for each side of the entries."""
    return Page("FAQ retrieval", [_set_section(faq, rows) for faq in sets])


def _set_section(faq: FaqSet, rows: Sequence[Row]) -> Section:
    own = [row for row in rows if row["set"] == faq.name]
    sides = dict.fromkeys(row["side"] for row in own)
    return Section(
        faq.name,
        [score_table([row for row in own if row["side"] == side], f"Query against {side}") for side in sides],
        note=f"{len(faq.entries)} entries, {len(faq.queries)} queries. Std. is over the seeds.",
    )


def score_table(rows: Sequence[Row], title: str) -> Table:
    """One row per method."""
    cells = [
        [
            row["method"] + TRAINED[row["sampling"]],
            100 * row["accuracy"],
            None if row["accuracy_sd"] is None else 100 * row["accuracy_sd"],
            row["mrr"],
        ]
        for row in rows
    ]
    return Table(COLUMNS, cells, title=title)


def figures(faq: FaqSet, vectors: Vectors) -> Iterator[Section]:
    """A plot of queries and answers per model."""
    for name, table in vectors.items():
        yield Section(f"{faq.name}: queries and answers by {name}", [_projection(faq, table)])


def _projection(faq: FaqSet, vectors: Mapping[str, NDArray[np.floating]]) -> Block:
    """t-SNE of the first queries and their answers."""
    ids = list(faq.queries)[:QUERIES_SHOWN]
    column = {entry.doc_id: place for place, entry in enumerate(faq.entries)}
    served = sorted({column[doc] for query in ids for doc in faq.relevant[query]})
    rows_ND = np.concatenate([vectors["query"][: len(ids)], vectors["answer"][served]])
    if not has_plane(rows_ND):
        return NO_PLANE
    titles = [faq.queries[query] for query in ids] + [faq.entries[place].answer[:80] for place in served]
    classes = [0] * len(ids) + [1] * len(served)
    return plots.scatter(tsne(rows_ND), classes, ["query", "answer"], titles=titles)
