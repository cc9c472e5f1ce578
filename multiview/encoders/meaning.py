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

from numbers import Integral, Real
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import linear, normalize

from multiview.encoders.scale import Scale
from runtime.errors import UserError

Numbers = NDArray[np.floating]
Float64 = NDArray[np.float64]


class Readout(nn.Module):
    """Maps the views side by side to a meaning, as it was fitted to.

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

    @classmethod
    def of(cls, weight_KD: Numbers, bias_K: Numbers, origin: str) -> Self:
        """Return the read-out of these arrays, in float32."""
        weight, bias = (np.ascontiguousarray(part, dtype=np.float32) for part in (weight_KD, bias_K))
        return cls(torch.from_numpy(weight), torch.from_numpy(bias), origin)

    @property
    def dim(self) -> int:
        """Give K, the numbers of a meaning."""
        return len(self.bias)

    @property
    def record(self) -> dict[str, int | str]:
        """Give what config.json says about it."""
        return {"dim": self.dim, "origin": self.origin}

    def forward(self, x_BD: Tensor, dim: int | None = None) -> Tensor:
        """Return the meaning [B, K] at length 1; ``dim`` keeps so many of its numbers, at length 1 again."""
        return normalize(linear(x_BD, self.weight[:dim], self.bias[:dim]), dim=1)


class Moments:
    """Sums up what a fit needs of any number of sentences: D (D + T) numbers in float64."""

    def __init__(self) -> None:
        self.count = 0
        self.sums: list[NDArray[np.float64]] = []
        """Σ x [D], Σ y [T], XᵀX [D, D], XᵀY [D, T]."""

    def add(self, x_BD: Numbers, y_BT: Numbers) -> None:
        """Count sentences with the views' vectors x and the teacher's y."""
        x, y = x_BD.astype(np.float64), y_BT.astype(np.float64)
        sums = [x.sum(axis=0), y.sum(axis=0), x.T @ x, x.T @ y]
        self.sums = self.sums or [np.zeros_like(part) for part in sums]
        for total, part in zip(self.sums, sums, strict=True):
            total += part
        self.count += len(x)

    def scale(self, features: int, origin: str = "") -> Scale:
        """Give mean and deviation of each number; all but this many ``features`` are left out, see above."""
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
        deviation_D[order_D[: max(len(x_D) - features, 0)]] = np.inf
        mean, deviation = (torch.from_numpy(part.astype(np.float32)) for part in (x_D, deviation_D))
        return Scale(mean, deviation, origin)

    def fit(
        self, strength: float, dim: int | None = None, origin: str = "", *, of_neighbours: bool = False
    ) -> Readout:
        """Return the read-out of K = ``dim`` numbers whose ridge has this strength s.

        C and C_xy are covariances, v is the mean variance of the D numbers of x, so that s does not depend on
        their scale. To a teacher W = (C + s v I)⁻¹ C_xy and b = ȳ - x̄ W, at its first K principal components;
        of neighbours W are canonical directions, C_xy w = ρ (C + s v I) w, and b = -x̄ W.

        Args:
            strength: s, above 0.
            dim: K, at most the teacher's or the views'; None keeps all.
            origin: see :class:`Readout`.
            of_neighbours: whether x and y are neighbours, which were added both ways, and y no teacher's.

        Raises:
            UserError: x is the same for all sentences, or the teacher has fewer than ``dim`` numbers.
        """
        x_D, y_T, xx_DD, xy_DT = (total / max(self.count, 1) for total in self.sums)
        if dim is not None and dim > len(y_T):
            raise UserError(f"a read-out of {dim} numbers: the teacher has {len(y_T)}")
        xx_DD -= np.outer(x_D, x_D)
        xy_DT -= np.outer(x_D, x_D if of_neighbours else y_T)
        penalty = strength * _variance(x_D, xx_DD)
        xx_DD[np.diag_indices_from(xx_DD)] += penalty
        if of_neighbours:
            weight_KD = _canonical_directions(xx_DD, xy_DT, dim or len(x_D))
            return Readout.of(weight_KD, -weight_KD @ x_D, origin)
        weight_DT, axes_TK = _principal_ridge(xx_DD, xy_DT, y_T, penalty, dim)
        readout = Readout.of((weight_DT @ axes_TK).T, (y_T - x_D @ weight_DT) @ axes_TK, origin)
        readout.axes_TK = torch.from_numpy(axes_TK.astype(np.float32))
        return readout


def _principal_ridge(
    xx_DD: Float64, xy_DT: Float64, y_T: Float64, penalty: float, dim: int | None
) -> tuple[Float64, Float64]:
    """Give the weights of ridge regression [D, T], and the principal components of its predictions [T, K]."""
    from scipy.linalg import solve  # here, because the model's import goes without

    weight_DT = solve(xx_DD, xy_DT, assume_a="pos", overwrite_a=True)
    # Wᵀ C W, of what C W is.
    second_TT = weight_DT.T @ (xy_DT - penalty * weight_DT) + np.outer(y_T, y_T)
    axes_TT = np.linalg.eigh((second_TT + second_TT.T) / 2)[1][:, ::-1]
    return weight_DT, axes_TT[:, :dim]


def _canonical_directions(xx_DD: Float64, xy_DD: Float64, dim: int) -> NDArray[np.float32]:
    """Return the directions in which neighbours agree most, each by the root of its correlation ρ: [K, D]."""
    from scipy.linalg import eigh  # here, because the model's import goes without

    largest = [len(xx_DD) - dim, len(xx_DD) - 1]
    share_K, weight_DK = eigh((xy_DD + xy_DD.T) / 2, xx_DD, subset_by_index=largest)
    weight_KD = (weight_DK * np.sqrt(np.maximum(share_K, 0))).T[::-1]
    return np.ascontiguousarray(weight_KD, dtype=np.float32)


def _variance(x_D: Float64, xx_DD: Float64) -> float:
    """Return the mean variance of D numbers, of means [D] and covariances [D, D]."""
    mean = float(np.trace(xx_DD)) / len(x_D)
    if mean <= 1e-12 * float(np.mean(x_D**2)):  # but for rounding
        raise UserError("a read-out: the views give every sentence the same vector")
    return mean


def unit(x_ND: Tensor) -> Tensor:
    """Return the rows at length 1, however large or small their numbers are; a zero row stays zero."""
    exponent_N1 = torch.frexp(x_ND.abs().amax(dim=1, keepdim=True))[1].clamp(-126, 126)
    return normalize(torch.ldexp(x_ND, -exponent_N1), dim=1)  # a power of two rounds nothing


def rank_agreement(one_NA: Tensor, other_NB: Tensor) -> float:
    """Return Spearman's correlation of two encoders' cosines of all pairs of sentences."""
    from scipy.stats import spearmanr

    upper = torch.triu_indices(len(one_NA), len(one_NA), 1)
    units = (normalize(vectors.double(), dim=1) for vectors in (one_NA, other_NB))
    cosines = [(unit @ unit.T)[upper[0], upper[1]].numpy() for unit in units]
    return float(spearmanr(*cosines).statistic)


def share_of(structure: float) -> float:
    """Check that λ is a share, and return it.

    Raises:
        UserError: it is not from 0 to 1.
    """
    if not isinstance(structure, Real) or not 0 <= structure <= 1:
        raise UserError(f"structure={structure!r:.40}: a share from 0 to 1")
    return structure


STRUCTURE_SIZES = (128, 256, 512, 1024)
"""How many numbers a structure vector may have; the first ones of the largest are the smaller ones."""


def structure_size_of(size: int) -> int:
    """Check that a structure vector may have so many numbers, and return it.

    Raises:
        UserError: it may not.
    """
    if not isinstance(size, Integral) or size not in STRUCTURE_SIZES:
        raise UserError(f"structure_size={size!r:.40}: one of {', '.join(map(str, STRUCTURE_SIZES))}")
    return int(size)


def joined_with_structure(meaning_ND: Tensor, structure_NS: Tensor, share: float) -> Tensor:
    """Put meaning and structure side by side, each at length 1: [n, D + S]; cosines mix as 1 − λ and λ."""
    parts = ((1 - share) ** 0.5 * unit(meaning_ND), share**0.5 * normalize(structure_NS, dim=1))
    return torch.cat(parts, dim=1)
