"""The views ROLES and ORDER, which bind each word to its role or to its place; nothing is trained.

    roles(s) = Σ over arcs  s_head s_dependent √w_role σ_role ∘ A x_head ∘ B x_dependent
    order(s) = Σ over content words i before j, at most 4 apart,  s_i s_j √w_order A x_i ∘ B x_j

σ is a random vector of signs for each role, w is the weight of the role, and A and B are random maps
(tensor-product and holographic binding: Smolensky 1990, Plate 1995). The inner product of two such vectors is
about the sum, over all pairs of arcs of the same role, of the similarity of their heads times the similarity
of their dependents. The arcs are those of :mod:`parsing.trees.roles`, and arcs between two dependents of one
head. The tree says which words are content words.

x is the vector of a word. 85 % of the cosine of two words comes from their spelling, as in the view SPELLING,
so that unseen names differ and inflected forms are similar; 15 % comes from their word vectors, so that a
synonym is more similar than any other word. Opposites have opposite signs. s is the sign of a word: -1 if it
is denied (:mod:`multiview.structure.negation`). If a sentence has no arcs, the sum is over its content words,
which are bound to no second word.

Legend of dimension suffixes: B sentences, N tokens, M pairs of words, U distinct words, E word-vector size, S
width, R roles.
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

from multiview.encoders.registry import register_view
from multiview.encoders.weightless import WeightlessView
from multiview.engines.plan import Plan
from multiview.structure.negation import WordTrees
from multiview.structure.poles import Opposites, signed_spellings
from multiview.words.table import WordTable
from parsing.trees.batch import MAX_TOKENS, Batch, concatenated_ranges
from parsing.trees.role_rules import ROLE, ROLES
from parsing.trees.roles import RoleArcs
from runtime.compiled import compiled

WIDTH = 1024
"""S, the size of structure."""
SPELLING_SHARE = 0.85
"""The share of spelling in the cosine of two words; it is 1 for words that have opposites."""
ORDER_DISTANCE = 4
"""The largest distance, in content words, of two words that are bound in order."""
CHUNK_PAIRS = 1024
"""The number of pairs that are bound at a time, so that their vectors stay in the processor's cache."""
SIBLINGS, ORDER = len(ROLES), len(ROLES) + 1
"""The role numbers of a pair of dependents of one head, and of two words in order."""
LONE = ORDER
"""The role of a word that is bound to no second word: that of order, whose signs are all +."""
_WEIGHT_OF_ROLE = {
    **dict.fromkeys(("agent", "patient", "to", "from"), 1.0),
    **dict.fromkeys(("attr", "poss", "before"), 1.5),
    **dict.fromkeys(("num", "neg"), 3.0),
    **dict.fromkeys(("than",), 5.0),
    **dict.fromkeys(("at", "adv", "is", "clause"), 0.15),
}
WEIGHTS = np.array([*(_WEIGHT_OF_ROLE[role] for role in ROLES), 0.1, 0.2])
"""The weight w of each role, of siblings and of order, chosen on development data. Rare roles that change the
sense of a whole sentence weigh more than roles that only add to it."""


@dataclass(frozen=True, kw_only=True)
class BindingPlan(Plan):
    """The plan of ROLES and ORDER: the pairs of distinct words that are bound."""

    role: NDArray[np.int64]  # [M], the row of the role in the table of signs
    head: NDArray[np.int64]  # [M], indices of distinct words
    dependent: NDArray[np.int64]  # [M], the same; U if the word is bound to no second word
    sign: NDArray[np.float32]  # [M], ±1, - if one of the two words is denied; smaller for repeated pairs
    sentence: NDArray[np.int64]  # [M]
    spelling: NDArray[np.float32]  # [U, S]
    spelling_share: NDArray[np.float32]  # [U], in the cosine of each distinct word
    token_of_word: NDArray[np.int64]  # [U], the first token of each distinct word
    word: NDArray[np.int64]  # [N], the index of each token's distinct word


def role_pairs(trees: WordTrees) -> RoleArcs:
    """Return the arcs of the trees, arcs from heads to numbers of dependents, and pairs of siblings."""
    arcs = trees.canonical_arcs()
    # A number is a dependent of its noun's head as well: he ran two miles and she three.
    is_number = arcs.role == ROLE.NUM
    number_of_token = np.full(len(trees.word_N), -1)
    number_of_token[arcs.head[is_number]] = arcs.dependent[is_number]
    number_M = number_of_token[arcs.dependent]
    has_number = (number_M >= 0) & ~is_number
    role = np.append(arcs.role, arcs.role[has_number])
    head = np.append(arcs.head, arcs.head[has_number])
    dependent = np.append(arcs.dependent, number_M[has_number])
    by_head = np.argsort(head, kind="stable")
    first, second = _siblings(role[by_head], head[by_head], dependent[by_head])
    sibling_role = np.full(len(first), SIBLINGS)
    return _join_arcs([arcs, RoleArcs(sibling_role, first, second)])


