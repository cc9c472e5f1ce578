"""Scores of every method on a FAQ set over several seeds (UNI Table 8).

Every seed splits the queries at random. All methods are scored on the test queries; a Siamese map
(:mod:`siamese`) or the whole encoder (:mod:`encoder`) is tuned on the training queries. So every row has a
mean and a standard deviation over the same test queries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpora.ranking.faq import FaqSet
from corpora.ranking.lexical import Scores
from corpora.ranking.queries import split
from corpora.support.progress import progress
from senteval_runner.protocol.features import unit
from senteval_runner.vectors.embed import SentenceVectors
from studies.faq.config import TuningConfig
from studies.faq.rank import LEXICAL, measure
from studies.faq.siamese import Negatives, tune, tuned_scores

Row = dict[str, Any]
Vectors = Mapping[str, Mapping[str, NDArray[np.floating]]]
"""Unit vectors of ``query`` [Q, D], ``question`` and ``answer`` [N, D], by model."""
SIDES = ("question", "answer")
NEGATIVES: tuple[Negatives, ...] = ("random", "hard")


@dataclass(frozen=True, slots=True)
class Job:
    """One training run: which queries are trained on and which are scored."""

    model: str
    side: str
    negatives: Negatives
    seed: int
    train: NDArray[np.int64]
    test: NDArray[np.int64]


Tuner = Callable[[Job], Scores]
"""Trains on a job's training queries and scores its test queries: [test, N]."""


def relevance(faq: FaqSet, query_ids: Sequence[str]) -> NDArray[np.bool_]:
    """Which entries answer which query: bool [Q, N]."""
    column = {entry.doc_id: place for place, entry in enumerate(faq.entries)}
    table = np.zeros((len(query_ids), len(column)), dtype=bool)
    for row, query in enumerate(query_ids):
        table[row, [column[doc] for doc in faq.relevant[query]]] = True
    return table


def side_texts(faq: FaqSet, side: str) -> list[str]:
    """The entries' questions, or their answers."""
    return [getattr(entry, side) for entry in faq.entries]


def embed_faq(faq: FaqSet, encode: SentenceVectors) -> dict[str, NDArray[np.floating]]:
    """Unit vectors of ``query`` [Q, D], ``question`` and ``answer`` [N, D]."""
    texts = {"query": list(faq.queries.values()), **{side: side_texts(faq, side) for side in SIDES}}
    return {name: unit(encode([text.split() for text in group])) for name, group in texts.items()}


def map_tuner(vectors: Vectors, relevant_QN: NDArray[np.bool_], config: TuningConfig) -> Tuner:
    """A tuner of a Siamese map on the frozen vectors of a model; ``relevant_QN`` as in :func:`relevance`."""

    def tuner(job: Job) -> Scores:
        query_QD, entry_ND = vectors[job.model]["query"], vectors[job.model][job.side]
        relevant = relevant_QN[job.train]
        model = tune(query_QD[job.train], entry_ND, relevant, config, negatives=job.negatives, seed=job.seed)
        return tuned_scores(model, query_QD[job.test], entry_ND)

    return tuner


def evaluate_faq(
    faq: FaqSet,
    vectors: Vectors,
    tuner: Tuner,
    *,
    seeds: int,
    train_fraction: float,
    sides: Sequence[str] = SIDES,
    label: str = "",
) -> list[Row]:
    """One row per method and side: means and (population) deviations of accuracy and MRR over the splits.

    Args:
        faq: at least two queries.
        vectors: output of :func:`embed_faq` by model name.
        tuner: trains and scores a job.
        seeds: number of splits, and of trainings per model, side and kind of negatives.
        train_fraction: fraction of the queries used for training.
        sides: which of :data:`SIDES`.
        label: appended to the kind of negatives in the column ``training``.
    """
    ids = list(faq.queries)
    queries = list(faq.queries.values())
    parts = [split(len(ids), train_fraction, seed) for seed in range(seeds)]

    def row(method: str, side: str, training: str, scores_by_seed: Sequence[Scores]) -> Row:
        found = [
            measure(faq, [ids[i] for i in test], scores)
            for scores, (_, test) in zip(scores_by_seed, parts, strict=True)
        ]
        out: Row = {"set": faq.name, "method": method, "side": side, "training": training}
        for metric in ("accuracy", "mrr"):
            values = [scores[metric] for scores in found]
            out[metric], out[f"{metric}_sd"] = float(np.mean(values)), float(np.std(values))
        return out

    rows: list[Row] = []
    total = len(sides) * (len(LEXICAL) + len(vectors) * (1 + len(NEGATIVES) * seeds))
    with progress(total=total, unit="fit", description=faq.name) as bar:
        for side in sides:
            for name, ranker in LEXICAL.items():
                scores_QN = ranker(queries, side_texts(faq, side))
                rows.append(row(name, side, "none", [scores_QN[test] for _, test in parts]))
                bar.update(1)
            for name, table in vectors.items():
                query_QD, entry_ND = table["query"], table[side]
                rows.append(row(name, side, "none", [query_QD[test] @ entry_ND.T for _, test in parts]))
                bar.update(1)
                for negatives in NEGATIVES:
                    tuned = []
                    for seed, (train, test) in enumerate(parts):
                        tuned.append(tuner(Job(name, side, negatives, seed, train, test)))
                        bar.update(1)
                    rows.append(row(name, side, f"{negatives} negatives{label}", tuned))
    return rows
