"""Biaffine dependency parser (Dozat & Manning 2017): scores of arcs and relations, and the best tree.

    d_i = MLP_d(x_i), h_j = MLP_h(x_j)            s(i, j)    = [d_i; 1]ᵀ W h_j
    d'_i = MLP_d'(x_i), h'_j = MLP_h'(x_j)        s(i, j, r) = [d'_i; 1]ᵀ W_r [h'_j; 1]

with x from :class:`parsing.networks.sentence_encoder.SentenceEncoder`, MLP = linear, leaky ReLU (0.1).
Relations are scored for one head per token only, the gold head in training and the predicted one in parsing.
Scores for all pairs of words would take T times the work and memory.

The tree is the one that supar finds (``decode(tree=True, proj=False)``), also if several have the same score.
Each token first takes its best head. If the result is not a tree with exactly one root, the maximum spanning
tree is taken (Chu-Liu/Edmonds). If that has several roots, the best tree that has one of these as its only
root is taken.

Legend of dimension suffixes: B sentences, T positions (0 is the root's), D encoder output, A arc space, M
relation space, R relations, N tokens of a batch. ``scores[i, j]`` is the score of head j for token i.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from parsing.networks.config import EncoderSizes, ScorerSizes
from parsing.networks.features import ParserVocabulary
from parsing.networks.lstm import shared_dropout
from parsing.networks.parser import VOCABULARY, EncodedParser, ParserModel, Stages, load_model_folder
from parsing.trees.batch import DependencyParse, Int64
from runtime.cli import config_to_json
from runtime.compiled import compiled
from runtime.device import to_host
from runtime.int8 import int8_matrix, quantised
from runtime.products import Int8Products, products_for

Float = NDArray[np.floating]

MIN = np.float32(-1e32)
"""The score of a forbidden arc, as in supar."""
NEGATIVE_SLOPE = 0.1
"""The slope of the leaky ReLU, as in supar."""
RELATION_CHUNK = 128
"""The number of tokens whose relations are scored at once."""


class DependencyModel(ParserModel):
    """The encoder with biaffine scorers, whose equations are in the module's docstring."""

    kind = "dependency"

    def __init__(
        self,
        vocabulary: ParserVocabulary,
        relations: Sequence[str],
        encoder: EncoderSizes,
        scorer: ScorerSizes,
    ) -> None:
        super().__init__(vocabulary, encoder, {"scorer": config_to_json(scorer)}, relations=relations)
        self.relations, self.scorer = tuple(relations), scorer
        self.end_positions = int(encoder.end_boundary)
        """The number of positions after the last word, which cannot be heads."""
        width, arc_dim, relation_dim = self.encoder.output_dim, scorer.arc_dim, scorer.relation_dim
        self.arc_dependent = nn.Linear(width, arc_dim)
        self.arc_head = nn.Linear(width, arc_dim)
        self.relation_dependent = nn.Linear(width, relation_dim)
        self.relation_head = nn.Linear(width, relation_dim)
        for layer in (self.arc_dependent, self.arc_head, self.relation_dependent, self.relation_head):
            nn.init.orthogonal_(layer.weight)
            nn.init.zeros_(layer.bias)
        self.arc_weight = nn.Parameter(torch.zeros(arc_dim + 1, arc_dim))
        self.relation_weight = nn.Parameter(torch.zeros(len(relations), relation_dim + 1, relation_dim + 1))

    @classmethod
    def load(cls, path: Path) -> DependencyModel:
        """Load a model folder, in eval mode. Raises UserError if it is damaged or its sizes do not fit."""
        folder = load_model_folder(path, cls.kind)
        vocabulary = folder.section(ParserVocabulary, VOCABULARY)
        relations = folder.names("relations")
        encoder = folder.section(EncoderSizes, key="encoder")
        scorer = folder.section(ScorerSizes, key="scorer")
        return folder.build(lambda: cls(vocabulary, relations, encoder, scorer))

    def _mlp(self, layer: nn.Linear, x_BTD: Tensor) -> Tensor:
        """Return a linear map of the states and its leaky ReLU, with dropout in training: [B, T, A]."""
        rate = self.encoder.dropout if self.training else 0.0
        product_BTA = products_for(x_BTD).linear(x_BTD, layer.weight, layer.bias)
        return shared_dropout(functional.leaky_relu(product_BTA, NEGATIVE_SLOPE), rate)

    def arc_scores(self, x_BTD: Tensor, mask_BT: Tensor) -> Tensor:
        """Return s(i, j) = [d_i; 1]ᵀ W h_j as [B, T, T], with minus infinity where head j is padding."""
        dependent_BTA = self._mlp(self.arc_dependent, x_BTD)
        head_BTA = self._mlp(self.arc_head, x_BTD)
        # [d; 1]ᵀ W = dᵀ W[:-1] + W[-1]
        products, bias = products_for(x_BTD), self.arc_weight[-1]
        if isinstance(products, Int8Products):
            product_BTA = products.linear(
                dependent_BTA, self.arc_weight, bias, lambda weight: weight[:-1].t()
            )
        else:
            product_BTA = dependent_BTA @ self.arc_weight[:-1] + bias
        scores_BTT = product_BTA @ head_BTA.transpose(1, 2)
        return scores_BTT.masked_fill(~mask_BT[:, None, :], -torch.inf)

    def relation_scores(self, x_BTD: Tensor, dependents: tuple[Tensor, Tensor], heads_N: Tensor) -> Tensor:
        """Return the scores s(i, h_i, r) of relations, [N, R].

        ``dependents`` are the sentence and the position of each token, [N] both; ``heads_N`` are the
        positions of their heads.
        """
        sentence_N, position_N = dependents
        dependent_NM = self._mlp(self.relation_dependent, x_BTD)[sentence_N, position_N]
        head_NM = self._mlp(self.relation_head, x_BTD)[sentence_N, heads_N]
        one_N1 = dependent_NM.new_ones(len(dependent_NM), 1)
        dependent_NM = torch.cat([dependent_NM, one_N1], 1)
        head_NM = torch.cat([head_NM, one_N1], 1)
        if isinstance(products_for(x_BTD), Int8Products):
            return self._int8_relation_scores(dependent_NM, head_NM)
        weight_MRM = self.relation_weight.transpose(0, 1).flatten(1)
        if self.training:
            return self._relation_products(weight_MRM, dependent_NM, head_NM)
        # In chunks, whose product [N, R, M + 1] stays in the processor's cache: parsing is 6 % faster.
        chunks = zip(dependent_NM.split(RELATION_CHUNK), head_NM.split(RELATION_CHUNK), strict=True)
        return torch.cat([self._relation_products(weight_MRM, *chunk) for chunk in chunks])

    def _relation_products(self, weight_MRM: Tensor, dependent_NM: Tensor, head_NM: Tensor) -> Tensor:
        """Return dᵀ W_r h for all r, [N, R], as one product with all W_r and a dot product with h."""
        left_NRM = (dependent_NM @ weight_MRM).view(-1, len(self.relations), head_NM.shape[1])
        if left_NRM.device.type != "cpu" or torch.is_grad_enabled():
            return torch.bmm(left_NRM, head_NM[:, :, None])[:, :, 0]
        scores_NR = left_NRM.new_empty(left_NRM.shape[:2])
        _dots(left_NRM.numpy(), head_NM.numpy(), scores_NR.numpy())
        return scores_NR

    def _int8_relation_scores(self, dependent_NM: Tensor, head_NM: Tensor) -> Tensor:
        """Return the same as :meth:`_relation_products`, with W_r in eight bits."""
        factor = int8_matrix(self.relation_weight, lambda weight: weight.permute(2, 0, 1).flatten(0, 1))
        scores_NR = head_NM.new_empty(len(head_NM), len(self.relations))
        chunks = (each.split(RELATION_CHUNK) for each in (dependent_NM, head_NM, scores_NR))
        for dependent, head, scores in zip(*chunks, strict=True):
            rows, row_scale = quantised(dependent)
            left = factor.sums(rows)
            _int8_dots(left.numpy(), row_scale, factor.column_scale, head.numpy(), scores.numpy())
        return scores_NR

    def loss(self, x_BTD: Tensor, lengths_B: Tensor, heads_N: Tensor, relations_N: Tensor) -> Tensor:
        """Return the mean over tokens of −log p(head) − log p(relation | gold head).

        Args:
            x_BTD: the encoder's states.
            lengths_B: the number of words of each sentence and 1 for the root, on the host.
            heads_N: the gold heads.
            relations_N: the gold relations.
        """
        mask_BT = torch.arange(x_BTD.shape[1]) < lengths_B[:, None]
        sentence_N, position_N = mask_BT[:, 1:].nonzero(as_tuple=True)
        dependents = sentence_N.to(x_BTD.device), position_N.to(x_BTD.device) + 1
        arcs_NT = self.arc_scores(x_BTD, mask_BT.to(x_BTD.device))[dependents]
        arc_loss = functional.cross_entropy(arcs_NT, heads_N)
        scores_NR = self.relation_scores(x_BTD, dependents, heads_N)
        return arc_loss + functional.cross_entropy(scores_NR, relations_N)


