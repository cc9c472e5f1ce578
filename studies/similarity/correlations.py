"""Spearman's correlation x 100 between an encoder's cosines and gold scores: words, phrases, sentences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from corpora.pairs.labelled import read_ppdb
from corpora.senteval.files import TaskData
from corpora.senteval.tasks import RELATEDNESS_TASKS
from corpora.support.errors import UserError
from corpora.support.split import pair_in_fraction
from senteval_runner.evaluation import evaluate_task
from senteval_runner.protocol.config import get_protocol
from senteval_runner.protocol.correlation import cosines, spearman
from senteval_runner.vectors.embed import SentenceVectors


def correlate(
    vectors: SentenceVectors, left: Sequence[str], right: Sequence[str], gold: Sequence[float]
) -> float:
    """Correlation of cosines with gold scores; constant cosines count as 0.

    Args:
        vectors: of token lists; texts are split at white space.
        left: first texts of the pairs.
        right: second texts.
        gold: scores.
    """
    similarity = cosines(*(vectors([t.split() for t in side]).astype(np.float64) for side in (left, right)))
    if similarity.max() - similarity.min() < 1e-6:  # float32 vectors of equal texts differ in the last bit
        return 0.0
    return 100 * spearman(similarity, np.asarray(gold, dtype=np.float64))


def sentence_similarity(vectors: SentenceVectors, task: TaskData, seed: int) -> dict[str, float]:
    """STS12-16 by cosine, the mean over their parts; STS-B and SICK-R with a trained head, and by cosine.

    The head is SentEval's regression (:mod:`senteval_runner.protocol.relatedness`) on frozen vectors.
    """
    result = evaluate_task(vectors, task, get_protocol("default"), seed)
    if task.name not in RELATEDNESS_TASKS:
        return {task.name: 100 * result["all.spearman.mean"]}
    return {
        f"{task.name} (trained head)": 100 * result["spearman"],
        f"{task.name} (untrained)": 100 * result["cosine.spearman"],
    }


def phrase_pairs(file: Path, held_out: float = 0.0) -> tuple[list[str], list[str], list[float]]:
    """PPDB's phrase pairs and their scores of equivalence; two single words are none.

    Args:
        file: PPDB 2.0 lines with ``Equivalence`` among their features (the probability the
            authors' classifier gives that entailment relation).
        held_out: only the fraction that ``studies.burt --held-out`` keeps out of training; 0 is all.

    Raises:
        UserError: no line is such a pair.
    """
    left, right, gold = [], [], []
    for pair in read_ppdb(file):
        score = pair.features().get("Equivalence")
        is_held = not held_out or pair_in_fraction(pair.left, pair.right, held_out)
        if score is not None and is_held and (" " in pair.left or " " in pair.right):
            left.append(pair.left)
            right.append(pair.right)
            gold.append(score)
    if not gold:
        raise UserError(
            f"{file}: no pair of phrases with the feature Equivalence (PPDB 2.0 has it, PPDB 1.0 has not)"
            + (f" in the held-out fraction {held_out:g}; raise --held-out" if held_out else "")
        )
    return left, right, gold
