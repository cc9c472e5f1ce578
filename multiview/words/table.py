"""The words of a model and their vectors, the same object in training, at inference and on disk.

``trained``: one table per view, parameters of the network. ``fixed``: pre-trained vectors that stay mapped on
disk and serve all views; only the rows of a batch are copied to the device.

Tables are not looked up through autograd in training. A step gathers the distinct rows it touches into a
small leaf tensor per view; the encoders see ``leaf[token]``; the gradient arrives as [U, E], not as a dense
[W, E]: at 50k x 300 and 7k tokens a batch that is 15x less to write, reduce and clip.

Legend of dimension suffixes: W table rows, U distinct rows of a batch, E word-vector size.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from corpora.support.config import config_from_json, configuration
from corpora.support.errors import UserError
from corpora.support.files import atomic_path
from multiview.config import Case, TableConfig, TrainConfig
from multiview.words.vectors import Float, WordVectors, expand_table, load_word_vectors
from multiview.words.vocabulary import UNKNOWN_ROW, Vocabulary, inverse_frequency, most_frequent

MEAN_WORDS = 50_000
"""The unknown word's fixed vector is the mean of the vectors of the most frequent words."""


@configuration
class WordsRecord:
    """What a model's config.json says about its words; the words themselves are in vocab.txt."""

    mode: Literal["trained", "fixed"]
    dim: int
    buckets: int
    case: Case


