"""The words of a model and their vectors, for training, inference and storage.

Row 0 of a table is the unknown word, rows 1 to W are the words by falling frequency, and then come the hash
buckets. A word that is not listed backs off to its case variants, then to a hash bucket if there are any,
then to the unknown word, which has a vector like any other.

``trained``: one table per view; the tables are parameters of the network. ``fixed``: pre-trained vectors for
all views, memory-mapped; only the rows of a batch are copied to the device.

A training step gathers the distinct rows that it needs into a small leaf tensor per view, so that a gradient
is [U, E] and not a dense [W, E].

Legend of dimension suffixes: W table rows, U distinct rows of a batch, E word-vector size.
"""

import functools
import hashlib
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

from corpora.characters import places_of, plain
from multiview.config import Case, Start, TableConfig
from multiview.words.vectors import VECTORS, Expansion, Float, WordVectors, read_words, save_vectors, writable
from runtime.cli import Count, CountOrNone, configuration
from runtime.errors import UserError
from runtime.files import read_array, write_text
from runtime.surroundings import state_without

UNKNOWN_ROW = 0
FILES = ("vocab.txt", VECTORS)
"""Of a model folder, those that may hold its words; :attr:`WordsRecord.files` are those of one model."""
HASH_BUCKETS = 50_000
"""Of a table without listed words."""
MEAN_WORDS = 50_000
"""With fixed vectors, the unknown word has the mean vector of this many most frequent words."""
BUCKET_LENGTH = 0.3
"""A hash bucket of fixed vectors is the unknown word plus a random vector, this part of their length.

With the mean alone, two unknown names are the same word; with more, classifiers read less of the others."""
MOST_NUMBERS = 2**28
"""In hash buckets of fixed vectors at most. They are not stored, so a config.json may ask for any number."""
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
        self.row_of = places_of(self.words, first=1)
        digest = hashlib.sha256(f"{case}\n{buckets}\n".encode())
        digest.update("\n".join(self.words).encode("utf-8", "surrogatepass"))
        self.key = digest.hexdigest()

    def __len__(self) -> int:
        return len(self.words)

    @property
    def rows(self) -> int:
        """Counts the table rows: the unknown word, the words, the buckets."""
        return 1 + len(self.words) + self.buckets

    def row(self, word: str) -> int:
        """Look up the table row of one word type."""
        word = plain(word)
        lower = word.lower()
        variants: tuple[str, ...] = (word, lower, word.capitalize(), word.upper())
        if self.case != "backoff":
            variants = variants[:1] if self.case == "exact" else variants[1:2]
        for variant in variants:
            if (row := self.row_of.get(variant)) is not None:
                return row
        if not self.buckets:
            return UNKNOWN_ROW
        hashed = zlib.crc32((word if self.case == "exact" else lower).encode("utf-8", "surrogatepass"))
        return 1 + len(self.words) + hashed % self.buckets

    def lookup(self, types: Sequence[str]) -> NDArray[np.int32]:
        """Return the table rows of word types, int32 [len(types)]."""
        return np.fromiter(map(self.row, types), dtype=np.int32, count=len(types))


def corpus_words(counts: Mapping[str, int], wanted: TableConfig) -> tuple[list[str], NDArray[np.int64]]:
    """Count the most frequent words of a corpus, int64 [W]; ties are in alphabetical order.

    Words with a line break or a lone surrogate are left out: ``vocab.txt`` cannot hold them.
    """
    total: Counter[str] = Counter()
    for word, count in counts.items():
        word = plain(word)
        total[word.lower() if wanted.case == "lower" else word] += count
    listed = ((word, n) for word, n in total.items() if n >= wanted.min_count and writable(word))
    ranked = sorted(listed, key=lambda item: (-item[1], item[0]))[: wanted.size]
    return [word for word, _ in ranked], np.array([count for _, count in ranked], dtype=np.int64)


def inverse_frequency(counts: NDArray[np.int64], rows: int) -> NDArray[np.float32]:
    """Give smooth inverse frequency a / (a + p(w)) per table row, float32 [rows], by the words' counts [W].

    Rows without a count (the unknown word, hash buckets) stand for rare words and have weight 1.
    """
    weight = np.ones(rows, dtype=np.float32)
    weight[1 : 1 + len(counts)] = SIF_A / (SIF_A + counts / max(int(counts.sum()), 1))
    return weight


@configuration
class WordsRecord:
    """Records the words in a model's config.json; the words themselves are in vocab.txt."""

    mode: Literal["trained", "fixed"]
    dim: Count
    buckets: CountOrNone
    case: Case
    expanded: CountOrNone = 0
    """The last so many words of vocab.txt have no row in the trained tables, but one of vectors.npy."""

    @property
    def files(self) -> tuple[str, ...]:
        """Names the files of a model folder that hold its words, besides the weights."""
        return FILES if self.mode == "fixed" or self.expanded else FILES[:1]


