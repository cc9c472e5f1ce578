"""One vector made for cosine, or features for classifiers, from the views of a model side by side.

    meaning(s) = unit(x W + b)          features(x) = L / √F · (x - m) / d

x are the views one after the other. W and b are fitted to a teacher's vectors or to neighbours
(:mod:`multiview.training.fit`). m and d are mean and deviation of each of the F numbers over a sample of
text, so that a sentence there has the length L (root mean square). Classifiers hardly learn from numbers that
are small, whatever these tell (docs/senteval.md).

Legend of dimension suffixes: N sentences, B of a batch, D size of the views together, T of the teacher, K of
the read-out, F features.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, normalize

FEATURE_LENGTH = 5.06
"""L: a deviation of 0.1 of 2,560 features, 0.32 of 256; chosen on development tasks (docs/senteval.md)."""
SAMPLE_SENTENCES, BLOCK_SENTENCES = 5_000, 50
"""How many sentences are measured for a scale, and how many of them follow each other."""
SentenceRange = tuple[int, int]
"""Sentences ``first`` to ``stop`` (excluded) of a text."""


class Readout(nn.Module):
    """The linear map from the views side by side to a meaning.

    ``weight_KD`` [K, D] is W transposed, as :class:`torch.nn.Linear` has it, ``bias_K`` is b; ``origin``, for
    config.json, says what the map was fitted to.
    """

    weight: nn.Parameter
    bias: nn.Parameter

    def __init__(self, weight_KD: Tensor, bias_K: Tensor, origin: str = "") -> None:
        super().__init__()
        self.weight = nn.Parameter(weight_KD, requires_grad=False)
        self.bias = nn.Parameter(bias_K, requires_grad=False)
        self.origin = origin
        self.axes_TK: Tensor | None = None
        """[T, K], the directions in the teacher's space that the K numbers stand for; only after a fit."""

    @property
    def dim(self) -> int:
        """K, the size of a meaning."""
        return len(self.bias)

    def forward(self, x_BD: Tensor, dim: int | None = None) -> Tensor:
        """Return the meanings [B, K] at length 1; of ``dim`` numbers only the first, again at length 1."""
        return normalize(linear(x_BD, self.weight[:dim], self.bias[:dim]), dim=1)


class Scale(nn.Module):
    """Turns vectors into features, by the mean and deviation of each number.

    ``mean_D`` is m; ``deviation_D`` is d: 0 of a constant, whose feature is 0, and infinite of a number that
    is left out; ``origin``, for config.json, says which text was measured.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, mean_D: Tensor, deviation_D: Tensor, origin: str = "") -> None:
        super().__init__()
        self.register_buffer("mean", mean_D)
        self.register_buffer("deviation", deviation_D)
        self.origin = origin

    @classmethod
    def measure(cls, batches: Iterable[Tensor], origin: str = "", previous: Scale | None = None) -> Scale:
        """Measure the vectors [B, D] of all batches together, with sums in float64.

        Numbers that a ``previous`` scale leaves out are left out again.
        """
        count = 0
        sums_2D = torch.zeros(2, 1, dtype=torch.float64)
        for x_BD in batches:
            x_BD = x_BD.double().cpu()
            sums_2D = sums_2D + torch.stack([x_BD.sum(dim=0), x_BD.square().sum(dim=0)])
            count += len(x_BD)
        mean_D, square_D = sums_2D / max(count, 1)
        deviation_D = deviations(mean_D, square_D)
        if previous is not None:
            deviation_D[previous.deviation.cpu().isinf()] = torch.inf
        return cls(mean_D.float(), deviation_D.float(), origin)

    @property
    def feature_indices(self) -> Tensor:
        """int64 [F], the numbers that are not left out."""
        return self.deviation.isfinite().nonzero()[:, 0]

    @property
    def dim(self) -> int:
        """F, the number of features."""
        return len(self.feature_indices)

    def forward(self, x_BD: Tensor, dim: int | None = None) -> Tensor:
        """Return the features [B, F] of vectors [B, D], on their device; with ``dim`` only the first ones."""
        self.to(x_BD.device)
        indices_F = self.feature_indices
        deviation_F = self.deviation[indices_F]
        factor_F = FEATURE_LENGTH / math.sqrt(len(indices_F)) / deviation_F
        factor_F = factor_F.masked_fill(deviation_F == 0, 0.0)
        return ((x_BD[:, indices_F] - self.mean[indices_F]) * factor_F)[:, :dim]


def deviations(mean_D: Tensor, square_D: Tensor) -> Tensor:
    """Return the deviations of numbers by their means and mean squares, in float64; 0 of a constant."""
    deviation_D = (square_D - mean_D.square()).clamp_min(0).sqrt()
    return deviation_D.masked_fill(deviation_D <= 1e-6 * mean_D.abs(), 0)  # what rounding leaves of it


def sample_ranges(
    parts: Sequence[SentenceRange], sentences: int = SAMPLE_SENTENCES, block: int = BLOCK_SENTENCES
) -> list[SentenceRange]:
    """Choose blocks of successive sentences, spread evenly over a text, whose parts are given in order.

    The blocks have at most ``block`` sentences each and ``sentences`` in all. A shorter text is taken whole,
    and the end of a part ends a block.
    """
    ends = list(accumulate(stop - first for first, stop in parts))
    total = ends[-1] if ends else 0
    blocks = min(max(1, sentences // block), math.ceil(total / block))
    ranges = []
    for number in range(blocks):
        low, high = total * number // blocks, total * (number + 1) // blocks
        part = bisect_right(ends, low)
        stop = parts[part][1]
        first = stop - (ends[part] - low)
        ranges.append((first, min(first + min(block, high - low), stop)))
    return ranges


def normalize_rows(x_ND: Tensor) -> Tensor:
    """Return the rows at length 1, however large or small their numbers are; a zero row stays zero."""
    exponent_N1 = torch.frexp(x_ND.abs().amax(dim=1, keepdim=True))[1].clamp(-126, 126)
    return normalize(torch.ldexp(x_ND, -exponent_N1), dim=1)  # a power of two rounds nothing
