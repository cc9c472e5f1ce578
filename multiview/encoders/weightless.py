"""Views that have no weights; they stand after the trained ones.

BAG is the mean of the word vectors. HASH is which words, spellings and pairs of neighbours a sentence has,
projected at random:

    v(s) = 1/n Σ_t (w(x_t) u(x_t) + ¼ r(x_t-1, x_t)),  u(x) = r(x) + 1/√m Σ_g r(g)

r is a vector of ±1/√K that depends on its words alone (random projection: Achlioptas 2003; the hashing of
features: Weinberger et al. 2009), so it needs no vocabulary, and a name that nobody has seen has a vector of
its own. g are the m character trigrams of a word, by which it is near words of its stem (fastText: Bojanowski
et al. 2017). w is the smooth inverse frequency (Arora et al. 2017) that Zipf's law gives a word's place in
the vocabulary. Words are in lower case. What trained views blur, a classifier can read here.

A key stands for K signs, which SplitMix64 (Steele, Lea & Flood 2014) makes from it, so that none is kept in
memory: number c is ``mix(key + c · golden)``, c from 1, and gives eight bytes, lowest first. Bit j, from the
lowest, of the i-th byte of all is the sign of place j · K / 8 + i, so that one instruction counts the bits of
many places.

Legend of dimension suffixes: B sentences, N tokens or keys, G groups of keys, M places of sums, U distinct
words, K width.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor, nn

from multiview.encoders.registry import Encoder, register_view
from multiview.engines.plan import Plan, plan_words
from multiview.words.table import UNKNOWN_ROW, Vocabulary
from parsing.trees.batch import Batch

WIDTH = 4096
PAIRS = 0.25
"""Weight of a pair of neighbours; a word has at most 1, and its trigrams together as much."""
SMOOTH = 1e-3
"""a of the weight a / (a + p)."""
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31 = (np.uint64(value) for value in (30, 27, 31))
_ONE = np.uint8(1)
_MOST = 255
"""Keys whose signs are counted in bytes before they are added up."""


class WeightlessView(Encoder):
    """A sum over a sentence's words that nothing trains. Its nodes are the words."""

    requires = frozenset({"tokens"})
    weightless = True

    def plan(self, batch: Batch) -> Plan:
        """Reads ``sentence_offsets``."""
        return plan_words(batch)


