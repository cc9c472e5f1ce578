"""SEQ: bidirectional GRU, D/2 in each direction; the sentence is the last state of both."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from corpora.support.errors import UserError
from multiview.encoders.init import xavier_blocks_
from multiview.encoders.registry import Encoder, register_view
from multiview.engines.plan import Plan, SequencePlan, TreeBatch, plan_sequence


@register_view("seq")
class SeqEncoder(Encoder):
    """Bidirectional GRU on packed input; it ignores ``engine`` and ``forget_bias``."""

    requires = frozenset({"tokens"})

    def __init__(
        self, word_dim: int, hidden: int, engine: str = "native", *, forget_bias: float = 0.0
    ) -> None:
        super().__init__(word_dim, hidden, engine, forget_bias=forget_bias)
        if hidden % 2:
            raise UserError(
                f"hidden {hidden}: view seq has two directions of half the width, give an even number"
            )
        self.gru = nn.GRU(word_dim, hidden // 2, bidirectional=True)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier for each gate matrix, biases 0."""
        for parameter in self.gru.parameters():
            if parameter.dim() == 2:
                xavier_blocks_(parameter, self.dim // 2, parameter.shape[1])
            else:
                nn.init.zeros_(parameter)

    def plan(self, batch: TreeBatch) -> SequencePlan:
        """Reads ``sentence_offsets``."""
        return plan_sequence(batch)

    def states(self, x_NE: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
        """Sentence vectors [B, D] and both directions' states at each word [T, D] in packed order."""
        assert isinstance(plan, SequencePlan)
        if not plan.sentences:
            return x_NE.new_empty(0, self.dim), x_NE.new_empty(0, self.dim)
        plan = plan.to(x_NE.device)
        packed = PackedSequence(
            x_NE.index_select(0, plan.tensor("packed")),
            torch.from_numpy(plan.batch_sizes),
            plan.tensor("sorted_sentences"),
            plan.tensor("unsorted_sentences"),
        )
        words, last = self.gru(packed)
        return last.transpose(0, 1).flatten(1), words.data
