"""SEQ: bidirectional GRU, D/2 in each direction; the sentence is the last state of both."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from corpora.support.errors import UserError
from multiview.encoders.registry import Encoder, register_view, xavier_blocks_
from multiview.engines.plan import IntArray, Plan, SequencePlan, plan_sequence
from parsing.networks.device import Products
from parsing.trees.batch import Batch


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

    def plan(self, batch: Batch) -> SequencePlan:
        """Reads ``sentence_offsets``."""
        return plan_sequence(batch)

    def states(self, x_UE: Tensor, token_N: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
        """Sentence vectors [B, D] and both directions' states at each word [T, D] in packed order."""
        assert isinstance(plan, SequencePlan)
        if not plan.sentences:
            return x_UE.new_empty(0, self.dim), x_UE.new_empty(0, self.dim)
        plan = plan.to(x_UE.device)
        back_B = plan.tensor("unsorted_sentences")
        # The inputs are most of the work, and torch's GRU computes them for every token. With a loop over
        # positions they are computed once a word: twice as fast on a CPU, where a position takes no longer to
        # launch than to compute. Training keeps torch's fused backward pass.
        compiled = x_UE.device.type == "cpu" and x_UE.dtype in (torch.float32, torch.float64)
        if compiled and not torch.is_grad_enabled():
            token_T = token_N[plan.tensor("packed")]
            ahead, back = (self._run(x_UE, token_T, plan.batch_sizes, suffix) for suffix in ("", "_reverse"))
            last_BD = torch.cat([ahead[0], back[0]], dim=1).index_select(0, back_B)
            return last_BD, torch.cat([ahead[1], back[1]], dim=1)
        packed = PackedSequence(
            nn.functional.embedding(token_N, x_UE).index_select(0, plan.tensor("packed")),
            torch.from_numpy(plan.batch_sizes),
            plan.tensor("sorted_sentences"),
            back_B,
        )
        words, last = self.gru(packed)
        return last.transpose(0, 1).flatten(1), words.data

    def _run(
        self, x_UE: Tensor, token_T: Tensor, batch_sizes: IntArray, suffix: str
    ) -> tuple[Tensor, Tensor]:
        """Last states [B, D/2] and all states [T, D/2] of a direction, in packed order."""
        from multiview.engines.kernels_numba import array, gru_forward  # numba takes time to import

        weights = (
            getattr(self.gru, f"{name}_l0{suffix}")
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        input_weight, hidden_weight, input_bias, hidden_bias = weights
        products, half = Products.of(x_UE), self.dim // 2
        gates_UG = products.new_mm(x_UE, input_weight.t()).add_(input_bias)
        state_BH = x_UE.new_zeros(int(batch_sizes[0]), half)
        states_TH = x_UE.new_empty(len(token_T), half)
        hidden_BG = x_UE.new_empty(len(state_BH), 3 * half)
        arrays = map(array, (gates_UG, token_T, hidden_BG, hidden_bias, state_BH, states_TH))
        gates, token, hidden, bias, state, states = arrays
        ends = np.cumsum(batch_sizes).tolist()
        steps = list(zip(ends, batch_sizes.tolist(), strict=True))
        for end, active in reversed(steps) if suffix else steps:
            products.mm(state_BH[:active], hidden_weight.t(), hidden_BG[:active])
            gru_forward(gates, token, hidden, bias, state, states, end - active, end)
        return state_BH, states_TH
