"""HASH: which words and which pairs of neighbours a sentence has, projected at random.

    v(s) = 1/n (Σ_t w(x_t) r(x_t) + ½ Σ_t r(x_t-1, x_t))

r is a vector of ±1/√K that depends on its words alone (random projection: Achlioptas 2003; the hashing of
features: Weinberger et al. 2009), so it needs no vocabulary, and a name that nobody has seen has a vector of
its own. w is the root of the smooth inverse frequency (Arora et al. 2017) that Zipf's law gives a word's
place in the vocabulary. Words are in lower case. What trained views blur, a classifier can read here.

Legend of dimension suffixes: B sentences, N tokens, K width, n distinct words or pairs.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from multiview.config import Pooling
from multiview.encoders.registry import register_view
from multiview.encoders.weightless import WeightlessView
from multiview.engines.plan import Plan, TreeBatch
from multiview.words.vocabulary import UNKNOWN_ROW, Vocabulary
from parsing.cache.format import Batch

WIDTH = 4096
PAIRS = 0.5
"""Weight of a pair of neighbours; a word has at most 1."""
SMOOTH = 1e-3
"""a of the weight a / (a + p)."""
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, kw_only=True)
class HashPlan(Plan):
    """The vectors, which depend on the words' spelling and so are made with the plan."""

    sentence: NDArray[np.float32]
    """[B, K]."""
    word: NDArray[np.float32]
    """[U, K], of each distinct word by itself."""
    word_index: NDArray[np.int64]
    """[N], each token's word."""


@register_view("hash")
class HashEncoder(WeightlessView):
    """Random projection of words and word pairs."""

    vocabulary: Vocabulary | None = None
    """Whose order says how frequent a word is; without it, every word weighs 1."""

    @classmethod
    def width_for(cls, word_dim: int, hidden: int, pooling: Pooling) -> int:
        """K."""
        return WIDTH

    def use_words(self, vocabulary: Vocabulary) -> None:
        """See :meth:`Encoder.use_words`."""
        self.vocabulary = vocabulary

    def plan(self, batch: TreeBatch) -> HashPlan:
        """Reads the words' spelling."""
        if not isinstance(batch, Batch) or batch.types is None:
            raise ValueError("view hash reads words; the batch holds vocabulary ids")
        base = super().plan(batch)
        used, index_N = np.unique(batch.token, return_inverse=True)
        types = [batch.types[place] for place in used]
        key_U = word_keys(types)
        word_UK = projected(key_U)
        before_N = np.roll(key_U[index_N], 1)
        before_N[base.node_offsets[:-1][np.diff(base.node_offsets) > 0]] = 0
        pair_NK = projected(_mixed(before_N * np.uint64(3) + key_U[index_N]))
        weight_N = torch.from_numpy(self._weights(types)[index_N])
        offsets = torch.from_numpy(base.node_offsets)
        summed_BK = _summed(word_UK, torch.from_numpy(index_N), offsets, weight_N)
        summed_BK += _summed(pair_NK, torch.arange(len(pair_NK)), offsets, torch.full_like(weight_N, PAIRS))
        length_B1 = torch.diff(offsets).clamp(min=1)[:, None]
        return HashPlan(
            sentences=base.sentences,
            node_offsets=base.node_offsets,
            node_slot=base.node_slot,
            node_height=base.node_height,
            sentence=(summed_BK / length_B1).numpy(),
            word=word_UK,
            word_index=index_N,
        )

    def forward(self, x_UE: Tensor, plan: Plan, token_N: Tensor | None = None) -> Tensor:
        """Sentence vectors [B, K]; the word vectors are not read."""
        return plan.to(x_UE.device).tensor("sentence")

    def word_states(self, x_UE: Tensor, token_N: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
        """Sentence vectors [B, K] and those of the words [N, K], without their weights."""
        plan = plan.to(x_UE.device)
        return plan.tensor("sentence"), plan.tensor("word")[plan.tensor("word_index")]

    def _weights(self, types: list[str]) -> NDArray[np.float32]:
        """The weight w of each word, float32 [U]."""
        if self.vocabulary is None:
            return np.ones(len(types), np.float32)
        row_U = self.vocabulary.lookup(types).astype(np.float64)
        listed = len(self.vocabulary)
        # Zipf's law: the word of rank r has p = 1 / (r · Σ 1/r'); those without a rank are rarer than all.
        row_U[(row_U == UNKNOWN_ROW) | (row_U > listed)] = listed + 1
        share_U = 1 / (row_U * (np.log(max(listed, 1)) + np.euler_gamma))
        weight_U: NDArray[np.float32] = np.sqrt(SMOOTH / (SMOOTH + share_U)).astype(np.float32)
        return weight_U


def word_keys(types: list[str]) -> NDArray[np.uint64]:
    """The first 64 bits of BLAKE2b of each word in lower case, uint64 [n]; never 0."""
    digests = b"".join(
        hashlib.blake2b(word.lower().encode("utf-8", "surrogatepass"), digest_size=8).digest()
        for word in types
    )
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64) | np.uint64(1)


def projected(key_n: NDArray[np.uint64]) -> NDArray[np.float32]:
    """±1/√K by the bits of a counter-based generator (SplitMix64, Steele et al. 2014), float32 [n, K]."""
    counter = np.arange(1, WIDTH // 64 + 1, dtype=np.uint64) * _GOLDEN
    bits = _mixed(key_n[:, None] + counter).astype("<u8").view(np.uint8)
    values: NDArray[np.float32] = np.unpackbits(bits, axis=1).astype(np.float32)
    values *= np.float32(2 / WIDTH**0.5)
    values -= np.float32(1 / WIDTH**0.5)
    return values


def _mixed(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's finaliser: every bit of the result depends on every bit of the value."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def _summed(rows: NDArray[np.float32], index_N: Tensor, offsets: Tensor, weight_N: Tensor) -> Tensor:
    """Weighted sums of rows by sentence, [B, K]."""
    return torch.nn.functional.embedding_bag(
        index_N, torch.from_numpy(rows), offsets, mode="sum",
        per_sample_weights=weight_N, include_last_offset=True,
    )  # fmt: skip
