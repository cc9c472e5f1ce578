"""Report of FAQ retrieval: UNI's Table 8 for our models, and its Figure 6 (queries and answers)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from senteval_runner.report import plots
from senteval_runner.report.page import Block, Page, Section
from senteval_runner.report.plots import NO_PLANE, has_plane, tsne
from senteval_runner.report.table import Cell, Column, Table
from studies.faq.config import Sampling
from studies.faq.data import Data
from studies.kit import Figures

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
Rows = dict[tuple[str, str, Sampling | None], list[Figures]]
"""Figures of the seeds by set, method and sampling; None is not trained."""


def page(
    rows: Rows,
    vectors: Mapping[tuple[str, str], Mapping[str, NDArray[np.floating]]],
    sets: Mapping[str, Data],
) -> Page:
    """A section per set with its table, and a plot per set and model.

    Args:
        rows: what the tables show.
        vectors: of queries and answers by set and model.
        sets: by name.
    """
    sections = []
    for name, data in sets.items():
        own = {key[1:]: found for key, found in rows.items() if key[0] == name}
        note = f"{len(data.questions)} entries, {len(data.queries)} queries. Std. is over the seeds."
        sections.append(Section(name, [score_table(own)], note=note))
    for (name, model), found in vectors.items():
        sections.append(Section(f"{name}: queries and answers by {model}", [_projection(sets[name], found)]))
    return Page("FAQ retrieval", sections)


def score_table(rows: Mapping[tuple[str, Sampling | None], Sequence[Figures]]) -> Table:
    """One row per method, untrained ones first; Std. is the population's."""
    cells: list[list[Cell]] = []
    for (method, sampling), seeds in sorted(rows.items(), key=lambda row: row[0][1] is not None):
        accuracy, mrr = (np.array([one[metric] for one in seeds]) for metric in ("accuracy", "mrr"))
        deviation = None if sampling is None else 100 * float(accuracy.std())
        cells.append([method + TRAINED[sampling], 100 * float(accuracy.mean()), deviation, float(mrr.mean())])
    return Table(COLUMNS, cells)


def _projection(data: Data, vectors: Mapping[str, NDArray[np.floating]]) -> Block:
    """t-SNE of the first queries and their answers."""
    queries = data.queries[:QUERIES_SHOWN]
    served = np.flatnonzero(data.relevant_QN[: len(queries)].any(axis=0))
    rows_ND = np.concatenate([vectors["query"][: len(queries)], vectors["answer"][served]])
    if not has_plane(rows_ND):
        return NO_PLANE
    classes = [0] * len(queries) + [1] * len(served)
    return plots.scatter(tsne(rows_ND), classes, ["query", "answer"])
