"""The reference engine, which ``--encoder.engine dgl`` chooses: a batch is one DGL graph.

States are sent along its edges from children to parents. The cells are DGL's message, reduce and apply
functions, and read like the equations in docs/equations.md. The weights are those of the native engine.
Experimental on CUDA: never run on a GPU.

Legend of dimension suffixes: N nodes, E edges, n nodes of one frontier with k children each, D hidden, V word
vector.
"""

from __future__ import annotations

import sys
import types
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from multiview.engines.plan import NORM_FLOOR, ConstWeights, DepWeights, TreePlan
from runtime.errors import extra


def load_dgl() -> Any:
    """Return the module dgl; a MissingExtraError says that it is not installed.

    Its last release imports ``packaging`` from setuptools, which no longer has a copy of it. Therefore the
    package ``packaging`` itself is put in that place before the import.
    """
    import packaging
    import packaging.version

    extern = types.ModuleType("setuptools.extern")
    extern.packaging = packaging  # type: ignore[attr-defined]
    sys.modules.setdefault("setuptools.extern", extern)
    sys.modules.setdefault("setuptools.extern.packaging", packaging)
    with extra("dgl"):
        import dgl
    return dgl


def tree_states(x: Tensor, plan: TreePlan, weights: DepWeights | ConstWeights) -> tuple[Tensor, Tensor]:
    """Return the states of the roots [B, D] and, by slot, of all nodes [N, D], from word vectors [T, V]."""
    if isinstance(weights, DepWeights):
        return _dep_states(x, plan, weights)
    return _const_states(x, plan, weights)


def _const_states(x: Tensor, plan: TreePlan, weights: ConstWeights) -> tuple[Tensor, Tensor]:
    dim = weights.recurrent_weight.shape[1] // 2
    b_iou, b_f = weights.bias.split([3 * dim, dim])

    def gather(nodes: Any) -> dict[str, Tensor]:
        """Return the pre-activations of i, o, u from [h_l; h_r], and as ``memory`` f_l∘c_l + f_r∘c_r."""
        products = F.linear(nodes.mailbox["h"].flatten(1), weights.recurrent_weight)
        iou, forget = products.split([3 * dim, 2 * dim], 1)
        f = torch.sigmoid(forget.unflatten(1, (2, dim)) + b_f)
        return {"iou": iou, "memory": (f * nodes.mailbox["c"]).sum(1)}

    return _propagate(plan, {"iou": F.linear(x, weights.input_weight)}, gather, b_iou)


def _dep_states(x: Tensor, plan: TreePlan, weights: DepWeights) -> tuple[Tensor, Tensor]:
    dim = weights.recurrent_weight.shape[1]
    b_iou, b_q, b_f, b_p = weights.bias.split([3 * dim, dim, dim, dim])
    w_q, w_f = weights.parent_weight.split(dim)
    w_p, u_f = weights.child_weight.split(dim)

    def gather(nodes: Any) -> dict[str, Tensor]:
        """Return the pre-activations of i, o, u from x and h̃ = Σ α_k h_k, and as ``memory`` Σ f_k∘c_k."""
        h, c = nodes.mailbox["h"], nodes.mailbox["c"]
        p, forget = F.linear(h, w_p, b_p), F.linear(h, u_f)
        if weights.role_bias is not None:
            role_p, role_f = nodes.mailbox["role"].chunk(2, 2)
            p, forget = p + role_p, forget + role_f
        q = nodes.data["q"].unsqueeze(1)
        norms = q.norm(dim=2).clamp_min(NORM_FLOOR) * p.norm(dim=2).clamp_min(NORM_FLOOR)
        alpha = torch.softmax((q * p).sum(2) / norms, dim=1)
        context = (alpha.unsqueeze(2) * h).sum(1)
        f = torch.sigmoid(nodes.data["wf"].unsqueeze(1) + forget)
        iou = nodes.data["iou"] + F.linear(context, weights.recurrent_weight)
        return {"iou": iou, "memory": (f * c).sum(1)}

    data = {"iou": F.linear(x, weights.input_weight), "q": F.linear(x, w_q, b_q), "wf": F.linear(x, w_f, b_f)}
    if weights.role_bias is not None:
        data["role"] = F.embedding(plan.tensor("role")[plan.tensor("node_slot")], weights.role_bias)
    return _propagate(plan, data, gather, b_iou)


def _propagate(plan: TreePlan, data: dict[str, Tensor], gather: Any, b_iou: Tensor) -> tuple[Tensor, Tensor]:
    """Send states from the leaves up, level by level; c = i∘u + memory and h = o∘tanh(c) at every node.

    Args:
        plan: the order of the nodes.
        data: the values that each word starts with, [T, ...], by name.
        gather: the reduce function, which computes a parent's pre-activations and memory from its children.
        b_iou: the bias of i, o, u.
    """
    dim = len(b_iou) // 3
    if not plan.sentences:
        return b_iou.new_empty(0, dim), b_iou.new_empty(0, dim)
    dgl = load_dgl()

    def update(nodes: Any) -> dict[str, Tensor]:
        """Return the states of nodes from their pre-activations and memory."""
        i, o, u = (nodes.data["iou"] + b_iou).chunk(3, 1)
        c = torch.sigmoid(i) * torch.tanh(u) + nodes.data["memory"]
        return {"h": torch.sigmoid(o) * torch.tanh(c), "c": c}

    def send(edges: Any) -> dict[str, Tensor]:
        """Return what children send to their parents."""
        return {name: edges.src[name] for name in ("h", "c", "role") if name in edges.src}

    slot = plan.tensor("slot_of_rank")
    child = torch.arange(plan.edges, device=slot.device)  # by slot, so that siblings come in order
    parent = slot[plan.leaves :].repeat_interleave(plan.tensor("child_offsets").diff())
    graph = dgl.graph((child, parent), num_nodes=len(slot))
    slot_of_node = torch.empty_like(slot).index_copy(0, plan.tensor("node_of_rank"), slot)
    zeros = b_iou.new_zeros(len(slot), dim)
    for name, word_rows in data.items():
        node_rows = word_rows.new_zeros(len(slot), word_rows.shape[1])
        graph.ndata[name] = node_rows.index_copy(0, slot_of_node[: len(word_rows)], word_rows)
    graph.ndata.update({"h": zeros, "c": zeros, "memory": zeros})
    graph.apply_nodes(update, slot[: plan.leaves])
    levels = [slot[plan.leaves :][low:high] for low, high, *_ in plan.levels()]
    dgl.prop_nodes(graph, levels, send, gather, update)
    h = graph.ndata["h"]
    return h[plan.edges :], h
