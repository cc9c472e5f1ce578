"""Holds the words of a model and their vectors, for training, inference and storage.

Row 0 of a table is the unknown word, rows 1 to W are the words by falling frequency, and then come the hash
buckets. A word that is not listed backs off to its case variants, then to a hash bucket if there are any,
then to the unknown word, which has a vector like any other.

``trained``: one table per view; the tables are parameters of the network. ``fixed``: pre-trained vectors for
all views, memory-mapped; only the rows of a batch are copied to the device.

Legend of dimension suffixes: W table rows, U distinct rows of a batch, E word-vector size.
"""

import hashlib
import os
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from corpora.characters import index_of_words, normalise_text
from multiview.config import Case, InitRule, TableConfig
from multiview.words.vectors import VECTORS, Expansion, Float, WordVectors, is_writable, read_words
from runtime.cli import Count, CountOrNone, configuration
from runtime.errors import UserError
from runtime.files import atomic_path, read_array, write_array, write_text
from runtime.process import cached_property, state_without

UNKNOWN_ROW = 0
VOCABULARY = "vocab.txt"
HASH_BUCKETS = 50_000
"""Buckets of a table that lists no words."""
MEAN_WORDS = 50_000
"""With fixed vectors, the unknown word has the mean vector of this many most frequent words."""
BUCKET_LENGTH = 0.3
"""A hash bucket of fixed vectors is the unknown word plus a random vector, this part of their length.

With the mean alone, two unknown names are the same word; with more, classifiers read less of the others."""
MAX_BUCKET_NUMBERS = 2**28
"""Largest size of all hash buckets of fixed vectors, which are not stored: config.json may ask for any."""
SIF_A = 1e-3
"""a of smooth inverse frequency a / (a + p(w)) (Arora et al. 2017)."""


class Vocabulary:
    """Maps word types to table rows.

    ``words`` are distinct, most frequent first. Others go to hash ``buckets``; with 0, they become the
    unknown word. ``case`` is ``exact``: as written only; ``backoff``: as written, then lower, Capitalised,
    UPPER; or ``lower``: the words are lower case, and every type is lower-cased first.
    """

    def __init__(self, words: Sequence[str], *, buckets: int = 0, case: Case = "backoff") -> None:
        self.words, self.buckets, self.case = list(words), buckets, case
        if len(set(self.words)) != len(self.words):
            raise UserError("vocabulary: a word is listed twice; list each once")
        self.row_of = index_of_words(self.words, first=1)
        digest = hashlib.sha256(f"{case}\n{buckets}\n".encode())
        digest.update("\n".join(self.words).encode("utf-8", "surrogatepass"))
        self.key = digest.hexdigest()

    def __len__(self) -> int:
        return len(self.words)

    @property
    def row_count(self) -> int:
        """Number of table rows: the unknown word, the words, the buckets."""
        return 1 + len(self.words) + self.buckets

    def row(self, word: str) -> int:
        """Return the table row of a word type."""
        word = normalise_text(word)
        if self.case != "lower" and word in self.row_of:
            return self.row_of[word]
        lower = word.lower()
        if self.case != "exact" and lower in self.row_of:
            return self.row_of[lower]
        for variant in (word.capitalize(), word.upper()) if self.case == "backoff" else ():
            if variant in self.row_of:
                return self.row_of[variant]
        if not self.buckets:
            return UNKNOWN_ROW
        spelling = word if self.case == "exact" else lower
        bucket = zlib.crc32(spelling.encode("utf-8", "surrogatepass")) % self.buckets
        return 1 + len(self.words) + bucket

    def lookup(self, types: Sequence[str]) -> NDArray[np.int32]:
        """Return the table rows of word types, int32 [len(types)]."""
        return np.fromiter(map(self.row, types), dtype=np.int32, count=len(types))


def corpus_words(counts: Mapping[str, int], config: TableConfig) -> tuple[list[str], NDArray[np.int64]]:
    """Return the most frequent words of a corpus and their counts [W]; ties are in alphabetical order.

    Words with a line break or a lone surrogate are left out: ``vocab.txt`` cannot hold them.
    """
    totals: Counter[str] = Counter()
    for word, count in counts.items():
        spelling = normalise_text(word)
        totals[spelling.lower() if config.case == "lower" else spelling] += count
    words = [word for word, count in totals.items() if count >= config.min_count and is_writable(word)]
    words.sort(key=lambda word: (-totals[word], word))
    words = words[: config.size]
    return words, np.array([totals[word] for word in words], dtype=np.int64)


def sif_weights(counts: NDArray[np.int64], rows: int) -> NDArray[np.float32]:
    """Return the smooth inverse frequency a / (a + p(w)) of each table row, float32 [rows].

    ``counts`` [W] are those of the words. Rows without a count (the unknown word, hash buckets) stand for
    rare words and have weight 1.
    """
    weight = np.ones(rows, dtype=np.float32)
    weight[1 : 1 + len(counts)] = SIF_A / (SIF_A + counts / max(int(counts.sum()), 1))
    return weight