# Sums may be reordered, so that they are vectorised. torch.bmm takes 3.6 times as long for single vectors.
@functools.partial(compiled, fastmath={"reassoc", "contract"})
def _dots(left_NRM: Float, right_NM: Float, out_NR: Float) -> None:
    """Write the dot product of every row of ``left_NRM[n]`` with ``right_NM[n]``."""
    for n in range(len(right_NM)):
        right = right_NM[n]
        for r in range(out_NR.shape[1]):
            left = left_NRM[n, r]
            total = left[0] * right[0]  # a plain 0 would make it float64
            for m in range(1, len(right)):
                total += left[m] * right[m]
            out_NR[n, r] = total


@compiled
def _int8_dots(left_NK: Float, row_scale: Float, column_scale: Float, right_NM: Float, out_NR: Float) -> None:
    """Write Σ_m left[n, m, r] right[n, m] to ``out_NR``.

    ``left_NK`` [N, M · R] are sums of integers, to be multiplied by the scales of their rows and columns.
    """
    size = out_NR.shape[1]
    for n in range(len(right_NM)):
        out = out_NR[n]
        out[:] = 0
        for m in range(right_NM.shape[1]):
            columns = slice(m * size, (m + 1) * size)
            left, scale, right = left_NK[n, columns], column_scale[columns], right_NM[n, m] * row_scale[n]
            for r in range(size):
                out[r] += left[r] * scale[r] * right


