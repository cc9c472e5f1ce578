"""Recursive encoders written straight from the equations, one node at a time: the oracle of the engines."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import torch
from torch import Tensor

from multiview.encoders.registry import Encoder
from parsing.trees.child_roles import child_roles

EPSILON = 1e-8


def const_tree(encoder: Encoder, x: Tensor, left: np.ndarray, right: np.ndarray) -> list[Tensor]:
    """States of the 2n - 1 nodes of one sentence (Tai et al. 2015, equations 9-14, N = 2)."""
    D, n = encoder.dim, len(x)
    W = dict(zip("iou", encoder.input_weight.split(D), strict=True))
    U = {
        gate: {"l": block[:, :D], "r": block[:, D:]}
        for gate, block in zip(["i", "o", "u", "fl", "fr"], encoder.recurrent_weight.split(D), strict=True)
    }
    b = dict(zip("iouf", encoder.bias.split(D), strict=True))
    h, c = [], []
    for node in range(2 * n - 1):
        if node < n:
            i, o, u = (W[g] @ x[node] + b[g] for g in "iou")
            c.append(torch.sigmoid(i) * torch.tanh(u))
        else:
            k, m = left[node - n], right[node - n]
            i, o, u = (U[g]["l"] @ h[k] + U[g]["r"] @ h[m] + b[g] for g in "iou")
            fl, fr = (torch.sigmoid(U[g]["l"] @ h[k] + U[g]["r"] @ h[m] + b["f"]) for g in ("fl", "fr"))
            c.append(torch.sigmoid(i) * torch.tanh(u) + fl * c[k] + fr * c[m])
        h.append(torch.sigmoid(o) * torch.tanh(c[node]))
    return h


def dep_tree(encoder: Encoder, x: Tensor, head: np.ndarray, role: np.ndarray | None) -> list[Tensor]:
    """States of the n words of one sentence, children first by recursion; roles if the encoder knows them."""
    D, n = encoder.dim, len(x)
    W = dict(zip("iou", encoder.input_weight.split(D), strict=True))
    U = dict(zip("iou", encoder.recurrent_weight.split(D), strict=True))
    W_q, W_f = encoder.parent_weight.split(D)
    W_p, U_f = encoder.child_weight.split(D)
    b = dict(zip("iouqfp", encoder.bias.split(D), strict=True))
    b_p, b_f = [b["p"]] * n, [b["f"]] * n
    if role is not None:
        b_p, b_f = (
            [bias + encoder.role_bias[r, part] for r in role]
            for bias, part in ((b["p"], slice(D)), (b["f"], slice(D, None)))
        )
    h: dict[int, Tensor] = {}
    c: dict[int, Tensor] = {}

    def visit(j: int) -> None:
        children = [k for k in range(n) if head[k] == j + 1]
        for k in children:
            visit(k)
        mixed = torch.zeros(D, dtype=x.dtype)
        kept = torch.zeros(D, dtype=x.dtype)
        if children:
            q = W_q @ x[j] + b["q"]
            scores = []
            for k in children:
                p = W_p @ h[k] + b_p[k]
                scores.append(q @ p / (q.norm().clamp_min(EPSILON) * p.norm().clamp_min(EPSILON)))
            alpha = torch.softmax(torch.stack(scores), 0)
            for a, k in zip(alpha, children, strict=True):
                mixed = mixed + a * h[k]
                kept = kept + torch.sigmoid(W_f @ x[j] + U_f @ h[k] + b_f[k]) * c[k]
        i, o, u = (W[g] @ x[j] + U[g] @ mixed + b[g] for g in "iou")
        c[j] = torch.sigmoid(i) * torch.tanh(u) + kept
        h[j] = torch.sigmoid(o) * torch.tanh(c[j])

    visit(int(np.flatnonzero(np.asarray(head) == 0)[0]))
    return [h[j] for j in range(n)]


def seq_words(encoder: Encoder, x: Tensor) -> tuple[Tensor, Tensor]:
    """Sentence vector [D] and word states [n, D] of one sentence, unpacked and unbatched."""
    words, last = encoder.gru(x)
    return last.flatten(), words


def reference(encoder: Encoder, x: Tensor, batch: SimpleNamespace) -> tuple[Tensor, Tensor]:
    """Sentence vectors [B, D] and states of all nodes [N, D] in sentence order."""
    roots, nodes = [], []
    for i, (start, stop) in enumerate(
        zip(batch.sentence_offsets[:-1], batch.sentence_offsets[1:], strict=True)
    ):
        words = x[start:stop]
        if encoder.name == "const":
            inner = slice(start - i, stop - i - 1)
            states = torch.stack(const_tree(encoder, words, batch.left[inner], batch.right[inner]))
            root = states[-1]
        elif encoder.name == "dep":
            role = None if encoder.role_bias is None else child_roles(batch, encoder.word_flags)[start:stop]
            states = torch.stack(dep_tree(encoder, words, batch.head[start:stop], role))
            root = states[list(batch.head[start:stop]).index(0)]
        else:
            root, states = seq_words(encoder, words)
        roots.append(root)
        nodes.append(states)
    return torch.stack(roots), torch.cat(nodes)


def outputs_and_gradients(
    encoder: Encoder, x: Tensor, run: Callable[[Tensor], tuple[Tensor, Tensor]], seed: int = 0
) -> list[Tensor]:
    """Roots and nodes of ``run``, and the gradients of a random linear functional of both."""
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
