"""What a model makes of its views side by side: one vector made for cosine, or features for classifiers.

    meaning(s) = unit(x W + b)          features(x) = L / √F · (x - m) / d

x are the views one after the other. W and b are fitted in closed form, from sums over the sentences: by ridge
regression to a teacher's vectors, turned to the principal components of the predictions, so that the first k
numbers are the best k; or, without a teacher, to the directions in which neighbours agree most (Hotelling
1936). The components are of the second moment, since cosines are taken about the origin.

m and d are mean and deviation of each of the F numbers over a sample of text, so that a sentence there has
the length L (root mean square). Classifiers hardly learn from numbers that are small, whatever these tell
(docs/senteval.md). Beside a read-out, features leave out the numbers that the others tell best, one at a
time, so that of two equal ones one stays.

Legend of dimension suffixes: N sentences, B of a batch, D size of the views together, T of the teacher, K of
the read-out, F features.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from numbers import Real

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import linear, normalize

from runtime.errors import UserError

LENGTH = 5.06
"""L: a deviation of 0.1 of 2,560 features, 0.32 of 256; chosen on development tasks (docs/senteval.md)."""
SAMPLE, BLOCK = 5_000, 50
"""Sentences that are measured, and how many of them follow each other."""
Span = tuple[int, int]
"""Sentences ``start`` to ``stop`` (excluded) of a text."""
Numbers = NDArray[np.floating]


class Readout(nn.Module):
    """Maps the views side by side to a meaning, as it was fitted to.

    ``weight_KD`` [K, D] is W transposed, as :class:`torch.nn.Linear` has it, ``bias_K`` is b; ``origin``, for
    config.json, is what it was fitted to.
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
        """Gives K, the numbers of a meaning."""
        return len(self.bias)

    def forward(self, x_BD: Tensor, dim: int | None = None) -> Tensor:
        """Return the meaning [B, K] at length 1; ``dim`` keeps so many of its numbers, at length 1 again."""
        return normalize(linear(x_BD, self.weight[:dim], self.bias[:dim]), dim=1)


