"""Maps the concatenated views of a model to meanings, for cosines, or to features, for classifiers.

    meaning(s) = unit(x W + b)          features(x) = L / √F · (x - m) / d

x is the concatenation of the views' vectors. W and b are fitted to a teacher's vectors or to neighbouring
sentences (:mod:`multiview.training.fit`). m and d are the mean and the standard deviation of each of the F
numbers over a sample of text, so that the features of a sentence there have the length L (root mean square).
They are scaled because classifiers hardly learn from small numbers, however informative (docs/senteval.md).

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
"""L, chosen on development tasks. With 2,560 features each has a deviation of 0.1, with 256 of 0.32."""
SAMPLE_SENTENCES, SAMPLE_BLOCK_SENTENCES = 5_000, 50
"""The number of sentences over which a scale is measured, and of neighbouring sentences in a block."""
SentenceRange = tuple[int, int]
"""The numbers ``first`` and ``stop`` (excluded) of a range of sentences of a text."""


class Readout(nn.Module):
    """The linear map from the concatenated views to a meaning.

    ``weight_KD`` [K, D] is W transposed, as in :class:`torch.nn.Linear`, and ``bias_K`` is b. ``origin`` says
    what the map was fitted to; it is stored in config.json.
    """

    weight: nn.Parameter
    bias: nn.Parameter

    def __init__(self, weight_KD: Tensor, bias_K: Tensor, origin: str = "") -> None:
        super().__init__()
        self.weight = nn.Parameter(weight_KD, requires_grad=False)
        self.bias = nn.Parameter(bias_K, requires_grad=False)
        self.origin = origin
        self.axes_TK: Tensor | None = None
        """The direction in the teacher's space of each of the K numbers, [T, K]; None in a loaded model."""

    @property
    def dim(self) -> int:
        """K, the size of a meaning."""
        return len(self.bias)

    def forward(self, x_BD: Tensor, dim: int | None = None) -> Tensor:
        """Return the meanings, [B, K] of length 1; only the first ``dim`` numbers, again of length 1."""
        return normalize(linear(x_BD, self.weight[:dim], self.bias[:dim]), dim=1)


class Scale(nn.Module):
    """The map from vectors to features, by the mean and the standard deviation of each number.

    ``mean_D`` is m and ``deviation_D`` is d: 0 for a constant number, whose feature is 0, and infinite for a
    number that is left out. ``origin`` says which text was measured; it is stored in config.json.
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
        """Return the scale of the vectors [B, D] of all batches together; sums are in float64.

        Numbers that the ``previous`` scale leaves out are left out of this one, too.
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
        """The indices of the numbers that are not left out, int64 [F]."""
        return self.deviation.isfinite().nonzero()[:, 0]

    @property
    def dim(self) -> int:
        """F, the number of features."""
        return len(self.feature_indices)

    def forward(self, x_BD: Tensor, dim: int | None = None) -> Tensor:
        """Return the features [B, F] of vectors [B, D], on their device; only the first ``dim`` if given."""
        self.to(x_BD.device)
        indices_F = self.feature_indices
        deviation_F = self.deviation[indices_F]
        factor_F = FEATURE_LENGTH / math.sqrt(len(indices_F)) / deviation_F
        factor_F = factor_F.masked_fill(deviation_F == 0, 0.0)
        return ((x_BD[:, indices_F] - self.mean[indices_F]) * factor_F)[:, :dim]


def deviations(mean_D: Tensor, square_D: Tensor) -> Tensor:
    """Return standard deviations, float64, by means and mean squares; 0 for a constant number."""
    deviation_D = (square_D - mean_D.square()).clamp_min(0).sqrt()
    # A relative deviation below 1e-6 comes from rounding alone.
    return deviation_D.masked_fill(deviation_D <= 1e-6 * mean_D.abs(), 0)


def sample_ranges(
    parts: Sequence[SentenceRange], sentences: int = SAMPLE_SENTENCES, block: int = SAMPLE_BLOCK_SENTENCES
) -> list[SentenceRange]:
    """Return ranges of successive sentences, spread evenly over the ``parts`` of a text.

    A range has at most ``block`` sentences and lies in one part, and all ranges together have at most
    ``sentences``. A text with fewer sentences is taken whole.
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
    """Return the rows scaled to length 1, without overflow or underflow of squares; a zero row stays zero."""
    exponent_N1 = torch.frexp(x_ND.abs().amax(dim=1, keepdim=True))[1].clamp(-126, 126)
    return normalize(torch.ldexp(x_ND, -exponent_N1), dim=1)  # multiplying by a power of two does not round