@configuration
class WordsRecord:
    """The words as a model's config.json describes them; the words themselves are in vocab.txt."""

    mode: Literal["trained", "fixed"]
    dim: Count
    buckets: CountOrNone
    case: Case
    expanded: CountOrNone = 0
    """The last so many words of vocab.txt have no row in the trained tables, but one of vectors.npy."""

    @property
    def files(self) -> list[str]:
        """Names of the files in a model folder that hold its words, besides the weights."""
        return [VOCABULARY, VECTORS] if self.mode == "fixed" or self.expanded else [VOCABULARY]


@dataclass(frozen=True)
class PackedVectors:
    """Fixed vectors of 4 bits a number. Only rows that are read become float32; all of them take 0.1 s."""

    pairs: NDArray[np.uint8]
    """[W, E / 2], two numbers plus 8, the first in the lower half."""
    scale: Float
    """[W, 1], a factor for each row."""

    @property
    def shape(self) -> tuple[int, int]:
        """W and E."""
        return len(self.pairs), 2 * self.pairs.shape[1]

    def __getitem__(self, rows: NDArray[np.integer] | slice) -> Float:
        numbers_UE2 = np.stack([self.pairs[rows] & 15, self.pairs[rows] >> 4], axis=2).astype(np.float32)
        numbers_UE2 -= 8
        return numbers_UE2.reshape(len(numbers_UE2), -1) * self.scale[rows]


FixedVectors = Float | PackedVectors


