"""Scores of labelled spans from fencepost vectors (Kitaev & Klein 2018), without padding.

    s(i, j, ·) = M relu(LayerNorm(W (f_j - f_i) + b)) + c          f_i: vector between words i-1 and i

W is applied to the n + 1 fenceposts before they are subtracted, not to n(n+1)/2 differences, and only
spans that exist are scored, in the layout of :mod:`parsing.constituency.decode`. Subtracting the mean, which
LayerNorm does, is linear and is done on the fenceposts too.

Shapes: P fenceposts of the batch, S spans, D features, H hidden, K labels without null.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from parsing.constituency.decode import Float, best_labels, fenceposts, span_offsets
from parsing.networks.device import to_host
from parsing.trees.batch import Int

CHUNK_SPANS = 4096
"""Spans scored at once: 4096 x 250 floats stay in a core's second-level cache."""
DEVICE_CHUNK_SPANS = 2**20
"""The same on a GPU: 2^20 x 250 floats are 1 GB."""
Best: TypeAlias = Callable[[], tuple[Float, Int]]
"""Waits for the best label of every span and its score, [S] each."""


class SpanHead(nn.Sequential):
    """benepar's span classifier from D to H to K: the same layers, so that weights carry over."""

    def __init__(self, features: int, hidden: int, labels: int) -> None:
        super().__init__(
            nn.Linear(features, hidden), nn.LayerNorm(hidden), nn.ReLU(), nn.Linear(hidden, labels)
        )

    def scores_at(self, projected_PH: Tensor, left: Tensor, right: Tensor, labels: Tensor) -> Tensor:
        """Scores [s] of single (span, label) pairs, differentiable.

        int64 [s] each: the fenceposts before and after a span, and labels from 1 (null has no weights).
        """
        first, norm, last = layers(self)
        hidden = norm(projected_PH[right] - projected_PH[left] + first.bias).relu()
        result: Tensor = (hidden * last.weight[labels - 1]).sum(-1) + last.bias[labels - 1]
        return result


Layers = tuple[nn.Linear, nn.LayerNorm, nn.Linear]


def layers(head: nn.Sequential) -> Layers:
    """The three layers with weights of a :class:`SpanHead` or of benepar's ``f_label``."""
    first, norm, last = head[0], head[1], head[3]
    assert isinstance(first, nn.Linear) and isinstance(norm, nn.LayerNorm) and isinstance(last, nn.Linear)
    return first, norm, last


def project(head: nn.Sequential, posts_PD: Tensor) -> Tensor:
    """W f_i for every fencepost: [P, H]."""
    return F.linear(posts_PD, layers(head)[0].weight)


def best_spans(
    head: nn.Sequential,
    projected_PH: Tensor,
    lengths: Int,
    *,
    force: bool,
    gold: Int | None = None,
    cost: float = 0.0,
) -> Best:
    """Best label of every span and its score, without gradients; on a GPU queued at once.

    ``lengths`` are int64 [B], in words. ``force``: whole sentences may not take the null label. In training
    all labels but ``gold``, int32 [S], get the margin ``cost``.
    """
    offsets = span_offsets(lengths)
    labelled = np.zeros(int(offsets[-1]), np.bool_)
    if force:
        labelled[offsets[:-1] + lengths - 1] = True
    gold = np.zeros(len(labelled), np.int32) if gold is None else gold
    of_device = _best_on_cpu if projected_PH.device.type == "cpu" else _best_on_device
    with torch.no_grad():
        return of_device(layers(head), projected_PH.detach(), lengths, labelled, gold, cost)


def _best_on_cpu(
    parts: Layers, projected_PH: Tensor, lengths: Int, labelled: NDArray[np.bool_], gold: Int, cost: float
) -> Best:
    """Compiled but for the product with M."""
    first, norm, last = parts
    centred = projected_PH - projected_PH.mean(-1, keepdim=True)
    ends = centred.numpy(), (centred + (first.bias - first.bias.mean())).numpy()
    scale, shift = norm.weight.detach().numpy(), norm.bias.detach().numpy()
    left, right = fenceposts(lengths)
    best, label = np.empty(len(left), np.float32), np.empty(len(left), np.int32)
    for start in range(0, len(left), CHUNK_SPANS):
        chunk = slice(start, start + CHUNK_SPANS)
        hidden = np.empty((len(left[chunk]), projected_PH.shape[1]), np.float32)
        _hidden(*ends, left[chunk], right[chunk], scale, shift, norm.eps, hidden)
        scores = torch.addmm(last.bias, torch.from_numpy(hidden), last.weight.T).numpy()
        best_labels(scores, gold[chunk], cost, labelled[chunk], best[chunk], label[chunk])
    return lambda: (best, label)


def _best_on_device(
    parts: Layers, projected_PH: Tensor, lengths: Int, labelled: NDArray[np.bool_], gold: Int, cost: float
) -> Best:
    """Everything is queued at once, and only the best labels come back; the null label wins a tie."""
    first, norm, last = parts
    null = torch.from_numpy(np.where(labelled, -np.inf, cost * (gold != 0)).astype(np.float32))
    host = *fenceposts(lengths), null, torch.from_numpy(gold.astype(np.int64))
    arrays = [torch.as_tensor(values).to(projected_PH.device).split(DEVICE_CHUNK_SPANS) for values in host]
    found = []
    for left, right, null, gold_S in zip(*arrays, strict=True):
        scores = last(norm(projected_PH[right] - projected_PH[left] + first.bias).relu())
        if cost:  # of every label but the gold one
            free = nn.functional.one_hot(gold_S, scores.shape[1] + 1)[:, 1:]
            scores = scores + cost * (1 - free)
        score, label = scores.max(-1)
        found.append((torch.maximum(score, null), torch.where(score > null, label + 1, 0)))
    best, label = (torch.cat(column) for column in zip(*found, strict=True))
    arriving = to_host(best), to_host(label.int())
    return lambda: (np.asarray(arriving[0](), np.float32), np.asarray(arriving[1](), np.int32))


# Sums may be reordered (vector registers); no other liberty is taken.
@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _hidden(
    left_PH: Float,
    right_PH: Float,
    left: Int,
    right: Int,
    scale: Float,
    shift: Float,
    eps: float,
    hidden: Float,
) -> None:
    """relu(LayerNorm(x)) of the centred x = right_PH[right] - left_PH[left], written to ``hidden``."""
    size = hidden.shape[1]
    for k in range(len(left)):
        a, b, out = left_PH[left[k]], right_PH[right[k]], hidden[k]
        total = np.float32(0.0)
        for h in range(size):
            x = b[h] - a[h]
            out[h] = x
            total += x * x
        inverse = np.float32(1.0 / np.sqrt(total / size + eps))
        for h in range(size):
            out[h] = max(out[h] * inverse * scale[h] + shift[h], np.float32(0.0))