def _path_ends(heads: Int64) -> Int64:
    """Return where the path of heads from each position ends, [K]: at a root, its own head, or on a cycle."""
    for _ in range(len(heads).bit_length()):  # each round doubles the length of the paths
        heads = heads[heads]
    return heads


def chu_liu_edmonds(scores: Float) -> Int64:
    """Return the maximum spanning tree over positions 0..n as heads [T]; it may have several roots.

    McDonald et al. (2005): each token takes its best head. A cycle c is contracted to one node with
    s(c→x) = max over x' in c of s(x'→x) and s(x→c) = max over x' in c of
    s(x→x') − s(head(x')→x') + s(c), until there is no cycle. ``scores`` are float32 [T, T].
    """
    s = scores.copy()
    s[0] = MIN
    np.fill_diagonal(s, MIN)
    heads: Int64 = s.argmax(1)
    ends = _path_ends(heads)
    if not ends.any():
        return heads
    # The cycle with the smallest token i, in supar's order: head(i), head(head(i)), ..., i.
    smallest = ends[ends > 0].min()
    members = [heads[smallest]]
    while members[-1] != smallest:
        members.append(heads[members[-1]])
    cycle = np.array(members)
    outside = np.delete(np.arange(len(s)), cycle)
    exit_scores = s[outside][:, cycle]
    cycle_scores = s[cycle, heads[cycle]]
    entry_scores = s[cycle][:, outside] - cycle_scores[:, None] + cycle_scores.cumsum()[-1]
    # The cycle becomes the last node of a smaller graph. For each other node, ``exits`` has the token of the
    # cycle that would be its head, and ``entries`` the one that would be its dependent.
    exits, entries = cycle[exit_scores.argmax(1)], cycle[entry_scores.argmax(0)]
    smaller = np.full((len(outside) + 1, len(outside) + 1), MIN)
    smaller[:-1, :-1] = s[outside][:, outside]
    smaller[:-1, -1] = exit_scores.max(1)
    smaller[-1, :-1] = entry_scores.max(0)
    smaller_heads = chu_liu_edmonds(smaller)
    head_of_outside, head_of_cycle = smaller_heads[:-1], smaller_heads[-1]
    is_below_cycle = head_of_outside == len(outside)
    heads[outside] = np.where(is_below_cycle, exits, outside.take(head_of_outside, mode="clip"))
    heads[entries[head_of_cycle]] = outside[head_of_cycle]
    return heads


