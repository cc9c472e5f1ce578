"""A parser over the sentence encoder, and two that share one, run with one pass of it.

Shape suffixes: B sentences, T positions (boundaries included), D states.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from corpora.support.cli import config_to_json
from parsing.networks.config import EncoderConfig
from parsing.networks.device import DeviceParser, Parse, Stages
from parsing.networks.features import ParserVocabulary, TypeTable
from parsing.networks.sentence_encoder import SentenceEncoder, TypeVectors
from parsing.trees.parsers import (
    ConstituencyParse,
    ConstituencyParser,
    DependencyParse,
    DependencyParser,
    check_tokens,
)

Result = TypeVar("Result")


class EncodedModel(nn.Module):
    """A network over the sentence encoder."""

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
    """

    def __init__(self, model: EncodedModel, identity: dict[str, str]) -> None:
        super().__init__(model, identity)
        self.vectors = TypeVectors(model.encoder, TypeTable(model.vocabulary))
        self._digest = ""

    @abstractmethod
    def parse_states(self, states_BTD: Tensor, positions_B: Tensor) -> Stages[Parse]:
        """Trees from encoder states; the arguments are what :meth:`states` returns."""

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[Parse]:
        """One parse per sentence, in order; every sentence has at least one token."""
        return self.run(sentences, self.parse_states)

    def states(self, sentences: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """Contextual states [B, T, D] of a batch and positions of each sentence, [B], on the host."""
        batch = self.vectors.batch(sentences)
        return self.vectors.encoder(batch, self.vectors), batch.lengths_B

    def run(
        self, sentences: Sequence[Sequence[str]], work: Callable[[Tensor, Tensor], Stages[Result]]
    ) -> list[Result]:
        """Encode sentences batch by batch and do the work on what :meth:`states` returns."""
        check_tokens(sentences)
        boundaries = 1 + int(self.vectors.encoder.config.end_boundary)

        @torch.inference_mode()
        def start(members: list[int]) -> Stages[Result]:
            return (yield from work(*self.states([sentences[i] for i in members])))

        return self.runner.run([len(tokens) + boundaries for tokens in sentences], start)

    def encoder_identity(self) -> tuple[str, torch.dtype, torch.device]:
        """SHA-256 of sizes, vocabulary and weights, arithmetic and device: equal ones give equal states."""
        encoder = self.vectors.encoder
        layer = next(encoder.layers.parameters())
        if not self._digest:
            digest = hashlib.sha256(repr((encoder.config, self.vectors.table.vocabulary)).encode())
            for parameter in encoder.parameters():
                digest.update(parameter.detach().cpu().float().contiguous().numpy().tobytes())
            self._digest = digest.hexdigest()
        return self._digest, layer.dtype, layer.device

    def to(self, device: torch.device) -> None:
        """See :meth:`parsing.networks.device.DeviceParser.to`."""
        super().to(device)
        self.vectors.forget()

    def use_bfloat16(self) -> None:
        """Run the LSTM layers in bfloat16 from now on."""
        super().use_bfloat16()
        self.vectors.encoder.layers.to(torch.bfloat16)
        self._digest = ""


class JointParser:
    """Both trees of a sentence from one pass of the encoder; made by :func:`join`.

    Each parser gives the same trees by itself: sharing only saves the second pass.
    """

    def __init__(
        self, dependency: EncodedParser[DependencyParse], constituency: EncodedParser[ConstituencyParse]
    ) -> None:
        self.dependency, self.constituency = dependency, constituency

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[tuple[DependencyParse, ConstituencyParse]]:
        """Both parses of each sentence, in order."""
        return self.constituency.run(sentences, self._parse_states)

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