@register_view("bag")
class BagEncoder(WeightlessView):
    """Mean of the word vectors, of the first view's table where each view has one."""

    @property
    def width(self) -> int:
        """E, the size of word vectors."""
        return self.word_dim

    def states(self, x_UE: Tensor, token_N: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
        """Means [B, E] and the words [N, E]."""
        offsets = plan.to(x_UE.device).tensor("node_offsets")
        mean_BE = nn.functional.embedding_bag(token_N, x_UE, offsets, mode="mean", include_last_offset=True)
        return mean_BE, nn.functional.embedding(token_N, x_UE)


@dataclass(frozen=True, kw_only=True)
class HashPlan(Plan):
    """The vectors, which depend on the words' spelling and so are made with the plan."""

    sentence: NDArray[np.float32]
    """[B, K]."""
    types: list[str]
    """The distinct words."""
    token: NDArray[np.int64]
    """[N], the word of each token."""


@register_view("hash")
class HashEncoder(WeightlessView):
    """Random projection of words, their trigrams and pairs of neighbours."""

    vocabulary: Vocabulary | None = None
    """Whose order says how frequent a word is; without it, every word weighs 1."""

    @property
    def width(self) -> int:
        """K."""
        return WIDTH

    def use_words(self, vocabulary: Vocabulary) -> None:
        """See :meth:`Encoder.use_words`."""
        self.vocabulary = vocabulary

    def plan(self, batch: Batch) -> HashPlan:
        """Reads the words' spelling."""
        if batch.types is None:
            raise ValueError("view hash reads words; the batch holds vocabulary ids")
        base = super().plan(batch)
        offsets, length_B = base.node_offsets, np.diff(base.node_offsets)
        used, token_N = np.unique(batch.token, return_inverse=True)
        types = [batch.types[place] for place in used]
        sentence_N, share_B = np.repeat(np.arange(len(length_B)), length_B), 1 / np.maximum(length_B, 1)
        key_N = word_keys(types)[token_N]
        before_N = np.roll(key_N, 1)
        before_N[offsets[:-1][length_B > 0]] = 0
        pair_N = mixed(before_N * np.uint64(3) + key_N)
        sentence_BK = np.zeros((len(length_B), WIDTH), np.float32)
        every_B = np.arange(len(length_B) + 1)
        add_signs(pair_N, offsets, every_B[:-1], PAIRS * share_B, every_B, sentence_BK)
        by_word = np.argsort(token_N, kind="stable")
        weight_N = (share_B[sentence_N] * self._weights(types)[token_N])[by_word]
        places = np.append(0, np.cumsum(np.bincount(token_N, minlength=len(types))))
        _add_words(types, sentence_N[by_word], weight_N, places, sentence_BK)
        shared = {f.name: getattr(base, f.name) for f in fields(base)}
        return HashPlan(**shared, sentence=sentence_BK, types=types, token=token_N)

    def forward(self, x_UE: Tensor, plan: Plan, token_N: Tensor | None = None) -> Tensor:
        """Sentence vectors [B, K]; the word vectors are not read."""
        return plan.to(x_UE.device).tensor("sentence")

    def states(self, x_UE: Tensor, token_N: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
        """Sentence vectors [B, K] and u of the words [N, K], without their weights."""
        assert isinstance(plan, HashPlan)
        every_U = np.arange(len(plan.types) + 1)
        word_UK = np.zeros((len(plan.types), WIDTH), np.float32)
        _add_words(plan.types, every_U[:-1], np.ones(len(plan.types)), every_U, word_UK)
        return self.forward(x_UE, plan), torch.from_numpy(word_UK[plan.token]).to(x_UE.device)

    def _weights(self, types: list[str]) -> NDArray[np.floating]:
        """The weight w of each word, [U]."""
        if self.vocabulary is None:
            return np.ones(len(types))
        row_U = self.vocabulary.lookup(types).astype(np.float64)
        listed = len(self.vocabulary)
        # Zipf's law: the word of rank r has p = 1 / (r · Σ 1/r'); those without a rank are rarer than all.
        row_U[(row_U == UNKNOWN_ROW) | (row_U > listed)] = listed + 1
        share_U = 1 / (row_U * (np.log(max(listed, 1)) + np.euler_gamma))
        weight_U: NDArray[np.floating] = SMOOTH / (SMOOTH + share_U)
        return weight_U


def _add_words(
    types: list[str],
    row_M: NDArray[np.integer],
    weight_M: NDArray[np.floating],
    places: NDArray[np.integer],
    summed: NDArray[np.float32],
) -> None:
    """Add u of each word to its places, see :func:`add_signs`."""
    add_signs(word_keys(types), np.arange(len(types) + 1), row_M, weight_M, places, summed)
    trigram_G, count_U = trigram_keys(types)
    weight_M = weight_M / np.repeat(np.sqrt(np.maximum(count_U, 1)), np.diff(places))
    add_signs(trigram_G, np.append(0, np.cumsum(count_U)), row_M, weight_M, places, summed)


def trigram_keys(types: list[str]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The keys of trigrams of ``<word>`` in lower case, uint64 [G]; how many each has, int64 [U].

    A word has as many trigrams as characters.
    """
    marked = [f"<{word.lower()}>" for word in types]
    count_U = np.array([len(word) - 2 for word in marked], np.int64)
    # Three code points of 21 bits fit into one number.
    codes = np.frombuffer("".join(marked).encode("utf-32-le", "surrogatepass"), "<u4").astype(np.uint64)
    packed = codes[:-2] << np.uint64(42) | codes[1:-1] << np.uint64(21) | codes[2:]
    begins_G = np.arange(count_U.sum()) + 2 * np.repeat(np.arange(len(types)), count_U)
    return mixed(packed[begins_G]), count_U


def word_keys(types: list[str]) -> NDArray[np.uint64]:
    """The first 64 bits of BLAKE2b of each word in lower case, uint64 [n]; never 0."""
    digests = b"".join(
        hashlib.blake2b(word.lower().encode("utf-8", "surrogatepass"), digest_size=8).digest()
        for word in types
    )
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64) | np.uint64(1)


@njit(cache=True, nogil=True)
def mixed(value):  # type: ignore[no-untyped-def]
    """SplitMix64's finaliser, of a number or an array: every bit of the result hangs on every bit of it."""
    value = (value ^ (value >> _30)) * _FIRST
    value = (value ^ (value >> _27)) * _SECOND
    return value ^ (value >> _31)


def add_signs(
    key_N: NDArray[np.uint64],
    offsets: NDArray[np.integer],
    row_M: NDArray[np.integer],
    weight_M: NDArray[np.floating],
    places: NDArray[np.integer],
    summed: NDArray[np.float32],
) -> None:
    """Add the sum of each group's signs, over the root of K, to its places.

    Args:
        key_N: the keys.
        offsets: [G + 1], where each group of keys begins.
        row_M: row of the result of each place, group by group.
        weight_M: what the group counts there.
        places: [G + 1], where the places of each group begin.
        summed: [rows, K], which the sums are added to; K is a multiple of 64.
    """
    weight_M = (weight_M / summed.shape[1] ** 0.5).astype(np.float32)
    _add_signs(key_N, offsets, row_M, weight_M, places, summed)


@njit(cache=True, nogil=True)
def _add_signs(key_N, offsets, row_M, weight_M, target_offsets, summed):  # type: ignore[no-untyped-def]
    width = summed.shape[1]
    number = np.empty(width // 64, np.uint64)
    byte = number.view(np.uint8)
    count, signs = np.empty(width, np.uint8), np.empty(width, np.float32)
    for group in range(len(offsets) - 1):
        signs[:] = 0
        for start in range(offsets[group], offsets[group + 1], _MOST):
            stop = min(start + _MOST, offsets[group + 1])
            count[:] = 0
            for n in range(start, stop):
                counter = key_N[n]
                for c in range(len(number)):
                    counter += GOLDEN
                    number[c] = mixed(counter)
                for j in range(8):
                    part = count[j * len(byte) : (j + 1) * len(byte)]
                    for i in range(len(byte)):
                        part[i] += (byte[i] >> np.uint8(j)) & _ONE
            keys = np.float32(stop - start)
            for k in range(width):
                signs[k] += np.float32(2) * np.float32(count[k]) - keys
        for m in range(target_offsets[group], target_offsets[group + 1]):
            row, weight = summed[row_M[m]], weight_M[m]
            for k in range(width):
                row[k] += weight * signs[k]