class Scale(nn.Module):
    """Makes features of vectors, by mean and deviation of each number.

    ``mean_D`` is m; ``deviation_D`` is d: 0 of a constant, whose feature is 0, and infinite of a number that
    is left out; ``origin``, for config.json, is what was measured.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, mean_D: Tensor, deviation_D: Tensor, origin: str = "") -> None:
        super().__init__()
        self.register_buffer("mean", mean_D)
        self.register_buffer("deviation", deviation_D)
        self.origin = origin

    @classmethod
    def measured(cls, vectors: Iterable[Tensor], origin: str = "", like: Scale | None = None) -> Scale:
        """Measure vectors [B, D], all batches together, with sums in float64.

        Numbers that another scale, ``like`` which it is to be, leaves out are left out.
        """
        count, sums_2D = 0, torch.zeros(2, 1, dtype=torch.float64)
        for x_BD in vectors:
            x_BD = x_BD.double().cpu()
            sums_2D = sums_2D + torch.stack([x_BD.sum(dim=0), x_BD.square().sum(dim=0)])
            count += len(x_BD)
        mean_D, square_D = sums_2D / max(count, 1)
        deviation_D = _deviations(mean_D, square_D)
        if like is not None:
            deviation_D[like.deviation.cpu().isinf()] = torch.inf
        return cls(mean_D.float(), deviation_D.float(), origin)

    @property
    def numbers(self) -> Tensor:
        """int64 [F], the numbers that are not left out."""
        return self.deviation.isfinite().nonzero()[:, 0]

    def forward(self, x_BD: Tensor, dim: int | None = None) -> Tensor:
        """Return the features [B, F] of vectors [B, D], on their device; ``dim`` keeps so many of them."""
        self.to(x_BD.device)
        numbers_F = self.numbers
        deviation_F = self.deviation[numbers_F]
        factor_F = (LENGTH / math.sqrt(len(numbers_F)) / deviation_F).masked_fill(deviation_F == 0, 0.0)
        return ((x_BD[:, numbers_F] - self.mean[numbers_F]) * factor_F)[:, :dim]


def _deviations(mean_D: Tensor, square_D: Tensor) -> Tensor:
    """Return the deviations of numbers by their means and mean squares, in float64; 0 of a constant."""
    deviation_D = (square_D - mean_D.square()).clamp_min(0).sqrt()
    return deviation_D.masked_fill(deviation_D <= 1e-6 * mean_D.abs(), 0)  # what rounding leaves of it


def joined(scales: Sequence[Scale]) -> Scale:
    """Join the scales of vectors that stand side by side."""
    return Scale(torch.cat([scale.mean for scale in scales]), torch.cat([s.deviation for s in scales]))


def spread(text: Sequence[Span], most: int = SAMPLE, block: int = BLOCK) -> list[Span]:
    """Return the blocks of successive sentences, spread evenly over a text, whose parts are given in order.

    All blocks together have ``most`` sentences, a shorter text is read whole; each has ``block`` at most, and
    the end of a part ends one.
    """
    ends = list(accumulate(stop - start for start, stop in text))
    total = ends[-1] if ends else 0
    blocks = min(max(1, most // block), -(-total // block))
    spans = []
    for number in range(blocks):
        first, then = total * number // blocks, total * (number + 1) // blocks
        part = bisect_right(ends, first)
        stop = text[part][1]
        start = stop - (ends[part] - first)
        spans.append((start, min(start + min(block, then - first), stop)))
    return spans


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
        deviation_D = _deviations(torch.from_numpy(x_D), torch.from_numpy(np.diag(xx_DD).copy())).numpy()
        whole_D = np.where(deviation_D > 0, deviation_D, np.inf)
        xx_DD = (xx_DD - np.outer(x_D, x_D)) / np.outer(whole_D, whole_D)
        xx_DD[np.diag_indices_from(xx_DD)] += 1e-4
        # On the diagonal of the inverse stands 1 / (1 - R²). To leave a number out is a step of Cholesky's
        # decomposition of the inverse, and pivoting takes the largest of those that are left.
        order_D = dpstrf(np.linalg.inv(xx_DD))[1] - 1
        deviation_D[order_D[: max(len(x_D) - features, 0)]] = np.inf
        return Scale(_tensor(x_D), _tensor(deviation_D), origin)

    def fit(
        self, strength: float, dim: int | None = None, origin: str = "", *, of_neighbours: bool = False
    ) -> Readout:
        """Return the read-out of K = ``dim`` numbers (None: all) whose ridge has this ``strength`` s > 0.

        C and C_xy are covariances, v is the mean variance of the D numbers of x, so that s does not depend on
        their scale. To a teacher W = (C + s v I)⁻¹ C_xy and b = ȳ - x̄ W, at its first K principal components;
        ``of_neighbours``, which were added both ways, W are canonical directions, C_xy w = ρ (C + s v I) w,
        and b = -x̄ W. An x that is the same for all sentences is a UserError, and so is a teacher of fewer
        than ``dim`` numbers.
        """
        from scipy.linalg import eigh, solve  # here, because the model's import goes without

        x_D, y_T, xx_DD, xy_DT = (total / max(self.count, 1) for total in self.sums)
        if dim is not None and dim > len(y_T):
            raise UserError(f"a read-out of {dim} numbers: the teacher has {len(y_T)}")
        xx_DD -= np.outer(x_D, x_D)
        xy_DT -= np.outer(x_D, x_D if of_neighbours else y_T)
        variance = float(np.trace(xx_DD)) / len(x_D)
        if variance <= 1e-12 * float(np.mean(x_D**2)):  # but for rounding
            raise UserError("a read-out: the views give every sentence the same vector")
        xx_DD[np.diag_indices_from(xx_DD)] += strength * variance
        if of_neighbours:
            largest = [len(x_D) - (dim or len(x_D)), len(x_D) - 1]
            share_K, weight_DK = eigh((xy_DT + xy_DT.T) / 2, xx_DD, subset_by_index=largest)
            weight_KD = (weight_DK * np.sqrt(np.maximum(share_K, 0))).T[::-1]
            return Readout(_tensor(weight_KD), _tensor(-weight_KD @ x_D), origin)
        weight_DT = solve(xx_DD, xy_DT, assume_a="pos", overwrite_a=True)
        # Wᵀ C W, of what C W is.
        second_TT = weight_DT.T @ (xy_DT - strength * variance * weight_DT) + np.outer(y_T, y_T)
        axes_TK = np.linalg.eigh((second_TT + second_TT.T) / 2)[1][:, ::-1][:, :dim]
        bias_K = (y_T - x_D @ weight_DT) @ axes_TK
        readout = Readout(_tensor((weight_DT @ axes_TK).T), _tensor(bias_K), origin)
        readout.axes_TK = _tensor(axes_TK)
        return readout


def _tensor(array: Numbers) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float32))


def unit(x_ND: Tensor) -> Tensor:
    """Return the rows at length 1, however large or small their numbers are; a zero row stays zero."""
    exponent_N1 = torch.frexp(x_ND.abs().amax(dim=1, keepdim=True))[1].clamp(-126, 126)
    return normalize(torch.ldexp(x_ND, -exponent_N1), dim=1)  # a power of two rounds nothing


def share_of(structure: float) -> float:
    """Check that λ is a share, from 0 to 1, and return it."""
    if not isinstance(structure, Real) or not 0 <= structure <= 1:
        raise UserError(f"structure={structure!r:.40}: a share from 0 to 1")
    return structure


STRUCTURE_SIZES = (128, 256, 512, 1024)
"""How many numbers a structure vector may have; the first ones of the largest are the smaller ones."""


def joined_with_structure(meaning_ND: Tensor, structure_NS: Tensor, share: float) -> Tensor:
    """Put meaning and structure side by side, each at length 1: [n, D + S]; cosines mix as 1 − λ and λ."""
    parts = ((1 - share) ** 0.5 * unit(meaning_ND), share**0.5 * normalize(structure_NS, dim=1))
    return torch.cat(parts, dim=1)
