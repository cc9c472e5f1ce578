"""Which words an encoder knows, and the table row of every word type.

Row 0 is the unknown word, rows 1 to W are the words by falling frequency, and then come the hash buckets. A
word that is not listed as written backs off to its case variants, then to a hash bucket if there are any,
then to the unknown word, which has a vector like any other.
"""

from __future__ import annotations

import hashlib
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpora.support.errors import UserError
from multiview.config import Case, TableConfig

UNKNOWN_ROW = 0


class Vocabulary:
    """Maps word types to table rows.

    Args:
        words: distinct words, most frequent first.
        buckets: hash buckets for words that are not listed; with 0, they become the unknown word.
        case: ``exact``: as written only; ``backoff``: as written, then lower, Capitalised, UPPER;
            ``lower``: the words are lower case, and every type is lower-cased first.
    """

    def __init__(self, words: Sequence[str], *, buckets: int = 0, case: Case = "backoff") -> None:
        self.words = list(words)
        self.buckets = buckets
        self.case = case
        self._row = {word: row for row, word in enumerate(self.words, start=1)}
        if len(self._row) != len(self.words):
            raise UserError("vocabulary: a word is listed twice; list each once")
        digest = hashlib.sha256(f"{case}\n{buckets}\n".encode())
        digest.update("\n".join(self.words).encode("utf-8", "surrogatepass"))
        self.key = digest.hexdigest()

    def __len__(self) -> int:
        return len(self.words)

    @property
    def rows(self) -> int:
        """Number of table rows: the unknown word, the words, the buckets."""
        return 1 + len(self.words) + self.buckets

    def row(self, word: str) -> int:
        """Table row of one word type."""
        for variant in self._variants(word):
            found = self._row.get(variant)
            if found is not None:
                return found
        if self.buckets:
            folded = word if self.case == "exact" else word.lower()
            hashed = zlib.crc32(folded.encode("utf-8", "surrogatepass"))
            return 1 + len(self.words) + hashed % self.buckets
        return UNKNOWN_ROW

    def lookup(self, types: list[str]) -> NDArray[np.int32]:
        """Table rows of word types, int32 [len(types)]."""
        return np.fromiter(map(self.row, types), dtype=np.int32, count=len(types))

    def _variants(self, word: str) -> tuple[str, ...]:
        if self.case == "exact":
            return (word,)
        if self.case == "lower":
            return (word.lower(),)
        return (word, word.lower(), word.capitalize(), word.upper())


def read_words(path: Path) -> list[str]:
    """The words of a file of one word per line.

    Raises:
        UserError: the file is missing or is not UTF-8.
    """
    try:
        return path.read_bytes().decode("utf-8").split("\n")[:-1]
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; the model folder is not complete") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 ({error})") from None


def corpus_words(counts: Mapping[str, int], wanted: TableConfig) -> tuple[list[str], NDArray[np.int64]]:
    """The most frequent words of a corpus and how often each occurs, int64 [W]; ties in alphabetical order.

    Words with a line break or a lone surrogate are left out: ``vocab.txt`` cannot hold them.

    Args:
        counts: occurrences of the corpus's word types.
        wanted: how many words, how often each must occur, and how to spell them.
    """
    total: Counter[str] = Counter()
    for word, count in counts.items():
        total[word.lower() if wanted.case == "lower" else word] += count
    listed = ((word, n) for word, n in total.items() if n >= wanted.min_count and writable(word))
    kept = sorted(listed, key=lambda item: (-item[1], item[0]))[: wanted.size]
    return [word for word, _ in kept], np.array([count for _, count in kept], dtype=np.int64)


def writable(word: str) -> bool:
    """Whether a file of one word per line can hold a word: no line break, no lone surrogate."""
    return bool(word) and "\n" not in word and word.encode("utf-8", "ignore").decode() == word


def inverse_frequency(counts: NDArray[np.int64], rows: int, a: float = 1e-3) -> NDArray[np.float32]:
    """Smooth inverse frequency a / (a + p(w)) per table row, float32 [rows] (Arora et al. 2017).

    Rows without a count (the unknown word, hash buckets) stand for rare words and have weight 1.

    Args:
        counts: int64 [W], occurrences of the words in order.
        rows: number of table rows.
        a: of the formula.
    """
    weight = np.ones(rows, dtype=np.float32)
    probability = counts / max(int(counts.sum()), 1)
    weight[1 : 1 + len(counts)] = a / (a + probability)
    return weight