def order_pairs(trees: WordTrees) -> RoleArcs:
    """Return the pairs of content words at most ``ORDER_DISTANCE`` apart, in the order of the sentence."""
    content = trees.content_tokens()
    first = np.repeat(np.arange(len(content)), ORDER_DISTANCE)
    second = first + np.tile(np.arange(1, ORDER_DISTANCE + 1), len(content))
    is_inside = second < len(content)
    first, second = content[first[is_inside]], content[second[is_inside]]
    in_one_sentence = trees.sentences_of(first) == trees.sentences_of(second)
    first, second = first[in_one_sentence], second[in_one_sentence]
    return RoleArcs(np.full(len(first), ORDER), first, second)


def _siblings(
    role: NDArray[np.int64], head: NDArray[np.int64], dependent: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the pairs of dependents of one head, ordered by role, int64 [2, M]; arcs are sorted by head."""
    arc = np.arange(len(head))
    following = np.searchsorted(head, head, side="right") - arc - 1  # arcs of the same head after each
    first = np.repeat(arc, following)
    second = concatenated_ranges(arc + 1, following)
    differ = (role[first] != role[second]) & (dependent[first] != dependent[second])
    first, second = first[differ], second[differ]
    return dependent[np.where(role[first] < role[second], (first, second), (second, first))]


def _damp_repeats(
    sign_M: NDArray[np.float32], pair_4M: NDArray[np.int64], is_long_M: NDArray[np.bool_]
) -> NDArray[np.float32]:
    """Divide the sign of each pair of a long text by the root of the number of its repetitions in the text.

    Otherwise the pairs that a long text repeats would outweigh those that it has once.
    """
    if is_long_M.any():
        repeats = np.unique(pair_4M[:, is_long_M], axis=1, return_inverse=True, return_counts=True)
        sign_M[is_long_M] /= np.sqrt(repeats[2][repeats[1].ravel()])
    return sign_M


def _join_arcs(parts: list[RoleArcs]) -> RoleArcs:
    return RoleArcs(
        *(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(RoleArcs))
    )


class BindingView(WeightlessView):
    """A view that sums bound pairs of words; subclasses choose the pairs."""

    requires = frozenset({"tokens", "dep"})
    pair_rules: ClassVar[tuple[Callable[[WordTrees], RoleArcs], ...]]
    """Functions that return pairs of words: their roles, and the tokens of both words."""

    width = WIDTH
    opposites: Opposites | None = None
    """The list of opposites; None is that of the package."""

    def plan(self, batch: Batch) -> BindingPlan:
        """Choose the pairs of words, and compute the spelling vectors of the words."""
        base = super().plan(batch)
        trees = WordTrees(batch, self.opposites)
        types, word_N = trees.types, trees.word_N
        arcs = _join_arcs([pairs_of(trees) for pairs_of in self.pair_rules])
        sign_N = trees.negation_signs(arcs).astype(np.float32)
        content = trees.content_tokens()
        has_arcs = np.isin(trees.sentences_of(content), trees.sentences_of(arcs.head))
        lone = content[~has_arcs]
        head = np.append(arcs.head, lone)
        pair_4M = np.array([
            trees.sentences_of(head),
            np.append(arcs.role, np.full(len(lone), LONE)),
            word_N[head],
            np.append(word_N[arcs.dependent], np.full(len(lone), len(types))),
        ])  # fmt: skip
        is_long_B = np.diff(batch.sentence_offsets) > MAX_TOKENS  # pairs that it repeats count less
        sign_M = np.append(sign_N[arcs.head] * sign_N[arcs.dependent], sign_N[lone])
        return BindingPlan(
            **vars(base),
            role=pair_4M[1],
            head=pair_4M[2],
            dependent=pair_4M[3],
            sign=_damp_repeats(sign_M, pair_4M, is_long_B[pair_4M[0]]),
            sentence=pair_4M[0],
            spelling=signed_spellings(types, WIDTH, trees.opposites),
            spelling_share=np.where(
                [*map(trees.opposites.has_opposite, trees.lower_types)], 1, SPELLING_SHARE
            ).astype(np.float32),
            token_of_word=np.unique(word_N, return_index=True)[1],
            word=word_N,
        )

    def forward(self, x_UE: Tensor, plan: Plan, token_N: Tensor) -> Tensor:
        """Return the sums of the bound pairs, [B, S]."""
        return self._bind_words(embedding(token_N, x_UE), plan)[0]

    def states(self, x_UE: Tensor, token_N: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
        """Return the sums of the bound pairs, [B, S], and the vectors of the words as heads, [N, S]."""
        sum_BS, head_US = self._bind_words(embedding(token_N, x_UE), plan)
        return sum_BS, embedding(plan.to(x_UE.device).tensor("word"), head_US)

    def _bind_words(self, x_NE: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
        """Return the sums of the bound pairs, [B, S], and the vectors of distinct words as heads, [U, S]."""
        assert isinstance(plan, BindingPlan)
        plan = plan.to(x_NE.device)
        head_map_ES, dependent_map_ES, sign_RS = (part.to(x_NE) for part in random_maps(x_NE.shape[1], WIDTH))
        share_U1 = plan.tensor("spelling_share").to(x_NE)[:, None]
        vector_UE = normalize(embedding(plan.tensor("token_of_word"), x_NE), dim=1) * (1 - share_U1) ** 0.5
        spelling_US = normalize(plan.tensor("spelling").to(x_NE), dim=1) * share_U1**0.5
        head_US = vector_UE @ head_map_ES + spelling_US
        # Spelling is made of random signs, so shifting it by one place is a random map. With the factor √S
        # the inner product of two bound pairs is about the product of the cosines of their words.
        dependent_US = (vector_UE @ dependent_map_ES + spelling_US.roll(1, dims=1)) * WIDTH**0.5
        # The last row, of ones, is for words that are bound to no second word.
        dependent_US = torch.cat([dependent_US, x_NE.new_ones(1, WIDTH)])
        sum_BS = x_NE.new_zeros(plan.sentences, WIDTH)
        if x_NE.device.type == "cpu" and not x_NE.requires_grad:
            tables = (table.numpy() for table in (head_US, dependent_US, sign_RS, sum_BS))
            _add_pairs(*tables, plan.head, plan.dependent, plan.role, plan.sign, plan.sentence)
            return sum_BS, head_US
        names = ("head", "dependent", "role", "sign", "sentence")
        chunks = (plan.tensor(name).split(CHUNK_PAIRS) for name in names)
        for head_M, dependent_M, role_M, sign_M, sentence_M in zip(*chunks, strict=True):
            bound_MS = embedding(head_M, head_US) * embedding(dependent_M, dependent_US) * sign_M[:, None]
            sum_BS.index_add_(0, sentence_M, bound_MS * embedding(role_M, sign_RS))
        return sum_BS, head_US


@compiled
def _add_pairs(head_US, dependent_US, sign_RS, sum_BS, head, dependent, role, sign, sentence):  # type: ignore[no-untyped-def]
    """Add every bound pair to its sentence. No tensor of all pairs is made, which takes ten times as long."""
    for m in range(len(head)):
        a, b = head_US[head[m]], dependent_US[dependent[m]]
        role_sign, total = sign_RS[role[m]], sum_BS[sentence[m]]
        for s in range(len(total)):
            total[s] += sign[m] * role_sign[s] * a[s] * b[s]


@register_view("roles")
class RolesView(BindingView):
    """The view ROLES: who did what to whom, by the canonical roles of the dependency tree."""

    pair_rules = (role_pairs,)


@register_view("order")
class OrderView(BindingView):
    """The view ORDER: which content word comes before which."""

    pair_rules = (order_pairs,)


class StructureView(BindingView):
    """Structure: the sum of ROLES and ORDER. No model has it as a view."""

    pair_rules = (role_pairs, order_pairs)


@cache
@torch.inference_mode(False)  # because training cannot use a tensor that was made in inference mode
def random_maps(word_dim: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return A and B, float32 [E, S], and √w σ of roles, siblings and order, [R + 2, S]; σ of order is 1."""
    generator = np.random.default_rng(0)
    head_ES = generator.standard_normal((word_dim, width)) / np.sqrt(width)
    dependent_ES = generator.standard_normal((word_dim, width)) / np.sqrt(width)
    sign_RS = np.append(np.sign(generator.standard_normal((ORDER, width))), np.ones((1, width)), axis=0)
    sign_RS *= np.sqrt(WEIGHTS)[:, None]
    arrays = (head_ES, dependent_ES, sign_RS)
    return tuple(torch.from_numpy(array.astype(np.float32)) for array in arrays)  # type: ignore[return-value]


def structure_of(
    batch: Batch,
    words: WordTable,
    view: type[BindingView] = StructureView,
    size: int = WIDTH,
    opposites: Opposites | None = None,
) -> Tensor:
    """Return the structure of parsed sentences, [B, S] of length 1; zero if there are no content words.

    Args:
        batch: The parsed sentences.
        words: The table of word vectors.
        view: The view that chooses the pairs of words; by default both roles and order.
        size: S, the number of leading numbers of each vector that are kept.
        opposites: The list of opposites; None is that of the package.
    """
    types, word_N = batch.distinct_words()
    x_UE = words.rows(0, words.vocabulary.lookup(types))
    encoder = view(x_UE.shape[1], WIDTH)
    encoder.opposites = opposites
    token_N = torch.from_numpy(word_N).to(x_UE.device)
    return normalize(encoder(x_UE, encoder.plan(batch), token_N)[:, :size], dim=1)
