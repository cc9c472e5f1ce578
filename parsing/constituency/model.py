"""The constituency parser: sentence encoder, span head, tag head, and batched parsing.

Kitaev & Klein (2018): the vector of fencepost i joins the forward state before it and the backward
state after it; spans are scored by :class:`parsing.constituency.span_head.SpanHead`, tags from the states of
the words, and :mod:`parsing.constituency.decode` finds the trees.

Shapes: B sentences, T positions (both boundaries included), P fenceposts (n + 1 a sentence, packed),
N words (packed), D encoder output, S spans.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from corpora.support.config import config_from_json, config_to_json
from corpora.support.errors import UserError
from parsing.constituency.decode import decode_batch
from parsing.constituency.span_head import DeviceSpanScorer, SpanHead, SpanScorer, project
from parsing.networks.config import ConstituencyConfig
from parsing.networks.device import DeviceParser, Stages, pick, to_host
from parsing.networks.features import ParserVocabulary, TypeTable
from parsing.networks.model_folder import CONFIG, VOCABULARY, ModelFolder, load_weights, sizes_from
from parsing.networks.sentence_encoder import EncoderIdentity, SentenceEncoder, TypeVectors
from parsing.trees.parsers import ConstituencyParse, check_tokens


class SpanModel(nn.Module, ABC):
    """The two heads over any encoder's states; a subclass calls :meth:`add_heads` once."""

    def add_heads(
        self, width: int, labels: Sequence[str], tags: Sequence[str], config: ConstituencyConfig
    ) -> None:
        """Make the layers.

        Args:
            width: D, size of a contextual state.
            labels: span labels, the null label ``""`` first (it has no weights).
            tags: part-of-speech tags.
            config: sizes.
        """
        self.config = config
        self.labels, self.tags = tuple(labels), tuple(tags)
        self.width = width
        self.span_head = SpanHead(width, config.label_hidden, len(labels) - 1)
        self.tag_head = nn.Sequential(
            nn.Linear(width, config.tag_hidden),
            nn.LayerNorm(config.tag_hidden),
            nn.ReLU(),
            nn.Linear(config.tag_hidden, len(tags)),
        )

    @abstractmethod
    def use_bfloat16(self) -> None:
        """Run the encoder in bfloat16 from now on, at inference; the heads stay fp32."""

    @abstractmethod
    def config_json(self) -> dict[str, object]:
        """Configuration for the model folder."""

    @abstractmethod
    def vocabulary_json(self) -> dict[str, object]:
        """Vocabulary for the model folder."""


Model = TypeVar("Model", bound=SpanModel)


