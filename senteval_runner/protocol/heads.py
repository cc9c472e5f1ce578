"""Many small classifiers as one: parameters of F folds x R regularisers, gradients by hand.

Shapes: F folds, R regularisers, B rows of a batch, D features with the constant one as the last
(its weight is the bias), H hidden units, C classes. A head's parameters are float32 [F, R, k, in], so that a
fold's rows are gathered once for all its regularisers and one batched product serves them: weights stand
like ``nn.Linear``'s and activations are [k, B], because [R*k, D] @ [D, B] runs 1.7-3 times faster than its
transposes, and a softmax along k 10 times faster than along a last dimension of 2 (46 against 158 us and
10 against 120 us at F 10, D 301, R*C 8, one core).
"""

from __future__ import annotations

from functools import cache
from typing import Protocol

import torch
from torch import Tensor, nn

from parsing.networks.products import Products

WIDE = 16_384
"""With at least this many weights per fold oneDNN's product is faster (see :func:`fold_products`)."""


class Head(Protocol):
    """Forward and backward pass of F x R classifiers on one batch per fold."""

    def initial(self) -> list[Tensor]:
        """One classifier's parameters [k, in], drawn from torch's generator as ``nn.Linear`` draws them."""
        ...

    def logits(self, x_FBD: Tensor, params: list[Tensor]) -> Tensor:
        """Scores [F, R, C, B], without dropout."""
        ...

    def gradients(
        self, x_FBD: Tensor, y_FCB: Tensor, params: list[Tensor], generator: torch.Generator
    ) -> list[Tensor]:
        """Gradient of every classifier's own mean cross-entropy, in the parameters' shapes."""
        ...


def _linear_parameters(dim: int, out: int) -> Tensor:
    """``nn.Linear(dim, out)`` with its bias as the last column: [out, dim + 1]."""
    layer = nn.Linear(dim, out)
    return torch.cat([layer.weight.detach(), layer.bias.detach()[:, None]], dim=1)


@cache
def _onednn_is_faster() -> bool:
    return Products.of(torch.empty(0)).onednn


def fold_products(a_FKM: Tensor, b_FMN: Tensor, weights: int) -> Tensor:
    """Product fold by fold: a @ b, [F, K, N].

    From about 16 thousand ``weights`` per fold oneDNN computes it where that is the faster library
    (:mod:`parsing.networks.products`): 60 and 48 us against MKL's 75 and 77 for the two products of one step
    at 4,800 dimensions (8 rows of weights, 64 items), 100 and 75 against 142 and 155 at 9,600.
    """
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


def _cross_entropy_gradient(logits_FRCB: Tensor, y_FCB: Tensor) -> Tensor:
    """Gradient of the mean cross-entropy with respect to the logits: (softmax(z) - y) / B."""
    delta = torch.softmax(logits_FRCB, dim=2)
    return delta.sub_(y_FCB[:, None]).mul_(1.0 / delta.shape[3])


class LogisticHead:
    """``Linear(d, C)``: parameters ``[W [F, R, C, D]]``."""

    def __init__(self, dim: int, classes: int) -> None:
        self.dim, self.classes = dim, classes

    def initial(self) -> list[Tensor]:
        """See :class:`Head`."""
        return [_linear_parameters(self.dim, self.classes)]

    def logits(self, x_FBD: Tensor, params: list[Tensor]) -> Tensor:
        """See :class:`Head`."""
        return _apply(x_FBD, params[0])

    def gradients(
        self, x_FBD: Tensor, y_FCB: Tensor, params: list[Tensor], generator: torch.Generator
    ) -> list[Tensor]:
        """dL/dW = (softmax(W xᵀ) - y) x / B."""
        return [_outer(_cross_entropy_gradient(_apply(x_FBD, params[0]), y_FCB), x_FBD)]


class HiddenHead:
    """``Linear(d, H), Dropout, Sigmoid, Linear(H, C)``: ``[W1 [F, R, H, D], W2 [F, R, C, H + 1]]``."""

    def __init__(self, dim: int, classes: int, hidden: int, dropout: float) -> None:
        self.dim, self.classes, self.hidden, self.dropout = dim, classes, hidden, dropout

    def initial(self) -> list[Tensor]:
        """See :class:`Head`."""
        return [_linear_parameters(self.dim, self.hidden), _linear_parameters(self.hidden, self.classes)]

    def logits(self, x_FBD: Tensor, params: list[Tensor]) -> Tensor:
        """See :class:`Head`."""
        return self._output(torch.sigmoid(_apply(x_FBD, params[0])), params[1])

    @staticmethod
    def _output(s_FRHB: Tensor, w_FRCh: Tensor) -> Tensor:
        """W2 s + b2: [F, R, C, B]."""
        return w_FRCh[..., :-1] @ s_FRHB + w_FRCh[..., -1:]

    def gradients(
        self, x_FBD: Tensor, y_FCB: Tensor, params: list[Tensor], generator: torch.Generator
    ) -> list[Tensor]:
        """δ2 = (softmax - y)/B; dW2 = δ2 sᵀ; δ1 = (W2ᵀ δ2) ∘ s(1-s) ∘ mask; dW1 = δ1 x."""
        a_FRHB = _apply(x_FBD, params[0])
        mask_HB = None
        if self.dropout:
            # Every classifier would draw the same mask from its own stream, so all share one.
            keep = torch.empty(x_FBD.shape[1], self.hidden).bernoulli_(1 - self.dropout, generator=generator)
            mask_HB = keep.t() / (1 - self.dropout)
            a_FRHB = a_FRHB * mask_HB
        s_FRHB = a_FRHB.sigmoid_()
        delta2 = _cross_entropy_gradient(self._output(s_FRHB, params[1]), y_FCB)
        grad2 = torch.cat([delta2 @ s_FRHB.transpose(2, 3), delta2.sum(dim=3, keepdim=True)], dim=-1)
        delta1 = params[1][..., :-1].transpose(2, 3) @ delta2
        delta1 = torch.ops.aten.sigmoid_backward(delta1, s_FRHB)
        if mask_HB is not None:
            delta1 = delta1 * mask_HB
        return [_outer(delta1, x_FBD), grad2]
