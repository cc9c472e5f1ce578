"""Biaffine dependency parser (Dozat & Manning 2017): scores of arcs and relations, and the best tree.

    d_i = MLP_d(x_i), h_j = MLP_h(x_j)            s(i, j)    = [d_i; 1]ᵀ W h_j
    d'_i = MLP_d'(x_i), h'_j = MLP_h'(x_j)        s(i, j, r) = [d'_i; 1]ᵀ W_r [h'_j; 1]

with x from :class:`parsing.networks.sentence_encoder.SentenceEncoder`, MLP = linear, leaky ReLU (0.1).
Relations are scored only at one head per token (gold in training, predicted in parsing), never
for all pairs of words: R times less work and memory than scoring [B, T, T, R].

The tree is supar's (``decode(tree=True, proj=False)``), down to the choice among equal scores: each token
takes its best head. If that is not a tree with exactly one root, the maximum spanning tree is taken
(Chu-Liu/Edmonds); if that has several roots, the best of the trees rooted at one of them. It is compiled,
because up to a third of a weak model's sentences need it and per-element torch took longer than the network.

Shape suffixes: B sentences, T positions (0 is the root's), D encoder output, A arc space,
M relation space, R relations, N tokens of a batch. ``scores[i, j]`` is the score of head j for token i.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from parsing.networks.config import EncoderSizes, ScorerSizes
from parsing.networks.features import ParserVocabulary
from parsing.networks.parser import VOCABULARY, EncodedModel, EncodedParser, ModelFolder, Stages
from parsing.networks.sentence_encoder import shared_dropout
from parsing.trees.batch import DependencyParse, Int64
from runtime.cli import config_to_json
from runtime.compiled import compiled
from runtime.device import to_host

Float = NDArray[np.floating]

MIN = np.float32(-1e32)
"""Score of a forbidden arc, as in supar."""
NEGATIVE_SLOPE = 0.1
"""Slope of the leaky ReLU, as in supar."""
RELATION_CHUNK = 128
"""Tokens whose relations are scored at once."""


class DependencyModel(EncodedModel):
    """Encoder and biaffine scorers; see the module's docstring."""

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
        """Positions after the last word, 1 with an encoder that spans share; no head is there."""
        width, arc, relation = self.encoder.output_dim, scorer.arc_dim, scorer.relation_dim
        self.arc_dependent, self.arc_head = nn.Linear(width, arc), nn.Linear(width, arc)
        self.relation_dependent, self.relation_head = nn.Linear(width, relation), nn.Linear(width, relation)
        for layer in (self.arc_dependent, self.arc_head, self.relation_dependent, self.relation_head):
            nn.init.orthogonal_(layer.weight)
            nn.init.zeros_(layer.bias)
        self.arc_weight = nn.Parameter(torch.zeros(arc + 1, arc))
        self.relation_weight = nn.Parameter(torch.zeros(len(self.relations), relation + 1, relation + 1))

    @classmethod
    def from_folder(cls, folder: ModelFolder) -> DependencyModel:
        """Build the model that a folder holds, in eval mode; refuse what does not fit this version."""
        vocabulary, relations = folder.part(ParserVocabulary, VOCABULARY), folder.names("relations")
        encoder, scorer = folder.part(EncoderSizes, key="encoder"), folder.part(ScorerSizes, key="scorer")
        return folder.build(lambda: cls(vocabulary, relations, encoder, scorer))

    def _mlp(self, layer: nn.Linear, x_BTD: Tensor) -> Tensor:
        rate = self.encoder.dropout if self.training else 0.0
        return shared_dropout(functional.leaky_relu(layer(x_BTD), NEGATIVE_SLOPE), rate)

    def arc_scores(self, x_BTD: Tensor, mask_BT: Tensor) -> Tensor:
        """Return s(i, j) = [d_i; 1]ᵀ W h_j as [B, T, T]; heads j at padding score minus infinity."""
        dependent_BTA = self._mlp(self.arc_dependent, x_BTD)
        head_BTA = self._mlp(self.arc_head, x_BTD)
        # [d; 1]ᵀ W = dᵀ W[:-1] + W[-1]
        projected_BTA = dependent_BTA @ self.arc_weight[:-1] + self.arc_weight[-1]
        scores_BTT = projected_BTA @ head_BTA.transpose(1, 2)
        return scores_BTT.masked_fill(~mask_BT[:, None, :], -torch.inf)

    def relation_scores(self, x_BTD: Tensor, dependents: tuple[Tensor, Tensor], heads_N: Tensor) -> Tensor:
        """Return s(i, h_i, r) [N, R] of tokens, given by sentence and position, and a head of each."""
        sentence_N, position_N = dependents
        dependent_NM = self._mlp(self.relation_dependent, x_BTD)[sentence_N, position_N]
        head_NM = self._mlp(self.relation_head, x_BTD)[sentence_N, heads_N]
        one_N1 = dependent_NM.new_ones(len(dependent_NM), 1)
        pairs = torch.cat([dependent_NM, one_N1], 1), torch.cat([head_NM, one_N1], 1)
        weight_MRM = self.relation_weight.transpose(0, 1).flatten(1)
        if self.training:
            return self._relation_products(weight_MRM, *pairs)
        # A chunk's [N, R, M + 1] product stays in the processor's cache (parsing is 6 % faster for it).
        chunks = zip(*(part.split(RELATION_CHUNK) for part in pairs), strict=True)
        return torch.cat([self._relation_products(weight_MRM, *chunk) for chunk in chunks])

    def _relation_products(self, weight_MRM: Tensor, dependent_NM: Tensor, head_NM: Tensor) -> Tensor:
        """Compute dᵀ W_r h for all r, [N, R]: one product with every W_r, then a dot product with h."""
        left_NRM = (dependent_NM @ weight_MRM).view(-1, len(self.relations), head_NM.shape[1])
        if left_NRM.device.type != "cpu" or torch.is_grad_enabled():
            return torch.bmm(left_NRM, head_NM[:, :, None])[:, :, 0]
        scores_NR = left_NRM.new_empty(left_NRM.shape[:2])
        _dots(left_NRM.numpy(), head_NM.numpy(), scores_NR.numpy())
        return scores_NR

    def loss(self, x_BTD: Tensor, lengths_B: Tensor, heads_N: Tensor, relations_N: Tensor) -> Tensor:
        """Return the mean of −log p(head) − log p(relation | gold head) over tokens, sentence after sentence.

        ``lengths_B`` are positions with the root's, on the host.
        """
        mask_BT = torch.arange(x_BTD.shape[1]) < lengths_B[:, None]
        sentence_N, position_N = mask_BT[:, 1:].nonzero(as_tuple=True)
        dependents = sentence_N.to(x_BTD.device), position_N.to(x_BTD.device) + 1
        arcs_NT = self.arc_scores(x_BTD, mask_BT.to(x_BTD.device))[dependents]
        arc_loss = functional.cross_entropy(arcs_NT, heads_N)
        scores_NR = self.relation_scores(x_BTD, dependents, heads_N)
        return arc_loss + functional.cross_entropy(scores_NR, relations_N)


