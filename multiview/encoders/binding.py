"""ROLES and ORDER: words bound to their places, without weights.

    roles(s) = Σ over arcs  s_head s_dependent √w_role σ_role ∘ A x_head ∘ B x_dependent
    order(s) = Σ over content words i before j, at most 4 apart,  s_i s_j √w_order A x_i ∘ B x_j

σ are vectors of signs, A and B random maps (tensor-product and holographic binding: Smolensky 1990, Plate
1995), so that the product of two such vectors is nearly the sum, over pairs of arcs of the same role, of the
products of their heads' and of their dependents' words. The arcs are those of :mod:`parsing.trees.roles`, and
those between two dependents of one head; content words are told by the tree. A word x is to a part its
spelling, as in the view SPELLING, so that names that nobody has seen are told apart and inflections are near
each other, and for the rest its vector, so that a synonym is nearer than any other word. Opposites have
signs, and s of a word is -1 where it is denied (:mod:`multiview.encoders.poles`). The words of a sentence
without arcs are bound to nothing.

Legend of dimension suffixes: B sentences, N tokens, M arcs, U distinct words, E word-vector size, S width.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import embedding, normalize

from multiview.encoders.poles import has_opposite, spelt, spoken_content, turned
from multiview.encoders.registry import register_view
from multiview.encoders.weightless import WeightlessView
from multiview.engines.plan import Plan
from multiview.words.table import WordTable
from parsing.trees.batch import Batch
from parsing.trees.role_rules import ROLES, relation_bits, word_flags
from parsing.trees.roles import Arcs, canonical_arcs
from runtime.compiled import compiled

WIDTH = 1024
"""S."""
SPELLING = 0.85
"""Of a word's cosine; the rest is its vector's. Of a word with opposites it is all."""
APART = 4
"""Content words that are bound in order are at most this far apart."""
CHUNK = 1024
"""Pairs bound at a time: what they need stays in the processor's cache."""
SIBLINGS, ORDER = len(ROLES), len(ROLES) + 1
_WEIGHT = {
    **dict.fromkeys(("agent", "patient", "to", "from"), 1.0),
    **dict.fromkeys(("attr", "poss", "before"), 1.5),
    **dict.fromkeys(("num", "neg"), 3.0),
    **dict.fromkeys(("than",), 5.0),
    **dict.fromkeys(("at", "adv", "is", "clause"), 0.15),
}
WEIGHTS = np.array([*(_WEIGHT[role] for role in ROLES), 0.1, 0.2])
"""w of each role, of siblings and of order, chosen on development data. Roles that are rare and turn the
sense of a whole sentence weigh more; those whose arcs only add to it, less."""


@dataclass(frozen=True, kw_only=True)
class BindingPlan(Plan):
    """Says which words are bound to which, [M], and how the distinct words are spelt, [U]."""

    role: NDArray[np.int64]
    """Rows of the signs."""
    head: NDArray[np.int64]
    dependent: NDArray[np.int64]
    """U of a word that is bound to nothing."""
    sign: NDArray[np.float32]
    """-1 where one of the two words is denied."""
    sentence: NDArray[np.int64]
    spelling: NDArray[np.float32]
    """[U, S]."""
    share: NDArray[np.float32]
    """Of a word's cosine its spelling's."""
    first: NDArray[np.int64]
    """A token of each word."""
    word: NDArray[np.int64]
    """[N], each token's word."""


Pairs = Callable[[Batch, NDArray[np.int64], list[str], NDArray[np.integer]], Arcs]
"""Which words of a batch are bound: of the batch, the bits of each token's relation [N], the distinct words
and each token's word [N]."""


def role_pairs(
    batch: Batch, relation: NDArray[np.int64], types: list[str], word_N: NDArray[np.integer]
) -> Arcs:
    """Return the trees' arcs, and those between two dependents of one head, or with a dependent's number.

    Without those of negation, which are signs (:mod:`multiview.encoders.poles`).
    """
    arcs = canonical_arcs(batch.head, relation, word_flags(types)[word_N], batch.sentence_offsets)
    others = arcs.role != ROLES.index("neg")
    arcs = Arcs(arcs.role[others], arcs.head[others], arcs.dependent[others])
    number_N, counts = np.full(len(batch.token), -1), arcs.role == ROLES.index("num")
    number_N[arcs.head[counts]] = arcs.dependent[counts]  # he ran two miles and she three
    counted = np.flatnonzero((number_N[arcs.dependent] >= 0) & ~counts)
    role, head = (np.append(part, part[counted]) for part in (arcs.role, arcs.head))
    dependent = np.append(arcs.dependent, number_N[arcs.dependent[counted]])
    by_head = np.argsort(head, kind="stable")
    one, other = _siblings(role[by_head], head[by_head], dependent[by_head])
    role = np.append(arcs.role, np.full(len(one), SIBLINGS))
    return Arcs(role, np.append(arcs.head, one), np.append(arcs.dependent, other))


