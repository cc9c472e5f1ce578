"""Biaffine dependency model (Dozat & Manning 2017): scores of arcs and of relations.

    d_i = MLP_d(x_i), h_j = MLP_h(x_j)            s(i, j)    = [d_i; 1]ᵀ W h_j
    d'_i = MLP_d'(x_i), h'_j = MLP_h'(x_j)        s(i, j, r) = [d'_i; 1]ᵀ W_r [h'_j; 1]

with x from :class:`parsing.networks.sentence_encoder.SentenceEncoder`, MLP = linear, leaky ReLU (0.1).
Relations are scored only at one head per token (gold in training, predicted in parsing), never
for all pairs of words: R times less work and memory than scoring [B, T, T, R].

Shape suffixes: B sentences, T positions (0 is the root's), D encoder output, A arc space,
M relation space, R relations, N tokens of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from corpora.support.cli import config_to_json
from parsing.dependency.decode import decode_heads
from parsing.networks.config import EncoderConfig, ScorerConfig
from parsing.networks.device import Stages, to_host
from parsing.networks.features import ParserVocabulary
from parsing.networks.model_folder import ModelFolder
from parsing.networks.parser import EncodedModel, EncodedParser
from parsing.networks.sentence_encoder import shared_dropout
from parsing.trees.parsers import DependencyParse

Float = NDArray[np.floating]

NEGATIVE_SLOPE = 0.1
"""Slope of the leaky ReLU, as in supar."""
RELATION_CHUNK = 128
"""Tokens whose relations are scored at once."""


class DependencyModel(EncodedModel):
    """Encoder and biaffine scorers; see the module's docstring."""

    def __init__(
        self,
        vocabulary: ParserVocabulary,
        relations: Sequence[str],
        encoder: EncoderConfig,
        scorer: ScorerConfig,
    ) -> None:
        super().__init__(vocabulary, encoder)
        self.relations = tuple(relations)
        self.scorer = scorer
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

    def config_json(self) -> dict[str, Any]:
        """See :meth:`parsing.networks.parser.EncodedModel.config_json`."""
        return {"encoder": config_to_json(self.encoder.config), "scorer": config_to_json(self.scorer)}

    @classmethod
    def from_folder(cls, folder: ModelFolder) -> DependencyModel:
        """Build the model a folder holds, in eval mode.

        Raises:
            UserError: the folder does not fit this version.
        """
        encoder, scorer = folder.part(EncoderConfig, "encoder"), folder.part(ScorerConfig, "scorer")
        relations = folder.names("relations")
        return folder.build(lambda: cls(folder.parser_vocabulary(), relations, encoder, scorer))

    def _mlp(self, layer: nn.Linear, x_BTD: Tensor) -> Tensor:
        rate = self.scorer.dropout if self.training else 0.0
        return shared_dropout(functional.leaky_relu(layer(x_BTD), NEGATIVE_SLOPE), rate)

    def arc_scores(self, x_BTD: Tensor, mask_BT: Tensor) -> Tensor:
        """s(i, j) = [d_i; 1]ᵀ W h_j as [B, T, T]; heads j at padding score minus infinity."""
        dependent_BTA = self._mlp(self.arc_dependent, x_BTD)
        head_BTA = self._mlp(self.arc_head, x_BTD)
        # [d; 1]ᵀ W = dᵀ W[:-1] + W[-1]
        projected_BTA = dependent_BTA @ self.arc_weight[:-1] + self.arc_weight[-1]
        scores_BTT = projected_BTA @ head_BTA.transpose(1, 2)
        return scores_BTT.masked_fill(~mask_BT[:, None, :], -torch.inf)

    def relation_scores(self, x_BTD: Tensor, dependents: tuple[Tensor, Tensor], heads_N: Tensor) -> Tensor:
        """s(i, h_i, r) [N, R] of ``dependents``, sentence and position of each token, at one head each."""
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
        """dᵀ W_r h for all r: one product with every W_r, then a dot product with h, [N, R]."""
        left_NRM = (dependent_NM @ weight_MRM).view(-1, len(self.relations), head_NM.shape[1])
        if left_NRM.device.type != "cpu" or torch.is_grad_enabled():
            return torch.bmm(left_NRM, head_NM[:, :, None])[:, :, 0]
        scores_NR = left_NRM.new_empty(left_NRM.shape[:2])
        _dots(left_NRM.numpy(), head_NM.numpy(), scores_NR.numpy())
        return scores_NR

    def loss(self, x_BTD: Tensor, lengths_B: Tensor, heads_N: Tensor, relations_N: Tensor) -> Tensor:
        """Mean over tokens of −log p(head) − log p(relation | gold head).

        ``lengths_B`` are positions with the root's, on the host; gold heads and relations lie sentence after
        sentence.
        """
        mask_BT = torch.arange(x_BTD.shape[1]) < lengths_B[:, None]
        tokens_BT = mask_BT.clone()
        tokens_BT[:, 0] = False
        sentence_N, position_N = (index.to(x_BTD.device) for index in tokens_BT.nonzero(as_tuple=True))
        dependents = sentence_N, position_N
        arcs_NT = self.arc_scores(x_BTD, mask_BT.to(x_BTD.device))[dependents]
        arc_loss = functional.cross_entropy(arcs_NT, heads_N)
        return arc_loss + functional.cross_entropy(
            self.relation_scores(x_BTD, dependents, heads_N), relations_N
        )


