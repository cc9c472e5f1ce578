"""The words of a model: which of them a corpus gives, how they are counted and looked up.

Row 0 of a table of word vectors is the unknown word. The next rows are the words of the vocabulary, most
frequent first, and the last rows are the hash buckets. A word that is not in the vocabulary has the row of a
case variant of it, or else of a hash bucket or, without hash buckets, of the unknown word.
"""

import hashlib
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from corpora.characters import index_of_words, normalise_text
from multiview.model_config import Case, TableConfig
from multiview.words.vectors import VECTORS, is_writable
from runtime.cli import Count, CountOrNone, configuration
from runtime.errors import UserError

UNKNOWN_ROW = 0
VOCABULARY = "vocab.txt"
SIF_A = 1e-3
"""The constant a of smooth inverse frequency, a / (a + p(w)) (Arora et al. 2017)."""


class Vocabulary:
    """The map from word types to rows of a word table.

    Args:
        words: the words with rows of their own, most frequent first.
        buckets: the number of hash buckets for all other words; with 0 they become the unknown word.
        case: how a type is looked up. ``exact``: as it is written. ``backoff``: as it is written, then in
            lower case, Capitalised and in UPPER case. ``lower``: in lower case, as all ``words`` are.

    Raises UserError if a word is listed twice.
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
        """The number of table rows: the unknown word, the words and the hash buckets."""
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

    ``counts`` are those of the word types. Words with a line break or a lone surrogate are left out, because
    ``vocab.txt`` cannot hold them.
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

    ``counts`` are those of the words, which have rows from 1 on. The rows of the unknown word and of the hash
    buckets stand for rare words and have weight 1.
    """
    weight = np.ones(rows, dtype=np.float32)
    weight[1 : 1 + len(counts)] = SIF_A / (SIF_A + counts / max(int(counts.sum()), 1))
    return weight


@configuration
class WordsRecord:
    """Describes the words of a model, as its config.json does; vocab.txt lists the words themselves."""

    mode: Literal["trained", "fixed"]
    dim: Count
    buckets: CountOrNone
    case: Case
    expanded: CountOrNone = 0
    """How many words, the last of vocab.txt, have no row in the trained tables, but one in vectors.npy."""

    @property
    def files(self) -> list[str]:
        """The names of the files in a model folder that hold its words, besides the weights."""
        return [VOCABULARY, VECTORS] if self.mode == "fixed" or self.expanded else [VOCABULARY]
