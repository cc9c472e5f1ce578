"""The read-out of a model: from all its views side by side to one vector made for cosine.

    meaning(s) = unit(x W + b)

x are the views one after the other. With a read-out their features (:mod:`multiview.encoders.scale`) leave
out what the others tell best: one at a time, the number of largest multiple correlation with all that are
left, so that of two equal numbers one stays. W and b come from ridge regression of a teacher's vectors, whose
closed form needs sums over the sentences alone. The columns of W are then turned to the principal components
of the predictions, so that the first k numbers are the best k (Matryoshka). The components are those of the
second moment, not of the covariance: cosines are taken about the origin, and what the predictions have in
common counts in them.

Without a teacher, x and y are the vectors of neighbouring sentences, and the columns of W are the canonical
directions in which they agree most (Hotelling 1936), each by the root of its correlation ρ. If both are
normal, the product of two sentences is then Σ ρ x y, of which the odds of being neighbours are a function.

Legend of dimension suffixes: N sentences, B of a batch, D size of the views together, T of the teacher, K of
the read-out.
"""

from __future__ import annotations

from numbers import Real

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import linear, normalize

from multiview.encoders.scale import Scale
from runtime.errors import UserError

Numbers = NDArray[np.floating]


class Readout(nn.Module):
    """A fitted read-out.

    Args:
        weight_KD: [K, D], W transposed, as :class:`torch.nn.Linear` has it.
        bias_K: [K], b.
        origin: what it was fitted to, for config.json.
    """

    weight: Tensor
    bias: Tensor

    def __init__(self, weight_KD: Tensor, bias_K: Tensor, origin: str = "") -> None:
        super().__init__()
        self.register_buffer("weight", weight_KD)
        self.register_buffer("bias", bias_K)
        self.origin = origin
        self.axes_TK: Tensor | None = None
        """[T, K], the directions of the teacher that the numbers are, where it was fitted just now."""

    @property
    def dim(self) -> int:
        """K."""
        return len(self.bias)

    @property
    def record(self) -> dict[str, int | str]:
        """What config.json says about it."""
        return {"dim": self.dim, "origin": self.origin}

    def forward(self, x_BD: Tensor, dim: int | None = None) -> Tensor:
        """Meaning [B, K] at length 1; ``dim`` keeps so many of its numbers, at length 1 again."""
        return normalize(linear(x_BD, self.weight[:dim], self.bias[:dim]), dim=1)


