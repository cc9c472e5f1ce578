"""Siamese fine-tuning of a whole encoder on labelled queries (UNI section 6).

Queries and entries share one encoder, and entries are ranked by the cosine of the two vectors. A linear layer
and a softmax over [u; v; |u-v|] tell the right entry of a query from K = 4 wrong ones. Training is the shared
loop, so a killed run resumes to the same weights.

Legend: B pairs of a batch, Q queries, N entries, D embedding size, K wrong entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from corpora.ranking.lexical import Scores
from multiview.names.grammar import split_parts
from multiview.names.sources import find_source
from runtime.device import pick_device
from runtime.errors import UserError
from senteval_runner.protocol.features import unit
from senteval_runner.towers.transformer import Tower, embed_all, load_tower
from studies.finetune.examples import Draw, Examples, rng
from studies.finetune.heads import tune_pairs

if TYPE_CHECKING:
    from studies.faq.__main__ import FaqConfig

WRONG = 4
"""Wrong entries per query; fewer where some query has fewer."""
DROPOUT = 0.1
"""Rate of every dropout layer, as in UNI's multi-task training."""
MAX_LENGTH = 128
"""Longest text in word pieces; longer ones are cut."""


def labelled_pairs(
    queries: Sequence[str],
    entries: Sequence[str],
    relevant_QN: NDArray[np.bool_],
    retrieved_QN: Scores | None,
    seed: int,
) -> Draw:
    """Give each query with a right entry (class 1) and with each of K wrong ones (class 0), side by side.

    Wrong are the entries of highest ``retrieved_QN``, best first; without it random ones, new in every pass.
    """
    each = 1 + min(WRONG, int((~relevant_QN).sum(axis=1).min()))
    first = [query for query in queries for _ in range(each)]
    target = np.tile(np.arange(each) == 0, len(queries)).astype(np.int64)

    def draw(pass_index: int) -> Examples:
        generator = rng(seed, "faq", pass_index)
        right_Q = np.argmax(np.where(relevant_QN, generator.random(relevant_QN.shape), -1), axis=1)
        order_QN = -generator.random(relevant_QN.shape) if retrieved_QN is None else retrieved_QN
        best_QN = np.argsort(np.where(relevant_QN, np.inf, -order_QN), axis=1, kind="stable")
        chosen_QK = np.column_stack([right_Q, best_QN[:, : each - 1]])
        return Examples(first, [entries[entry] for entry in chosen_QK.ravel()], target)

    return draw


def cosines(tower: Tower, queries: Sequence[str], entries: Sequence[str]) -> Scores:
    """Compute the cosines of queries and entries, float32 [Q, N]."""
    table = unit(embed_all(tower, [*queries, *entries]))
    scores: Scores = table[: len(queries)] @ table[len(queries) :].T
    return scores


def tune(model: str, draw: Draw, config: FaqConfig, seed: int, folder: Path) -> Tower:
    """Train a copy of a model on pairs; a state in ``folder`` is resumed.

    Raises:
        UserError: the model has no weights to tune.
    """
    if len(split_parts(model)) > 1 or find_source(model).kind != "sentence-transformers":
        raise UserError(f"{model!r} is not one transformer: nothing to tune")
    device = pick_device(config.device)
    tower = load_tower(model, pooling=None, max_length=MAX_LENGTH, dropout=DROPOUT, device=device)
    options: dict[str, Any] = {"epochs": config.epochs, "learning_rate": config.learning_rate}
    tune_pairs(tower, draw, "faq", **options, seed=seed, folder=folder)
    return tower
