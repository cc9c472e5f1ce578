"""The word vectors of a model, for training, inference and storage.

A table has a row for the unknown word, for each word of the vocabulary and for each hash bucket
(:mod:`multiview.words.vocabulary`). The unknown word has a vector like any other.

Word vectors have one of two modes. ``trained``: there is one table per view, a parameter of the network.
``fixed``: all views read the same pre-trained vectors, which are memory-mapped; only the rows of a batch are
copied to the device.

Legend of dimension suffixes: W table rows, U distinct rows of a batch, E word-vector size.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from multiview.model_config import InitRule
from multiview.words.vectors import VECTORS, Expansion, Float, WordVectors, read_words
from multiview.words.vocabulary import UNKNOWN_ROW, VOCABULARY, Vocabulary, WordsRecord, sif_weights
from runtime.errors import UserError
from runtime.files import atomic_path, read_array, write_array, write_text
from runtime.process import cached_property, state_without

HASH_BUCKETS = 50_000
"""The number of hash buckets of a table without a vocabulary."""
MEAN_WORDS = 50_000
"""The number of the most frequent words whose mean vector is that of the unknown word of fixed vectors."""
BUCKET_LENGTH = 0.3
"""A hash bucket of fixed vectors has the unknown word's vector plus a random vector. This is the random
vector's length, as a share of the words' mean length. With a share of 0 two unknown names would be the same
word; with a larger one classifiers learn less from the known words of a sentence."""
MAX_BUCKET_NUMBERS = 2**28
"""The most numbers that the hash buckets of fixed vectors may have. They are computed and not stored, so a
damaged config.json could ask for any number."""


@dataclass(frozen=True)
class PackedVectors:
    """Fixed vectors of 4 bits a number, of which an index returns rows in float32.

    All rows of the encoder in the package take 0.1 s to unpack.
    """

    pairs: NDArray[np.uint8]
    """[W, E / 2], two numbers in each byte, the first in its lower half; 8 is added to each number."""
    scale: Float
    """[W, 1], the factor of the numbers of each row."""

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows, W, and of numbers in a row, E."""
        return len(self.pairs), 2 * self.pairs.shape[1]

    def __getitem__(self, rows: NDArray[np.integer] | slice) -> Float:
        numbers_UE2 = np.stack([self.pairs[rows] & 15, self.pairs[rows] >> 4], axis=2).astype(np.float32)
        numbers_UE2 -= 8
        return numbers_UE2.reshape(len(numbers_UE2), self.shape[1]) * self.scale[rows]


FixedVectors = Float | PackedVectors


