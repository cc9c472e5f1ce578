"""Siamese fine-tuning of a whole encoder on labelled queries (UNI section 6).

Queries and entries share one encoder, and entries are ranked by the cosine of the two vectors. A linear layer
and a softmax over [u; v; |u-v|] tell the right entry of a query from K = 4 wrong ones. Training is the shared
loop, so a killed run resumes to the same weights.

Legend: B pairs of a batch, Q queries, N entries, D embedding size, K wrong entries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpora.ranking.lexical import Scores
from multiview.names.grammar import split_parts
from multiview.names.sources import find_source
from runtime.device import pick_device
from runtime.errors import UserError
from senteval_runner.protocol.features import unit
from senteval_runner.towers.transformer import Tower, embed_all, load_tower
from studies.faq.config import FaqConfig
from studies.finetune.examples import Examples, rng
from studies.finetune.heads import tune_pairs

WRONG = 4
"""Wrong entries per query."""
DROPOUT = 0.1
"""Rate of every dropout layer, as in UNI's multi-task training."""
MAX_LENGTH = 128
"""Longest text in word pieces; longer ones are cut."""


def best_negatives(scores_QN: Scores, relevant_QN: NDArray[np.bool_], count: int) -> NDArray[np.intp]:
    """Rank the ``count`` best wrong entries of every query, best first: int64 [Q, count]."""
    return np.argsort(np.where(relevant_QN, np.inf, -scores_QN), axis=1, kind="stable")[:, :count]


@dataclass(frozen=True)
class LabelledPairs:
    """Each query with a right entry (target 1) and with each of K wrong ones (target 0), side by side."""

    queries: Sequence[str]
    entries: Sequence[str]
    relevant_QN: NDArray[np.bool_]
    retrieved_QN: NDArray[np.floating] | None
    """Scores whose best wrong entries are taken; None draws random ones for every pass."""
    seed: int

    @property
    def each(self) -> int:
        """Count the pairs of a query: 1 + K, fewer where some query has fewer wrong entries."""
        return 1 + min(WRONG, int((~self.relevant_QN).sum(axis=1).min()))

    def draw(self, pass_index: int) -> Examples:
        """Draw all pairs of a pass."""
        generator = rng(self.seed, "faq", pass_index)
        right_Q = np.argmax(np.where(self.relevant_QN, generator.random(self.relevant_QN.shape), -1), axis=1)
        scores_QN = self.retrieved_QN
        if scores_QN is None:
            scores_QN = -generator.random(self.relevant_QN.shape)
        wrong_QK = best_negatives(scores_QN, self.relevant_QN, self.each - 1)
        first = [query for query in self.queries for _ in range(self.each)]
        second = [self.entries[entry] for entry in np.column_stack([right_Q, wrong_QK]).ravel()]
        return Examples(first, second, np.tile(np.arange(self.each) == 0, len(self.queries)).astype(np.int64))


def cosines(tower: Tower, queries: Sequence[str], entries: Sequence[str]) -> Scores:
    """Compute the cosines of queries and entries, float32 [Q, N]."""
    table = unit(embed_all(tower, [*queries, *entries]))
    scores: Scores = table[: len(queries)] @ table[len(queries) :].T
    return scores


def tune(
    model: str, pairs: LabelledPairs, config: FaqConfig, folder: Path, report: Callable[[str], None] = print
) -> Tower:
    """Train a copy of a model on ``pairs``, whose seed is the run's; a state in ``folder`` is resumed.

    Raises:
        UserError: the model has no weights to tune.
    """
    if len(split_parts(model)) > 1 or find_source(model).kind != "sentence-transformers":
        raise UserError(f"{model!r} is not one transformer: nothing to tune")
    device = pick_device(config.device)
    tower = load_tower(model, pooling=None, max_length=MAX_LENGTH, dropout=DROPOUT, device=device)
    net = tune_pairs(
        tower,
        pairs.draw,
        "faq",
        epochs=config.epochs,
        learning_rate=config.learning_rate,
        seed=pairs.seed,
        folder=folder,
        report=report,
    )
    return net.tower
