"""Scores of every method on a FAQ set (UNI Table 8, Figure 6): nothing trained, then everything trained.

A method gives one score per query and entry; higher is better. The files of a set fix which queries train and
which test, so the deviation is over trainings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from corpora.ranking.lexical import Bm25, Scores, Tfidf
from multiview.names.opened import OpenedEncoder
from runtime.errors import UserError
from senteval_runner.report import plots
from senteval_runner.report.page import Cell as TableCell
from senteval_runner.report.page import Column, Page, Section, Table
from senteval_runner.vectors import open_model
from studies.faq.data import Data, embedded, read_faq
from studies.faq.train import cosines, labelled_pairs, tune
from studies.kit import Cell, Figures, Run, published

if TYPE_CHECKING:
    from studies.faq.__main__ import FaqConfig, Sampling

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
        UserError: a set or model that cannot be opened, or two sets of one name.
    """
    read = [read_faq(folder) for folder in dict.fromkeys(config.sets)]
    sets = {data.name: data for data in read}
    if len(sets) < len(read):
        raise UserError(f"two sets have one name ({', '.join(sets)}); rename a folder")
    models = run.opened({spec: partial(open_model, spec) for spec in config.models})
    cells = faq_cells(config, run, sets, models)
    rows: dict[str, dict[tuple[str, Sampling | None], list[Figures]]] = {name: {} for name in sets}
    for (name, method, sampling, _), figures in run.figures(cells).items():
        rows[name].setdefault((method, sampling), []).append(figures)
    theirs = published(Path(__file__).with_name("published.csv")) if config.preset else {}
    sections = []
    for name, data in sets.items():
        note = f"{len(data.questions)} entries, {len(data.queries)} queries. Std. is over the seeds."
        sections.append(Section(name, [score_table(rows[name], theirs)], note=note))
    for (name, data), (model, encoder) in product(sets.items(), models.items()):
        if (model, None) in rows[name]:
            count = min(QUERIES_SHOWN, len(data.queries))
            answers = np.flatnonzero(data.relevant_QN[:count].any(axis=0))
            vectors = embedded(data, encoder)
            rows_ND = np.concatenate([vectors["query"][:count], vectors["answer"][answers]])
            classes = [0] * count + [1] * len(answers)
            plane = plots.scatter(rows_ND, classes, ["query", "answer"], by="tsne")
            sections.append(Section(f"{name}: queries and answers by {model}", [plane]))
    return Page("FAQ retrieval", sections)


def faq_cells(
    config: FaqConfig, run: Run, sets: Mapping[str, Data], models: Mapping[str, OpenedEncoder]
) -> dict[tuple[str, str, Sampling | None, int], Cell]:
    """Make a cell of every set, method, way to sample negatives (None: nothing is trained) and seed.

    Raises:
        UserError: the retriever cannot be opened.
    """

    def tuned(data: Data, model: str, guide: OpenedEncoder | None, seed: int, folder: Path) -> Figures:
        scores = None if guide is None else similarities(data, guide)[data.train]
        train, test = ([data.queries[row] for row in rows] for rows in (data.train, data.test))
        draw = labelled_pairs(train, data.questions, data.relevant_QN[data.train], scores, seed)
        tower = tune(model, draw, config, seed, folder)
        return data.measure(cosines(tower, test, data.questions))

    retriever = None
    options: list[Any] = [config.epochs, config.learning_rate]
    if config.retriever and "retrieved" in config.sampling:
        retriever = models.get(config.retriever) or open_model(config.retriever)
        options += [retriever.identity]
    cells: dict[tuple[str, str, Sampling | None, int], Cell] = {}
    for name, data in sets.items():
        for method in [*LEXICAL, *models]:
            identity = models[method].identity if method in models else [method]
            compute = partial(frozen, data, LEXICAL.get(method) or models[method])
            cell = Cell(name=f"{name}: {method}", identity=[data.digest, *identity], compute=compute)
            cells[name, method, None, 0] = cell
        for sampling, (model, encoder), seed in product(config.sampling, models.items(), range(config.runs)):
            guide = (retriever or encoder) if sampling == "retrieved" else None
            cells[name, model, sampling, seed] = Cell(
                name=f"{name}: {model}, {sampling} negatives, seed {seed}",
                identity=[data.digest, *encoder.identity, sampling, seed, *options],
                compute=partial(tuned, data, model, guide, seed),
            )
    return cells


def similarities(data: Data, encoder: OpenedEncoder) -> Scores:
    """Compute the cosines of all queries and entries, [Q, N]."""
    vectors = embedded(data, encoder)
    scores_QN: Scores = vectors["query"] @ vectors["question"].T
    return scores_QN


def frozen(data: Data, method: type[Bm25] | type[Tfidf] | OpenedEncoder, folder: Path) -> Figures:
    """Measure a method that learns nothing."""
    if isinstance(method, OpenedEncoder):
        return data.measure(similarities(data, method)[data.test])
    index = method(data.questions)
    return data.measure(np.array([index.scores(data.queries[row]) for row in data.test]))


def score_table(
    rows: Mapping[tuple[str, Sampling | None], Sequence[Figures]], theirs: Mapping[str, Mapping[str, float]]
) -> Table:
    """Make a row per method, untrained ones first, from the seeds' figures; Std. is the population's."""
    cells: list[list[TableCell]] = []
    for (method, sampling), seeds in sorted(rows.items(), key=lambda row: row[0][1] is not None):
        accuracy, mrr = (np.array([one[metric] for one in seeds]) for metric in ("accuracy", "mrr"))
        deviation = None if sampling is None else 100 * float(accuracy.std())
        cells.append([method + TRAINED[sampling], 100 * float(accuracy.mean()), deviation, float(mrr.mean())])
    quoted = [[name, *map(row.get, ("Acc.", "Std.", "MRR"))] for name, row in theirs.items()]
    return Table(COLUMNS, cells, quoted=quoted, quoted_title=PUBLISHED if theirs else "")