@dataclass(frozen=True)
class PackedVectors:
    """Fixed vectors of 4 bits, float32 where they are read: few are, and all of them take 0.1 s."""

    pairs: NDArray[np.uint8]
    """[W, E / 2], two numbers plus 8, the first in the lower half."""
    scale: Float
    """[W, 1], a factor for each row."""

    @property
    def shape(self) -> tuple[int, int]:
        """Gives W and E."""
        return len(self.pairs), 2 * self.pairs.shape[1]

    def __getitem__(self, rows: NDArray[np.integer] | slice) -> Float:
        both_UE2 = np.stack([self.pairs[rows] & 15, self.pairs[rows] >> 4], axis=2).astype(np.float32)
        both_UE2 -= 8
        return both_UE2.reshape(len(both_UE2), -1) * self.scale[rows]


Fixed = Float | PackedVectors


class WordTable(nn.Module):
    """Vocabulary and word vectors, of size E = ``dim``, of a model.

    It has ``views`` trained tables, one per view, or none with ``fixed`` vectors [W, E] in vocabulary order.
    """

    place: Tensor | None
    """Fixed vectors go to where this is."""
    expansion: Expansion | None
    """Words beyond the trained tables; they stand between the trained words and the hash buckets."""
    origin: str = ""
    """Where the vectors of a new model come from, for its card; empty for those drawn at random."""

    def __init__(self, vocabulary: Vocabulary, dim: int, *, views: int, fixed: Fixed | None = None) -> None:
        super().__init__()
        self.vocabulary = self.trained_vocabulary = vocabulary
        """With and without the words of the expansion."""
        self.dim = dim
        self.fixed = fixed
        self.expansion = None
        self.tables = nn.ParameterList(nn.Parameter(torch.empty(vocabulary.rows, dim)) for _ in range(views))
        self.register_buffer("place", None if fixed is None else torch.empty(0), persistent=False)

    @classmethod
    def with_fixed(cls, vocabulary: Vocabulary, vectors: Fixed) -> Self:
        """Return the words with fixed vectors, float32 [W, E] in vocabulary order."""
        return cls(vocabulary, int(vectors.shape[1]), views=0, fixed=vectors)

    @classmethod
    def hashed(cls, dim: int, *, views: int, seed: int = 0) -> Self:
        """Draw untrained vectors of unit scale without a vocabulary: each word has that of its hash."""
        table = cls(Vocabulary([], buckets=HASH_BUCKETS), dim, views=views)
        table.initialise("bag", seed=seed)
        return table

    @property
    def mode(self) -> Literal["trained", "fixed"]:
        """Says where the vectors come from."""
        return "trained" if self.fixed is None else "fixed"

    def initialise(self, start: Start, *, counts: NDArray[np.int64] | None = None, seed: int = 0) -> None:
        """Fill the trained tables without drawing from torch's global generator.

        ``xavier`` is U(-a, a) with a = sqrt(6 / (W + E)), as in the paper; ``bag`` is standard normal times
        smooth inverse frequency, so that function words do not dominate the sum over a tree, and the same in
        all views. ``counts``, int64 [words], are the occurrences of each word, for these weights.
        """
        for position, table in enumerate(self.tables):
            with torch.no_grad():
                if start == "xavier":
                    generator = torch.Generator().manual_seed(seed + 7919 * (position + 1))
                    nn.init.xavier_uniform_(table, generator=generator)
                    continue
                table.normal_(generator=torch.Generator().manual_seed(seed))
                if counts is not None:
                    table *= torch.from_numpy(inverse_frequency(counts, len(table)))[:, None]

    @property
    def expanded(self) -> int:
        """Counts the words that come from the expansion."""
        return len(self.vocabulary) - len(self.trained_vocabulary)

    def rows(self, view: int, table_rows: NDArray[np.integer]) -> Tensor:
        """Return the vectors [U, E] of rows [U] in one view, with gradient where the table has one."""
        if self.place is not None:
            return torch.from_numpy(self.fixed_rows(table_rows)).to(self.place)
        table: Tensor = self.tables[view]
        start = 1 + len(self.trained_vocabulary)
        new = (table_rows >= start) & (table_rows < start + self.expanded)
        own = np.where(table_rows < start, table_rows, table_rows - self.expanded).astype(np.int64)
        values_UE = table[torch.from_numpy(np.where(new, UNKNOWN_ROW, own)).to(table.device)]
        if self.expansion is not None:
            mapped_UE = self.expansion.rows(view, table_rows[new].astype(np.int64) - start)
            values_UE[torch.from_numpy(new).to(table.device)] = mapped_UE
        return values_UE

    def fixed_rows(self, table_rows: NDArray[np.integer]) -> Float:
        """Return the fixed vectors float32 [U, E] of rows [U], in the host's memory."""
        assert self.fixed is not None
        # Row 0 is the unknown word, row 1 the first word of the vocabulary; the buckets come last.
        listed = self.fixed.shape[0]
        values_UE: Float = np.asarray(self.fixed[np.clip(table_rows - 1, 0, listed - 1)], dtype=np.float32)
        unlisted_row = np.where(table_rows > listed, table_rows - listed, 0)
        unlisted = (table_rows == UNKNOWN_ROW) | (table_rows > listed)
        if unlisted.any():
            values_UE[unlisted] = self._others[unlisted_row[unlisted]]
        return values_UE

    def __getstate__(self) -> dict[str, object]:
        return state_without(self, "_others")

    @functools.cached_property
    def _others(self) -> Float:
        """Draws what fixed vectors lack, [1 + buckets, E]: the unknown word, then the hash buckets."""
        assert self.fixed is not None
        known = np.asarray(self.fixed[:MEAN_WORDS], dtype=np.float32)
        # RandomState's numbers never change from one numpy to the next.
        drawn = np.random.RandomState(0).standard_normal((self.vocabulary.buckets, self.dim))
        length = BUCKET_LENGTH * np.linalg.norm(known, axis=1).mean()
        drawn *= length / np.linalg.norm(drawn, axis=1, keepdims=True)
        mean_E = known.mean(axis=0)
        others: Float = np.concatenate([mean_E[None], mean_E + drawn.astype(np.float32)])
        return others

    def leaves(self, table_rows: Tensor) -> list[Tensor]:
        """Copy the rows int64 [U] of each trained table, as leaf tensors [U, E] that receive gradients."""
        return [table.detach()[table_rows].requires_grad_() for table in self.tables]

    def expand(self, vectors: WordVectors) -> int:
        """Take in the words of pre-trained vectors that the trained tables lack, in place of earlier ones.

        Returns the number of words added; 0 with fixed vectors.
        """
        if self.mode == "trained":
            own, tables = self.trained_vocabulary, [table.detach().cpu().numpy() for table in self.tables]
            fitted = Expansion.fit(own.row_of, lower=own.case == "lower", tables=tables, vectors=vectors)
            self._extend(fitted.to(self.tables[0].device))
        return self.expanded

    def _extend(self, expansion: Expansion) -> None:
        self.expansion = expansion
        own = self.trained_vocabulary
        words = [*own.words, *expansion.words]
        self.vocabulary = Vocabulary(words, buckets=own.buckets, case=own.case)

    def record(self) -> WordsRecord:
        """Give what config.json says about the words."""
        buckets, case = self.vocabulary.buckets, self.vocabulary.case
        return WordsRecord(mode=self.mode, dim=self.dim, buckets=buckets, case=case, expanded=self.expanded)

    def save(self, folder: Path) -> None:
        """Write the files that :meth:`record` names; trained tables are with the weights."""
        write_text(folder / "vocab.txt", "".join(word + "\n" for word in self.vocabulary.words))
        if self.fixed is not None:
            save_vectors(folder / VECTORS, self.fixed[:])
        if self.expansion is not None:
            save_vectors(folder / VECTORS, self.expansion.vectors_PG)

    @classmethod
    def load(cls, folder: Path, record: WordsRecord, *, tables: int, fixed: Fixed | None = None) -> Self:
        """Read the words of a model folder; trained tables are filled later, from the weights."""
        words = read_words(folder / "vocab.txt")
        new = len(words) - record.expanded
        vocabulary = Vocabulary(words[:new], buckets=record.buckets, case=record.case)
        if record.mode == "trained":
            table = cls(vocabulary, record.dim, views=tables)
            if record.expanded:
                vectors_PG = read_array(folder / VECTORS, 2)
                maps_VGE = torch.empty(tables, vectors_PG.shape[1], record.dim)
                places_X = torch.empty(record.expanded, dtype=torch.int64)
                table._extend(Expansion(words[new:], vectors_PG, places_X, maps_VGE))
            return table
        if record.expanded or record.buckets * record.dim > MOST_NUMBERS:
            raise UserError(
                f"{folder / 'config.json'}: words: fixed ones have no expansion and at most {MOST_NUMBERS:,} "
                "numbers in hash buckets"
            )
        fixed = read_array(folder / VECTORS, 2) if fixed is None else fixed
        if fixed.shape != (len(vocabulary), record.dim):
            raise UserError(
                f"{folder}: {fixed.shape} numbers of vectors for {len(vocabulary)} words of size {record.dim}"
            )
        return cls.with_fixed(vocabulary, fixed)