def label_names(folder: ModelFolder) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Labels and tags of a model folder.

    Raises:
        UserError: there are none, or the null label is not the first.
    """
    labels, tags = folder.names("labels"), folder.names("tags")
    if labels[0] != "":
        raise UserError(f"{folder.path / VOCABULARY}: the first label must be the empty one")
    return labels, tags


class ConstituencyModel(SpanModel):
    """The heads over the word and character BiLSTM.

    Args:
        vocabulary: words and characters.
        labels: span labels, the null label ``""`` first (it has no weights).
        tags: part-of-speech tags.
        config: sizes and dropout rates.
    """

    def __init__(
        self,
        vocabulary: ParserVocabulary,
        labels: Sequence[str],
        tags: Sequence[str],
        config: ConstituencyConfig,
    ) -> None:
        super().__init__()
        if not config.encoder.end_boundary:
            raise UserError("end_boundary: a constituency model needs it (its last span ends there)")
        self.vocabulary = vocabulary
        self.encoder = SentenceEncoder(len(vocabulary.words), len(vocabulary.characters), config.encoder)
        self.add_heads(self.encoder.output_dim, labels, tags, config)

    def use_bfloat16(self) -> None:
        """See :meth:`parsing.networks.sentence_encoder.SentenceEncoder.use_bfloat16`."""
        self.encoder.use_bfloat16()

    def config_json(self) -> dict[str, object]:
        """Configuration for the model folder."""
        return config_to_json(self.config)

    def vocabulary_json(self) -> dict[str, object]:
        """Vocabulary for the model folder."""
        return {**config_to_json(self.vocabulary), "labels": list(self.labels), "tags": list(self.tags)}

    @classmethod
    def from_folder(cls, folder: ModelFolder) -> ConstituencyModel:
        """Build the model a folder holds, in eval mode.

        Raises:
            UserError: the folder does not fit this version.
        """
        config = config_from_json(ConstituencyConfig, folder.config, where=folder.path / CONFIG)
        labels, tags = label_names(folder)
        vocabulary = ParserVocabulary.from_json(folder.vocabulary, where=folder.path / VOCABULARY)
        with sizes_from(folder):
            model = cls(vocabulary, labels, tags, config)
        load_weights(model, folder)
        return model.eval()


def fencepost_vectors(states_BTD: Tensor, positions_B: Tensor) -> Tensor:
    """f_i = [ahead_i ; back_(i+1)] for every fencepost of every sentence, packed: [P, D].

    Args:
        states_BTD: encoder output; the first half of D is the forward direction.
        positions_B: number of positions of each sentence, n + 2.
    """
    half = states_BTD.shape[-1] // 2
    mask = torch.arange(states_BTD.shape[1] - 1, device=positions_B.device) < positions_B[:, None] - 1
    return torch.cat([pick(states_BTD[:, :-1, :half], mask), pick(states_BTD[:, 1:, half:], mask)], -1)


def word_states(states_BTD: Tensor, positions_B: Tensor) -> Tensor:
    """States of the words without the boundaries, packed: [N, D]."""
    positions_T = torch.arange(states_BTD.shape[1], device=positions_B.device)
    return pick(states_BTD, (positions_T > 0) & (positions_T < positions_B[:, None] - 1))


def parse_states(
    span_head: nn.Sequential,
    tag_head: nn.Module | None,
    states_BTD: Tensor,
    positions_B: Tensor,
    *,
    force: bool,
) -> Stages[ConstituencyParse]:
    """Trees and tags from encoder states: the part that is the same for every encoder.

    Args:
        span_head: layers as in :class:`SpanHead`.
        tag_head: word states to tag scores, or None for a model without tags (all tags are 0).
        states_BTD: encoder output, on the device of the heads.
        positions_B: n + 2, positions of each sentence, on the host.
        force: whole sentences always get a label.
    """
    lengths = positions_B.numpy() - 2
    projected_PH = project(span_head, fencepost_vectors(states_BTD, positions_B))
    spans_of = SpanScorer if states_BTD.device.type == "cpu" else DeviceSpanScorer
    scorer = spans_of(span_head, projected_PH, lengths, force=force)
    tag_scores = None if tag_head is None else tag_head(word_states(states_BTD, positions_B))
    arriving = None if tag_scores is None else to_host(tag_scores.argmax(-1))
    yield
    best, label = scorer.best()
    spans = decode_batch(best, label, scorer.lengths, scorer.offsets)
    tags_N = np.zeros(int(lengths.sum()), np.int32) if arriving is None else arriving().astype(np.int32)
    words, cuts = np.cumsum(lengths)[:-1], np.cumsum(spans.counts)[:-1]
    columns = (np.split(values, cuts) for values in (spans.starts, spans.ends, spans.labels))
    return [
        ConstituencyParse(tags=tags, starts=starts, ends=ends, labels=labels)
        for tags, starts, ends, labels in zip(np.split(tags_N, words), *columns, strict=True)
    ]


class BatchedSpanParser(DeviceParser, Generic[Model]):
    """The part that is the same for every encoder: batches, spans, tags.

    Args:
        model: weights in place, on the CPU; put into eval mode.
        identity: name, version and sha256 of the weights.
        batch_positions: padded positions run at once (2,000 states of 384 floats are 3 MB); None takes the
            device's default.
    """

    def __init__(self, model: Model, identity: dict[str, str], *, batch_positions: int | None = None) -> None:
        super().__init__(model, identity, batch_positions)
        self.model, self.labels, self.tags = model, model.labels, model.tags

    @abstractmethod
    def states(self, sentences: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """Contextual states [B, T, D] of a batch and n + 2, positions of each sentence, [B], on the host."""

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[ConstituencyParse]:
        """One parse per sentence, in order."""
        check_tokens(sentences)
        return self.runner.run(
            [len(tokens) + 2 for tokens in sentences],
            lambda members: self._parse_batch([sentences[i] for i in members]),
        )

    def reduce_precision(self) -> None:
        """See :meth:`parsing.networks.device.DeviceParser.reduce_precision`."""
        self.model.use_bfloat16()

    def parse_states(self, states_BTD: Tensor, positions_B: Tensor) -> Stages[ConstituencyParse]:
        """Trees and tags from encoder states; the arguments are what :meth:`states` returns."""
        model = self.model
        force = model.config.force_root
        return parse_states(model.span_head, model.tag_head, states_BTD, positions_B, force=force)

    @torch.inference_mode()
    def _parse_batch(self, sentences: Sequence[Sequence[str]]) -> Stages[ConstituencyParse]:
        return (yield from self.parse_states(*self.states(sentences)))


class SpanParser(BatchedSpanParser[ConstituencyModel]):
    """A :class:`ConstituencyModel` as a :class:`parsing.trees.parsers.ConstituencyParser`."""

    def __init__(
        self, model: ConstituencyModel, identity: dict[str, str], *, batch_positions: int | None = None
    ) -> None:
        super().__init__(model, identity, batch_positions=batch_positions)
        self._vectors = TypeVectors(model.encoder, TypeTable(model.vocabulary))

    def to(self, device: torch.device) -> None:
        """See :meth:`BatchedSpanParser.to`."""
        super().to(device)
        self._vectors.forget()

    def states(self, sentences: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """See :meth:`BatchedSpanParser.states`."""
        batch = self._vectors.batch(sentences)
        return self.model.encoder(batch, self._vectors), batch.lengths_B

    def encoder_identity(self) -> EncoderIdentity:
        """What the states depend on."""
        return self._vectors.identity()
