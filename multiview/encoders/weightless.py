"""BAG, the mean of the word vectors, and SPELLING, words and pairs of neighbours by how they are written.

Nothing trains them. A word's spelling is the sum of its own signs and those of its m trigrams g, in lower
case:

    u(x) = r(x) + 1/√m Σ_g r(g),    spelling(s) = 1/n Σ_t (u(x_t) + ½ r(x_t-1, x_t))

r is a vector of ±1/√K that depends on its words alone (Achlioptas 2003, Weinberger et al. 2009), so it needs
no vocabulary; trigrams bring words of one stem near each other (fastText: Bojanowski et al. 2017).

A key stands for K signs, which SplitMix64 (Steele, Lea & Flood 2014) makes from it, so that none is kept in
memory: number c is ``mix(key + c · golden)``, c from 1, and gives eight bytes, lowest first. Bit j, from the
lowest, of the i-th byte of all is the sign of place j · K / 8 + i, so that one instruction counts the bits of
many places.

Legend of dimension suffixes: B sentences, N tokens or keys, G trigrams, U distinct words, K width.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import embedding, embedding_bag

from corpora.characters import plain
from multiview.encoders.registry import ViewEncoder, register_view
from multiview.engines.plan import Plan, plan_words
from parsing.trees.batch import Batch
from runtime.compiled import compiled, compiled_part

WIDTH = 832
"""K of the view SPELLING."""
PAIRS = 0.5
"""Weight of a pair of neighbours."""
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31 = (np.uint64(value) for value in (30, 27, 31))
_ONE = np.uint8(1)
_MOST = 255
"""Keys whose signs are counted in bytes before they are added up."""


class WeightlessView(ViewEncoder):
    """A sum over a sentence's words that nothing trains. Its nodes are the words."""

    requires = frozenset({"tokens"})
    weightless = True

    def plan(self, batch: Batch) -> Plan:
        """Make the plan of words, by ``sentence_offsets``."""
        return plan_words(batch)

    def types(self, batch: Batch) -> tuple[list[str], NDArray[np.int64], NDArray[np.int64]]:
        """List the U distinct words in plain characters, a token of each [U], each token's word [N]."""
        assert batch.types is not None
        used, first_U, word_N = np.unique(batch.token, return_index=True, return_inverse=True)
        return [plain(batch.types[place]) for place in used], first_U, word_N


@register_view("bag")
class BagEncoder(WeightlessView):
    """Mean of the word vectors, of the first view's table where each view has one."""

    @property
    def width(self) -> int:
        """Gives E, the size of word vectors."""
        return self.word_dim

    def states(self, x_UE: Tensor, token_N: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
        """Return the means [B, E] and the words [N, E]."""
        offsets = plan.to(x_UE.device).tensor("node_offsets")
        return _means(token_N, x_UE, offsets), embedding(token_N, x_UE)


def _means(token_N: Tensor, x_UE: Tensor, offsets: Tensor) -> Tensor:
    return embedding_bag(token_N, x_UE, offsets, mode="mean", include_last_offset=True)


@dataclass(frozen=True, kw_only=True)
class SpellingPlan(Plan):
    """Says how the words are written."""

    pairs: NDArray[np.float32]
    """[B, K], what pairs of neighbours add to each sentence."""
    spelling: NDArray[np.float32]
    """[U, K], of the distinct words."""
    word: NDArray[np.int64]
    """[N], each token's word."""


@register_view("spelling")
class SpellingEncoder(WeightlessView):
    """Mean of the words' spellings and of their pairs; the word vectors are not read."""

    @property
    def width(self) -> int:
        """Gives K, the numbers of a sentence vector."""
        return WIDTH

    def plan(self, batch: Batch) -> SpellingPlan:
        """Look at how the words and their pairs are spelt."""
        base, (types, _, word_N) = super().plan(batch), self.types(batch)
        length_B = np.diff(base.node_offsets)
        key_N = word_keys(types)[word_N]
        before_N = np.roll(key_N, 1)
        before_N[base.node_offsets[:-1][length_B > 0]] = 0
        weight_B = (PAIRS / (np.maximum(length_B, 1) * WIDTH**0.5)).astype(np.float32)
        pairs_BK = np.zeros((len(length_B), WIDTH), np.float32)
        _add_signs(mixed(before_N * np.uint64(3) + key_N), base.node_offsets, weight_B, pairs_BK)
        shared = {field.name: getattr(base, field.name) for field in fields(base)}
        return SpellingPlan(**shared, pairs=pairs_BK, spelling=spellings(types, WIDTH), word=word_N)

    def states(self, x_UE: Tensor, token_N: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
        """Return the sentence vectors [B, K] and the words' spellings [N, K]."""
        placed = plan.to(x_UE.device)
        word_N, word_UK = placed.tensor("word"), placed.tensor("spelling")
        mean_BK = _means(word_N, word_UK, placed.tensor("node_offsets"))
        return mean_BK + placed.tensor("pairs"), embedding(word_N, word_UK)


def spellings(types: list[str], width: int) -> NDArray[np.float32]:
    """Compute u of each word: [U, K], K a multiple of 64; its length is near √2."""
    word_UK = signs_of(types, width)
    trigram_G, count_U = trigram_keys(types)
    weight_U = (1 / np.sqrt(np.maximum(count_U, 1) * width)).astype(np.float32)
    _add_signs(trigram_G, np.append(0, np.cumsum(count_U)), weight_U, word_UK)
    return word_UK


def signs_of(names: list[str], width: int) -> NDArray[np.float32]:
    """Return each name's own signs at length 1: [n, K], K a multiple of 64."""
    signs = np.zeros((len(names), width), np.float32)
    each = np.full(len(names), width**-0.5, np.float32)
    _add_signs(word_keys(names), np.arange(len(names) + 1), each, signs)
    return signs


def trigram_keys(types: list[str]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the keys of trigrams of ``<word>`` in lower case, uint64 [G]; how many each has, int64 [U].

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
    """Return the first 64 bits of BLAKE2b of each word in lower case, uint64 [n]; never 0."""
    digests = b"".join(
        hashlib.blake2b(word.lower().encode("utf-8", "surrogatepass"), digest_size=8).digest()
        for word in types
    )
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64) | np.uint64(1)


@compiled_part
def mixed(value: Any) -> Any:
    """Apply SplitMix64's finaliser to a number or an array: every bit hangs on every bit of that."""
    value = (value ^ (value >> _30)) * _FIRST
    value = (value ^ (value >> _27)) * _SECOND
    return value ^ (value >> _31)


@compiled
def _add_signs(key_N, offsets, weight_U, summed):  # type: ignore[no-untyped-def]
    """Add the sum of each word's signs times its weight to its row; ``offsets`` [U + 1] into the keys."""
    width = summed.shape[1]
    number, count = np.empty(width // 64, np.uint64), np.empty(width, np.uint8)
    byte, signs = number.view(np.uint8), np.empty(width, np.float32)
    for word in range(len(offsets) - 1):
        signs[:] = 0
        for start in range(offsets[word], offsets[word + 1], _MOST):
            stop = min(start + _MOST, offsets[word + 1])
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
        row, weight = summed[word], weight_U[word]
        for k in range(width):
            row[k] += weight * signs[k]
