"""Many small classifiers as one: parameters of F folds x R regularisers, gradients by hand, fused optimisers.

Shapes: F folds, R regularisers, B rows of a batch, D features with the constant one as the last
(its weight is the bias), H hidden units, C classes. A head's parameters are float32 [F, R, k, in], so that a
fold's rows are gathered once for all its regularisers and one batched product serves them: weights stand
like ``nn.Linear``'s and activations are [k, B], because [R*k, D] @ [D, B] runs faster than its transposes,
and a softmax along k much faster than along a last dimension of 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import torch
from numba import njit
from torch import Tensor, nn

from parsing.networks.device import Products
from senteval_runner.protocol.features import Float

WIDE = 16_384
"""With at least this many weights per fold oneDNN's product is faster where that is the faster library."""


@cache
def _onednn_is_faster() -> bool:
    return Products.of(torch.empty(0)).onednn


def fold_products(a_FKM: Tensor, b_FMN: Tensor, weights: int) -> Tensor:
    """Product fold by fold: a @ b, [F, K, N]; ``weights`` per fold decide who computes it."""
    F, K, _ = a_FKM.shape
    if K < 4 or weights < WIDE or a_FKM.dtype != torch.float32 or not _onednn_is_faster():
        return torch.bmm(a_FKM, b_FMN)
    linear = torch.ops.mkldnn._linear_pointwise
    products = [linear(a_FKM[f], b_FMN[f].t(), None, "none", [], "") for f in range(F)]
    return products[0][None] if F == 1 else torch.stack(products)


def _apply(x_FBD: Tensor, w_FRkD: Tensor) -> Tensor:
    """All regularisers' linear maps of a fold's rows in one product: [F, R, k, B]."""
    F, R, k, D = w_FRkD.shape
    return fold_products(w_FRkD.view(F, R * k, D), x_FBD.transpose(1, 2), R * k * D).view(F, R, k, -1)


def _outer(delta_FRkB: Tensor, x_FBD: Tensor) -> Tensor:
    """Gradient of :func:`_apply` with respect to its weights: [F, R, k, D]."""
    F, R, k, B = delta_FRkB.shape
    return fold_products(delta_FRkB.view(F, R * k, B), x_FBD, R * k * x_FBD.shape[2]).view(F, R, k, -1)


class Head:
    """``Linear(d, C)``, or with ``hidden`` units ``Linear(d, H), Dropout, Sigmoid, Linear(H, C)``.

    Parameters: ``[W [F, R, C, D]]`` or ``[W1 [F, R, H, D], W2 [F, R, C, H + 1]]``, biases as last columns.
    """

    def __init__(self, dim: int, classes: int, hidden: int = 0, dropout: float = 0.0) -> None:
        self.sizes = [(dim, hidden), (hidden, classes)] if hidden else [(dim, classes)]
        self.dropout = dropout

    def initial(self) -> list[Tensor]:
        """One classifier's parameters [k, in], drawn from torch's generator as ``nn.Linear`` draws them."""
        layers = [nn.Linear(dim, out) for dim, out in self.sizes]
        return [torch.cat([one.weight.detach(), one.bias.detach()[:, None]], dim=1) for one in layers]

    def logits(self, x_FBD: Tensor, params: list[Tensor]) -> Tensor:
        """Scores [F, R, C, B], without dropout."""
        first = _apply(x_FBD, params[0])
        return first if len(params) == 1 else self._output(torch.sigmoid(first), params[1])

    @staticmethod
    def _output(s_FRHB: Tensor, w_FRCh: Tensor) -> Tensor:
        """W2 s + b2: [F, R, C, B]."""
        return w_FRCh[..., :-1] @ s_FRHB + w_FRCh[..., -1:]

    def gradients(
        self, x_FBD: Tensor, y_FCB: Tensor, params: list[Tensor], generator: torch.Generator
    ) -> list[Tensor]:
        """Gradient of every classifier's own mean cross-entropy, in the parameters' shapes.

        δ2 = (softmax - y)/B; dW2 = δ2 sᵀ; δ1 = (W2ᵀ δ2) ∘ s(1-s) ∘ mask; dW1 = δ1 x. Without hidden units
        δ2 is δ1.
        """
        z_FRkB, mask_HB = _apply(x_FBD, params[0]), None
        if self.dropout and len(params) > 1:
            # Every classifier would draw the same mask from its own stream, so all share one.
            shape = x_FBD.shape[1], z_FRkB.shape[2]
            keep = torch.empty(shape).bernoulli_(1 - self.dropout, generator=generator)
            mask_HB = keep.t() / (1 - self.dropout)
            z_FRkB = z_FRkB * mask_HB
        s_FRHB = z_FRkB.sigmoid_() if len(params) > 1 else z_FRkB
        delta = torch.softmax(self._output(s_FRHB, params[1]) if len(params) > 1 else z_FRkB, dim=2)
        delta = delta.sub_(y_FCB[:, None]).mul_(1.0 / delta.shape[3])
        if len(params) == 1:
            return [_outer(delta, x_FBD)]
        grad2 = torch.cat([delta @ s_FRHB.transpose(2, 3), delta.sum(dim=3, keepdim=True)], dim=-1)
        delta1 = params[1][..., :-1].transpose(2, 3) @ delta
        delta1 = torch.ops.aten.sigmoid_backward(delta1, s_FRHB)
        return [_outer(delta1 if mask_HB is None else delta1 * mask_HB, x_FBD), grad2]


