"""The reference engine: a batch is one DGL graph whose states pass along the edges, children first.

On CUDA it is experimental: never run on a GPU.

The cells are DGL message, reduce and apply functions that read like the equations in
``multiview.encoders.recurrent``. ``engine="dgl"`` selects it; the parameters are
the encoders' own.

Shapes: N nodes, E edges, n nodes of one frontier with k children each, D hidden, V word vector.
"""

from __future__ import annotations

import sys
import types
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from multiview.engines.plan import NORM_FLOOR, IntArray, Plan, TreePlan
from runtime.errors import MissingExtraError


def load_dgl() -> Any:
    """Return the dgl module.

    Its last release imports ``packaging`` from setuptools, which no longer has a copy of it; so the real one
    is put in that place first. A MissingExtraError says that dgl is not installed.
    """
    import packaging
    import packaging.version

    extern = types.ModuleType("setuptools.extern")
    extern.packaging = packaging  # type: ignore[attr-defined]
    sys.modules.setdefault("setuptools.extern", extern)
    sys.modules.setdefault("setuptools.extern.packaging", packaging)
    try:
        import dgl
    except ImportError as error:
        raise MissingExtraError("dgl", "dgl") from error
    return dgl


@dataclass(frozen=True, kw_only=True)
class GraphPlan(Plan):
    """The graph of a batch's trees, whose nodes are the slots, and its topological frontiers."""

    word: IntArray
    """int64 [N], node of each word; in constituency trees those of internal nodes follow."""
    graph: Any
    frontiers: Any
    role: IntArray | None = None
    """int64 [N], as in ``TreePlan``."""

    @classmethod
    def of(cls, plan: TreePlan) -> GraphPlan:
        """Make the graph of a native plan: children come in order, as mailboxes follow the order of edges."""
        dgl = load_dgl()
        parent = torch.from_numpy(np.repeat(plan.slot[plan.leaves :], np.diff(plan.child_offsets)))
        graph = dgl.graph((torch.arange(len(parent)), parent), num_nodes=len(plan.slot))
        frontiers = list(dgl.topological_nodes_generator(graph)) if plan.sentences else []
        word = np.empty_like(plan.slot)
        word[plan.order] = plan.slot
        same = {name: getattr(plan, name) for name in ("sentences", "node_offsets", "node_slot")}
        return cls(word=word, graph=graph, frontiers=frontiers, **same)

    def to(self, device: torch.device | str) -> Self:
        """Return the index arrays, the graph and its frontiers on ``device``."""
        plan = super().to(device)
        if plan is self:
            return self
        frontiers = [nodes.to(device) for nodes in self.frontiers]
        return replace(plan, graph=self.graph.to(device), frontiers=frontiers)


def const_states(
    x: Tensor, plan: GraphPlan, input_weight: Tensor, recurrent_weight: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the roots [B, D] and all states [N, D] in slot order of CONST; arguments as ``ConstSweep``."""
    hidden = recurrent_weight.shape[1] // 2
    b_iou, b_f = bias.split([3 * hidden, hidden])

    def gather(nodes: Any) -> dict[str, Tensor]:
        """Compute pre-activations of i, o, u from [h_l; h_r], and f_l∘c_l + f_r∘c_r."""
        iou, forget = F.linear(nodes.mailbox["h"].flatten(1), recurrent_weight).split(
            [3 * hidden, 2 * hidden], 1
        )
        f = torch.sigmoid(forget.unflatten(1, (2, hidden)) + b_f)
        return {"iou": iou, "kept": (f * nodes.mailbox["c"]).sum(1)}

    return _propagate(plan, {"iou": F.linear(x, input_weight)}, gather, b_iou)


def dep_states(
    x: Tensor,
    plan: GraphPlan,
    input_weight: Tensor,
    parent_weight: Tensor,
    child_weight: Tensor,
    recurrent_weight: Tensor,
    bias: Tensor,
    role_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the roots [B, D] and all states [N, D] in slot order of DEP; arguments as ``DepSweep``."""
    hidden = recurrent_weight.shape[1]
    b_iou, b_q, b_f, b_p = bias.split([3 * hidden, hidden, hidden, hidden])
    w_q, w_f = parent_weight.split(hidden)
    w_p, u_f = child_weight.split(hidden)

    def gather(nodes: Any) -> dict[str, Tensor]:
        """Compute h̃ = Σ α_k h_k, which enters i, o, u, and a forget gate for every child."""
        h, c = nodes.mailbox["h"], nodes.mailbox["c"]
        p, forget = F.linear(h, w_p, b_p), F.linear(h, u_f)
        if role_bias is not None:
            of_p, of_f = nodes.mailbox["role"].chunk(2, 2)
            p, forget = p + of_p, forget + of_f
        q = nodes.data["q"].unsqueeze(1)
        norms = q.norm(dim=2).clamp_min(NORM_FLOOR) * p.norm(dim=2).clamp_min(NORM_FLOOR)
        alpha = torch.softmax((q * p).sum(2) / norms, dim=1)
        mixed = (alpha.unsqueeze(2) * h).sum(1)
        f = torch.sigmoid(nodes.data["wf"].unsqueeze(1) + forget)
        return {"iou": nodes.data["iou"] + F.linear(mixed, recurrent_weight), "kept": (f * c).sum(1)}

    data = {"iou": F.linear(x, input_weight), "q": F.linear(x, w_q, b_q), "wf": F.linear(x, w_f, b_f)}
    if role_bias is not None:
        data["role"] = F.embedding(plan.tensor("role")[plan.tensor("word")], role_bias)
    return _propagate(plan, data, gather, b_iou)


def _propagate(plan: GraphPlan, data: dict[str, Tensor], gather: Any, b_iou: Tensor) -> tuple[Tensor, Tensor]:
    """Send messages from the leaves up, by frontier; c = i∘u + kept, h = o∘tanh(c) at every node."""
    hidden = len(b_iou) // 3
    if not plan.sentences:
        return b_iou.new_empty(0, hidden), b_iou.new_empty(0, hidden)
    dgl = load_dgl()

    def update(nodes: Any) -> dict[str, Tensor]:
        i, o, u = (nodes.data["iou"] + b_iou).chunk(3, 1)
        c = torch.sigmoid(i) * torch.tanh(u) + nodes.data["kept"]
        return {"h": torch.sigmoid(o) * torch.tanh(c), "c": c}

    def send(edges: Any) -> dict[str, Tensor]:
        return {name: edges.src[name] for name in ("h", "c", "role") if name in edges.src}

    with plan.graph.local_scope():
        graph = plan.graph
        zeros = b_iou.new_zeros(len(plan.node_slot), hidden)
        for name, of_words in data.items():
            whole = of_words.new_zeros(len(zeros), of_words.shape[1])
            graph.ndata[name] = whole.index_copy(0, plan.tensor("word")[: len(of_words)], of_words)
        graph.ndata.update({"h": zeros, "c": zeros, "kept": zeros})
        leaves, *frontiers = plan.frontiers
        graph.apply_nodes(update, leaves)
        dgl.prop_nodes(graph, frontiers, send, gather, update)
        h = graph.ndata["h"]
    return h[-plan.sentences :], h
