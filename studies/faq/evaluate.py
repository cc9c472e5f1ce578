"""Scores of every method on a FAQ set (UNI Table 8): nothing trained, then everything trained.

A method gives one score per query and entry; higher is better. The files of a set fix which queries train and
which test, so the deviation is over trainings.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpora.ranking.lexical import Bm25, Scores, Tfidf
from corpora.support.errors import UserError
from senteval_runner.report.page import Page
from senteval_runner.vectors.encoders import open_model
from studies.faq.config import FaqConfig, Sampling
from studies.faq.data import read_faq
from studies.faq.report import Rows, page
from studies.faq.train import LabelledPairs, cosines, tune
from studies.kit import Cell, Figures, Run

LEXICAL: Mapping[str, type[Bm25] | type[Tfidf]] = {"TF-IDF": Tfidf, "BM25": Bm25}


def evaluate(config: FaqConfig, run: Run) -> Page:
    """Score every method on every set.

    Raises:
        UserError: a set or model that cannot be opened.
    """
    found_sets = [read_faq(folder) for folder in dict.fromkeys(config.sets)]
    sets = {data.name: data for data in found_sets}
    if len(sets) < len(found_sets):
        raise UserError(f"two sets have one name ({', '.join(sets)}); rename a folder")
    retriever = [config.retriever] if config.retriever and "retrieved" in config.sampling else []
    models = {spec: open_model(spec, cache=None) for spec in [*config.models, *retriever]}

    @cache
    def vectors(name: str, model: str) -> Mapping[str, NDArray[np.floating]]:
        return sets[name].embed(models[model])

    def similarities(name: str, model: str) -> Scores:
        found = vectors(name, model)
        scores: Scores = found["query"] @ found["question"].T
        return scores

    def frozen(name: str, method: str, folder: Path) -> Figures:
        data = sets[name]
        if method in LEXICAL:
            index = LEXICAL[method](data.questions)
            return data.measure(np.array([index.scores(data.queries[row]) for row in data.test]))
        return data.measure(similarities(name, method)[data.test])

    def tuned(name: str, model: str, sampling: Sampling, seed: int, folder: Path) -> Figures:
        data = sets[name]
        guide = similarities(name, config.retriever or model)[data.train] if sampling == "retrieved" else None
        asked = [data.queries[row] for row in data.train]
        pairs = LabelledPairs(asked, data.questions, data.relevant_QN[data.train], guide, seed)
        tower = tune(model, pairs, config, folder, run.log)
        return data.measure(cosines(tower, [data.queries[row] for row in data.test], data.questions))

    cells: dict[tuple[str, str, Sampling | None, int], Cell] = {}
    options: list[object] = [config.epochs, config.batch_size, config.learning_rate, config.max_length]
    options += [models[spec].identity for spec in retriever]
    for name, data in sets.items():
        for method in [*LEXICAL, *config.models]:
            identity = [data.digest, *(models[method].identity if method in models else [method])]
            compute = partial(frozen, name, method)
            cells[name, method, None, 0] = Cell(name=f"{name}: {method}", identity=identity, compute=compute)
        for sampling, model, seed in product(config.sampling, config.models, range(config.runs)):
            cells[name, model, sampling, seed] = Cell(
                name=f"{name}: {model}, {sampling} negatives, seed {seed}",
                identity=[data.digest, *models[model].identity, sampling, seed, *options],
                compute=partial(tuned, name, model, sampling, seed),
            )
    rows: Rows = {}
    for (name, method, trained, _), figures in run.figures(cells).items():
        rows.setdefault((name, method, trained), []).append(figures)
    return page(rows, {(name, model): vectors(name, model) for name in sets for model in config.models}, sets)
