"""The words of a model: its vocabulary and, with fixed vectors, the vectors themselves.

Trained tables are parameters of the network; fixed vectors stay mapped on disk, shared by all views, and
only the rows of a batch are copied to the device.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from corpora.support.files import atomic_path
from multiview.config import TrainConfig
from multiview.words.vectors import Float, load_word_vectors
from multiview.words.vocabulary import UNKNOWN_ROW, Vocabulary, most_frequent

# The unknown word's fixed vector is the mean of the most frequent words' vectors.
MEAN_WORDS = 50_000


@dataclass(frozen=True)
class Words:
    """Vocabulary of a model and where its vectors come from."""

    vocabulary: Vocabulary
    counts: NDArray[np.int64] | None = None
    """Occurrences per word in the corpus; None with fixed vectors."""
    fixed: Float | None = None
    """float32 [W, E], vectors of the words in vocabulary order; None with trained tables."""
    unknown: Float | None = None
    """float32 [E], fixed vector of the unknown word."""

    @property
    def is_fixed(self) -> bool:
        """Whether the vectors are fixed."""
        return self.fixed is not None

    def fixed_rows(self, table_rows: NDArray[np.integer], device: torch.device) -> Tensor:
        """Fixed vectors of table rows, float32 [U, E] on ``device``."""
        assert self.fixed is not None and self.unknown is not None
        values = np.asarray(self.fixed[np.maximum(table_rows - 1, 0)], dtype=np.float32)
        values[table_rows == UNKNOWN_ROW] = self.unknown
        return torch.from_numpy(values).to(device)

    @classmethod
    def with_fixed(cls, vocabulary: Vocabulary, vectors: Float) -> Words:
        """Words with fixed vectors in vocabulary order."""
        return cls(vocabulary, fixed=vectors, unknown=np.asarray(vectors[:MEAN_WORDS]).mean(axis=0))


def training_words(config: TrainConfig, counts: Counter[str], cache: Path = Path("runs/vectors")) -> Words:
    """The words of a new model.

    Args:
        config: of the training.
        counts: word types of the corpus.
        cache: where converted vectors are kept.

    Raises:
        UserError: the vectors file is missing or malformed.
    """
    if config.words == "fixed":
        assert config.vectors is not None
        vectors = load_word_vectors(config.vectors, cache, config.vector_words)
        return Words.with_fixed(Vocabulary(vectors.words, case=config.case), vectors.vectors)
    words, numbers = most_frequent(
        counts.items(), config.vocabulary, minimum=config.min_count, lower=config.case == "lower"
    )
    return Words(Vocabulary(words, buckets=config.buckets, case=config.case), counts=numbers)


def save_vectors(path: Path, vectors: Float) -> None:
    """Put fixed vectors into a model folder: a hard link to the converted file where one is possible."""
    if path.exists():
        return
    source = getattr(vectors, "filename", None)
    with atomic_path(path) as temporary:
        temporary.unlink()
        try:
            os.link(source or "", temporary)
        except OSError:  # another file system, or not mapped from a file
            if source:
                shutil.copyfile(source, temporary)
            else:
                with open(temporary, "wb") as stream:
                    np.save(stream, np.asarray(vectors))
