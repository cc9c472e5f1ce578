"""The trained module: one word table and one encoder per view, and the objective over their outputs.

Word tables are not looked up through autograd. A step gathers the distinct rows it touches into a small
leaf tensor per view; the encoders see ``rows[token]``; the gradient arrives as [U, E] instead of a dense
[W, E]: at 50k x 300 and 7k tokens a batch that is 15x less to write, reduce and clip.

Legend of dimension suffixes: B sentences, N tokens, U distinct rows of a step, W table rows, E word-vector
size, D hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from corpora.support.dry_run import by_part
from multiview.config import TrainConfig
from multiview.encoders.registry import Encoder, build_view
from multiview.training.data import Micro
from multiview.training.objective import Objective, ObjectiveConfig
from multiview.words.vocabulary import inverse_frequency


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What decides the parameters of a network; part of a model folder's config.json."""

    views: tuple[str, ...]
    """Registered view names in order."""
    dim: int
    """Hidden size D of each view."""
    word_dim: int
    """Word-vector size E."""
    table_rows: int
    """Rows W of each trained word table; 0 with fixed vectors."""
    engine: str = "native"
    """Tree engine."""
    forget_bias: float = 0.0
    """Initial forget bias."""


class MultiViewNetwork(nn.Module):
    """Encoders and word tables of all views; parameters drawn from torch's global generator."""

    def __init__(self, shape: Shape, objective: ObjectiveConfig | None = None) -> None:
        super().__init__()
        self.shape = shape
        self.encoders = nn.ModuleList(
            build_view(view, shape.word_dim, shape.dim, shape.engine, forget_bias=shape.forget_bias)
            for view in shape.views
        )
        self.tables = nn.ParameterList(
            nn.Parameter(torch.empty(shape.table_rows, shape.word_dim))
            for _ in (shape.views if shape.table_rows else ())
        )
        self.objective = (
            Objective(shape.views, [shape.dim] * len(shape.views), objective) if objective else None
        )

    @property
    def encoder_list(self) -> list[Encoder]:
        """The encoders in view order."""
        return list(self.encoders)  # type: ignore[arg-type]

    def initialise_tables(
        self, how: str, *, equal: bool, counts: NDArray[np.int64] | None = None, seed: int = 0
    ) -> None:
        """Fill the word tables.

        Args:
            how: ``xavier``: U(-a, a) with a = sqrt(6 / (W + E)), as the paper; ``unit``: standard normal
                times smooth inverse frequency, so that sums over a tree are not ruled by function words.
            equal: the same values for every view, which makes the views comparable from the first step.
            counts: occurrences per word, for the weights.
            seed: of the values.
        """
        for position, table in enumerate(self.tables):
            generator = torch.Generator().manual_seed(seed if equal else seed + 7919 * (position + 1))
            with torch.no_grad():
                if how == "xavier":
                    nn.init.xavier_uniform_(table, generator=generator)
                    continue
                table.normal_(generator=generator)
                if counts is not None:
                    table *= torch.from_numpy(inverse_frequency(counts, len(table)))[:, None]

    @torch.no_grad()
    def initialise_encoders(self, *, equal_inputs: bool, recurrent_scale: float) -> None:
        """Adjust the tree encoders' initial weights; Xavier per matrix otherwise.

        Args:
            equal_inputs: copy the first tree view's input weights of i, o, u to the others: views of one
                sentence then start out alike, where random projections of their own have cosine 0.
            recurrent_scale: factor on the weights that act on children, so that a tree starts nearer to a
                weighted sum of its words.
        """
        weights = [dict(encoder.named_parameters()) for encoder in self.encoder_list]
        trees = [named for named in weights if "recurrent_weight" in named]
        for named in trees:
            named["recurrent_weight"].mul_(recurrent_scale)
            if equal_inputs:
                named["input_weight"].copy_(trees[0]["input_weight"])

    def gather_rows(self, table_rows: Tensor) -> list[Tensor]:
        """Rows [U, E] of each view's table as leaves that collect gradient."""
        return [table.detach()[table_rows].requires_grad_() for table in self.tables]

    def encode(self, micro: Micro, rows: Sequence[Tensor]) -> list[Tensor]:
        """Sentence vectors [B, D] of each view.

        Args:
            micro: tokens as indices into ``rows``, and plans.
            rows: word vectors [U, E] per view, or a single entry shared by all (fixed vectors).
        """
        token = torch.from_numpy(micro.token).to(rows[0].device, non_blocking=True)
        features = []
        for position, (encoder, plan) in enumerate(zip(self.encoders, micro.plans, strict=True)):
            # embedding, not index_select: its backward is deterministic on every device and adds whole
            # rows, 20x faster than index_add_ on CPU at 7k tokens.
            x_ND = nn.functional.embedding(token, rows[position % len(rows)])
            features.append(encoder(x_ND, plan))
        return features


def shape_of(config: TrainConfig, *, table_rows: int, word_dim: int) -> Shape:
    """The network's shape under a training configuration."""
    return Shape(
        views=tuple(config.view_list),
        dim=config.dim,
        word_dim=word_dim,
        table_rows=table_rows,
        engine=config.engine,
        forget_bias=config.forget_bias,
    )


def objective_of(config: TrainConfig) -> ObjectiveConfig:
    """The objective's variant under a training configuration."""
    return ObjectiveConfig(
        boundary=config.boundary,
        denominator=config.denominator,
        score=config.score,
        direction=config.direction,
        self_score=config.self_score,
    )


def parameter_counts(network: nn.Module) -> dict[str, int]:
    """Number of parameters by top-level part."""
    return by_part({name: parameter.numel() for name, parameter in network.named_parameters()})
