"""A small Siamese map on labelled queries, and how wrong entries are chosen.

Both sides pass through one map over the vectors of a frozen encoder,

    z(x) = x/‖x‖ + B A x/‖x‖        A [R, D], B [D, R]; B starts at 0, so training starts at the encoder

and a query q with a relevant entry e and K = 4 wrong ones n_k has the loss

    −log exp(cos(z(q), z(e))/τ) / (exp(cos(z(q), z(e))/τ) + Σ_k exp(cos(z(q), z(n_k))/τ))

Retrieved negatives are the K wrong entries that a frozen encoder ranks highest; random negatives are drawn
for every epoch. The map is small (R = 64) and the encoder's vectors are computed once, so any encoder can be
tuned in seconds. It is our own variant; UNI's training is in :mod:`encoder`.

Legend: B queries of a batch, N entries, D embedding size, K negatives, R rank.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from studies.faq.config import TuningConfig


class SiameseMap(nn.Module):
    """z(x), shared by queries and entries."""

    def __init__(self, dim: int, rank: int, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.a_RD = nn.Parameter(torch.randn(rank, dim, generator=generator) / dim**0.5)
        self.b_DR = nn.Parameter(torch.zeros(dim, rank))

    def forward(self, x_ND: Tensor) -> Tensor:
        """Unit vectors [N, D]."""
        unit_ND = normalize(x_ND, dim=-1)
        return normalize(unit_ND + unit_ND @ self.a_RD.T @ self.b_DR.T, dim=-1)


def contrast(query_BD: Tensor, positive_BD: Tensor, negative_BKD: Tensor, temperature: float) -> Tensor:
    """Mean over the batch of the loss above; all vectors have length 1."""
    positive_B1 = (query_BD * positive_BD).sum(-1, keepdim=True)
    negative_BK = torch.einsum("bd,bkd->bk", query_BD, negative_BKD)
    logits = torch.cat([positive_B1, negative_BK], dim=1) / temperature
    return cross_entropy(logits, torch.zeros(len(logits), dtype=torch.int64))


def negative_count(relevant_QN: NDArray[np.bool_], wanted: int) -> int:
    """How many wrong entries a query gets: as many as are wanted, or as every query has."""
    return min(wanted, int((~relevant_QN).sum(axis=1).min()))


def retrieved_negatives(
    scores_QN: NDArray[np.floating], relevant_QN: NDArray[np.bool_], count: int
) -> NDArray[np.intp]:
    """The ``count`` best wrong entries of every query, best first: int64 [Q, count]."""
    masked = np.where(relevant_QN, -np.inf, scores_QN)
    return np.argsort(-masked, axis=1, kind="stable")[:, :count]


def random_negatives(
    relevant_QN: NDArray[np.bool_], count: int, generator: np.random.Generator
) -> NDArray[np.intp]:
    """``count`` different wrong entries of every query, drawn evenly: int64 [Q, count]."""
    keys = np.where(relevant_QN, 2.0, generator.random(relevant_QN.shape))
    return np.argsort(keys, axis=1, kind="stable")[:, :count]


def draw_entries(
    relevant_QN: NDArray[np.bool_],
    retrieved_QK: NDArray[np.int64] | None,
    count: int,
    generator: np.random.Generator,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A right entry of every query, int64 [Q], and wrong ones [Q, K]: the retrieved, or ``count`` random."""
    right_Q = np.argmax(np.where(relevant_QN, generator.random(relevant_QN.shape), -1), axis=1)
    wrong_QK = random_negatives(relevant_QN, count, generator) if retrieved_QK is None else retrieved_QK
    return right_Q, wrong_QK


def tune(
    query_QD: NDArray[np.floating],
    entry_ND: NDArray[np.floating],
    relevant_QN: NDArray[np.bool_],
    config: TuningConfig,
    *,
    retrieved_QK: NDArray[np.int64] | None,
    seed: int,
) -> SiameseMap:
    """Train the map on queries and the entries relevant to them.

    Args:
        query_QD: frozen vectors of the training queries.
        entry_ND: frozen vectors of all entries.
        relevant_QN: which entries answer a query: at least one, and not all.
        config: see :class:`TuningConfig`.
        retrieved_QK: the wrong entries of every query; None draws random ones.
        seed: seed of initial weights, order, positives and random negatives.
    """
    queries = torch.from_numpy(np.asarray(query_QD, dtype=np.float32))
    entries = torch.from_numpy(np.asarray(entry_ND, dtype=np.float32))
    model = SiameseMap(queries.shape[1], config.rank, seed)
    count = negative_count(relevant_QN, config.negatives)
    optimiser = torch.optim.Adam(model.parameters(), lr=config.learning_rate)
    generator = np.random.default_rng(seed)
    for _ in range(config.epochs):
        order = generator.permutation(len(queries))
        right_Q, wrong_QK = draw_entries(relevant_QN, retrieved_QK, count, generator)
        for start in range(0, len(order), config.batch_size):
            rows = order[start : start + config.batch_size]
            wrong_BKD = model(entries[wrong_QK[rows]])
            loss = contrast(
                model(queries[rows]), model(entries[right_Q[rows]]), wrong_BKD, config.temperature
            )
            optimiser.zero_grad(set_to_none=True)
            torch.autograd.backward(loss)
            optimiser.step()
    return model


def tuned_scores(
    model: SiameseMap, query_QD: NDArray[np.floating], entry_ND: NDArray[np.floating]
) -> NDArray[np.floating]:
    """Cosines of mapped queries and entries: [Q, N]."""
    with torch.inference_mode():
        z_QD, z_ND = (model(torch.from_numpy(np.asarray(x, dtype=np.float32))) for x in (query_QD, entry_ND))
        scores: NDArray[np.floating] = (z_QD @ z_ND.T).numpy()
    return scores
