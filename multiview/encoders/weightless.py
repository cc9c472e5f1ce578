"""The views BAG, the mean of the word vectors, and SPELLING, hashed words and pairs of words.

Neither has weights. The spelling u of a word is the sum of the word's own signs and those of its m trigrams
g, in lower case:

    u(x) = r(x) + 1/√m Σ_g r(g),    spelling(s) = 1/n Σ_t (u(x_t) + ½ r(x_t-1, x_t))

r is a pseudo-random vector of ±1/√K that its argument decides (Achlioptas 2003, Weinberger et al. 2009), so
no vocabulary is needed. Words of one stem are similar because they share trigrams (fastText: Bojanowski et
al. 2017).

SplitMix64 (Steele, Lea & Flood 2014) makes the K signs of r from a key, a hash of the argument, whenever they
are needed. Its number c, counted from 1, is ``mix(key + c · golden)``, which is read as eight bytes, lowest
first. Bit j of byte i, counted from the lowest, gives the sign at position j · K / 8 + i, so that one
instruction of the processor counts the bits of many positions.

Legend of dimension suffixes: B sentences, N tokens or keys, G trigrams, U distinct words, K width.
"""

from __future__ import annotations

import codecs
import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import embedding, embedding_bag

from corpora.characters import normalise_text
from multiview.encoders.registry import ViewEncoder, register_view
from multiview.engines.plan import Plan, plan_words
from parsing.trees.batch import Batch
from runtime.compiled import compiled, compiled_part

WIDTH = 832
"""K of the view SPELLING."""
PAIR_WEIGHT = 0.5
"""The weight of a pair of neighbouring words."""
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FACTOR_1, _FACTOR_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
UTF_32 = codecs.lookup("utf-32-le")  # here, because the first call would import it
_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)
_ONE = np.uint8(1)
_MAX_KEYS = 255
"""The number of keys whose signs are counted in bytes before the counts are added up."""


class WeightlessView(ViewEncoder):
    """A view without weights, whose nodes are the words of a sentence."""

    requires = frozenset({"tokens"})
    weightless = True

    def plan(self, batch: Batch) -> Plan:
        """Return a plan that has only the ranges of the sentences."""
        return plan_words(batch)


