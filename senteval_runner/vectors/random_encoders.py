"""Encoders whose weights stay as they were drawn: what training has to beat (MV, table 3).

| spec | encoder |
|---|---|
| ``random:dep,const`` | untrained encoders of these views |
| ``random:lstm`` | a bidirectional LSTM, the maximum over its words (Wieting & Kiela 2019) |
| ``…@4800`` | dimensions in all; 128 a view by default |
| ``…?vectors=FILE`` | over GloVe or word2vec vectors instead of random ones |

Legend of dimension suffixes: n sentences, N words of a batch, G word-vector size, D sentence vector.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence

from corpora.support.errors import UserError
from multiview.encoders.registry import view_class
from multiview.model import MultiViewEncoder
from multiview.words.table import WordTable
from multiview.words.vectors import load_word_vectors
from multiview.words.vocabulary import Vocabulary
from parsing.networks.device import pick_device
from senteval_runner.protocol.features import Float

PREFIX = "random:"
LSTM = "lstm"
VIEW_DIM = 128
WORD_DIM = 128
PATTERN = re.compile(
    r"random:(?P<views>[a-z0-9-]+(?:,[a-z0-9-]+)*)(?:@(?P<dim>\d+))?(?:\?vectors=(?P<vectors>.+))?"
)


@dataclass(frozen=True)
class RandomSpec:
    """What a spec says."""

    views: str
    """Views separated by commas, or ``lstm``."""
    dim: int | None
    """Dimensions over all views; None is the default."""
    vectors: Path | None
    """Pre-trained word vectors; None is random ones."""

    @classmethod
    def parse(cls, spec: str) -> Self:
        """Read a spec.

        Raises:
            UserError: it is none, names what does not exist, or a size that cannot be.
        """
        found = PATTERN.fullmatch(spec)
        if found is None:
            raise UserError(
                f"model {spec!r}: expected random:VIEWS, random:VIEWS@DIM or random:VIEWS@DIM?vectors=FILE"
            )
        dim, vectors = found["dim"], found["vectors"]
        one = cls(found["views"], int(dim) if dim else None, Path(vectors) if vectors else None)
        views = one.views.split(",")
        if LSTM in views and len(views) > 1:
            raise UserError(f"model {spec!r}: lstm is no view and stands alone")
        if LSTM not in views:
            for view in views:
                view_class(view)
        if one.dim is not None and (not one.dim or one.dim % len(views)):
            raise UserError(f"model {spec!r}: {one.dim} dimensions cannot be divided by {len(views)} views")
        if one.dim is not None and {LSTM, "seq"} & set(views) and one.dim // len(views) % 2:
            raise UserError(f"model {spec!r}: needs an even number of dimensions, half for each direction")
        if one.vectors is not None and not one.vectors.is_file():
            raise UserError(f"model {spec!r}: {vectors}: no such file")
        return one

    @property
    def name(self) -> str:
        """For tables."""
        size = "" if self.dim is None else f"@{self.dim}"
        over = "" if self.vectors is None else f" over {self.vectors.stem}"
        return f"{PREFIX}{self.views}{size}{over}"

    @property
    def view_dim(self) -> int:
        """Dimensions of one view."""
        return VIEW_DIM if self.dim is None else self.dim // len(self.views.split(","))


def untrained_views(spec: RandomSpec, *, seed: int, device: str | None) -> MultiViewEncoder:
    """Untrained encoders of some views."""
    words = None if spec.vectors is None else fixed_words(spec.vectors)
    return MultiViewEncoder.untrained(spec.views, dim=spec.view_dim, words=words, seed=seed, device=device)


def fixed_words(vectors: Path) -> WordTable:
    """Pre-trained vectors as a table that any encoder reads."""
    loaded = load_word_vectors(vectors, Path("runs/vectors"))
    return WordTable.with_fixed(Vocabulary(loaded.words), loaded.vectors)


class RandomLSTM:
    """A bidirectional LSTM with weights uniform in ±1/√h, h units each way, as torch draws them.

    Args:
        spec: size and word vectors.
        seed: of the weights.
        device: where to compute.
        batch_size: sentences encoded at a time.
    """

    pretokenized = True

    def __init__(self, spec: RandomSpec, *, seed: int, device: str | None, batch_size: int) -> None:
        words = fixed_words(spec.vectors) if spec.vectors else WordTable.hashed(WORD_DIM, views=1, seed=seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.lstm = nn.LSTM(words.dim, spec.view_dim // 2, bidirectional=True)
        chosen = pick_device(device)
        self.words, self.lstm, self.batch_size = words.to(chosen), self.lstm.to(chosen), batch_size

    @torch.inference_mode()
    def encode(self, sentences: Sequence[str | Sequence[str]]) -> Float:
        """Vectors [n, D] of strings (split at white space) or token lists, of like length at a time."""
        tokens = [sentence.split() if isinstance(sentence, str) else list(sentence) for sentence in sentences]
        order = sorted(range(len(tokens)), key=lambda index: -len(tokens[index]))
        vectors = np.zeros((len(tokens), 2 * self.lstm.hidden_size), dtype=np.float32)
        for start in range(0, len(order), self.batch_size):
            rows = order[start : start + self.batch_size]
            vectors[rows] = self._maxima([tokens[row] or ["."] for row in rows]).cpu().numpy()
        return vectors

    def _maxima(self, batch: Sequence[Sequence[str]]) -> Tensor:
        """[len(batch), D]: per dimension the largest state of a sentence; sentences by falling length."""
        rows = self.words.vocabulary.lookup([word for sentence in batch for word in sentence])
        x_NG = self.words.rows(0, rows)
        inputs = pack_sequence(list(x_NG.split([len(sentence) for sentence in batch])))
        states, _ = pad_packed_sequence(self.lstm(inputs)[0], padding_value=float("-inf"))
        return states.max(dim=0).values
