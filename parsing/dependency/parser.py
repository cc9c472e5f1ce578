"""Batched dependency parsing with a biaffine model: the ``DependencyParser`` of the pipeline.

Sentences are sorted by length and cut into batches of a fixed number of positions, so batches
depend only on the sentences. Per batch: cached type vectors, LSTM layers (or a
transformer, :mod:`parsing.dependency.subword_model`), one [B, T, T] product for arcs, compiled decoding,
relations at the predicted heads only.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parsing.dependency.decode import decode_heads
from parsing.dependency.model import BiaffineScorers, DependencyModel
from parsing.networks.device import DeviceParser, Stages, to_host
from parsing.networks.features import TypeTable
from parsing.networks.sentence_encoder import EncoderIdentity, TypeVectors
from parsing.trees.parsers import DependencyParse, check_tokens

Model = TypeVar("Model", bound=BiaffineScorers)


class BatchedParser(DeviceParser, Generic[Model]):
    """The part that is the same for every encoder: batches, decoding, relations.

    Args:
        model: the model; put into eval mode.
        identity: name, version and sha256 of the weights.
        batch_positions: sentences x (longest sentence + 1) of a batch, at most (one longer
            sentence makes a batch of its own); None takes the device's default.
    """

    def __init__(self, model: Model, identity: dict[str, str], *, batch_positions: int | None = None) -> None:
        super().__init__(model, identity, batch_positions)
        self.model, self.relations = model, model.relations

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[DependencyParse]:
        """One parse per sentence, in order; every sentence has at least one token."""
        check_tokens(sentences)
        return self.runner.run(
            self._sizes(sentences),
            lambda members: self._parse_batch([sentences[i] for i in members]),
        )

    def reduce_precision(self) -> None:
        """See :meth:`parsing.networks.device.DeviceParser.reduce_precision`."""
        self.model.use_bfloat16()

    @abstractmethod
    def states(self, sentences: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """Contextual states [B, T, D] of a batch; words and root of each sentence, [B], on the host."""

    @torch.inference_mode()
    def score(self, sentences: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """Arc scores [B, T, T] and contextual states [B, T, D] of a batch of sentences."""
        x_BTD, positions_B = self.states(sentences)
        return self._arc_scores(x_BTD, positions_B), x_BTD

    @torch.inference_mode()
    def parse_states(self, x_BTD: Tensor, positions_B: Tensor) -> Stages[DependencyParse]:
        """Trees from encoder states; the arguments are what :meth:`states` returns."""
        scores = to_host(self._arc_scores(x_BTD, positions_B))
        yield
        tokens_B = positions_B.numpy() - 1
        heads_N, _ = decode_heads(np.asarray(scores(), np.float32), tokens_B)
        sentence_N = np.repeat(np.arange(len(tokens_B)), tokens_B)
        position_N = np.arange(len(heads_N)) - np.repeat(np.cumsum(tokens_B) - tokens_B, tokens_B) + 1
        sentence, position, heads = (
            torch.from_numpy(values_N).to(x_BTD.device) for values_N in (sentence_N, position_N, heads_N)
        )
        relations = to_host(self.model.relation_scores(x_BTD, (sentence, position), heads).argmax(1))
        yield
        relations_N = relations()
        cuts = np.cumsum(tokens_B)[:-1]
        columns = (np.split(values.astype(np.int32), cuts) for values in (heads_N, relations_N))
        return list(map(DependencyParse, *columns))

    @torch.inference_mode()
    def _parse_batch(self, sentences: Sequence[Sequence[str]]) -> Stages[DependencyParse]:
        return (yield from self.parse_states(*self.states(sentences)))

    def _arc_scores(self, x_BTD: Tensor, positions_B: Tensor) -> Tensor:
        mask_BT = torch.arange(x_BTD.shape[1]) < positions_B[:, None]
        return self.model.arc_scores(x_BTD, mask_BT.to(x_BTD.device))

    @abstractmethod
    def _sizes(self, sentences: Sequence[Sequence[str]]) -> NDArray[np.int64]:
        """Positions of each sentence, boundaries included, int64 [n], by which batches are cut."""


class BiaffineParser(BatchedParser[DependencyModel]):
    """Parses tokenised sentences with a :class:`DependencyModel`."""

    def __init__(
        self, model: DependencyModel, identity: dict[str, str], *, batch_positions: int | None = None
    ) -> None:
        super().__init__(model, identity, batch_positions=batch_positions)
        self._vectors = TypeVectors(model.encoder, TypeTable(model.vocabulary))

    def to(self, device: torch.device) -> None:
        """See :meth:`BatchedParser.to`."""
        super().to(device)
        self._vectors.forget()

    def states(self, sentences: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """See :meth:`BatchedParser.states`."""
        batch = self._vectors.batch(sentences)
        return self.model.encode(batch, self._vectors), batch.lengths_B - self.model.end_positions

    def encoder_identity(self) -> EncoderIdentity:
        """What the states depend on."""
        return self._vectors.identity()

    def _sizes(self, sentences: Sequence[Sequence[str]]) -> NDArray[np.int64]:
        boundaries = 1 + self.model.end_positions
        return np.array([len(tokens) + boundaries for tokens in sentences], dtype=np.int64)
