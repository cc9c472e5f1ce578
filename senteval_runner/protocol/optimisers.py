"""Adam and RMSprop for many small classifiers at once, as ``torch.optim`` has them with default options.

For such small classifiers an optimiser made of torch operations takes longer than the matrix products.
Each optimiser is therefore one compiled loop over flat arrays [F * R, k] (F folds, R regularisers, k numbers
of one classifier): parameters ``w``, gradients ``g``, running means of the gradients (``m``) and of their
squares (``v``). The L2 term is added to the gradient, with a weight of its own for each classifier in ``l2``
[F * R].
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
from torch import Tensor

from runtime.compiled import compiled
from senteval_runner.protocol.features import Float


def flat(tensor: Tensor) -> Float:
    """Return a numpy view of a contiguous tensor [F, R, ...], [F * R, numbers of one classifier]."""
    array: Float = tensor.numpy().reshape(tensor.shape[0] * tensor.shape[1], -1)
    return array


@partial(compiled, fastmath={"contract"})
def _adam(
    w: Float, g: Float, m: Float, v: Float, l2: Float, step: int, lr: float, b1: float, b2: float, eps: float
) -> None:
    """Change w, m and v by a step of Adam.

    m = β1 m + (1-β1) g; v = β2 v + (1-β2) g²; w -= lr/(1-β1ᵗ) m/(√v/√(1-β2ᵗ) + ε), where t is ``step``.
    """
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


@partial(compiled, fastmath={"contract"})
def _rmsprop(w: Float, g: Float, v: Float, l2: Float, lr: float, alpha: float, eps: float) -> None:
    """Change w and v by a step of RMSprop: v = α v + (1-α) g²; w -= lr g / (√v + ε)."""
    a, c, e, size = np.float32(alpha), np.float32(1.0 - alpha), np.float32(eps), np.float32(lr)
    for i in range(w.shape[0]):
        decay = l2[i]
        for j in range(w.shape[1]):
            grad = g[i, j] + decay * w[i, j]
            v[i, j] = a * v[i, j] + c * grad * grad
            w[i, j] -= size * (grad / (np.sqrt(v[i, j]) + e))


def update(optimiser: str, w: Float, grad: Float, state: Sequence[Float], l2: Float, step: int) -> None:
    """Take one step of ``torch.optim``'s Adam or RMSprop with their default options.

    Args:
        optimiser: ``adam`` (learning rate 1e-3) or ``rmsprop`` (1e-2).
        w: one parameter of all classifiers, float32 [F * R, k] (see :func:`flat`); changed in place.
        grad: the gradient of ``w``, without the L2 term.
        state: two arrays of the optimiser in the shape of ``w``, changed in place; RMSprop uses the first.
        l2: the weight of the L2 term of each classifier, [F * R].
        step: the number of the step, from 1.
    """
    if optimiser == "adam":
        _adam(w, grad, state[0], state[1], l2, step, 1e-3, 0.9, 0.999, 1e-8)
    else:
        _rmsprop(w, grad, state[0], l2, 1e-2, 0.99, 1e-8)