class WordTable(nn.Module):
    """Vocabulary and word vectors of a model.

    Args:
        vocabulary: maps words to rows.
        dim: word-vector size E.
        views: number of views; each gets a trained table. 0 with fixed vectors.
        fixed: float32 [W, E], vectors of the words in vocabulary order; None with trained tables.
    """

    unknown_E: Tensor | None

    def __init__(self, vocabulary: Vocabulary, dim: int, *, views: int, fixed: Float | None = None) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.dim = dim
        self.fixed = fixed
        self.tables = nn.ParameterList(nn.Parameter(torch.empty(vocabulary.rows, dim)) for _ in range(views))
        unknown_E = None if fixed is None else torch.from_numpy(np.asarray(fixed[:MEAN_WORDS]).mean(axis=0))
        self.register_buffer("unknown_E", unknown_E, persistent=False)

    @classmethod
    def with_fixed(cls, vocabulary: Vocabulary, vectors: Float) -> Self:
        """Fixed vectors float32 [W, E] in vocabulary order."""
        return cls(vocabulary, int(vectors.shape[1]), views=0, fixed=vectors)

    @property
    def mode(self) -> Literal["trained", "fixed"]:
        """Where the vectors come from."""
        return "trained" if self.fixed is None else "fixed"

    def initialise(
        self, config: TableConfig, *, counts: NDArray[np.int64] | None = None, seed: int = 0
    ) -> None:
        """Fill the trained tables; torch's global generator is left alone.

        ``xavier`` is U(-a, a) with a = sqrt(6 / (W + E)), as in the paper; ``unit`` is standard normal times
        smooth inverse frequency, so that function words do not rule the sum over a tree.

        Args:
            config: how, and whether all views get the same values.
            counts: int64 [words], occurrences, for the weights.
            seed: of the values.
        """
        for position, table in enumerate(self.tables):
            generator = torch.Generator().manual_seed(seed if config.equal else seed + 7919 * (position + 1))
            with torch.no_grad():
                if config.init == "xavier":
                    nn.init.xavier_uniform_(table, generator=generator)
                    continue
                table.normal_(generator=generator)
                if counts is not None:
                    table *= torch.from_numpy(inverse_frequency(counts, len(table)))[:, None]

    def rows(self, view: int, table_rows: NDArray[np.integer]) -> Tensor:
        """Vectors [U, E] of rows [U] in one view, with gradient where the table has one."""
        if self.fixed is None:
            table: Tensor = self.tables[view]
            return table[torch.from_numpy(table_rows.astype(np.int64)).to(table.device)]
        assert self.unknown_E is not None
        # The unknown word is row 0, the first listed word row 1.
        values_UE = torch.from_numpy(np.asarray(self.fixed[np.maximum(table_rows - 1, 0)], dtype=np.float32))
        values_UE = values_UE.to(self.unknown_E)
        values_UE[torch.from_numpy(table_rows == UNKNOWN_ROW).to(values_UE.device)] = self.unknown_E
        return values_UE

    def leaves(self, table_rows: NDArray[np.integer]) -> list[Tensor]:
        """Vectors [U, E] of rows [U] per view as leaves that collect gradient.

        Fixed vectors are a single entry without gradient, for all views.
        """
        if self.fixed is not None:
            return [self.rows(0, table_rows)]
        return [self.rows(view, table_rows).detach().requires_grad_() for view in range(len(self.tables))]

    def expand(self, vectors: WordVectors, limit: int) -> int:
        """Add words from pre-trained vectors: rows between the words and the hash buckets of each table.

        Args:
            vectors: see :func:`multiview.words.vectors.expand_table`.
            limit: words to add at most.

        Returns:
            Number of words added; fixed vectors are left as they are.
        """
        old, words = self.vocabulary, list[str]()
        known = {word: row for row, word in enumerate(old.words, start=1)}
        for table in self.tables:
            values = table.detach().cpu().numpy()
            words, rows = expand_table(known, values, vectors, limit)
            end = 1 + len(old)
            table.data = torch.from_numpy(np.concatenate([values[:end], rows, values[end:]])).to(table.device)
        if words:
            self.vocabulary = Vocabulary([*old.words, *words], buckets=old.buckets, case=old.case)
        return len(words)

    def record(self) -> WordsRecord:
        """What config.json says about the words."""
        vocabulary = self.vocabulary
        return WordsRecord(mode=self.mode, dim=self.dim, buckets=vocabulary.buckets, case=vocabulary.case)

    def save(self, folder: Path) -> None:
        """Write vocab.txt, and vectors.npy with fixed vectors; trained tables are with the weights."""
        self.vocabulary.save(folder / "vocab.txt")
        if self.fixed is not None:
            _save_vectors(folder / "vectors.npy", self.fixed)

    @classmethod
    def load(cls, folder: Path, stored: object, *, views: int) -> Self:
        """The words of a model folder; trained tables are still empty.

        Args:
            folder: with vocab.txt and perhaps vectors.npy.
            stored: what config.json says about the words.
            views: number of views of the model.

        Raises:
            UserError: a file is missing or damaged; it is named.
        """
        record = config_from_json(WordsRecord, stored, where=folder / "config.json")
        vocabulary = Vocabulary.load(folder / "vocab.txt", buckets=record.buckets, case=record.case)
        if record.mode == "trained":
            return cls(vocabulary, record.dim, views=views)
        path = folder / "vectors.npy"
        try:
            vectors: Float = np.load(path, mmap_mode="r")
        except (OSError, ValueError) as error:
            raise UserError(f"{path}: cannot be loaded ({error})") from None
        if vectors.shape != (len(vocabulary), record.dim):
            raise UserError(
                f"{path}: {vectors.shape} numbers for {len(vocabulary)} words of size {record.dim}"
            )
        return cls.with_fixed(vocabulary, vectors)


def new_table(
    config: TrainConfig, views: Sequence[str], counts: Counter[str], cache: Path = Path("runs/vectors")
) -> WordTable:
    """The words of a new model.

    Args:
        config: of the training.
        views: the views, in order.
        counts: occurrences of the corpus's word types.
        cache: where converted vectors are kept.

    Raises:
        UserError: the vectors file is missing or malformed.
    """
    wanted = config.vocabulary
    if config.words == "fixed":
        assert config.vectors is not None
        vectors = load_word_vectors(config.vectors, cache, wanted.vector_words)
        return WordTable.with_fixed(Vocabulary(vectors.words, case=wanted.case), vectors.vectors)
    words, numbers = most_frequent(
        counts.items(), wanted.size, minimum=wanted.min_count, lower=wanted.case == "lower"
    )
    vocabulary = Vocabulary(words, buckets=wanted.buckets, case=wanted.case)
    table = WordTable(vocabulary, config.table.dim, views=len(views))
    table.initialise(config.table, counts=numbers, seed=config.seed)
    return table


def _save_vectors(path: Path, vectors: Float) -> None:
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
