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


@dataclass(frozen=True, kw_only=True)
class HashPlan(Plan):
    """The vectors, which depend on the words' spelling and so are made with the plan."""

    sentence: NDArray[np.float32]
    """[B, K]."""
    key: NDArray[np.int64]
    """[N], the bits of each token's word."""


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
        from multiview.engines.signs import mixed, signed_sums  # numba takes time to import

        base = super().plan(batch)
        used, index_N = np.unique(batch.token, return_inverse=True)
        types = [batch.types[place] for place in used]
        key_N = word_keys(types)[index_N]
        before_N = np.roll(key_N, 1)
        before_N[base.node_offsets[:-1][np.diff(base.node_offsets) > 0]] = 0
        pair_N = mixed(before_N * np.uint64(3) + key_N)
        weight_N = self._weights(types)[index_N]
        summed_BK = signed_sums(key_N, weight_N, base.node_offsets, WIDTH)
        summed_BK += signed_sums(pair_N, np.full_like(weight_N, PAIRS), base.node_offsets, WIDTH)
        length_B1 = np.maximum(np.diff(base.node_offsets), 1)[:, None].astype(np.float32)
        return HashPlan(
            sentences=base.sentences,
            node_offsets=base.node_offsets,
            node_slot=base.node_slot,
            node_height=base.node_height,
            sentence=summed_BK / length_B1,
            key=key_N.view(np.int64),
        )

    def forward(self, x_UE: Tensor, plan: Plan, token_N: Tensor | None = None) -> Tensor:
        """Sentence vectors [B, K]; the word vectors are not read."""
        return plan.to(x_UE.device).tensor("sentence")

    def word_states(self, x_UE: Tensor, token_N: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
        """Sentence vectors [B, K] and those of the words [N, K], without their weights."""
        from multiview.engines.signs import signed_sums

        assert isinstance(plan, HashPlan)
        count = len(plan.key)
        word_NK = signed_sums(
            plan.key.view(np.uint64), np.ones(count, np.float32), np.arange(count + 1), WIDTH
        )
        sentence_BK = plan.to(x_UE.device).tensor("sentence")
        return sentence_BK, torch.from_numpy(word_NK).to(x_UE.device)

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
