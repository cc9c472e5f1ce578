"""Adam and RMSprop with torch's defaults, fused into one pass over flat arrays by numba.

At these sizes (24 thousand parameters per step) separate torch operations cost more than the products do;
one compiled pass takes 10 us. L2 is coupled (added to the gradient), with a weight per classifier.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numba import njit
from torch import Tensor

from senteval_runner.protocol.features import Float


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _adam(
    w: Float, g: Float, m: Float, v: Float, l2: Float, step: int, lr: float, b1: float, b2: float, eps: float
) -> None:
    """Adam on [models, k]: m = β1 m + (1-β1) g; v = β2 v + (1-β2) g²; w -= lr/(1-β1ᵗ) m/(√v/√(1-β2ᵗ) + ε)."""
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
    """RMSprop on [models, k]: v = α v + (1-α) g²; w -= lr g / (√v + ε)."""
    a, c, e, size = np.float32(alpha), np.float32(1.0 - alpha), np.float32(eps), np.float32(lr)
    for i in range(w.shape[0]):
        decay = l2[i]
        for j in range(w.shape[1]):
            grad = g[i, j] + decay * w[i, j]
            v[i, j] = a * v[i, j] + c * grad * grad
            w[i, j] -= size * (grad / (np.sqrt(v[i, j]) + e))


class Optimiser(Protocol):
    """Updates one parameter of all classifiers in place."""

    states: int
    """Arrays of state per parameter."""

    def update(self, w: Float, grad: Float, state: Sequence[Float], l2: Float, step: int) -> None:
        """One step.

        Args:
            w: [models, k] float32 (see :func:`flat`), changed in place.
            grad: the same shape, without the L2 term.
            state: ``states`` arrays of the same shape, changed in place.
            l2: [models] weight decay per classifier.
            step: number of this step, from 1.
        """
        ...


def flat(tensor: Tensor) -> Float:
    """A contiguous [F, R, ...] tensor as a numpy view [F * R, rest], sharing its memory."""
    array: Float = tensor.numpy().reshape(tensor.shape[0] * tensor.shape[1], -1)
    return array


class Adam:
    """``torch.optim.Adam`` with its defaults: lr 1e-3, betas 0.9 and 0.999, eps 1e-8."""

    states = 2

    def update(self, w: Float, grad: Float, state: Sequence[Float], l2: Float, step: int) -> None:
        """See :class:`Optimiser`."""
        m, v = state
        _adam(w, grad, m, v, l2, step, 1e-3, 0.9, 0.999, 1e-8)


class RMSprop:
    """``torch.optim.RMSprop`` with its defaults: lr 1e-2, alpha 0.99, eps 1e-8."""

    states = 1

    def update(self, w: Float, grad: Float, state: Sequence[Float], l2: Float, step: int) -> None:
        """See :class:`Optimiser`."""
        _rmsprop(w, grad, state[0], l2, 1e-2, 0.99, 1e-8)


OPTIMISERS: dict[str, type[Adam] | type[RMSprop]] = {"adam": Adam, "rmsprop": RMSprop}
