"""Scores of every method on a FAQ set (UNI Table 8).

The files of a set fix which queries train and which test, and every seed trains on the same queries, so Std.
is the deviation over trainings. Our own variant splits the queries at random for every seed; then untrained
methods have a deviation too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from corpora.ranking.faq import FaqSet
from corpora.ranking.lexical import Scores
from corpora.ranking.questions import split
from corpora.support.errors import UserError
from corpora.support.progress import progress
from senteval_runner.protocol.features import unit
from senteval_runner.vectors.embed import SentenceVectors
from studies.faq.config import FaqConfig, Sampling, Side, TuningConfig
from studies.faq.rank import LEXICAL, measure
from studies.faq.siamese import negative_count, retrieved_negatives, tune, tuned_scores

Vectors = Mapping[str, Mapping[str, NDArray[np.floating]]]
"""Unit vectors of ``query`` [Q, D], ``question`` and ``answer`` [N, D], by model."""
SIDES: tuple[Side, ...] = ("question", "answer")


class Row(TypedDict):
    """Scores of one method on one set."""

    set: str
    side: str
    method: str
    sampling: Sampling | None
    """None: not trained."""
    accuracy: float
    accuracy_sd: float | None
    """Population standard deviation over the seeds; None if all seeds are the same."""
    mrr: float
    mrr_sd: float | None


@dataclass(frozen=True, slots=True)
class Job:
    """One training run: which queries are trained on and which are scored."""

    model: str
    side: str
    sampling: Sampling
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
    texts: dict[str, list[str]] = {"query": list(faq.queries.values())}
    texts |= {side: side_texts(faq, side) for side in SIDES}
    return {name: unit(encode([text.split() for text in group])) for name, group in texts.items()}


def splits(faq: FaqSet, config: FaqConfig) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Rows of training and test queries, each in rising order, for every seed.

    Raises:
        UserError: the set does not fix them, or has too few queries to split.
    """
    count = len(faq.queries)
    if config.split == "random":
        if count < 2:
            raise UserError(f"{faq.name}: needs two queries or more to split")
        return [split(count, config.train_fraction, seed) for seed in range(config.runs)]
    if faq.train is None:
        raise UserError(
            f"{faq.name}: no queries-train.tsv and queries-test.tsv; write them, or give --split random"
        )
    trains = np.array([query in faq.train for query in faq.queries])
    return [(np.flatnonzero(trains), np.flatnonzero(~trains))] * config.runs


def retrieved(
    vectors: Vectors, job: Job, relevant_QN: NDArray[np.bool_], count: int, retriever: str | None
) -> NDArray[np.int64] | None:
    """The wrong entries of a job's training queries, best first: int64 [train, K]; None if they are random.

    Args:
        vectors: frozen vectors of the models and the retriever.
        job: the training.
        relevant_QN: which entries answer its training queries, [train, N].
        count: number K of wrong entries.
        retriever: the model that ranks; None is the job's own.
    """
    if job.sampling == "random":
        return None
    frozen = vectors[retriever or job.model]
    return retrieved_negatives(frozen["query"][job.train] @ frozen[job.side].T, relevant_QN, count)


def map_tuner(
    vectors: Vectors, relevant_QN: NDArray[np.bool_], config: TuningConfig, retriever: str | None = None
) -> Tuner:
    """A tuner of a Siamese map on the frozen vectors of a model.

    Args:
        vectors: frozen vectors of the models and the retriever.
        relevant_QN: which entries answer which query.
        config: how the map is trained.
        retriever: see :func:`retrieved`.
    """

    def tuner(job: Job) -> Scores:
        query_QD, entry_ND = vectors[job.model]["query"], vectors[job.model][job.side]
        relevant = relevant_QN[job.train]
        count = negative_count(relevant, config.negatives)
        wrong_QK = retrieved(vectors, job, relevant, count, retriever)
        model = tune(query_QD[job.train], entry_ND, relevant, config, retrieved_QK=wrong_QK, seed=job.seed)
        return tuned_scores(model, query_QD[job.test], entry_ND)

    return tuner


def evaluate_faq(
    faq: FaqSet, models: Sequence[str], vectors: Vectors, tuner: Tuner, config: FaqConfig
) -> list[Row]:
    """One row per side and method, in the order of UNI's Table 8: nothing trained, then everything trained.

    Args:
        faq: the set.
        models: which of ``vectors`` are evaluated.
        vectors: output of :func:`embed_faq` by model name.
        tuner: trains and scores a job.
        config: sides, kinds of negatives, seeds and split.
    """
    ids = list(faq.queries)
    queries = list(faq.queries.values())
    parts = splits(faq, config)

    def row(side: Side, method: str, sampling: Sampling | None, scores_by_seed: Sequence[Scores]) -> Row:
        found = [
            measure(faq, [ids[i] for i in test], scores)
            for scores, (_, test) in zip(scores_by_seed, parts, strict=True)
        ]
        accuracy, mrr = (np.array([scores[metric] for scores in found]) for metric in ("accuracy", "mrr"))
        varies = sampling is not None or config.split == "random"
        return Row(
            set=faq.name,
            side=side,
            method=method,
            sampling=sampling,
            accuracy=float(accuracy.mean()),
            accuracy_sd=float(accuracy.std()) if varies else None,
            mrr=float(mrr.mean()),
            mrr_sd=float(mrr.std()) if varies else None,
        )

    rows: list[Row] = []
    total = len(config.sides) * (len(LEXICAL) + len(models) * (1 + len(config.sampling) * config.runs))
    with progress(total=total, unit="fit", description=faq.name) as bar:
        for side in config.sides:
            texts = side_texts(faq, side)
            tables = {name: ranker(queries, texts) for name, ranker in LEXICAL.items()}
            tables |= {name: vectors[name]["query"] @ vectors[name][side].T for name in models}
            for name, scores_QN in tables.items():
                rows.append(row(side, name, None, [scores_QN[test] for _, test in parts]))
                bar.update(1)
            for sampling in config.sampling:
                for name in models:
                    tuned = []
                    for seed, (train, test) in enumerate(parts):
                        tuned.append(tuner(Job(name, side, sampling, seed, train, test)))
                        bar.update(1)
                    rows.append(row(side, name, sampling, tuned))
    return rows