@register_view("bag")
class BagEncoder(WeightlessView):
    """The view BAG: the mean of the word vectors, of the first view's table if each view has its own."""

    @property
    def width(self) -> int:
        """E, the size of word vectors."""
        return self.word_dim

    def states(self, x_UE: Tensor, token_N: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
        """Return the means, [B, E], and the word vectors, [N, E]."""
        offsets = plan.to(x_UE.device).tensor("node_offsets")
        mean_BE = embedding_bag(token_N, x_UE, offsets, mode="mean", include_last_offset=True)
        return mean_BE, embedding(token_N, x_UE)


@dataclass(frozen=True, kw_only=True)
class SpellingPlan(Plan):
    """The plan of SPELLING, with the spelling of the words."""

    pairs: NDArray[np.float32]  # [B, K], the sum over the pairs of neighbouring words of each sentence
    spelling: NDArray[np.float32]  # [U, K], u of the distinct words
    word: NDArray[np.int64]  # [N], each token's index among the distinct words


@register_view("spelling")
class SpellingEncoder(WeightlessView):
    """The view SPELLING: the mean over words and pairs of words; the word vectors are not read."""

    width = WIDTH

    def plan(self, batch: Batch) -> SpellingPlan:
        """Return the plan with the spellings of words and pairs of words."""
        base = super().plan(batch)
        words, word_N = batch.distinct_words()
        types = list(map(normalise_text, words))
        length_B = np.diff(base.node_offsets)
        key_N = word_keys(types)[word_N]
        previous_key_N = np.roll(key_N, 1)
        previous_key_N[base.node_offsets[:-1][length_B > 0]] = 0  # there is no word before the first one
        pair_key_N = mix_bits(previous_key_N * np.uint64(3) + key_N)
        weight_B = (PAIR_WEIGHT / (np.maximum(length_B, 1) * WIDTH**0.5)).astype(np.float32)
        pairs_BK = np.zeros((len(length_B), WIDTH), np.float32)
        _add_signs(pair_key_N, base.node_offsets, weight_B, pairs_BK)
        return SpellingPlan(**vars(base), pairs=pairs_BK, spelling=spellings(types, WIDTH), word=word_N)

    def states(self, x_UE: Tensor, token_N: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
        """Return the vectors of sentences, [B, K], and the spellings of words, [N, K]."""
        plan = plan.to(x_UE.device)
        word_N, spelling_UK, offsets = (plan.tensor(name) for name in ("word", "spelling", "node_offsets"))
        mean_BK = embedding_bag(word_N, spelling_UK, offsets, mode="mean", include_last_offset=True)
        return mean_BK + plan.tensor("pairs"), embedding(word_N, spelling_UK)


def spellings(types: list[str], width: int) -> NDArray[np.float32]:
    """Return u of each word, [U, K] of a length near √2; K is a multiple of 64."""
    spelling_UK = sign_vectors(types, width)
    trigram_key_G, count_U = trigram_keys(types)
    weight_U = (1 / np.sqrt(np.maximum(count_U, 1) * width)).astype(np.float32)
    _add_signs(trigram_key_G, np.append(0, np.cumsum(count_U)), weight_U, spelling_UK)
    return spelling_UK


def sign_vectors(names: list[str], width: int) -> NDArray[np.float32]:
    """Return r of each name, [n, K] of length 1; K is a multiple of 64."""
    vectors = np.zeros((len(names), width), np.float32)
    weight_n = np.full(len(names), width**-0.5, np.float32)
    _add_signs(word_keys(names), np.arange(len(names) + 1), weight_n, vectors)
    return vectors


def trigram_keys(types: list[str]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the keys of the trigrams of ``<word>`` in lower case, uint64 [G], and their number, int64 [U].

    A word has as many trigrams as characters.
    """
    padded_words = [f"<{word.lower()}>" for word in types]
    count_U = np.array([len(word) - 2 for word in padded_words], np.int64)
    text, _ = UTF_32.encode("".join(padded_words), "surrogatepass")
    code_points = np.frombuffer(text, "<u4").astype(np.uint64)
    # Three code points of 21 bits fit into one number.
    trigrams = code_points[:-2] << np.uint64(42) | code_points[1:-1] << np.uint64(21) | code_points[2:]
    # Two of the positions where a word's trigrams could begin reach into the next word.
    begin_G = np.arange(count_U.sum()) + 2 * np.repeat(np.arange(len(types)), count_U)
    return mix_bits(trigrams[begin_G]), count_U


def word_keys(types: list[str]) -> NDArray[np.uint64]:
    """Return the first 64 bits of BLAKE2b of each word in lower case, uint64 [n]; never 0."""
    digests = b"".join(
        hashlib.blake2b(word.lower().encode("utf-8", "surrogatepass"), digest_size=8).digest()
        for word in types
    )
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64) | np.uint64(1)


@compiled_part
def mix_bits(value: Any) -> Any:
    """Return SplitMix64's finaliser of a number or an array: each bit of the result depends on all bits."""
    value = (value ^ (value >> _30)) * _FACTOR_1
    value = (value ^ (value >> _27)) * _FACTOR_2
    return value ^ (value >> _31)


@compiled
def _add_signs(key_N, offsets, weight_U, sums):  # type: ignore[no-untyped-def]
    """Add the weighted signs of the keys ``offsets[row]`` to ``offsets[row + 1]`` to each row of ``sums``."""
    width = sums.shape[1]
    number, count = np.empty(width // 64, np.uint64), np.empty(width, np.uint8)
    byte, signs = number.view(np.uint8), np.empty(width, np.float32)
    for word in range(len(offsets) - 1):
        signs[:] = 0
        for first in range(offsets[word], offsets[word + 1], _MAX_KEYS):
            stop = min(first + _MAX_KEYS, offsets[word + 1])
            count[:] = 0
            for n in range(first, stop):
                counter = key_N[n]
                for c in range(len(number)):
                    counter += GOLDEN
                    number[c] = mix_bits(counter)
                for j in range(8):
                    part = count[j * len(byte) : (j + 1) * len(byte)]
                    for i in range(len(byte)):
                        part[i] += (byte[i] >> np.uint8(j)) & _ONE
            keys = np.float32(stop - first)
            for k in range(width):
                signs[k] += np.float32(2) * np.float32(count[k]) - keys
        row, weight = sums[word], weight_U[word]
        for k in range(width):
            row[k] += weight * signs[k]
