"""BAG: the mean of the word vectors, the baseline that every other view has to beat."""

from __future__ import annotations

from torch import Tensor, nn

from multiview.config import Pooling
from multiview.encoders.registry import register_view
from multiview.encoders.weightless import WeightlessView
from multiview.engines.plan import Plan


@register_view("bag")
class BagEncoder(WeightlessView):
    """Mean of the word vectors, of the first view's table where each view has one."""

    @classmethod
    def width_for(cls, word_dim: int, hidden: int, pooling: Pooling) -> int:
        """E, the size of word vectors."""
        return word_dim

    def word_states(self, x_UE: Tensor, token_N: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
        """Means [B, E] and the words [N, E]."""
        offsets = plan.to(x_UE.device).tensor("node_offsets")
        mean_BE = nn.functional.embedding_bag(token_N, x_UE, offsets, mode="mean", include_last_offset=True)
        return mean_BE, nn.functional.embedding(token_N, x_UE)