# Sums may be reordered (vector registers). bmm takes 3.6 times as long for products with single vectors.
@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _dots(left_NRM: Float, right_NM: Float, out_NR: Float) -> None:
    """Writes the dot product of every row of ``left_NRM[n]`` with ``right_NM[n]``."""
    for n in range(len(right_NM)):
        right = right_NM[n]
        for r in range(out_NR.shape[1]):
            left = left_NRM[n, r]
            total = left[0] * right[0]  # a plain 0 would make it float64
            for m in range(1, len(right)):
                total += left[m] * right[m]
            out_NR[n, r] = total


class BiaffineParser(EncodedParser[DependencyParse]):
    """A :class:`DependencyModel` as a :class:`parsing.trees.parsers.DependencyParser`.

    Per batch: one [B, T, T] product for arcs, compiled decoding, relations at the predicted heads only.
    """

    def __init__(self, model: DependencyModel, identity: dict[str, str]) -> None:
        super().__init__(model, identity)
        self.model, self.relations = model, model.relations

    @torch.inference_mode()
    def parse_states(self, states_BTD: Tensor, positions_B: Tensor) -> Stages[DependencyParse]:
        """See :meth:`parsing.networks.parser.EncodedParser.parse_states`."""
        tokens_B = positions_B.numpy() - 1 - self.model.end_positions
        mask_BT = torch.arange(states_BTD.shape[1]) < torch.from_numpy(tokens_B)[:, None] + 1
        scores = to_host(self.model.arc_scores(states_BTD, mask_BT.to(states_BTD.device)))
        yield
        heads_N, _ = decode_heads(np.asarray(scores(), np.float32), tokens_B)
        sentence_N = np.repeat(np.arange(len(tokens_B)), tokens_B)
        position_N = np.arange(len(heads_N)) - np.repeat(np.cumsum(tokens_B) - tokens_B, tokens_B) + 1
        sentence, position, heads = (
            torch.from_numpy(values_N).to(states_BTD.device) for values_N in (sentence_N, position_N, heads_N)
        )
        relations = to_host(self.model.relation_scores(states_BTD, (sentence, position), heads).argmax(1))
        yield
        cuts = np.cumsum(tokens_B)[:-1]
        columns = (np.split(values.astype(np.int32), cuts) for values in (heads_N, relations()))
        return list(map(DependencyParse, *columns))
