"""ROLES and ORDER: words bound to their places, without weights.

    roles(s) = Σ over arcs  σ_role ∘ A x_head ∘ B x_dependent
    order(s) = Σ over content words i before j, at most 3 apart,  A x_i ∘ B x_j

A and B are random projections of unit word vectors, σ vectors of signs (tensor-product and holographic
binding: Smolensky 1990, Plate 1995), so that the product of two such vectors is nearly the sum, over pairs of
arcs of the same role, of the products of their heads' and of their dependents' words. The arcs are those of
:mod:`parsing.trees.roles`; content words are told by the tree.

Legend of dimension suffixes: B sentences, N tokens, M arcs, U distinct words, E word-vector size, S width.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, fields
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import embedding_bag, normalize

from multiview.config import Pooling
from multiview.encoders.registry import register_view
from multiview.encoders.weightless import WeightlessView
from multiview.engines.plan import Plan
from multiview.words.table import WordTable
from parsing.cache.format import Batch
from parsing.trees.roles import (
    ROLES,
    Arcs,
    canonical_arcs,
    content_words,
    relation_bits,
    word_flags,
)

WIDTH = 512
"""S: 256 numbers lose nothing on the development data, 128 a point of HANS."""
ROLES_SHARE = 0.7
"""Of the structure vector's cosine; the rest is order's."""
APART = 3
"""Content words that are bound in order are at most this far apart."""


@dataclass(frozen=True, kw_only=True)
class BindingPlan(Plan):
    """Which words are bound to which, sentence by sentence."""

    role: NDArray[np.int64]
    """[M], rows of the signs."""
    head: NDArray[np.int64]
    """[M], tokens."""
    dependent: NDArray[np.int64]
    """[M], tokens."""
    arc_offsets: NDArray[np.int64]
    """[B + 1], the arcs of each sentence."""


class BindingView(WeightlessView):
    """Sums of bound pairs of words; subclasses say which."""

    requires = frozenset({"tokens", "dep", "relations"})

    @classmethod
    def width_for(cls, word_dim: int, hidden: int, pooling: Pooling) -> int:
        """S."""
        return WIDTH

    def plan(self, batch: Batch) -> BindingPlan:
        """Reads the words' spelling, heads and relations."""
        if batch.types is None:
            raise ValueError(f"view {self.name} reads words; the batch holds vocabulary ids")
        base = super().plan(batch)
        relation = relation_bits(batch.relations)[batch.relation]
        words = word_flags(batch.types)[batch.token]
        arcs = self.pairs(batch, relation, words)
        kept = {field.name: getattr(base, field.name) for field in fields(base)}
        return BindingPlan(
            **kept,
            role=arcs.role,
            head=arcs.head,
            dependent=arcs.dependent,
            arc_offsets=np.searchsorted(arcs.place, base.node_offsets),
        )

    @abstractmethod
    def pairs(self, batch: Batch, relation: NDArray[np.int64], words: NDArray[np.int64]) -> Arcs:
        """The words to bind.

        Args:
            batch: trees with the words' types.
            relation: [N], bits of each token's relation.
            words: [N], flags of each token's word.
        """

    def states(self, x_UE: Tensor, token_N: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
        """Sums of the bound pairs [B, S], and the words as heads [N, S]."""
        assert isinstance(plan, BindingPlan)
        plan = plan.to(x_UE.device)
        a_ES, b_ES, sign_RS = (part.to(x_UE) for part in projections(x_UE.shape[1], WIDTH))
        unit_UE = normalize(x_UE, dim=1)
        as_head_US, as_dependent_US = unit_UE @ a_ES, unit_UE @ b_ES
        head, dependent = token_N[plan.tensor("head")], token_N[plan.tensor("dependent")]
        bound_MS = sign_RS[plan.tensor("role")] * as_head_US[head] * as_dependent_US[dependent]
        every = torch.arange(len(bound_MS), device=x_UE.device)
        offsets = plan.tensor("arc_offsets")
        sum_BS = embedding_bag(every, bound_MS, offsets, mode="sum", include_last_offset=True)
        return sum_BS, as_head_US[token_N]


@register_view("roles")
class RolesView(BindingView):
    """Who did what to whom: the canonical roles of the dependency tree."""

    def pairs(self, batch: Batch, relation: NDArray[np.int64], words: NDArray[np.int64]) -> Arcs:
        """The arcs of the trees."""
        return canonical_arcs(batch.head, relation, words, batch.sentence_offsets)


@register_view("order")
class OrderView(BindingView):
    """Which content word comes before which."""

    def pairs(self, batch: Batch, relation: NDArray[np.int64], words: NDArray[np.int64]) -> Arcs:
        """Content words at most ``APART`` apart, in order."""
        content = content_words(relation, batch.types or [], batch.token)
        sentence = np.repeat(np.arange(len(batch)), np.diff(batch.sentence_offsets))[content]
        first = np.repeat(np.arange(len(content)), APART)
        second = first + np.tile(np.arange(1, APART + 1), len(content))
        inside = second < len(content)
        first, second = first[inside], second[inside]
        same = sentence[first] == sentence[second]
        first, second = content[first[same]], content[second[same]]
        return Arcs(np.full(len(first), len(ROLES)), first, second, first)


@cache
def projections(word_dim: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """A and B, float32 [E, S]; the signs of roles, float32 [R + 1, S], at the end those of order, 1."""
    drawn = np.random.default_rng(0)
    a, b = (drawn.standard_normal((word_dim, width)) / np.sqrt(width) for _ in range(2))
    signs = np.append(np.sign(drawn.standard_normal((len(ROLES), width))), np.ones((1, width)), axis=0)
    # √S: two bound pairs then have the product of their words' cosines as theirs.
    arrays = (a, b * np.sqrt(width), signs)
    return tuple(torch.from_numpy(part.astype(np.float32)) for part in arrays)  # type: ignore[return-value]


def structure_of(batch: Batch, words: WordTable) -> Tensor:
    """Roles and order in one vector of length 1 per sentence, √.7 and √.3 of each: [B, S].

    A sentence without bound words (one word, a fallback tree) has the zero vector.

    Args:
        batch: trees with the words' types.
        words: a model's vocabulary and vectors.
    """
    assert batch.types is not None
    used, token = np.unique(batch.token, return_inverse=True)
    x_UE = words.rows(0, words.vocabulary.lookup([batch.types[place] for place in used]))
    token_N = torch.from_numpy(token.astype(np.int64)).to(x_UE.device)
    total = torch.zeros(len(batch), WIDTH, device=x_UE.device)
    for view, share in ((RolesView, ROLES_SHARE), (OrderView, 1 - ROLES_SHARE)):
        encoder = view(x_UE.shape[1], WIDTH)
        vectors_BS = encoder(x_UE, encoder.plan(batch), token_N)
        total += share**0.5 * normalize(vectors_BS, dim=1)
    return normalize(total, dim=1)
