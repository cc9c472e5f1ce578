"""Biaffine dependency parsing over a pretrained transformer: supar's ``encoder=bert`` and ``feat=bert``.

Either the transformer's word vectors are the contextual states, or they are another input of the BiLSTM
besides words and characters. The first kind is trained here (``parsing.train dep --transformer``) or
converted from supar (:mod:`parsing.convert`), the second only converted.

Shape suffixes: B sentences, T positions (0 is the root's), E input, D states.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from corpora.support.config import config_to_json
from corpora.support.errors import UserError
from parsing.dependency.model import BiaffineScorers
from parsing.dependency.parser import BatchedParser
from parsing.networks.config import EncoderConfig, ScorerConfig
from parsing.networks.features import ParserVocabulary, TypeTable
from parsing.networks.model_folder import CONFIG, VOCABULARY, ModelFolder, load_weights, sizes_from
from parsing.networks.sentence_encoder import SentenceEncoder, TypeVectors
from parsing.networks.subwords import SubwordConfig, SubwordEncoder, SubwordTable, piece_counts


@dataclass(frozen=True, kw_only=True)
class WordLayers:
    """The BiLSTM that reads words and characters besides the transformer's vectors."""

    vocabulary: ParserVocabulary
    encoder: EncoderConfig


class SubwordDependencyModel(BiaffineScorers):
    """Transformer, perhaps a BiLSTM over it, and the biaffine scorers.

    Args:
        config: how words are cut and pooled.
        backbone: the transformer's configuration.
        tokenizer: ``tokenizer.json`` as JSON values.
        relations: names of the relations.
        scorer: sizes of the scorers.
        words: the BiLSTM; None when the transformer is the encoder.
    """

    def __init__(
        self,
        config: SubwordConfig,
        backbone: dict[str, object],
        tokenizer: dict[str, object],
        relations: Sequence[str],
        scorer: ScorerConfig,
        words: WordLayers | None = None,
    ) -> None:
        super().__init__()
        self.tokenizer, self.words = tokenizer, words
        self.subwords = SubwordEncoder(config, backbone)
        width = self.subwords.output_dim
        self.encoder: SentenceEncoder | None = None
        if words is not None:
            vocabulary = words.vocabulary
            sizes = len(vocabulary.words), len(vocabulary.characters)
            self.encoder = SentenceEncoder(*sizes, words.encoder, extra_dim=width)
            width = self.encoder.output_dim
        self.add_scorers(width, relations, scorer)

    def use_bfloat16(self) -> None:
        """Run the transformer under bfloat16 autocast and the BiLSTM in bfloat16."""
        self.subwords.reduced = True
        if self.encoder is not None:
            self.encoder.use_bfloat16()

    def config_json(self) -> dict[str, object]:
        """Configuration for the model folder."""
        values: dict[str, object] = {
            "subwords": config_to_json(self.subwords.config),
            "backbone": self.subwords.backbone,
            "scorer": config_to_json(self.scorer),
        }
        return values if self.words is None else values | {"encoder": config_to_json(self.words.encoder)}

    def vocabulary_json(self) -> dict[str, object]:
        """Vocabulary for the model folder."""
        values: dict[str, object] = {"tokenizer": self.tokenizer, "relations": list(self.relations)}
        return values if self.words is None else values | config_to_json(self.words.vocabulary)

    @classmethod
    def from_folder(cls, folder: ModelFolder) -> SubwordDependencyModel:
        """Build the model a folder holds, in eval mode.

        Raises:
            UserError: the folder does not fit this version or the installed transformers.
        """
        words = None
        if "encoder" in folder.config:
            vocabulary = ParserVocabulary.from_json(folder.vocabulary, where=folder.path / VOCABULARY)
            words = WordLayers(vocabulary=vocabulary, encoder=folder.part(EncoderConfig, "encoder"))
        backbone = folder.mapping(CONFIG, "backbone")
        parts = folder.part(SubwordConfig, "subwords"), backbone, folder.mapping(VOCABULARY, "tokenizer")
        scorer = folder.part(ScorerConfig, "scorer")
        try:
            with sizes_from(folder):
                model = cls(*parts, folder.names("relations"), scorer, words)
        except (KeyError, ValueError, TypeError) as error:  # of transformers, on the backbone
            where = folder.path / CONFIG
            raise UserError(f"{where}: not a transformer that can be built here ({error!r})") from None
        load_weights(model, folder)
        return model.eval()


class SubwordParser(BatchedParser[SubwordDependencyModel]):
    """Parses tokenised sentences with a :class:`SubwordDependencyModel`; batches are cut by pieces."""

    def __init__(
        self, model: SubwordDependencyModel, identity: dict[str, str], *, batch_positions: int | None = None
    ) -> None:
        super().__init__(model, identity, batch_positions=batch_positions)
        self._pieces = SubwordTable(json.dumps(model.tokenizer), model.subwords.config)
        self._vectors: TypeVectors | None = None
        if model.words is not None and model.encoder is not None:
            self._vectors = TypeVectors(model.encoder, TypeTable(model.words.vocabulary))

    def to(self, device: torch.device) -> None:
        """See :meth:`parsing.dependency.parser.BatchedParser.to`."""
        super().to(device)
        if self._vectors is not None:
            self._vectors.forget()

    def states(self, sentences: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """See :meth:`parsing.dependency.parser.BatchedParser.states`."""
        pieces = self._pieces.batch([self._pieces.pieces(tokens) for tokens in sentences])
        x_BTD = self.model.subwords(pieces)
        if self._vectors is not None and self.model.encoder is not None:
            words = self._vectors.batch(sentences)
            x_BTE = torch.cat([self._vectors(words), x_BTD], -1)
            x_BTD = self.model.encoder.contextualize(x_BTE, words.lengths_B.to(x_BTE.device))
        return x_BTD, pieces.lengths_B

    def _sizes(self, sentences: Sequence[Sequence[str]]) -> NDArray[np.int64]:
        return piece_counts([self._pieces.pieces(tokens) for tokens in sentences]) + 1
