"""Scores of every method on a FAQ set (UNI Table 8): nothing trained, then everything trained.

A method gives one score per query and entry; higher is better. Accuracy is Success@1, MRR the mean reciprocal
rank of the first relevant entry; equal scores rank in table order. The files of a set fix which queries train
and which test, so the deviation is over trainings.

Legend: Q queries, N entries, D embedding size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpora.ranking.faq import FaqSet, read_faq
from corpora.ranking.lexical import Bm25, Scores, Tfidf
from corpora.support.errors import UserError
from corpora.support.files import json_digest
from senteval_runner.protocol.features import unit
from senteval_runner.report.page import Page
from senteval_runner.vectors.embed import SentenceVectors
from senteval_runner.vectors.encoders import open_model
from studies.faq.config import FaqConfig, Sampling
from studies.faq.report import Rows, page
from studies.faq.train import LabelledPairs, tune
from studies.kit.runner import Cell, Figures, Run

LEXICAL = {"TF-IDF": Tfidf, "BM25": Bm25}


@dataclass(frozen=True, kw_only=True, eq=False)
class Data:
    """A set as encoders see it: tokens joined by one space."""

    name: str
    queries: list[str]
    questions: list[str]
    answers: list[str]
    relevant_QN: NDArray[np.bool_]
    """Which entries answer which query."""
    train: NDArray[np.int64]
    """Rows of the training queries."""
    test: NDArray[np.int64]

    @classmethod
    def of(cls, faq: FaqSet) -> Data:
        """A set whose files fix who trains and who tests.

        Raises:
            UserError: they do not.
        """
        if faq.train is None:
            raise UserError(f"{faq.name}: no queries-train.tsv and queries-test.tsv")

        def texts(given: Sequence[str]) -> list[str]:
            return [" ".join(text.split()) for text in given]

        trains = np.array([query in faq.train for query in faq.queries])
        return cls(
            name=faq.name,
            queries=texts(list(faq.queries.values())),
            questions=texts([entry.question for entry in faq.entries]),
            answers=texts([entry.answer for entry in faq.entries]),
            relevant_QN=np.array([[e.doc_id in faq.relevant[q] for e in faq.entries] for q in faq.queries]),
            train=np.flatnonzero(trains),
            test=np.flatnonzero(~trains),
        )

    @cached_property
    def digest(self) -> str:
        """Of everything in it."""
        rows = [np.flatnonzero(self.relevant_QN).tolist(), self.train.tolist()]
        return json_digest([self.queries, self.questions, self.answers, *rows], 20)

    def embed(self, encode: SentenceVectors) -> dict[str, NDArray[np.floating]]:
        """Unit vectors of ``query`` [Q, D], ``question`` and ``answer`` [N, D]."""
        texts = {"query": self.queries, "question": self.questions, "answer": self.answers}
        return {name: unit(encode([text.split() for text in group])) for name, group in texts.items()}

    def measure(self, scores_QN: Scores) -> Figures:
        """``accuracy`` and ``mrr`` as fractions.

        Args:
            scores_QN: of the test queries and all entries.
        """
        order_QN = np.argsort(-scores_QN, axis=1, kind="stable")
        rank_Q = np.take_along_axis(self.relevant_QN[self.test], order_QN, axis=1).argmax(axis=1)
        return {"accuracy": float((rank_Q == 0).mean()), "mrr": float((1 / (rank_Q + 1)).mean())}


def evaluate(config: FaqConfig, run: Run) -> Page:
    """Score every method on every set.

    Raises:
        UserError: a set or model that cannot be opened.
    """
    found_sets = [Data.of(read_faq(folder)) for folder in dict.fromkeys(config.sets)]
    sets = {data.name: data for data in found_sets}
    if len(sets) < len(found_sets):
        raise UserError(f"two sets have one name ({', '.join(sets)}); rename a folder")
    retriever = [config.retriever] if config.retriever and "retrieved" in config.sampling else []
    models = {spec: open_model(spec, cache=None) for spec in [*config.models, *retriever]}

    @cache
    def vectors(name: str, model: str) -> Mapping[str, NDArray[np.floating]]:
        return sets[name].embed(models[model].vectors)

    def cosines(name: str, model: str) -> Scores:
        found = vectors(name, model)
        scores: Scores = found["query"] @ found["question"].T
        return scores

    def frozen(name: str, method: str, folder: Path) -> Figures:
        data = sets[name]
        if method in LEXICAL:
            index = LEXICAL[method](data.questions)
            return data.measure(np.array([index.scores(data.queries[row]) for row in data.test]))
        return data.measure(cosines(name, method)[data.test])

    def tuned(name: str, model: str, sampling: Sampling, seed: int, folder: Path) -> Figures:
        data = sets[name]
        guide = cosines(name, config.retriever or model)[data.train] if sampling == "retrieved" else None
        asked = [data.queries[row] for row in data.train]
        pairs = LabelledPairs(asked, data.questions, data.relevant_QN[data.train], guide, seed)
        net = tune(model, pairs, config, folder, run.log)
        return data.measure(net.scores([data.queries[row] for row in data.test], data.questions))

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
