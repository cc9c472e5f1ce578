"""Span parsing over a pretrained transformer, as MV's constituency parser does it (Kitaev, Cao & Klein 2019).

    x_t = P e_t with e from :class:`parsing.networks.subwords.SubwordEncoder`

The halves of x take the place of a BiLSTM's two directions. Unlike benepar, there are no further attention
layers on top. benepar's own checkpoints are run by :mod:`parsing.libraries.benepar`.

Shapes: B sentences, T positions (both boundaries included), D states.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

from torch import Tensor

from corpora.support.config import config_to_json
from corpora.support.errors import UserError
from parsing.constituency.model import BatchedSpanParser, SpanModel, label_names
from parsing.networks.config import ConstituencyConfig
from parsing.networks.model_folder import CONFIG, VOCABULARY, ModelFolder, load_weights, sizes_from
from parsing.networks.subwords import SubwordConfig, SubwordEncoder, SubwordTable


class SubwordConstituencyModel(SpanModel):
    """The transformer and the two heads.

    Args:
        subwords: how words are cut and pooled, with an end piece; states are ``config.state_dim`` wide.
        backbone: the transformer's configuration.
        tokenizer: ``tokenizer.json`` as JSON values.
        labels: span labels, the null label ``""`` first.
        tags: part-of-speech tags.
        config: sizes of the heads and of the states.
    """

    def __init__(
        self,
        subwords: SubwordConfig,
        backbone: dict[str, object],
        tokenizer: dict[str, object],
        labels: Sequence[str],
        tags: Sequence[str],
        config: ConstituencyConfig,
    ) -> None:
        super().__init__()
        if subwords.end is None:
            raise UserError("end: a constituency model needs an end piece (its last span ends there)")
        self.tokenizer = tokenizer
        self.subwords = SubwordEncoder(dataclasses.replace(subwords, projection=config.state_dim), backbone)
        self.add_heads(self.subwords.output_dim, labels, tags, config)

    def use_bfloat16(self) -> None:
        """Run the transformer under bfloat16 autocast."""
        self.subwords.reduced = True

    def config_json(self) -> dict[str, object]:
        """Configuration for the model folder."""
        return {
            "model": config_to_json(self.config),
            "subwords": config_to_json(self.subwords.config),
            "backbone": self.subwords.backbone,
        }

    def vocabulary_json(self) -> dict[str, object]:
        """Vocabulary for the model folder."""
        return {"tokenizer": self.tokenizer, "labels": list(self.labels), "tags": list(self.tags)}

    @classmethod
    def from_folder(cls, folder: ModelFolder) -> SubwordConstituencyModel:
        """Build the model a folder holds, in eval mode.

        Raises:
            UserError: the folder does not fit this version or the installed transformers.
        """
        backbone = folder.mapping(CONFIG, "backbone")
        parts = folder.part(SubwordConfig, "subwords"), backbone, folder.mapping(VOCABULARY, "tokenizer")
        config = folder.part(ConstituencyConfig, "model")
        try:
            with sizes_from(folder):
                model = cls(*parts, *label_names(folder), config)
        except (KeyError, ValueError, TypeError) as error:  # of transformers, on the backbone
            where = folder.path / CONFIG
            raise UserError(f"{where}: not a transformer that can be built here ({error!r})") from None
        load_weights(model, folder)
        return model.eval()


class SubwordSpanParser(BatchedSpanParser[SubwordConstituencyModel]):
    """A :class:`SubwordConstituencyModel` as a :class:`parsing.trees.parsers.ConstituencyParser`."""

    def __init__(
        self, model: SubwordConstituencyModel, identity: dict[str, str], *, batch_positions: int | None = None
    ) -> None:
        super().__init__(model, identity, batch_positions=batch_positions)
        self._pieces = SubwordTable(json.dumps(model.tokenizer), model.subwords.config)

    def states(self, sentences: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """See :meth:`parsing.constituency.model.BatchedSpanParser.states`."""
        batch = self._pieces.batch([self._pieces.pieces(tokens) for tokens in sentences])
        return self.model.subwords(batch), batch.lengths_B
