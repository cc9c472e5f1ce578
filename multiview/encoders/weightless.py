"""Views that have no weights: they are added to a finished model."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from multiview.encoders.registry import Encoder, all_tokens
from multiview.engines.plan import Plan, TreeBatch


class WeightlessView(Encoder):
    """A sum over a sentence's words that nothing trains. Its nodes are the words; it is not pooled."""

    requires = frozenset({"tokens"})
    weightless = True

    def plan(self, batch: TreeBatch) -> Plan:
        """Reads ``sentence_offsets``."""
        offsets = np.array(batch.sentence_offsets, dtype=np.int64)
        return Plan(
            sentences=len(offsets) - 1,
            node_offsets=offsets,
            node_slot=np.arange(offsets[-1]),
            node_height=np.zeros(offsets[-1], dtype=np.int32),
        )

    def forward(self, x_UE: Tensor, plan: Plan, token_N: Tensor | None = None) -> Tensor:
        """See :meth:`Encoder.forward`."""
        return self.word_states(x_UE, all_tokens(x_UE) if token_N is None else token_N, plan)[0]

    def states(self, x_NE: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
        """See :meth:`word_states`; of word vectors [N, E], one for each token."""
        return self.word_states(x_NE, all_tokens(x_NE), plan)
