"""Report of FAQ retrieval: a table like UNI's 8, projections of queries and answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from corpora.ranking.faq import FaqSet
from senteval_runner.report import plots
from senteval_runner.report.page import Block, Page, Section
from senteval_runner.report.projections import NO_PLANE, has_plane, tsne
from senteval_runner.report.table import Column, Score, Table
from studies.faq.evaluate import Row, Vectors

COLUMNS = (
    "method",
    "query against",
    "training",
    Column("accuracy %", digits=1, best="high"),
    Column("MRR", digits=3, best="high"),
)
QUERIES_SHOWN = 150


def tables(rows: Sequence[Row], sets: Sequence[FaqSet]) -> Page:
    """A table per set."""
    return Page("FAQ retrieval", [_set_section(faq, rows) for faq in sets])


def _set_section(faq: FaqSet, rows: Sequence[Row]) -> Section:
    cells = [
        [
            row["method"],
            row["side"],
            row["training"],
            Score(100 * row["accuracy"], 100 * row["accuracy_sd"]),
            Score(row["mrr"], row["mrr_sd"]),
        ]
        for row in rows
        if row["set"] == faq.name
    ]
    note = f"{len(faq.entries)} entries, {len(faq.queries)} queries; mean ± deviation over random test parts."
    return Section(faq.name, [Table(COLUMNS, cells, notes=[note])])


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