# Sums may be reordered (vector registers). bmm takes 3.6 times as long for products with single vectors.
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


def _tops(heads: Int64) -> Int64:
    """Return where each position's way up ends, [K]: at a root (its own head), or for ever on a cycle."""
    for _ in range(len(heads).bit_length()):  # each time twice as far
        heads = heads[heads]
    return heads


def chu_liu_edmonds(scores: Float) -> Int64:
    """Find the maximum spanning tree over positions 0..n, which may have several roots: heads [T].

    McDonald et al. (2005): take every token's best head; contract a cycle c to one node with
    s(c→x) = max over x' in c of s(x'→x) and s(x→c) = max over x' in c of
    s(x→x') − s(head(x')→x') + s(c); go on until there is none. ``scores`` are float32 [T, T].
    """
    s, contractions = scores.copy(), []
    while True:
        s[0] = s.reshape(-1)[:: len(s) + 1] = MIN
        tree: Int64 = s.argmax(1)
        ends = _tops(tree)
        if not ends.any():
            break
        # The cycle of the smallest possible token, as head(i), head(head(i)), ..., i: supar's Tarjan search
        # yields it in this order, which decides among equal scores.
        smallest, up = ends[ends > 0].min(), tree.tolist()
        members = [up[smallest]]
        while members[-1] != smallest:
            members.append(up[members[-1]])
        cycle = np.array(members)
        rest = np.delete(np.arange(len(s)), cycle)
        out_of = s[rest][:, cycle]
        own = s[cycle, tree[cycle]]
        into = s[cycle][:, rest] - own[:, None] + own.cumsum()[-1]
        # The cycle becomes the last node; it would be the head of each other by one of its tokens, and its
        # dependent by another.
        contractions.append((tree, rest, cycle[out_of.argmax(1)], cycle[into.argmax(0)]))
        narrower = np.full((len(rest) + 1, len(rest) + 1), MIN)
        narrower[:-1, :-1] = s[rest][:, rest]
        narrower[:-1, -1], narrower[-1, :-1] = out_of.max(1), into.max(0)
        s = narrower
    for wider, rest, head, entered in reversed(contractions):
        of_rest, of_cycle = tree[:-1], tree[-1]
        wider[rest] = np.where(of_rest == len(rest), head, rest.take(of_rest, mode="clip"))
        wider[entered[of_cycle]] = rest[of_cycle]
        tree = wider
    return tree