def flat(tensor: Tensor) -> Float:
    """A contiguous [F, R, ...] tensor as a numpy view [F * R, rest], sharing its memory."""
    array: Float = tensor.numpy().reshape(tensor.shape[0] * tensor.shape[1], -1)
    return array


# At these sizes separate torch operations cost more than the products do, so each optimiser is one compiled
# pass over flat arrays [models, k]. L2 is coupled (added to the gradient), with a weight per classifier.


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _adam(
    w: Float, g: Float, m: Float, v: Float, l2: Float, step: int, lr: float, b1: float, b2: float, eps: float
) -> None:
    """Adam: m = β1 m + (1-β1) g; v = β2 v + (1-β2) g²; w -= lr/(1-β1ᵗ) m/(√v/√(1-β2ᵗ) + ε)."""
    size = np.float32(lr / (1.0 - b1**step))
    root = np.float32(np.sqrt(1.0 - b2**step))
    c1, c2, e = np.float32(1.0 - b1), np.float32(1.0 - b2), np.float32(eps)
    d2 = np.float32(b2)
    for i in range(w.shape[0]):
        decay = l2[i]
        for j in range(w.shape[1]):
            grad = g[i, j] + decay * w[i, j]
            m[i, j] += c1 * (grad - m[i, j])
            v[i, j] = d2 * v[i, j] + c2 * grad * grad
            w[i, j] -= size * (m[i, j] / (np.sqrt(v[i, j]) / root + e))


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _rmsprop(w: Float, g: Float, v: Float, l2: Float, lr: float, alpha: float, eps: float) -> None:
    """RMSprop: v = α v + (1-α) g²; w -= lr g / (√v + ε)."""
    a, c, e, size = np.float32(alpha), np.float32(1.0 - alpha), np.float32(eps), np.float32(lr)
    for i in range(w.shape[0]):
        decay = l2[i]
        for j in range(w.shape[1]):
            grad = g[i, j] + decay * w[i, j]
            v[i, j] = a * v[i, j] + c * grad * grad
            w[i, j] -= size * (grad / (np.sqrt(v[i, j]) + e))


STATES = {"adam": 2, "rmsprop": 1}
"""Arrays of state per parameter, by optimiser."""


def update(optimiser: str, w: Float, grad: Float, state: Sequence[Float], l2: Float, step: int) -> None:
    """One step of ``torch.optim``'s Adam or RMSprop with their defaults (learning rates 1e-3 and 1e-2).

    Args:
        optimiser: ``adam`` or ``rmsprop``.
        w: one parameter of all models, [models, k] float32 (see :func:`flat`), changed in place.
        grad: the same shape, without the L2 term.
        state: ``STATES`` arrays of the same shape, changed in place.
        l2: [models] weight decay per classifier.
        step: number of this step, from 1.
    """
    if optimiser == "adam":
        _adam(w, grad, state[0], state[1], l2, step, 1e-3, 0.9, 0.999, 1e-8)
    else:
        _rmsprop(w, grad, state[0], l2, 1e-2, 0.99, 1e-8)
