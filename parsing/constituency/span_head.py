"""Scores of labelled spans from fencepost vectors (Kitaev & Klein 2018), without padding.

    s(i, j, ·) = M relu(LayerNorm(W (f_j - f_i) + b)) + c          f_i: vector between words i-1 and i

W is applied to the n + 1 fenceposts before they are subtracted, not to n(n+1)/2 differences, and only
spans that exist are scored, in the layout of :mod:`parsing.constituency.decode`. Subtracting the mean, which
LayerNorm does, is linear and is done on the fenceposts too.

Shapes: P fenceposts of the batch, S spans, D features, H hidden, K labels without null.
"""

from __future__ import annotations

import numpy as np
import torch
from numba import njit
from torch import Tensor, nn
from torch.nn import functional as F

from parsing.constituency.decode import Float, best_labels, fenceposts, span_offsets
from parsing.networks.device import to_host
from parsing.trees.parsers import Int

CHUNK_SPANS = 4096
"""Spans scored at once: 4096 x 250 floats stay in a core's second-level cache."""


class SpanHead(nn.Sequential):
    """benepar's span classifier: the same layers in the same order, so that weights carry over.

    Args:
        d_features: D, size of a fencepost vector.
        d_hidden: H.
        n_labels: K, the null label not counted (its score is 0).
    """

    def __init__(self, d_features: int, d_hidden: int, n_labels: int) -> None:
        super().__init__(
            nn.Linear(d_features, d_hidden), nn.LayerNorm(d_hidden), nn.ReLU(), nn.Linear(d_hidden, n_labels)
        )

    def scores_at(self, projected_PH: Tensor, left: Tensor, right: Tensor, labels: Tensor) -> Tensor:
        """Scores [s] of single (span, label) pairs, differentiable.

        Args:
            projected_PH: of :func:`project`.
            left: int64 [s], fencepost before each span.
            right: int64 [s], fencepost after it.
            labels: int64 [s], from 1 (the null label has no weights).
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


class SpanScorer:
    """All span scores of a batch without gradients, compiled but for the product with M."""

    def __init__(self, head: nn.Sequential, projected_PH: Tensor, lengths: Int, *, force: bool) -> None:
        """Prepare a batch.

        Args:
            head: a :class:`SpanHead` or benepar's ``f_label``.
            projected_PH: W f_i of every fencepost, [P, H].
            lengths: [B], words of each sentence.
            force: whole sentences may not take the null label.
        """
        first, norm, last = layers(head)
        with torch.no_grad():
            centred = projected_PH.detach() - projected_PH.detach().mean(-1, keepdim=True)
            self._left = centred.numpy()
            self._right = (centred + (first.bias - first.bias.mean())).numpy()
            self._scale, self._shift = norm.weight.detach().numpy(), norm.bias.detach().numpy()
            self._eps = norm.eps
            self._out, self._out_bias = last.weight.detach().T, last.bias.detach()
        self.lengths = np.asarray(lengths, np.int64)
        self.offsets = span_offsets(self.lengths)
        total = int(self.offsets[-1])
        self.left, self.right = np.empty(total, np.int32), np.empty(total, np.int32)
        fenceposts(self.lengths, self.left, self.right)
        self.labelled = np.zeros(total, np.bool_)
        if force:
            self.labelled[self.offsets[:-1] + self.lengths - 1] = True

    def scores(self, first: int, stop: int) -> Float:
        """Scores [stop-first, K] of a range of spans."""
        hidden = np.empty((stop - first, self._left.shape[1]), np.float32)
        _hidden(
            self._left, self._right, self.left[first:stop], self.right[first:stop],
            self._scale, self._shift, self._eps, hidden,
        )  # fmt: skip
        product: Float = torch.addmm(self._out_bias, torch.from_numpy(hidden), self._out).numpy()
        return product

    def best(self, gold: Int | None = None, cost: float = 0.0) -> tuple[Float, Int]:
        """Best label of every span and its score, [S] each.

        Args:
            gold: [S], gold labels, in training.
            cost: margin given to other labels, in training.
        """
        total = int(self.offsets[-1])
        best, label = np.empty(total, np.float32), np.empty(total, np.int32)
        reference = np.zeros(total, np.int32) if gold is None else gold
        for first in range(0, total, CHUNK_SPANS):
            part = slice(first, min(first + CHUNK_SPANS, total))
            scores = self.scores(part.start, part.stop)
            best_labels(scores, reference[part], cost, self.labelled[part], best[part], label[part])
        return best, label


def best_labels_of(
    head: nn.Sequential, projected_PH: Tensor, lengths: Int, *, force: bool, gold: Int, cost: float
) -> tuple[Float, Int]:
    """Best label of every span and its score, [S] each, where the fenceposts are; see :class:`SpanScorer`."""
    if projected_PH.device.type == "cpu":
        return SpanScorer(head, projected_PH, lengths, force=force).best(gold, cost)
    return DeviceSpanScorer(head, projected_PH, lengths, force=force, gold=gold, cost=cost).best()


class DeviceSpanScorer:
    """The same on a GPU: everything is queued at once, and only the best labels come back."""

    CHUNK_SPANS = 2**20
    """Spans scored at once: 2^20 x 250 floats are 1 GB."""

    def __init__(
        self,
        head: nn.Sequential,
        projected_PH: Tensor,
        lengths: Int,
        *,
        force: bool,
        gold: Int | None = None,
        cost: float = 0.0,
    ) -> None:
        """Queue a batch; arguments as for :class:`SpanScorer` and its ``best``."""
        self.lengths = np.asarray(lengths, np.int64)
        self.offsets = span_offsets(self.lengths)
        total, device = int(self.offsets[-1]), projected_PH.device
        posts = np.empty((2, total), np.int32)
        fenceposts(self.lengths, posts[0], posts[1])
        left, right = torch.from_numpy(posts).to(device)
        gold_S = torch.from_numpy(np.zeros(total, np.int64) if gold is None else gold.astype(np.int64))
        null = cost * (gold_S != 0).float()  # score of the null label
        if force:
            null[torch.from_numpy(self.offsets[:-1] + self.lengths - 1)] = -torch.inf
        null, gold_S = null.to(device), gold_S.to(device)
        parts = []
        for first in range(0, total, self.CHUNK_SPANS):
            part = slice(first, first + self.CHUNK_SPANS)
            posts_of = left[part], right[part]
            parts.append(self._best(head, projected_PH, *posts_of, null[part], gold_S[part], cost))
        best, label = (torch.cat(column) for column in zip(*parts, strict=True))
        self._best_score, self._label = to_host(best), to_host(label.int())

    @staticmethod
    @torch.no_grad()
    def _best(
        head: nn.Sequential,
        projected_PH: Tensor,
        left: Tensor,
        right: Tensor,
        null: Tensor,
        gold: Tensor,
        cost: float,
    ) -> tuple[Tensor, Tensor]:
        """Best label of some spans and its score; the null label wins a tie."""
        first, norm, last = layers(head)
        hidden = norm(projected_PH[right] - projected_PH[left] + first.bias).relu()
        scores = last(hidden)
        if cost:  # of every label but the gold one
            free = nn.functional.one_hot(gold, scores.shape[1] + 1)[:, 1:]
            scores = scores + cost * (1 - free)
        score, label = scores.max(-1)
        return torch.maximum(score, null), torch.where(score > null, label + 1, 0)

    def best(self) -> tuple[Float, Int]:
        """Best label of every span and its score, [S] each; waits for them."""
        return np.asarray(self._best_score(), np.float32), np.asarray(self._label(), np.int32)


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