def spanning_tree(scores: Float) -> Int64:
    """Return the best tree with a single root as heads [T], given the scores [T, T] of arcs.

    Its root is one of the roots of the maximum spanning tree.
    """
    best_heads = chu_liu_edmonds(scores)
    roots = np.flatnonzero(best_heads[1:] == 0) + 1
    if len(roots) == 1:
        return best_heads
    best_total = MIN
    for root in roots:
        one_root_scores = scores.copy()  # without the other arcs from 0
        one_root_scores[:, 0] = MIN
        one_root_scores[root, 0] = scores[root, 0]
        heads = chu_liu_edmonds(one_root_scores)
        arc_scores = one_root_scores[np.arange(len(heads)), heads][1:]
        total = arc_scores.cumsum()[-1]  # added one after the other, as supar does
        if total > best_total:
            best_total, best_heads = total, heads
    return best_heads


def decode_heads(scores_BTT: Float, tokens_B: Int64) -> Int64:
    """Return the heads of all tokens of a batch, [N], without the roots' positions and padding.

    ``scores_BTT`` [sentence, token, head] are lowest where the head is padding; ``tokens_B`` are the numbers
    of words.
    """
    positions = scores_BTT.shape[1]
    is_padding_BT = np.arange(positions) > tokens_B[:, None]
    heads_BT = scores_BTT.argmax(2)
    heads_BT[:, 0] = heads_BT[is_padding_BT] = 0
    starts_B1 = np.arange(len(heads_BT))[:, None] * positions  # where each sentence starts in the flat batch
    ends_BT = _path_ends((heads_BT + starts_B1).ravel()).reshape(heads_BT.shape)
    has_cycle_B = (ends_BT > starts_B1).any(1)
    roots_B = (heads_BT == 0).sum(1) - (positions - tokens_B)  # not padding or the root itself
    for b in np.flatnonzero(has_cycle_B | (roots_B != 1)):
        sentence = slice(tokens_B[b] + 1)
        heads_BT[b, sentence] = spanning_tree(scores_BTT[b, sentence, sentence])
    heads_N: Int64 = heads_BT[:, 1:][~is_padding_BT[:, 1:]]
    return heads_N


class BiaffineParser(EncodedParser[DependencyParse]):
    """Parses with a :class:`DependencyModel`, as a :class:`parsing.trees.batch.DependencyParser`."""

    def __init__(self, model: DependencyModel) -> None:
        super().__init__(model)
        self.model, self.relations = model, model.relations

    @torch.inference_mode()
    def parse_states(self, states_BTD: Tensor, positions_B: Tensor) -> Stages[DependencyParse]:
        """Find the trees of a batch; see :meth:`EncodedParser.parse_states`."""
        device = states_BTD.device
        tokens_B = positions_B.numpy() - 1 - self.model.end_positions
        mask_BT = torch.arange(states_BTD.shape[1]) < torch.from_numpy(tokens_B)[:, None] + 1
        scores = to_host(self.model.arc_scores(states_BTD, mask_BT.to(device)))
        yield
        heads_N = decode_heads(np.asarray(scores(), np.float32), tokens_B)
        sentence_N, position_N = mask_BT[:, 1:].nonzero(as_tuple=True)
        dependents = sentence_N.to(device), position_N.to(device) + 1
        heads = torch.from_numpy(heads_N).to(device)
        relations = to_host(self.model.relation_scores(states_BTD, dependents, heads).argmax(1))
        yield
        ends = np.cumsum(tokens_B)[:-1]
        heads_by_sentence = np.split(heads_N.astype(np.int32), ends)
        relations_by_sentence = np.split(relations().astype(np.int32), ends)
        return list(map(DependencyParse, heads_by_sentence, relations_by_sentence))