def order_pairs(
    batch: Batch, relation: NDArray[np.int64], types: list[str], word_N: NDArray[np.integer]
) -> Arcs:
    """Pair the content words at most ``APART`` apart, in order; without words that deny."""
    content = spoken_content(relation, types, word_N)
    sentence = np.searchsorted(batch.sentence_offsets, content, side="right")
    first = np.repeat(np.arange(len(content)), APART)
    second = first + np.tile(np.arange(1, APART + 1), len(content))
    inside = second < len(content)
    first, second = first[inside], second[inside]
    same = sentence[first] == sentence[second]
    first, second = content[first[same]], content[second[same]]
    return Arcs(np.full(len(first), ORDER), first, second)


class BindingView(WeightlessView):
    """Sums of bound pairs of words; subclasses say which."""

    requires = frozenset({"tokens", "dep"})
    pairs: ClassVar[tuple[Pairs, ...]]

    @property
    def width(self) -> int:
        """Gives S, the numbers of a sentence vector."""
        return WIDTH

    def plan(self, batch: Batch) -> BindingPlan:
        """Read the words' spelling, heads and relations."""
        base, (types, first_U, word_N) = super().plan(batch), self.types(batch)
        relation = relation_bits(batch.relations)[batch.relation]
        parts = [pairs(batch, relation, types, word_N) for pairs in self.pairs]
        arcs = Arcs(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Arcs)))
        sign_N = turned(batch, relation, types, word_N, arcs).astype(np.float32)
        content = spoken_content(relation, types, word_N)
        of_content, of_arcs = (
            np.searchsorted(batch.sentence_offsets, tokens, side="right") for tokens in (content, arcs.head)
        )
        lone = content[~np.isin(of_content, of_arcs)]  # of sentences without arcs
        token = np.append(arcs.head, lone)
        return BindingPlan(
            **{field.name: getattr(base, field.name) for field in fields(base)},
            role=np.append(arcs.role, np.full(len(lone), ORDER)),
            head=word_N[token],
            dependent=np.append(word_N[arcs.dependent], np.full(len(lone), len(types))),
            sign=np.append(sign_N[arcs.head] * sign_N[arcs.dependent], sign_N[lone]),
            sentence=np.searchsorted(base.node_offsets, token, side="right") - 1,
            spelling=spelt(types, WIDTH),
            share=np.array([1 if has_opposite(w.lower()) else SPELLING for w in types], np.float32),
            first=first_U,
            word=word_N,
        )

    def forward(self, x_UE: Tensor, plan: Plan, token_N: Tensor | None = None) -> Tensor:
        """Sum up the bound pairs: [B, S]."""
        return self._bound(x_UE if token_N is None else embedding(token_N, x_UE), plan)[0]

    def states(self, x_UE: Tensor, token_N: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
        """Return the sums of the bound pairs [B, S], and the words as heads [N, S]."""
        sum_BS, as_head_US = self._bound(embedding(token_N, x_UE), plan)
        return sum_BS, embedding(plan.to(x_UE.device).tensor("word"), as_head_US)

    def _bound(self, x_NE: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
        """Return the sums [B, S] and the words as heads [U, S]."""
        assert isinstance(plan, BindingPlan)
        plan = plan.to(x_NE.device)
        a_ES, b_ES, sign_RS = (part.to(x_NE) for part in projections(x_NE.shape[1], WIDTH))
        share_U1 = plan.tensor("share").to(x_NE)[:, None]
        unit_UE = normalize(embedding(plan.tensor("first"), x_NE), dim=1) * (1 - share_U1) ** 0.5
        spelt_US = normalize(plan.tensor("spelling").to(x_NE), dim=1) * share_U1**0.5
        as_head_US = unit_UE @ a_ES + spelt_US
        # Spelling has signs of its own, so that shifting them by a place is a map as random as any. √S: two
        # bound pairs then have the product of their words' cosines as theirs.
        as_dependent_US = (unit_UE @ b_ES + spelt_US.roll(1, dims=1)) * WIDTH**0.5
        as_dependent_US = torch.cat([as_dependent_US, x_NE.new_ones(1, WIDTH)])  # what is bound to nothing
        sum_BS = x_NE.new_zeros(len(plan.node_offsets) - 1, WIDTH)
        if x_NE.device.type == "cpu" and not x_NE.requires_grad:
            tables = (table.numpy() for table in (as_head_US, as_dependent_US, sign_RS, sum_BS))
            _add_pairs(*tables, plan.head, plan.dependent, plan.role, plan.sign, plan.sentence)
            return sum_BS, as_head_US
        names = ("head", "dependent", "role", "sign", "sentence")
        for head, dependent, role, turn, sentence in zip(
            *(plan.tensor(n).split(CHUNK) for n in names), strict=True
        ):
            bound_MS = embedding(head, as_head_US) * embedding(dependent, as_dependent_US) * turn[:, None]
            sum_BS.index_add_(0, sentence, bound_MS * embedding(role, sign_RS))
        return sum_BS, as_head_US


@compiled
def _add_pairs(head_US, dependent_US, sign_RS, sum_BS, head, dependent, role, turn, sentence):  # type: ignore[no-untyped-def]
    """Add every bound pair to its sentence, without keeping it: a tenth of the time of whole tensors."""
    for m in range(len(head)):
        a, b = head_US[head[m]], dependent_US[dependent[m]]
        sign, total = sign_RS[role[m]], sum_BS[sentence[m]]
        for s in range(len(total)):
            total[s] += turn[m] * sign[s] * a[s] * b[s]


@register_view("roles")
class RolesView(BindingView):
    """Who did what to whom: the canonical roles of the dependency tree."""

    pairs = (role_pairs,)


@register_view("order")
class OrderView(BindingView):
    """Which content word comes before which."""

    pairs = (order_pairs,)


class StructureView(BindingView):
    """The sum of both; it has no name, as ``encode(structure=λ)`` asks for it."""

    pairs = (role_pairs, order_pairs)


def _siblings(
    role: NDArray[np.int64], head: NDArray[np.int64], dependent: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Pair the dependents of one head, in the order of their roles: int64 [2, M]. Arcs come by head."""
    arc = np.arange(len(head))
    later = np.searchsorted(head, head, side="right") - arc - 1  # arcs of the same head after each
    first = np.repeat(arc, later)
    second = first + 1 + np.arange(len(first)) - np.repeat(np.cumsum(later) - later, later)
    differ = (role[first] != role[second]) & (dependent[first] != dependent[second])
    first, second = first[differ], second[differ]
    return dependent[np.where(role[first] < role[second], (first, second), (second, first))]


@cache
@torch.inference_mode(False)  # what is kept from inference could not be trained with
def projections(word_dim: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Draw A and B, float32 [E, S], and √w σ of roles, siblings and order, [R + 2, S]; order has no signs."""
    drawn = np.random.default_rng(0)
    a, b = (drawn.standard_normal((word_dim, width)) / np.sqrt(width) for _ in range(2))
    signs = np.append(np.sign(drawn.standard_normal((ORDER, width))), np.ones((1, width)), axis=0)
    arrays = (a, b, signs * np.sqrt(WEIGHTS)[:, None])
    return tuple(torch.from_numpy(part.astype(np.float32)) for part in arrays)  # type: ignore[return-value]


def structure_of(
    batch: Batch, words: WordTable, view: type[BindingView] = StructureView, size: int = WIDTH
) -> Tensor:
    """Bind roles and order, or another view, in one vector of length 1 per sentence: [B, S].

    A sentence without bound words (one word, a fallback tree) has the zero vector.
    """
    types, word_N = batch.distinct_words()
    x_UE = words.rows(0, words.vocabulary.lookup(types))
    encoder = view(x_UE.shape[1], WIDTH)
    token_N = torch.from_numpy(word_N).to(x_UE.device)
    return normalize(encoder(x_UE, encoder.plan(batch), token_N)[:, :size], dim=1)
