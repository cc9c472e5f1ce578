"""A parser over the sentence encoder, and two that share one, run with one pass of it.

Shape suffixes: B sentences, T positions (boundaries included), D states.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic

import torch
from torch import Tensor, nn

from corpora.support.config import config_to_json
from parsing.networks.config import EncoderConfig
from parsing.networks.device import DeviceParser, Parse, Stages
from parsing.networks.features import ParserVocabulary, TypeTable
from parsing.networks.sentence_encoder import EncoderIdentity, SentenceEncoder, TypeVectors
from parsing.trees.parsers import (
    ConstituencyParse,
    ConstituencyParser,
    DependencyParse,
    DependencyParser,
    check_tokens,
)


class EncodedModel(nn.Module):
    """A network over the sentence encoder.

    Args:
        vocabulary: words and characters.
        encoder: sizes and dropout rates.
    """

    def __init__(self, vocabulary: ParserVocabulary, encoder: EncoderConfig) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.encoder = SentenceEncoder(len(vocabulary.words), len(vocabulary.characters), encoder)

    @abstractmethod
    def config_json(self) -> dict[str, Any]:
        """Configuration for the model folder."""

    def vocabulary_json(self) -> dict[str, Any]:
        """Vocabulary for the model folder: words, characters and what is predicted."""
        predicted = {
            kind: list(getattr(self, kind)) for kind in ("relations", "labels", "tags") if hasattr(self, kind)
        }
        return {**config_to_json(self.vocabulary), **predicted}


class EncodedParser(DeviceParser, Generic[Parse]):
    """Parses tokenised sentences with an :class:`EncodedModel`.

    Sentences are sorted by length and cut into batches of a fixed number of positions, so batches
    depend only on the sentences.

    Args:
        model: weights in place; put into eval mode.
        identity: name, version and sha256 of the weights.
        batch_positions: padded positions run at once; None takes the device's default.
    """

    def __init__(
        self, model: EncodedModel, identity: dict[str, str], *, batch_positions: int | None = None
    ) -> None:
        super().__init__(model, identity, batch_positions)
        self.vectors = TypeVectors(model.encoder, TypeTable(model.vocabulary))

    @abstractmethod
    def parse_states(self, states_BTD: Tensor, positions_B: Tensor) -> Stages[Parse]:
        """Trees from encoder states; the arguments are what :meth:`states` returns."""

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[Parse]:
        """One parse per sentence, in order; every sentence has at least one token."""
        return _run(self, sentences, self.parse_states)

    def states(self, sentences: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """Contextual states [B, T, D] of a batch and positions of each sentence, [B], on the host."""
        batch = self.vectors.batch(sentences)
        return self.vectors.encoder(batch, self.vectors), batch.lengths_B

    def encoder_identity(self) -> EncoderIdentity:
        """What the states depend on."""
        return self.vectors.identity()

    def to(self, device: torch.device) -> None:
        """See :meth:`parsing.networks.device.DeviceParser.to`."""
        super().to(device)
        self.vectors.forget()

    def use_bfloat16(self) -> None:
        """Run the LSTM layers in bfloat16 from now on."""
        super().use_bfloat16()
        self.vectors.encoder.layers.to(torch.bfloat16)


class JointParser:
    """Both trees of a sentence from one pass of the encoder; made by :func:`join`.

    Each parser gives the same trees by itself: sharing only saves the second pass.

    Args:
        dependency: the one parser.
        constituency: the other, whose encoder has the same weights.
    """

    def __init__(
        self, dependency: EncodedParser[DependencyParse], constituency: EncodedParser[ConstituencyParse]
    ) -> None:
        self.dependency, self.constituency = dependency, constituency

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[tuple[DependencyParse, ConstituencyParse]]:
        """Both parses of each sentence, in order."""
        return _run(self.constituency, sentences, self._parse_states)

    def _parse_states(
        self, states_BTD: Tensor, positions_B: Tensor
    ) -> Stages[tuple[DependencyParse, ConstituencyParse]]:
        arcs = yield from self.dependency.parse_states(states_BTD, positions_B)
        spans = yield from self.constituency.parse_states(states_BTD, positions_B)
        return list(zip(arcs, spans, strict=True))


def join(dependency: DependencyParser | None, constituency: ConstituencyParser | None) -> JointParser | None:
    """Both parsers as one, or None unless they have the same encoder on the same device."""
    if not isinstance(dependency, EncodedParser) or not isinstance(constituency, EncodedParser):
        return None
    same = dependency.encoder_identity() == constituency.encoder_identity()
    return JointParser(dependency, constituency) if same else None


def _run(
    parser: EncodedParser[Any],
    sentences: Sequence[Sequence[str]],
    work: Callable[[Tensor, Tensor], Stages[Parse]],
) -> list[Parse]:
    """Encode sentences batch by batch and do the work on their states."""
    check_tokens(sentences)
    boundaries = 1 + int(parser.vectors.encoder.config.end_boundary)

    @torch.inference_mode()
    def start(members: list[int]) -> Stages[Parse]:
        return (yield from work(*parser.states([sentences[i] for i in members])))

    return parser.runner.run([len(tokens) + boundaries for tokens in sentences], start)
