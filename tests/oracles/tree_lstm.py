"""Recursive encoders written straight from the equations, one node at a time: the oracle of the engines."""

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import torch
from torch import Tensor

from multiview.encoders.registry import ViewEncoder
from parsing.trees.child_roles import child_roles

EPSILON = 1e-8


def const_tree(encoder: ViewEncoder, x: Tensor, left: np.ndarray, right: np.ndarray) -> list[Tensor]:
    """Return the states of the 2n - 1 nodes of one sentence (Tai et al. 2015, equations 9-14, N = 2)."""
    D, n = encoder.dim, len(x)
    b_iou, b_f = encoder.bias.split([3 * D, D])
    words = (x @ encoder.input_weight.T + b_iou).split(D, dim=1)
    b = torch.cat([b_iou, b_f, b_f])
    h, c = [], []
    for node in range(2 * n - 1):
        if node < n:
            i, o, u = (gate[node] for gate in words)
            c.append(torch.sigmoid(i) * torch.tanh(u))
        else:
            k, m = left[node - n], right[node - n]
            i, o, u, fl, fr = (encoder.recurrent_weight @ torch.cat([h[k], h[m]]) + b).split(D)
            c.append(torch.sigmoid(i) * torch.tanh(u) + torch.sigmoid(fl) * c[k] + torch.sigmoid(fr) * c[m])
        h.append(torch.sigmoid(o) * torch.tanh(c[node]))
    return h


def dep_tree(encoder: ViewEncoder, x: Tensor, head: np.ndarray, role: np.ndarray | None) -> list[Tensor]:
    """Return the states of the n words of a sentence, children first; with roles if the encoder has them."""
    D, n = encoder.dim, len(x)
    b_iou, b_q, b_f, b_p = encoder.bias.split([3 * D, D, D, D])
    of_role = torch.zeros(n, 2 * D, dtype=x.dtype) if role is None else encoder.role_bias[role]
    W_x = x @ encoder.input_weight.T + b_iou
    q_x, f_x = (x @ encoder.parent_weight.T).split(D, dim=1)
    h: dict[int, Tensor] = {}
    c: dict[int, Tensor] = {}

    def visit(j: int) -> None:
        children = [k for k in range(n) if head[k] == j + 1]
        for k in children:
            visit(k)
        mixture = torch.zeros(D, dtype=x.dtype)
        memory = torch.zeros(D, dtype=x.dtype)
        if children:
            q, scores = q_x[j] + b_q, []
            for k in children:
                p, f = (encoder.child_weight @ h[k] + of_role[k]).split(D)
                p = p + b_p
                scores.append(q @ p / (q.norm().clamp_min(EPSILON) * p.norm().clamp_min(EPSILON)))
                memory = memory + torch.sigmoid(f_x[j] + f + b_f) * c[k]
            alpha = torch.softmax(torch.stack(scores), 0)
            mixture = alpha @ torch.stack([h[k] for k in children])
        i, o, u = (W_x[j] + encoder.recurrent_weight @ mixture).split(D)
        c[j] = torch.sigmoid(i) * torch.tanh(u) + memory
        h[j] = torch.sigmoid(o) * torch.tanh(c[j])

    visit(int(np.flatnonzero(np.asarray(head) == 0)[0]))
    return [h[j] for j in range(n)]


def reference(encoder: ViewEncoder, x: Tensor, batch: SimpleNamespace) -> tuple[Tensor, Tensor]:
    """Return sentence vectors [B, D] and the states of all nodes [N, D] in sentence order."""
    roots, nodes = [], []
    for i, (first, stop) in enumerate(
        zip(batch.sentence_offsets[:-1], batch.sentence_offsets[1:], strict=True)
    ):
        words = x[first:stop]
        if encoder.name == "const":
            inner = slice(first - i, stop - i - 1)
            states = torch.stack(const_tree(encoder, words, batch.left[inner], batch.right[inner]))
            root = states[-1]
        elif encoder.name == "dep":
            role = None if encoder.role_bias is None else child_roles(batch)[first:stop]
            states = torch.stack(dep_tree(encoder, words, batch.head[first:stop], role))
            root = states[list(batch.head[first:stop]).index(0)]
        else:
            states, last = encoder.gru(words)
            root = last.flatten()
        roots.append(root)
        nodes.append(states)
    return torch.stack(roots), torch.cat(nodes)


def outputs_and_gradients(
    encoder: ViewEncoder, x: Tensor, run: Callable[[Tensor], tuple[Tensor, Tensor]], seed: int = 0
) -> list[Tensor]:
    """Return roots and nodes of ``run``, and the gradients of a random linear functional of both."""
    generator = torch.Generator().manual_seed(seed)
    x = x.detach().requires_grad_()
    roots, nodes = run(x)
    weights = [
        torch.randn(t.shape, generator=generator, dtype=torch.float64).to(t.dtype) for t in (roots, nodes)
    ]
    loss = (roots * weights[0]).sum() + (nodes * weights[1]).sum()
    gradients = torch.autograd.grad(loss, [x, *encoder.parameters()], allow_unused=True)
    zeros = (torch.zeros_like(p) for p in [x, *encoder.parameters()])
    return [roots, nodes, *(z if g is None else g for g, z in zip(gradients, zeros, strict=True))]
