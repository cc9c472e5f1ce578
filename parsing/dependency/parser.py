"""Batched dependency parsing with a biaffine model: the ``DependencyParser`` of the pipeline.

Sentences are sorted by length and cut into batches of a fixed number of positions, so batches
depend on the sentences given and on nothing else. Per batch: cached type vectors, LSTM layers (or a
transformer, :mod:`parsing.dependency.subword_model`), one [B, T, T] product for arcs, compiled decoding,
relations at the predicted heads only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parsing.dependency.decode import decode_heads
from parsing.dependency.model import BiaffineScorers, DependencyModel
from parsing.networks.features import TypeTable, WordBatch, length_batches, make_batch
from parsing.networks.sentence_encoder import TypeVectors
from parsing.trees.parsers import DependencyParse

Model = TypeVar("Model", bound=BiaffineScorers)


class BatchedParser(ABC, Generic[Model]):
    """What is the same for every encoder: batches, decoding, relations.

    Args:
        model: the model; put into eval mode.
        identity: name, version and sha256 of the weights.
        batch_positions: sentences x (longest sentence + 1) of a batch, at most (one longer
            sentence makes a batch of its own).
    """

    def __init__(self, model: Model, identity: dict[str, str], *, batch_positions: int = 2000) -> None:
        self.model = model.eval()
        self.relations = model.relations
        self.identity = identity
        self.batch_positions = batch_positions

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[DependencyParse]:
        """One parse per sentence, in order; every sentence has at least one token."""
        parses: list[DependencyParse | None] = [None] * len(sentences)
        for index in length_batches(self._lengths(sentences) + 1, self.batch_positions):
            batch, tokens_B = self.batch([sentences[i] for i in index])
            heads_N, relations_N = self.predict(batch, tokens_B)
            start = 0
            for i, n in zip(index, tokens_B, strict=True):
                parses[i] = DependencyParse(heads_N[start : start + n], relations_N[start : start + n])
                start += n
        return [parse for parse in parses if parse is not None]

    def use_bfloat16(self) -> None:
        """Run the encoder in bfloat16 from now on; said in the identity, for the trees may differ."""
        self.model.use_bfloat16()
        self.identity = {**self.identity, "arithmetic": "bf16"}

    @abstractmethod
    def batch(self, sentences: Sequence[Sequence[str]]) -> tuple[Any, NDArray[np.int64]]:
        """Sentences as a padded batch of the encoder's, and their numbers of tokens."""

    @abstractmethod
    def score(self, batch: Any) -> tuple[Tensor, Tensor]:
        """Arc scores [B, T, T] and contextual states [B, T, D] of a batch."""

    @torch.inference_mode()
    def predict(self, batch: Any, tokens_B: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Heads and relations of all tokens of a batch, sentence after sentence."""
        scores_BTT, x_BTD = self.score(batch)
        heads_N, _ = decode_heads(scores_BTT.numpy(), tokens_B)
        sentence_N = np.repeat(np.arange(len(tokens_B)), tokens_B)
        position_N = np.arange(len(heads_N)) - np.repeat(np.cumsum(tokens_B) - tokens_B, tokens_B) + 1
        dependents = (torch.from_numpy(sentence_N), torch.from_numpy(position_N))
        relations_NR = self.model.relation_scores(x_BTD, dependents, torch.from_numpy(heads_N))
        return heads_N.astype(np.int32), relations_NR.argmax(1).numpy().astype(np.int32)

    def _lengths(self, sentences: Sequence[Sequence[str]]) -> NDArray[np.int64]:
        """What a sentence costs, by which batches are cut."""
        return np.array([len(tokens) for tokens in sentences], dtype=np.int64)


class BiaffineParser(BatchedParser[DependencyModel]):
    """Parses tokenised sentences with a :class:`DependencyModel`."""

    def __init__(
        self, model: DependencyModel, identity: dict[str, str], *, batch_positions: int = 2000
    ) -> None:
        super().__init__(model, identity, batch_positions=batch_positions)
        self._table = TypeTable(model.vocabulary)
        self._vectors = TypeVectors(model.encoder, self._table)

    def batch(self, sentences: Sequence[Sequence[str]]) -> tuple[WordBatch, NDArray[np.int64]]:
        """Sentences as a padded batch, and their numbers of tokens."""
        self._vectors.bound()
        rows = [self._table.rows(tokens) for tokens in sentences]
        return make_batch(self._table, rows, end_boundary=False), np.array([len(r) for r in rows])

    @torch.inference_mode()
    def score(self, batch: WordBatch) -> tuple[Tensor, Tensor]:
        """Arc scores [B, T, T] and contextual states [B, T, D] of a batch."""
        x_BTD = self.model.encode(batch, self._vectors)
        return self.model.arc_scores(x_BTD, batch.mask_BT()), x_BTD
