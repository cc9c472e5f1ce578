"""Scores of every method on a FAQ set (UNI Table 8, Figure 6): nothing trained, then everything trained.

A method gives one score per query and entry; higher is better. The files of a set fix which queries train and
which test, so the deviation is over trainings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpora.ranking.lexical import Bm25, Scores, Tfidf
from runtime.errors import UserError
from senteval_runner.report import plots
from senteval_runner.report.page import Block, Column, Page, Section, Table
from senteval_runner.report.page import Cell as TableCell
from senteval_runner.vectors.models import open_model
from studies.faq.config import FaqConfig, Sampling
from studies.faq.data import Data, read_faq
from studies.faq.train import LabelledPairs, cosines, tune
from studies.kit import Cell, Figures, Run, published

LEXICAL: Mapping[str, type[Bm25] | type[Tfidf]] = {"TF-IDF": Tfidf, "BM25": Bm25}
COLUMNS = (
    "Method",
    Column("Acc.", digits=1, best="high"),
    Column("Std.", digits=1),
    Column("MRR", digits=3, best="high"),
)
"""UNI's Table 8."""
TRAINED = {None: "", "retrieved": " + FAQ", "random": " + FAQ, random negatives"}
"""What follows a model's name, by how its negatives were sampled."""
PUBLISHED = "published (UNI, Table 8), on the authors' own set, which is not at hand"
QUERIES_SHOWN = 150


def evaluate(config: FaqConfig, run: Run) -> Page:
    """Score every method on every set.

    Raises:
        UserError: a set or model that cannot be opened.
    """
    found_sets = [read_faq(folder) for folder in dict.fromkeys(config.sets)]
    sets = {data.name: data for data in found_sets}
    if len(sets) < len(found_sets):
        raise UserError(f"two sets have one name ({', '.join(sets)}); rename a folder")
    models = run.opened({spec: partial(open_model, spec, cache=None) for spec in config.models})
    retriever = [config.retriever] if config.retriever and "retrieved" in config.sampling else []
    guides = {**models, **{spec: open_model(spec, cache=None) for spec in retriever}}

    @cache
    def vectors(data: Data, model: str) -> Mapping[str, NDArray[np.floating]]:
        return data.embed(guides[model])

    def similarities(data: Data, model: str) -> Scores:
        found = vectors(data, model)
        scores: Scores = found["query"] @ found["question"].T
        return scores

    def frozen(data: Data, method: str, folder: Path) -> Figures:
        if method in LEXICAL:
            index = LEXICAL[method](data.questions)
            return data.measure(np.array([index.scores(data.queries[row]) for row in data.test]))
        return data.measure(similarities(data, method)[data.test])

    def tuned(data: Data, model: str, sampling: Sampling, seed: int, folder: Path) -> Figures:
        guide = similarities(data, config.retriever or model)[data.train] if sampling == "retrieved" else None
        asked = [data.queries[row] for row in data.train]
        pairs = LabelledPairs(asked, data.questions, data.relevant_QN[data.train], guide, seed)
        tower = tune(model, pairs, config, folder, run.log)
        return data.measure(cosines(tower, [data.queries[row] for row in data.test], data.questions))

    cells: dict[tuple[str, str, Sampling | None, int], Cell] = {}
    options = [config.epochs, config.learning_rate, *(guides[spec].identity for spec in retriever)]
    for name, data in sets.items():
        for method in [*LEXICAL, *models]:
            identity = [data.digest, *(models[method].identity if method in models else [method])]
            compute = partial(frozen, data, method)
            cells[name, method, None, 0] = Cell(name=f"{name}: {method}", identity=identity, compute=compute)
        for sampling, model, seed in product(config.sampling, models, range(config.runs)):
            cells[name, model, sampling, seed] = Cell(
                name=f"{name}: {model}, {sampling} negatives, seed {seed}",
                identity=[data.digest, *models[model].identity, sampling, seed, *options],
                compute=partial(tuned, data, model, sampling, seed),
            )
    rows: dict[str, dict[tuple[str, Sampling | None], list[Figures]]] = {name: {} for name in sets}
    for (name, method, trained, _), figures in run.figures(cells).items():
        rows[name].setdefault((method, trained), []).append(figures)
    theirs = published(Path(__file__).with_name("published.csv")) if config.preset else {}
    sections = []
    for name, data in sets.items():
        note = f"{len(data.questions)} entries, {len(data.queries)} queries. Std. is over the seeds."
        sections.append(Section(name, [score_table(rows[name], theirs)], note=note))
    for (name, data), model in product(sets.items(), models):
        if (model, None) in rows[name]:
            shown = _projection(data, vectors(data, model))
            sections.append(Section(f"{name}: queries and answers by {model}", [shown]))
    return Page("FAQ retrieval", sections)


def score_table(
    rows: Mapping[tuple[str, Sampling | None], Sequence[Figures]], theirs: Mapping[str, Mapping[str, float]]
) -> Table:
    """One row per method, untrained ones first, from the figures of the seeds; Std. is the population's."""
    cells: list[list[TableCell]] = []
    for (method, sampling), seeds in sorted(rows.items(), key=lambda row: row[0][1] is not None):
        accuracy, mrr = (np.array([one[metric] for one in seeds]) for metric in ("accuracy", "mrr"))
        deviation = None if sampling is None else 100 * float(accuracy.std())
        cells.append([method + TRAINED[sampling], 100 * float(accuracy.mean()), deviation, float(mrr.mean())])
    return Table(
        COLUMNS,
        cells,
        quoted=[[name, *map(row.get, ("Acc.", "Std.", "MRR"))] for name, row in theirs.items()],
        quoted_title=PUBLISHED if theirs else "",
    )


def _projection(data: Data, vectors: Mapping[str, NDArray[np.floating]]) -> Block:
    """t-SNE of the first queries and their answers."""
    queries = data.queries[:QUERIES_SHOWN]
    served = np.flatnonzero(data.relevant_QN[: len(queries)].any(axis=0))
    rows_ND = np.concatenate([vectors["query"][: len(queries)], vectors["answer"][served]])
    classes = [0] * len(queries) + [1] * len(served)
    return plots.scatter(rows_ND, classes, ["query", "answer"], by="tsne")
