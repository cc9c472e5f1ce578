"""Scores of every method on a FAQ set (UNI Table 8, Figure 6): nothing trained, then everything trained.

A method gives one score per query and entry; higher is better. The files of a set fix which queries train and
which test, so the deviation is over trainings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpora.ranking.lexical import Bm25, Scores, Tfidf
from multiview.names.opened import OpenedEncoder
from runtime.errors import UserError
from senteval_runner.report import plots
from senteval_runner.report.page import Block, Column, Page, Section, Table
from senteval_runner.report.page import Cell as TableCell
from senteval_runner.vectors import open_model
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


@dataclass(kw_only=True)
class Methods:
    """The methods of a command: two lexical ones, and every encoder as it is and after training."""

    config: FaqConfig
    models: Mapping[str, OpenedEncoder]
    retriever: OpenedEncoder | None
    """Retrieves the wrong entries of training queries for every model; None: each model its own."""
    log: Callable[[str], None]
    vectors_of: dict[tuple[str, str], Mapping[str, NDArray[np.floating]]] = field(default_factory=dict)
    """Vectors of a set by model and set, each computed once."""

    def vectors(self, data: Data, model: str) -> Mapping[str, NDArray[np.floating]]:
        """Encode a set's texts once; the model is one of ``models`` or the retriever."""
        key = model, data.name
        if key not in self.vectors_of:
            encoder = self.models.get(model) or self.retriever
            assert encoder is not None
            self.vectors_of[key] = data.embed(encoder)
        return self.vectors_of[key]

    def similarities(self, data: Data, model: str) -> Scores:
        """Compute the cosines of all queries and entries, [Q, N]."""
        vectors = self.vectors(data, model)
        scores: Scores = vectors["query"] @ vectors["question"].T
        return scores

    def frozen(self, data: Data, method: str, folder: Path) -> Figures:
        """Measure a method that learns nothing."""
        if method in LEXICAL:
            index = LEXICAL[method](data.questions)
            return data.measure(np.array([index.scores(data.queries[row]) for row in data.test]))
        return data.measure(self.similarities(data, method)[data.test])

    def tuned(self, data: Data, model: str, sampling: Sampling, seed: int, folder: Path) -> Figures:
        """Train a model on the set's training queries, and measure it."""
        scores = None
        if sampling == "retrieved":
            scores = self.similarities(data, self.config.retriever or model)[data.train]
        queries = [data.queries[row] for row in data.train]
        pairs = LabelledPairs(queries, data.questions, data.relevant_QN[data.train], scores, seed)
        tower = tune(model, pairs, self.config, folder, self.log)
        return data.measure(cosines(tower, [data.queries[row] for row in data.test], data.questions))

    def cells(self, data: Data) -> Iterator[tuple[tuple[str, Sampling | None, int], Cell]]:
        """Make a cell of every method on a set, with the key (method, how negatives are sampled, seed)."""
        for method in [*LEXICAL, *self.models]:
            key = self.models[method].identity if method in self.models else [method]
            compute = partial(self.frozen, data, method)
            name = f"{data.name}: {method}"
            yield (method, None, 0), Cell(name=name, identity=[data.digest, *key], compute=compute)
        options: list[Any] = [self.config.epochs, self.config.learning_rate]
        options += [self.retriever.identity] if self.retriever else []
        for sampling, model, seed in product(self.config.sampling, self.models, range(self.config.runs)):
            yield (
                (model, sampling, seed),
                Cell(
                    name=f"{data.name}: {model}, {sampling} negatives, seed {seed}",
                    identity=[data.digest, *self.models[model].identity, sampling, seed, *options],
                    compute=partial(self.tuned, data, model, sampling, seed),
                ),
            )


def read_sets(folders: Iterable[Path]) -> dict[str, Data]:
    """Read the sets by name.

    Raises:
        UserError: a set that cannot be read, or two of one name.
    """
    data = [read_faq(folder) for folder in dict.fromkeys(folders)]
    sets = {one.name: one for one in data}
    if len(sets) < len(data):
        raise UserError(f"two sets have one name ({', '.join(sets)}); rename a folder")
    return sets


def evaluate(config: FaqConfig, run: Run) -> Page:
    """Score every method on every set.

    Raises:
        UserError: a set or model that cannot be opened.
    """
    sets = read_sets(config.sets)
    models = run.opened({spec: partial(open_model, spec, cache=None) for spec in config.models})
    retrieves = config.retriever if "retrieved" in config.sampling else None
    retriever = open_model(retrieves, cache=None) if retrieves else None
    methods = Methods(config=config, models=models, retriever=retriever, log=run.log)
    cells = {(name, *key): cell for name, data in sets.items() for key, cell in methods.cells(data)}
    rows: dict[str, dict[tuple[str, Sampling | None], list[Figures]]] = {name: {} for name in sets}
    for (name, method, sampling, _), figures in run.figures(cells).items():
        rows[name].setdefault((method, sampling), []).append(figures)
    theirs = published(Path(__file__).with_name("published.csv")) if config.preset else {}
    sections = []
    for name, data in sets.items():
        note = f"{len(data.questions)} entries, {len(data.queries)} queries. Std. is over the seeds."
        sections.append(Section(name, [score_table(rows[name], theirs)], note=note))
    for (name, data), model in product(sets.items(), models):
        if (model, None) in rows[name]:
            projection = _projection(data, methods.vectors(data, model))
            sections.append(Section(f"{name}: queries and answers by {model}", [projection]))
    return Page("FAQ retrieval", sections)


def score_table(
    rows: Mapping[tuple[str, Sampling | None], Sequence[Figures]], theirs: Mapping[str, Mapping[str, float]]
) -> Table:
    """Make a row per method, untrained ones first, from the seeds' figures; Std. is the population's."""
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
    """Draw the first queries and their answers by t-SNE."""
    count = min(QUERIES_SHOWN, len(data.queries))
    answers = np.flatnonzero(data.relevant_QN[:count].any(axis=0))
    rows_ND = np.concatenate([vectors["query"][:count], vectors["answer"][answers]])
    classes = [0] * count + [1] * len(answers)
    return plots.scatter(rows_ND, classes, ["query", "answer"], by="tsne")