def _without_words(
    table_rows: NDArray[np.integer], first: int, count: int
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return which rows are among the ``count`` ones from ``first`` on, and the rows in a table without them.

    Both are [U]. A row that this table lacks is replaced by that of the unknown word.
    """
    is_left_out = (table_rows >= first) & (table_rows < first + count)
    other_rows = np.where(table_rows < first, table_rows, table_rows - count)
    return is_left_out, np.where(is_left_out, UNKNOWN_ROW, other_rows).astype(np.int64)


class WordTable(nn.Module):
    """The vocabulary and the word vectors of a model.

    Args:
        vocabulary: the words, in the order of the rows.
        dim: E, the size of a word vector.
        views: the number of trained tables, one per view; 0 with fixed vectors.
        fixed_vectors: the vectors of the vocabulary's words, [W, E], if these are not trained.
    """

    device_marker: Tensor | None
    """An empty tensor on the device that rows of fixed vectors are copied to; None with trained tables."""
    expansion: Expansion | None
    """The words that were added after training; their rows are between the trained words and the buckets."""
    origin: str = ""
    """Where the vectors of a new model come from, for its card; empty if they are drawn at random."""

    def __init__(
        self, vocabulary: Vocabulary, dim: int, *, views: int, fixed_vectors: FixedVectors | None = None
    ) -> None:
        super().__init__()
        self.vocabulary = self.trained_vocabulary = vocabulary
        """The vocabulary with the words of the expansion, and (``trained_vocabulary``) without them."""
        self.dim = dim
        self.fixed_vectors = fixed_vectors
        self.expansion = None
        shape = (vocabulary.row_count, dim)
        self.tables = nn.ParameterList(nn.Parameter(torch.empty(shape)) for _ in range(views))
        self.register_buffer(
            "device_marker", None if fixed_vectors is None else torch.empty(0, dtype=torch.float32), False
        )

    def restore_device_marker(self) -> None:
        """Put the device's marker on the CPU, after the table was made without memory for its weights."""
        if self.device_marker is not None:
            self.device_marker = torch.empty(0, device="cpu", dtype=torch.float32)

    @classmethod
    def with_fixed(cls, vocabulary: Vocabulary, vectors: FixedVectors) -> Self:
        """Return a word table with fixed vectors, float32 [W, E] in the order of the vocabulary."""
        return cls(vocabulary, int(vectors.shape[1]), views=0, fixed_vectors=vectors)

    @classmethod
    def hashed(cls, dim: int, *, views: int, seed: int = 0) -> Self:
        """Return tables without a vocabulary, in which each word has the random vector of its hash bucket.

        Their numbers are standard normal.
        """
        table = cls(Vocabulary([], buckets=HASH_BUCKETS), dim, views=views)
        table.initialise("bag", seed=seed)
        return table

    @property
    def mode(self) -> Literal["trained", "fixed"]:
        """Whether the word vectors are trained or fixed."""
        return "trained" if self.fixed_vectors is None else "fixed"

    def initialise(self, rule: InitRule, *, counts: NDArray[np.int64] | None = None, seed: int = 0) -> None:
        """Fill the trained tables with random numbers; torch's global generator stays as it is.

        Args:
            rule: ``xavier`` draws from U(-a, a) with a = sqrt(6 / (W + E)), as in the paper. ``bag`` draws
                standard normal numbers, the same in all views, and multiplies them by the smooth inverse
                frequency of the word, so that function words do not dominate the sum over a tree.
            counts: how often each word occurs, int64 [words]; without them ``bag`` does not weight words.
            seed: the seed of the random numbers.
        """
        for position, table in enumerate(self.tables):
            with torch.no_grad():
                if rule == "xavier":
                    generator = torch.Generator().manual_seed(seed + 7919 * (position + 1))
                    nn.init.xavier_uniform_(table, generator=generator)
                    continue
                table.normal_(generator=torch.Generator().manual_seed(seed))
                if counts is not None:
                    table *= torch.from_numpy(sif_weights(counts, len(table)))[:, None]

    @property
    def added_word_count(self) -> int:
        """The number of words that were added after training."""
        return len(self.vocabulary) - len(self.trained_vocabulary)

    def rows(self, view: int, table_rows: NDArray[np.integer]) -> Tensor:
        """Return the vectors [U, E] of some rows in one view, with a gradient if the tables are trained."""
        if self.device_marker is not None:
            return torch.from_numpy(self.fixed_rows(table_rows)).to(self.device_marker)
        table: Tensor = self.tables[view]
        first_added = 1 + len(self.trained_vocabulary)
        is_added, trained_rows = _without_words(table_rows, first_added, self.added_word_count)
        values_UE = table[torch.from_numpy(trained_rows).to(table.device)]
        if self.expansion is not None:
            expansion_UE = self.expansion.rows(view, table_rows[is_added].astype(np.int64) - first_added)
            values_UE[torch.from_numpy(is_added).to(table.device)] = expansion_UE
        return values_UE

    def vectors_of(self, types: Sequence[str]) -> Tensor:
        """Return the vectors of words, those of all tables side by side: [n, (tables or 1) x E]."""
        rows = self.vocabulary.lookup(types)
        return torch.cat([self.rows(view, rows) for view in range(max(len(self.tables), 1))], dim=1).float()

    def fixed_rows(self, table_rows: NDArray[np.integer]) -> Float:
        """Return the fixed vectors of some rows, float32 [U, E], in the memory of the CPU."""
        assert self.fixed_vectors is not None
        word_count = self.fixed_vectors.shape[0]
        is_word, other_rows = _without_words(table_rows, 1, word_count)
        rows = np.clip(table_rows - 1, 0, word_count - 1)
        values_UE: Float = np.asarray(self.fixed_vectors[rows], dtype=np.float32)
        if not is_word.all():
            values_UE[~is_word] = self._vectors_of_other_rows[other_rows[~is_word]]
        return values_UE

    def __getstate__(self) -> dict[str, object]:
        return state_without(self, "_vectors_of_other_rows")

    @cached_property
    def _vectors_of_other_rows(self) -> Float:
        """The vectors of the unknown word and of the hash buckets, [1 + buckets, E], with fixed vectors."""
        assert self.fixed_vectors is not None
        frequent_NE = np.asarray(self.fixed_vectors[:MEAN_WORDS], dtype=np.float32)
        # RandomState, because its numbers are the same in all versions of numpy.
        buckets = np.random.RandomState(0).standard_normal((self.vocabulary.buckets, self.dim))
        length = BUCKET_LENGTH * np.linalg.norm(frequent_NE, axis=1).mean()
        buckets *= length / np.linalg.norm(buckets, axis=1, keepdims=True)
        mean_E = frequent_NE.mean(axis=0)
        vectors: Float = np.concatenate([mean_E[None], mean_E + buckets.astype(np.float32)])
        return vectors

    def leaves(self, table_rows: Tensor) -> list[Tensor]:
        """Return the vectors of some rows of each table as leaf tensors, whose gradients are [U, E].

        The gradient of a whole table would be [W, E]. If the tables need no gradient, the leaves need none
        either, and the rows may be those of added words.
        """
        if not any(table.requires_grad for table in self.tables):
            rows = table_rows.cpu().numpy()
            return [self.rows(view, rows) for view in range(len(self.tables))]
        return [table.detach()[table_rows].requires_grad_() for table in self.tables]

    def expand(self, vectors: WordVectors) -> int:
        """Add the words of pre-trained vectors that the trained tables lack; return their number.

        They replace the words of an earlier expansion. With fixed vectors no word is added.
        """
        if self.mode == "trained":
            vocabulary = self.trained_vocabulary
            tables = [table.detach().cpu().numpy() for table in self.tables]
            is_lower = vocabulary.case == "lower"
            expansion = Expansion.fit(vocabulary.row_of, lower=is_lower, tables=tables, vectors=vectors)
            self._add(expansion.to(self.tables[0].device))
        return self.added_word_count

    def _add(self, expansion: Expansion) -> None:
        """Set the expansion, and put its words after those of the trained vocabulary."""
        self.expansion = expansion
        words = [*self.trained_vocabulary.words, *expansion.words]
        self.vocabulary = Vocabulary(words, buckets=self.vocabulary.buckets, case=self.vocabulary.case)

    def record(self) -> WordsRecord:
        """Return the record of the words for config.json."""
        buckets, case, added_count = self.vocabulary.buckets, self.vocabulary.case, self.added_word_count
        return WordsRecord(mode=self.mode, dim=self.dim, buckets=buckets, case=case, expanded=added_count)

    def save(self, folder: Path) -> None:
        """Write the files that :meth:`record` names; trained tables are stored with the other weights."""
        write_text(folder / VOCABULARY, "".join(word + "\n" for word in self.vocabulary.words))
        vectors = self.fixed_vectors if self.expansion is None else self.expansion.vectors_PG
        if vectors is not None and not isinstance(vectors, PackedVectors):  # those are stored as weights
            _save_vectors(folder / VECTORS, vectors[:])

    @classmethod
    def load(
        cls, folder: Path, record: WordsRecord, *, tables: int, fixed_vectors: FixedVectors | None = None
    ) -> Self:
        """Return the words of a model folder, whose trained tables are filled later, from the weights.

        Args:
            folder: the model folder.
            record: what its config.json says about the words.
            tables: the number of word tables, if they are trained.
            fixed_vectors: fixed vectors that are stored with the weights; else they are read from a file.
        """
        words = read_words(folder / VOCABULARY)
        trained_count = len(words) - record.expanded
        vocabulary = Vocabulary(words[:trained_count], buckets=record.buckets, case=record.case)
        if record.mode == "trained":
            table = cls(vocabulary, record.dim, views=tables)
            if record.expanded:
                vectors_PG = read_array(folder / VECTORS, 2)
                maps_VGE = torch.empty(tables, vectors_PG.shape[1], record.dim)
                places_X = torch.empty(record.expanded, dtype=torch.int64)
                table._add(Expansion(words[trained_count:], vectors_PG, places_X, maps_VGE))
            return table
        if record.expanded or record.buckets * record.dim > MAX_BUCKET_NUMBERS:
            raise UserError(
                f"{folder / 'config.json'}: words: fixed ones have no expansion and at most "
                f"{MAX_BUCKET_NUMBERS:,} numbers in hash buckets"
            )
        if fixed_vectors is None:
            fixed_vectors = read_array(folder / VECTORS, 2)
        if fixed_vectors.shape != (len(words), record.dim):
            size = f"{len(words)} words of size {record.dim}"
            raise UserError(f"{folder}: {fixed_vectors.shape} numbers of vectors for {size}")
        return cls.with_fixed(vocabulary, fixed_vectors)


def _save_vectors(path: Path, vectors: Float) -> None:
    """Write vectors [W, E] to a file; if they are mapped from a file, the new one is a link to that.

    A copy is written instead where links are impossible, or where the mapped file has changed.
    """
    with atomic_path(path) as temporary:
        temporary.unlink()
        try:
            os.link(getattr(vectors, "filename", None) or "", temporary)
            # The file may have been replaced since it was mapped.
            if np.array_equal(np.load(temporary, mmap_mode="r"), vectors):
                return
        except (OSError, ValueError):  # another file system, or not mapped from a file
            pass
        temporary.unlink(missing_ok=True)
        write_array(temporary, np.asarray(vectors))
