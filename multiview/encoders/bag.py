"""Views that have no weights, which are added to a finished model; BAG is the mean of the word vectors."""

from __future__ import annotations

from torch import Tensor, nn

from multiview.config import Pooling
from multiview.encoders.registry import Encoder, register_view
from multiview.engines.plan import Plan, TreeBatch, plan_words


class WeightlessView(Encoder):
    """A sum over a sentence's words that nothing trains. Its nodes are the words."""

    requires = frozenset({"tokens"})
    weightless = True

    def plan(self, batch: TreeBatch) -> Plan:
        """Reads ``sentence_offsets``."""
        return plan_words(batch)


@register_view("bag")
class BagEncoder(WeightlessView):
    """Mean of the word vectors, of the first view's table where each view has one."""

    @classmethod
    def width_for(cls, word_dim: int, hidden: int, pooling: Pooling) -> int:
        """E, the size of word vectors."""
        return word_dim

    def states(self, x_UE: Tensor, token_N: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
        """Means [B, E] and the words [N, E]."""
        offsets = plan.to(x_UE.device).tensor("node_offsets")
        mean_BE = nn.functional.embedding_bag(token_N, x_UE, offsets, mode="mean", include_last_offset=True)
        return mean_BE, nn.functional.embedding(token_N, x_UE)
