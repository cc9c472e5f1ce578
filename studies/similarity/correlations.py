"""Correlations between an encoder's cosines and gold scores: words, phrases, sentences.

A result is ``spearman``, ``pearson`` (both x 100) and ``pairs``.
"""

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
from senteval_runner.protocol.correlation import cosines, pearson, spearman
from senteval_runner.vectors.embed import SentenceVectors

Correlation = dict[str, float]


def correlate(
    vectors: SentenceVectors, left: Sequence[str], right: Sequence[str], gold: Sequence[float]
) -> Correlation:
    """Correlation of cosines with gold scores; constant cosines count as 0.

    Args:
        vectors: of token lists; texts are split at white space.
        left: first texts of the pairs.
        right: second texts.
        gold: scores.
    """
    similarity = cosines(*(vectors([t.split() for t in side]).astype(np.float64) for side in (left, right)))
    if similarity.max() - similarity.min() < 1e-6:  # float32 vectors of equal texts differ in the last bit
        return {"spearman": 0.0, "pearson": 0.0, "pairs": len(gold)}
    return _correlation(similarity, np.asarray(gold, dtype=np.float64))


def _correlation(scores: np.ndarray, gold: np.ndarray) -> Correlation:
    return {
        "spearman": 100 * spearman(scores, gold), "pearson": 100 * pearson(scores, gold), "pairs": len(gold)
    }  # fmt: skip


def sentence_similarity(vectors: SentenceVectors, task: TaskData, seed: int) -> dict[str, Correlation]:
    """STS12-16 by cosine, the mean over their parts; STS-B and SICK-R with a trained head, and by cosine.

    The head is SentEval's regression (:mod:`senteval_runner.protocol.relatedness`) on frozen vectors.
    """
    result = evaluate_task(vectors, task, get_protocol("default"), seed)
    if task.name not in RELATEDNESS_TASKS:
        means = {name: 100 * result[f"all.{name}.mean"] for name in ("spearman", "pearson")}
        return {task.name: {**means, "pairs": sum(map(len, task.splits.values()))}}
    test = task.splits["test"]
    assert test.b is not None
    left, right = ([" ".join(tokens) for tokens in side] for side in (test.a, test.b))
    head = {name: 100 * result[name] for name in ("spearman", "pearson")}
    return {
        f"{task.name} (trained head)": {**head, "pairs": len(test)},
        f"{task.name} (untrained)": correlate(vectors, left, right, test.y),
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
