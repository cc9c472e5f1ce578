"""Encoders whose weights stay as they were drawn: what training has to beat.

``random:VIEWS`` are views with plain random weights, the control of the papers (MV, table 3); ``random:lstm``
a bidirectional LSTM, the maximum over its words (Wieting & Kiela 2019). ``start:MODEL`` is a model of
``multiview.train`` before its first step, with its own vocabulary, initial weighting and seed.

Legend of dimension suffixes: n sentences, N words of a batch, G word-vector size, D sentence vector.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence

from corpora.support.cli import config_from_json
from corpora.support.errors import UserError
from multiview.config import TrainConfig
from multiview.encoders.registry import Reading
from multiview.folder.files import Member, ModelRecord, model_records
from multiview.folder.names import model_folder
from multiview.model import MultiViewEncoder
from multiview.words.table import Vocabulary, WordTable
from multiview.words.vectors import load_word_vectors
from parsing.networks.device import pick_device
from parsing.trees.cache import TreeCache
from senteval_runner.protocol.features import Float
from senteval_runner.vectors.bags import VECTOR_CACHE
from senteval_runner.vectors.sources import Source

VIEW_DIM, WORD_DIM = 128, 128
BATCH = 128


def view_dim(source: Source) -> int:
    """Dimensions of one view of ``random:VIEWS@DIM``."""
    return VIEW_DIM if source.dim is None else source.dim // len(source.base.split(","))


def fixed_words(source: Source) -> WordTable | None:
    """The vectors of ``?vectors=FILE`` as a table that any encoder reads; None without."""
    if not source.option:
        return None
    loaded = load_word_vectors(Path(source.option), VECTOR_CACHE)
    return WordTable.with_fixed(Vocabulary(loaded.words), loaded.vectors)


def untrained_views(source: Source, device: str | None) -> MultiViewEncoder:
    """Untrained encoders of some views, for ``random:VIEWS``."""
    words, dim = fixed_words(source), view_dim(source)
    return MultiViewEncoder.untrained(source.base, dim=dim, words=words, seed=source.seed, device=device)


class RandomLSTM:
    """A bidirectional LSTM with weights uniform in ±1/√h, h units each way, as torch draws them.

    Args:
        source: size, word vectors and seed.
        device: where to compute.
    """

    def __init__(self, source: Source, *, device: str | None) -> None:
        words = fixed_words(source) or WordTable.hashed(WORD_DIM, views=1, seed=source.seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(source.seed)
            lstm = nn.LSTM(words.dim, view_dim(source) // 2, bidirectional=True)
        chosen = pick_device(device)
        self.words, self.lstm = words.to(chosen), lstm.to(chosen)

    @torch.inference_mode()
    def encode(self, sentences: Sequence[str | Sequence[str]]) -> Float:
        """Vectors [n, D] of strings (split at white space) or token lists, of like length at a time."""
        tokens = [sentence.split() if isinstance(sentence, str) else list(sentence) for sentence in sentences]
        order = sorted(range(len(tokens)), key=lambda index: -len(tokens[index]))
        vectors = np.zeros((len(tokens), 2 * self.lstm.hidden_size), dtype=np.float32)
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            vectors[rows] = self._maxima([tokens[row] or ["."] for row in rows]).cpu().numpy()
        return vectors

    def _maxima(self, batch: Sequence[Sequence[str]]) -> Tensor:
        """[len(batch), D]: per dimension the largest state of a sentence; sentences by falling length."""
        rows = self.words.vocabulary.lookup([word for sentence in batch for word in sentence])
        x_NG = self.words.rows(0, rows)
        inputs = pack_sequence(list(x_NG.split([len(sentence) for sentence in batch])))
        states, _ = pad_packed_sequence(self.lstm(inputs)[0], padding_value=float("-inf"))
        return states.max(dim=0).values


def load_start(model: Path | str, corpus: Path, device: str | torch.device | None = None) -> MultiViewEncoder:
    """A model as it was before its first step.

    The weights are not stored: they are made again as ``multiview.train`` made them, from the configuration
    in the folder and the tree cache, whose word counts decide vocabulary and initial weighting.

    Args:
        model: the trained model's folder.
        corpus: the tree cache that it was trained on.
        device: cpu, cuda, ...; None takes a GPU if there is one.

    Raises:
        UserError: the model was not trained on this cache, or not by ``multiview.train``.
    """
    folder, trees = model_folder(model), TreeCache.open(corpus)
    return MultiViewEncoder(
        [_start(folder / name, record, trees) for name, record in model_records(folder).items()],
        device=pick_device(device),
        name=f"start:{Path(model).name}",
    )


def _start(folder: Path, record: ModelRecord, trees: TreeCache) -> Member:
    """One model's network, made by what makes it for training."""
    from multiview.training.trainer import Trainer

    values = record.training.get("config")
    if values is None:
        raise UserError(f"{folder}: has no record of multiview.train, so its start cannot be made again")
    if record.training.get("trees") != trees.identity.get("content_sha256"):
        raise UserError(f"{trees.folder}: is not the tree cache that {folder} was trained on")
    config = config_from_json(TrainConfig, values, where=folder / "config.json")
    # A compact copy may have other hash buckets than training had.
    table = dataclasses.replace(config.table, buckets=record.words.buckets)
    config = dataclasses.replace(config, table=table)
    with torch.random.fork_rng(devices=[]):
        network = Trainer(dataclasses.replace(config, device="cpu"), trees).network
    added = tuple(record.views[len(network.views) :])
    reading = Reading(record.encoder.pooling, added, record.scales or (1.0,) * len(record.views))
    return Member(network.as_read(reading), dict(record.parsers), record.corpus)