def _without_words(
    table_rows: NDArray[np.integer], first: int, count: int
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Tell which rows are the ``count`` words from ``first`` on; return rows [U] in a table without these."""
    is_left_out = (table_rows >= first) & (table_rows < first + count)
    other_rows = np.where(table_rows < first, table_rows, table_rows - count)
    return is_left_out, np.where(is_left_out, UNKNOWN_ROW, other_rows).astype(np.int64)


class WordTable(nn.Module):
    """Vocabulary and word vectors, of size E = ``dim``, of a model.

    It has ``views`` trained tables, one per view, or none with ``fixed_vectors`` [W, E], which are in the
    order of the vocabulary.
    """

    device_marker: Tensor | None
    """An empty tensor on the device to which rows of fixed vectors are copied; None with trained tables."""
    expansion: Expansion | None
    """Words beyond the trained tables; they stand between the trained words and the hash buckets."""
    origin: str = ""
    """Where the vectors of a new model come from, for its card; empty for those drawn at random."""

    def __init__(
        self, vocabulary: Vocabulary, dim: int, *, views: int, fixed_vectors: FixedVectors | None = None
    ) -> None:
        super().__init__()
        self.vocabulary = self.trained_vocabulary = vocabulary
        """The vocabulary, and the same without the words of the expansion."""
        self.dim = dim
        self.fixed_vectors = fixed_vectors
        self.expansion = None
        shape = (vocabulary.row_count, dim)
        self.tables = nn.ParameterList(nn.Parameter(torch.empty(shape)) for _ in range(views))
        self.register_buffer(
            "device_marker", None if fixed_vectors is None else torch.empty(0, dtype=torch.float32), False
        )

    def restore_device_marker(self) -> None:
        """Put the marker of the device on the CPU, after the table was made without memory."""
        if self.device_marker is not None:
            self.device_marker = torch.empty(0, device="cpu", dtype=torch.float32)

    @classmethod
    def with_fixed(cls, vocabulary: Vocabulary, vectors: FixedVectors) -> Self:
        """Return the words with fixed vectors, float32 [W, E] in vocabulary order."""
        return cls(vocabulary, int(vectors.shape[1]), views=0, fixed_vectors=vectors)

    @classmethod
    def hashed(cls, dim: int, *, views: int, seed: int = 0) -> Self:
        """Return tables that list no words: each word has the random vector, of unit scale, of its hash."""
        table = cls(Vocabulary([], buckets=HASH_BUCKETS), dim, views=views)
        table.initialise("bag", seed=seed)
        return table

    @property
    def mode(self) -> Literal["trained", "fixed"]:
        """Whether the vectors are trained or fixed."""
        return "trained" if self.fixed_vectors is None else "fixed"

    def initialise(self, rule: InitRule, *, counts: NDArray[np.int64] | None = None, seed: int = 0) -> None:
        """Fill the trained tables without drawing from torch's global generator.

        ``xavier`` is U(-a, a) with a = sqrt(6 / (W + E)), as in the paper; ``bag`` is standard normal times
        smooth inverse frequency, so that function words do not dominate the sum over a tree, and the same in
        all views. ``counts``, int64 [words], are the occurrences of each word, for these weights.
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
        """Number of words that come from the expansion."""
        return len(self.vocabulary) - len(self.trained_vocabulary)

    def rows(self, view: int, table_rows: NDArray[np.integer]) -> Tensor:
        """Return the vectors [U, E] of rows [U] in one view, with gradient where the table has one."""
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
        """Return the vectors of words, of all tables side by side, [n, (tables or 1) x E]."""
        rows = self.vocabulary.lookup(types)
        return torch.cat([self.rows(view, rows) for view in range(max(len(self.tables), 1))], dim=1).float()

    def fixed_rows(self, table_rows: NDArray[np.integer]) -> Float:
        """Return the fixed vectors float32 [U, E] of rows [U], in the host's memory."""
        assert self.fixed_vectors is not None
        word_count = self.fixed_vectors.shape[0]
        is_listed, unlisted_rows = _without_words(table_rows, 1, word_count)
        rows = np.clip(table_rows - 1, 0, word_count - 1)
        values_UE: Float = np.asarray(self.fixed_vectors[rows], dtype=np.float32)
        if not is_listed.all():
            values_UE[~is_listed] = self._unlisted_vectors[unlisted_rows[~is_listed]]
        return values_UE

    def __getstate__(self) -> dict[str, object]:
        return state_without(self, "_unlisted_vectors")

    @cached_property
    def _unlisted_vectors(self) -> Float:
        """Vectors beside the fixed ones, [1 + buckets, E]: the unknown word, then the hash buckets."""
        assert self.fixed_vectors is not None
        frequent_NE = np.asarray(self.fixed_vectors[:MEAN_WORDS], dtype=np.float32)
        # RandomState's numbers never change from one numpy to the next.
        buckets = np.random.RandomState(0).standard_normal((self.vocabulary.buckets, self.dim))
        length = BUCKET_LENGTH * np.linalg.norm(frequent_NE, axis=1).mean()
        buckets *= length / np.linalg.norm(buckets, axis=1, keepdims=True)
        mean_E = frequent_NE.mean(axis=0)
        vectors: Float = np.concatenate([mean_E[None], mean_E + buckets.astype(np.float32)])
        return vectors

    def leaves(self, table_rows: Tensor) -> list[Tensor]:
        """Copy rows [U] of each table, as leaf tensors, so that gradients are [U, E], not [W, E].

        Tables that need no gradient, with words that an expansion added, are just read.
        """
        if not any(table.requires_grad for table in self.tables):
            rows = table_rows.cpu().numpy()
            return [self.rows(view, rows) for view in range(len(self.tables))]
        return [table.detach()[table_rows].requires_grad_() for table in self.tables]

    def expand(self, vectors: WordVectors) -> int:
        """Add the words of pre-trained vectors that the trained tables lack, and return how many these are.

        They replace the words of an earlier expansion. With fixed vectors none is added.
        """
        if self.mode == "trained":
            vocabulary = self.trained_vocabulary
            tables = [table.detach().cpu().numpy() for table in self.tables]
            is_lower = vocabulary.case == "lower"
            expansion = Expansion.fit(vocabulary.row_of, lower=is_lower, tables=tables, vectors=vectors)
            self._add(expansion.to(self.tables[0].device))
        return self.added_word_count

    def _add(self, expansion: Expansion) -> None:
        self.expansion = expansion
        words = [*self.trained_vocabulary.words, *expansion.words]
        self.vocabulary = Vocabulary(words, buckets=self.vocabulary.buckets, case=self.vocabulary.case)

    def record(self) -> WordsRecord:
        """Return what config.json says about the words."""
        buckets, case, added_count = self.vocabulary.buckets, self.vocabulary.case, self.added_word_count
        return WordsRecord(mode=self.mode, dim=self.dim, buckets=buckets, case=case, expanded=added_count)

    def save(self, folder: Path) -> None:
        """Write the files that :meth:`record` names; trained tables are with the weights."""
        write_text(folder / VOCABULARY, "".join(word + "\n" for word in self.vocabulary.words))
        vectors = self.fixed_vectors if self.expansion is None else self.expansion.vectors_PG
        if vectors is not None and not isinstance(vectors, PackedVectors):  # those lie beside the weights
            _save_vectors(folder / VECTORS, vectors[:])

    @classmethod
    def load(
        cls, folder: Path, record: WordsRecord, *, tables: int, fixed_vectors: FixedVectors | None = None
    ) -> Self:
        """Read the words of a model folder; trained tables are filled later, from the weights."""
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
    """Put vectors [W, E] into a new folder, by a link to the file they are mapped from if one is possible."""
    with atomic_path(path) as temporary:
        temporary.unlink()
        try:
            os.link(getattr(vectors, "filename", None) or "", temporary)
            # The file of that name may be another one by now.
            if np.array_equal(np.load(temporary, mmap_mode="r"), vectors):
                return
        except (OSError, ValueError):  # another file system, or not mapped from a file
            pass
        temporary.unlink(missing_ok=True)
        write_array(temporary, np.asarray(vectors))