class Moments:
    """What ridge regression needs of any number of sentences: float64 sums, D (D + T) numbers."""

    def __init__(self) -> None:
        self.count = 0
        self.sums: list[NDArray[np.float64]] = []
        """Σ x [D], Σ y [T], XᵀX [D, D], XᵀY [D, T]."""

    def add(self, x_BD: Numbers, y_BT: Numbers) -> None:
        """Count sentences with the views' vectors x and the teacher's y."""
        x, y = x_BD.astype(np.float64), y_BT.astype(np.float64)
        found = [x.sum(axis=0), y.sum(axis=0), x.T @ x, x.T @ y]
        self.sums = self.sums or [np.zeros_like(part) for part in found]
        for total, part in zip(self.sums, found, strict=True):
            total += part
        self.count += len(x)

    def scale(self, kept: int, origin: str = "") -> Scale:
        """Mean and deviation of each number; all but ``kept`` are left out, see above."""
        from scipy.linalg.lapack import dpstrf  # here, because the model's import goes without

        x_D, _, xx_DD, _ = (total / self.count for total in self.sums)
        xx_DD -= np.outer(x_D, x_D)
        variance_D = np.diag(xx_DD)
        deviation_D = np.sqrt(np.where(variance_D > 1e-12 * x_D**2, variance_D, 0))  # 0 of a constant
        whole_D = np.where(deviation_D > 0, deviation_D, np.inf)
        xx_DD /= np.outer(whole_D, whole_D)
        xx_DD[np.diag_indices_from(xx_DD)] += 1e-4
        # On the diagonal of the inverse stands 1 / (1 - R²). To leave a number out is a step of Cholesky's
        # decomposition of the inverse, and pivoting takes the largest of those that are left.
        order_D = dpstrf(np.linalg.inv(xx_DD))[1] - 1
        deviation_D[order_D[: max(len(x_D) - kept, 0)]] = np.inf
        mean, deviation = (torch.from_numpy(part.astype(np.float32)) for part in (x_D, deviation_D))
        return Scale(mean, deviation, origin)

    def readout(self, strength: float, dim: int | None = None, origin: str = "") -> Readout:
        """W = (C + s v I)⁻¹ C_xy and b = ȳ - x̄ W, at its first ``dim`` principal components.

        C and C_xy are covariances, v is the mean variance of the D numbers of x, so that the strength s does
        not depend on their scale.

        Args:
            strength: s, above 0.
            dim: K, at most the teacher's; None keeps all.
            origin: see :class:`Readout`.

        Raises:
            UserError: x is the same for all sentences, or the teacher has fewer than ``dim`` numbers.
        """
        from scipy.linalg import solve  # here, because the model's import goes without

        x_D, y_T, xx_DD, xy_DT = (total / max(self.count, 1) for total in self.sums)
        if dim is not None and dim > len(y_T):
            raise UserError(f"a read-out of {dim} numbers: the teacher has {len(y_T)}")
        xx_DD -= np.outer(x_D, x_D)
        xy_DT -= np.outer(x_D, y_T)
        penalty = strength * _variance(x_D, xx_DD)
        xx_DD[np.diag_indices_from(xx_DD)] += penalty
        weight_DT = solve(xx_DD, xy_DT, assume_a="pos", overwrite_a=True)
        # Wᵀ C W, of what C W is.
        second_TT = weight_DT.T @ (xy_DT - penalty * weight_DT) + np.outer(y_T, y_T)
        axes_TK = np.linalg.eigh((second_TT + second_TT.T) / 2)[1][:, ::-1][:, :dim]
        bias_K = (y_T - x_D @ weight_DT) @ axes_TK
        weight_KD = np.ascontiguousarray((weight_DT @ axes_TK).T, dtype=np.float32)
        readout = _readout(weight_KD, bias_K, origin)
        readout.axes_TK = torch.from_numpy(axes_TK.astype(np.float32))
        return readout

    def neighbours(self, strength: float, dim: int, origin: str = "") -> Readout:
        """W of canonical directions, N w = ρ (C + s v I) w; x and y are neighbours, added both ways."""
        from scipy.linalg import eigh

        x_D, _, xx_DD, xy_DD = (total / max(self.count, 1) for total in self.sums)
        xx_DD -= np.outer(x_D, x_D)
        xy_DD -= np.outer(x_D, x_D)
        xx_DD[np.diag_indices_from(xx_DD)] += strength * _variance(x_D, xx_DD)
        top = [len(x_D) - dim, len(x_D) - 1]
        share_K, weight_DK = eigh((xy_DD + xy_DD.T) / 2, xx_DD, subset_by_index=top)
        weight_KD = (weight_DK * np.sqrt(np.maximum(share_K, 0))).T[::-1]
        weight_KD = np.ascontiguousarray(weight_KD, dtype=np.float32)
        return _readout(weight_KD, -weight_KD @ x_D, origin)


def _readout(weight_KD: Numbers, bias_K: Numbers, origin: str) -> Readout:
    return Readout(torch.from_numpy(weight_KD), torch.from_numpy(bias_K.astype(np.float32)), origin)


def _variance(x_D: Numbers, xx_DD: Numbers) -> float:
    """The mean variance of D numbers, of means [D] and covariances [D, D]."""
    mean = float(np.trace(xx_DD)) / len(x_D)
    if mean <= 1e-12 * float(np.mean(x_D**2)):  # but for rounding
        raise UserError("a read-out: the views give every sentence the same vector")
    return mean


def rank_agreement(one_NA: Tensor, other_NB: Tensor) -> float:
    """Spearman's correlation of two encoders' cosines of all pairs of sentences."""
    from scipy.stats import spearmanr

    upper = torch.triu_indices(len(one_NA), len(one_NA), 1)
    units = (normalize(vectors.double(), dim=1) for vectors in (one_NA, other_NB))
    cosines = [(unit @ unit.T)[upper[0], upper[1]].numpy() for unit in units]
    return float(spearmanr(*cosines).statistic)


def share_of(structure: float) -> float:
    """λ, if it is a share.

    Raises:
        UserError: it is not from 0 to 1.
    """
    if not isinstance(structure, Real) or not 0 <= structure <= 1:
        raise UserError(f"structure={structure!r:.40}: a share from 0 to 1")
    return structure


def beside(meaning_ND: Tensor, structure_NS: Tensor, share: float) -> Tensor:
    """Meaning and structure side by side, each at length 1: [n, D + S]; their cosines mix as 1 − λ and λ."""
    parts = ((1 - share) ** 0.5 * normalize(meaning_ND, dim=1), share**0.5 * normalize(structure_NS, dim=1))
    return torch.cat(parts, dim=1)
