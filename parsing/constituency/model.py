"""The constituency parser: sentence encoder, span head, tag head, and batched parsing.

Kitaev & Klein (2018): the vector of fencepost i joins the forward state before it and the backward
state after it; spans are scored by :class:`parsing.constituency.span_head.SpanHead`, tags from the states of
the words, and :mod:`parsing.constituency.decode` finds the trees.

Shapes: B sentences, T positions (both boundaries included), P fenceposts (n + 1 a sentence, packed),
N words (packed), D encoder output, S spans.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from corpora.support.cli import config_to_json
from corpora.support.errors import UserError
from parsing.constituency.decode import decode_batch
from parsing.constituency.span_head import SpanHead, best_spans, project
from parsing.networks.config import EncoderConfig, SpanConfig
from parsing.networks.device import Stages, pick, to_host
from parsing.networks.features import ParserVocabulary
from parsing.networks.model_folder import VOCABULARY, ModelFolder
from parsing.networks.parser import EncodedModel, EncodedParser
from parsing.trees.parsers import ConstituencyParse


class ConstituencyModel(EncodedModel):
    """Encoder with an end boundary, where the last span ends, span head and tag head.

    The null label ``""`` is the first one and has no weights.
    """

    def __init__(
        self,
        vocabulary: ParserVocabulary,
        labels: Sequence[str],
        tags: Sequence[str],
        encoder: EncoderConfig,
        config: SpanConfig,
    ) -> None:
        super().__init__(vocabulary, encoder)
        self.config = config
        self.labels, self.tags = tuple(labels), tuple(tags)
        width = self.encoder.output_dim
        self.span_head = SpanHead(width, config.label_hidden, len(labels) - 1)
        self.tag_head = nn.Sequential(
            nn.Linear(width, config.tag_hidden),
            nn.LayerNorm(config.tag_hidden),
            nn.ReLU(),
            nn.Linear(config.tag_hidden, len(tags)),
        )

    def config_json(self) -> dict[str, Any]:
        """See :meth:`parsing.networks.parser.EncodedModel.config_json`."""
        return {"encoder": config_to_json(self.encoder.config), **config_to_json(self.config)}

    @classmethod
    def from_folder(cls, folder: ModelFolder) -> ConstituencyModel:
        """Build the model a folder holds, in eval mode.

        Raises:
            UserError: the folder does not fit this version.
        """
        encoder, config = folder.part(EncoderConfig, "encoder"), folder.part(SpanConfig)
        labels, tags = folder.names("labels"), folder.names("tags")
        if labels[0] != "":
            raise UserError(f"{folder.path / VOCABULARY}: the first label must be the empty one")
        return folder.build(lambda: cls(folder.parser_vocabulary(), labels, tags, encoder, config))


def fencepost_vectors(states_BTD: Tensor, positions_B: Tensor) -> Tensor:
    """f_i = [ahead_i ; back_(i+1)] for every fencepost of sentences of n + 2 positions, packed: [P, D]."""
    half = states_BTD.shape[-1] // 2
    mask = torch.arange(states_BTD.shape[1] - 1, device=positions_B.device) < positions_B[:, None] - 1
    return torch.cat([pick(states_BTD[:, :-1, :half], mask), pick(states_BTD[:, 1:, half:], mask)], -1)


def word_states(states_BTD: Tensor, positions_B: Tensor) -> Tensor:
    """States of the words without the boundaries, packed: [N, D]."""
    positions_T = torch.arange(states_BTD.shape[1], device=positions_B.device)
    return pick(states_BTD, (positions_T > 0) & (positions_T < positions_B[:, None] - 1))


class SpanParser(EncodedParser[ConstituencyParse]):
    """A :class:`ConstituencyModel` as a :class:`parsing.trees.parsers.ConstituencyParser`."""

    def __init__(self, model: ConstituencyModel, identity: dict[str, str]) -> None:
        super().__init__(model, identity)
        self.model, self.labels, self.tags = model, model.labels, model.tags

    @torch.inference_mode()
    def parse_states(self, states_BTD: Tensor, positions_B: Tensor) -> Stages[ConstituencyParse]:
        """See :meth:`parsing.networks.parser.EncodedParser.parse_states`."""
        model, lengths = self.model, positions_B.numpy().astype(np.int64) - 2
        projected_PH = project(model.span_head, fencepost_vectors(states_BTD, positions_B))
        best = best_spans(model.span_head, projected_PH, lengths, force=model.config.force_root)
        tags = to_host(model.tag_head(word_states(states_BTD, positions_B)).argmax(-1))
        yield
        *columns, counts = decode_batch(*best(), lengths)
        words, cuts = np.cumsum(lengths)[:-1], np.cumsum(counts)[:-1]
        split = (np.split(values, cuts) for values in columns)
        return list(map(ConstituencyParse, np.split(tags().astype(np.int32), words), *split))
