"""Correlations between an encoder's cosines and gold scores: words, phrases, sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from corpora.pairs.labelled import read_ppdb
from corpora.pairs.similarity import SETS, find_set
from corpora.senteval.files import read_task
from corpora.support.errors import UserError
from corpora.support.split import pair_in_fraction
from senteval_runner.evaluation import evaluate_task
from senteval_runner.protocol.config import get_protocol
from senteval_runner.protocol.correlation import cosines, pearson, spearman
from senteval_runner.vectors.embed import Encoder, SentenceVectors, as_vectors
from studies.similarity.columns import STS_TASKS

HEAD_TASKS = ("STSBenchmark", "SICKRelatedness")
"""Sets with a training part: BURT trains a regression on it."""


@dataclass(frozen=True, kw_only=True)
class Correlation:
    """How well cosines follow gold scores; correlations are times 100."""

    spearman: float
    pearson: float
    pairs: int


def correlate(
    encoder: Encoder | SentenceVectors, left: Sequence[str], right: Sequence[str], gold: Sequence[float]
) -> Correlation:
    """Correlation of an encoder's cosines with gold scores; constant cosines count as 0.

    Args:
        encoder: see :func:`senteval_runner.evaluate`; texts are split at white space.
        left: first texts of the pairs.
        right: second texts.
        gold: scores.
    """
    vectors, scores = as_vectors(encoder), np.asarray(gold, dtype=np.float64)
    similarity = cosines(*(vectors([t.split() for t in side]).astype(np.float64) for side in (left, right)))
    if similarity.max() - similarity.min() < 1e-6:  # float32 vectors of equal texts differ in the last bit
        return Correlation(spearman=0.0, pearson=0.0, pairs=len(gold))
    return Correlation(
        spearman=100 * spearman(similarity, scores),
        pearson=100 * pearson(similarity, scores),
        pairs=len(gold),
    )


def word_similarity(encoder: Encoder, folder: Path) -> tuple[dict[str, Correlation], list[str]]:
    """Correlations on all word sets below ``folder``, and the names of missing sets."""
    sets = {name: find_set(name, folder) for name in SETS}
    found = {
        name: correlate(encoder, pairs.left, pairs.right, pairs.score)
        for name, pairs in sets.items()
        if pairs
    }
    return found, [name for name, pairs in sets.items() if pairs is None]


def sentence_similarity(
    encoder: Encoder, data: Path, *, seed: int = 1111
) -> tuple[dict[str, Correlation], dict[str, str]]:
    """STS12-16 by cosine, the mean over their parts; STS-B and SICK-R with a trained head, and by cosine.

    The head is SentEval's regression (:mod:`senteval_runner.protocol.relatedness`) on frozen vectors.

    Returns:
        Scores by set, and for skipped tasks the reason (missing or bad files).
    """
    vectors = as_vectors(encoder)
    found: dict[str, Correlation] = {}
    skipped = {}
    for name in (*STS_TASKS, *HEAD_TASKS):
        try:
            task = read_task(name, data)
            result = evaluate_task(vectors, task, get_protocol("default"), seed)
        except UserError as error:
            skipped[name] = str(error)
            continue
        if name in STS_TASKS:
            found[name] = Correlation(
                spearman=100 * result["all.spearman.mean"],
                pearson=100 * result["all.pearson.mean"],
                pairs=sum(map(len, task.splits.values())),
            )
            continue
        split = task.splits["test"]
        assert split.b is not None
        found[f"{name} (trained head)"] = Correlation(
            spearman=100 * result["spearman"], pearson=100 * result["pearson"], pairs=len(split)
        )
        left, right = ([" ".join(tokens) for tokens in side] for side in (split.a, split.b))
        found[f"{name} (untrained)"] = correlate(vectors, left, right, split.y)
    return found, skipped


def phrase_similarity(encoder: Encoder, file: Path, held_out: float = 0.0) -> Correlation:
    """Correlation with PPDB's score of equivalence on its phrase pairs; two single words are none.

    Args:
        encoder: any encoder.
        file: PPDB 2.0 lines with ``Equivalence`` among their features (the probability the
            authors' classifier gives that entailment relation).
        held_out: score only the fraction that ``studies.burt --held-out`` keeps out of training; 0 is all.

    Raises:
        UserError: no line has the feature, or none is held out.
    """
    rows = [(pair, pair.features().get("Equivalence")) for pair in read_ppdb(file)]
    scored = [(pair, gold) for pair, gold in rows if gold is not None]
    if not scored:
        raise UserError(f"{file}: no row has the feature Equivalence (PPDB 2.0 has it, PPDB 1.0 has not)")
    phrases = [(pair, gold) for pair, gold in scored if " " in pair.left or " " in pair.right]
    if not phrases:
        raise UserError(f"{file}: all rows are pairs of single words; give a phrasal file")
    if held_out:
        phrases = [(p, gold) for p, gold in phrases if pair_in_fraction(p.left, p.right, held_out)]
    if not phrases:
        raise UserError(f"{file}: no row is in the held-out fraction {held_out:g}; raise --held-out")
    left, right = [pair.left for pair, _ in phrases], [pair.right for pair, _ in phrases]
    return correlate(encoder, left, right, [gold for _, gold in phrases])
