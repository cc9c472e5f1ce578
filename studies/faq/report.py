"""Report of FAQ retrieval: a table like UNI's 8, projections of queries and answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpora.ranking.faq import FaqSet
from senteval_runner.report import html
from senteval_runner.report.projections import NO_PLANE, has_plane, tsne
from senteval_runner.report.tables import markdown

HEADERS = ("set", "method", "query against", "training", "accuracy %", "± sd", "MRR", "± sd")
QUERIES_SHOWN = 150


def cells(row: Mapping[str, Any]) -> list[html.Cell]:
    """A row of the table."""
    names = [row["set"], row["method"], row["side"], row["training"]]
    return [*names, 100 * row["accuracy"], 100 * row["accuracy_sd"], row["mrr"], row["mrr_sd"]]


def tables(rows: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: accuracies with one decimal, MRR with three."""
    lines = []
    for row in rows:
        *names, accuracy, accuracy_sd, mrr, mrr_sd = cells(row)
        figures = [f"{accuracy:.1f}", f"{accuracy_sd:.1f}", f"{mrr:.3f}", f"{mrr_sd:.3f}"]
        lines.append([*map(str, names), *figures])
    return markdown(HEADERS, lines)


def projection(faq: FaqSet, vectors: Mapping[str, NDArray[np.floating]]) -> html.Html:
    """t-SNE of the first queries and the answers that serve them."""
    ids = list(faq.queries)[:QUERIES_SHOWN]
    column = {entry.doc_id: place for place, entry in enumerate(faq.entries)}
    served = sorted({column[doc] for query in ids for doc in faq.relevant[query]})
    rows_ND = np.concatenate([vectors["query"][: len(ids)], vectors["answer"][served]])
    if not has_plane(rows_ND):
        return html.paragraph(NO_PLANE)
    titles = [faq.queries[query] for query in ids] + [faq.entries[place].answer[:80] for place in served]
    classes = [0] * len(ids) + [1] * len(served)
    return html.scatter(tsne(rows_ND).tolist(), classes, ["query", "answer"], titles=titles)


def page(
    rows: Sequence[Mapping[str, Any]],
    sets: Sequence[FaqSet],
    vectors: Mapping[str, Mapping[str, Mapping[str, NDArray[np.floating]]]],
) -> str:
    """The whole report."""
    parts = []
    for faq in sets:
        own = [cells(row) for row in rows if row["set"] == faq.name]
        table = html.table(HEADERS, own, best=(4, 6), digits=3)
        note = f"{len(faq.entries)} entries, {len(faq.queries)} queries; means over random test parts"
        parts.append(html.section(faq.name, table, note=note))
        for name, table_vectors in vectors[faq.name].items():
            parts.append(
                html.section(f"{faq.name}: queries and answers by {name}", projection(faq, table_vectors))
            )
    return html.page("FAQ retrieval", parts)