def spanning_tree(scores: Float) -> Int64:
    """Find the best tree with exactly one root as supar does, given scores [T, T]: heads [T].

    Only roots of the unconstrained tree are tried, each with all other arcs from 0 forbidden.
    """
    tree = chu_liu_edmonds(scores)
    roots = np.flatnonzero(tree[1:] == 0) + 1
    best = MIN
    for root in roots if len(roots) > 1 else ():
        candidate = scores.copy()
        candidate[:, 0] = MIN
        candidate[root, 0] = scores[root, 0]
        heads = chu_liu_edmonds(candidate)
        total = candidate[np.arange(len(heads)), heads][1:].cumsum()[-1]  # one after another, as supar does
        if total > best:
            best, tree = total, heads
    return tree


def decode_heads(scores_BTT: Float, tokens_B: Int64) -> Int64:
    """Return the heads of the tokens of a batch, sentence after sentence.

    Scores are [sentence, token, head], with padding after as many positions as a sentence has tokens.
    """
    positions = scores_BTT.shape[1]
    padding_BT = np.arange(positions) > tokens_B[:, None]
    heads_BT = np.where(padding_BT[:, None], -np.inf, scores_BTT).argmax(2)
    heads_BT[:, 0] = heads_BT[padding_BT] = 0
    firsts_B1 = np.arange(len(heads_BT))[:, None] * positions
    cyclic = (_tops((heads_BT + firsts_B1).ravel()).reshape(heads_BT.shape) > firsts_B1).any(1)
    roots = (heads_BT == 0).sum(1) - (positions - tokens_B)  # but for padding and the boundary
    for b in np.flatnonzero(cyclic | (roots != 1)):
        inside = slice(tokens_B[b] + 1)
        heads_BT[b, inside] = spanning_tree(scores_BTT[b, inside, inside])
    heads_N: Int64 = heads_BT[:, 1:][~padding_BT[:, 1:]]
    return heads_N


class BiaffineParser(EncodedParser[DependencyParse]):
    """A :class:`DependencyModel` as a :class:`parsing.trees.batch.DependencyParser`.

    Per batch: one [B, T, T] product for arcs, compiled decoding, relations at the predicted heads only.
    """

    def __init__(self, model: DependencyModel, identity: dict[str, str]) -> None:
        super().__init__(model, identity)
        self.model, self.relations = model, model.relations

    @torch.inference_mode()
    def parse_states(self, states_BTD: Tensor, positions_B: Tensor) -> Stages[DependencyParse]:
        """Find the trees, as :meth:`EncodedParser.parse_states` asks."""
        device, tokens_B = states_BTD.device, positions_B.numpy() - 1 - self.model.end_positions
        mask_BT = torch.arange(states_BTD.shape[1]) < torch.from_numpy(tokens_B)[:, None] + 1
        scores = to_host(self.model.arc_scores(states_BTD, mask_BT.to(device)))
        yield
        heads_N = decode_heads(np.asarray(scores(), np.float32), tokens_B)
        sentence_N, position_N = mask_BT[:, 1:].nonzero(as_tuple=True)
        dependents = sentence_N.to(device), position_N.to(device) + 1
        heads = torch.from_numpy(heads_N).to(device)
        relations = to_host(self.model.relation_scores(states_BTD, dependents, heads).argmax(1))
        yield
        cuts = np.cumsum(tokens_B)[:-1]
        columns = (np.split(values.astype(np.int32), cuts) for values in (heads_N, relations()))
        return list(map(DependencyParse, *columns))
