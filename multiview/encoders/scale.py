"""Each number of a sentence's vector at one scale, as features for classifiers.

    features(x) = L / √F · (x - m) / d

x are the views one after the other, m and d mean and deviation of each of the F numbers over a sample of
text, so that a sentence there has the length L (root mean square). Classifiers take steps of one size, stop
early and have a penalty in absolute terms, so that they hardly learn from numbers that are small, whatever
these tell (docs/senteval.md). The text is a sample of up to 5,000 sentences in blocks of 50, spread evenly:
the deviation of 5,000 draws is off by one per cent.

Legend of dimension suffixes: B sentences of a batch, D numbers of all views, F features.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate

import torch
from torch import Tensor, nn

LENGTH = 5.06
"""L: a deviation of 0.1 of 2,560 features, 0.32 of 256; chosen on development tasks (docs/senteval.md)."""
SAMPLE, BLOCK = 5_000, 50
"""Sentences that are measured, and how many of them follow each other."""
Span = tuple[int, int]
"""Sentences ``start`` to ``stop`` (excluded) of a text."""


class Scale(nn.Module):
    """Makes features of vectors, by mean and deviation of each number.

    Args:
        mean_D: [D], m.
        deviation_D: [D], d; 0 of a constant, whose feature is 0, and infinite of a number that is left out.
        origin: what was measured, for config.json.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, mean_D: Tensor, deviation_D: Tensor, origin: str = "") -> None:
        super().__init__()
        self.register_buffer("mean", mean_D)
        self.register_buffer("deviation", deviation_D)
        self.origin = origin

    @classmethod
    def measured(cls, vectors: Iterable[Tensor], origin: str = "") -> Scale:
        """Measure vectors [B, D], all batches together, with sums in float64."""
        count, sums_2D = 0, torch.zeros(2, 1, dtype=torch.float64)
        for x_BD in vectors:
            x_BD = x_BD.double().cpu()
            sums_2D = sums_2D + torch.stack([x_BD.sum(dim=0), x_BD.square().sum(dim=0)])
            count += len(x_BD)
        mean_D, square_D = sums_2D / max(count, 1)
        deviation_D = (square_D - mean_D.square()).clamp_min(0).sqrt()
        # What rounding leaves of a constant tells nothing.
        deviation_D[deviation_D <= 1e-6 * mean_D.abs()] = 0
        return cls(mean_D.float(), deviation_D.float(), origin)

    @property
    def numbers(self) -> Tensor:
        """int64 [F], the numbers that are not left out."""
        return self.deviation.isfinite().nonzero()[:, 0]

    @property
    def record(self) -> dict[str, str]:
        """Give what config.json says about it."""
        return {"origin": self.origin}

    def forward(self, x_BD: Tensor, dim: int | None = None) -> Tensor:
        """Return the features [B, F] of vectors [B, D], on their device; ``dim`` keeps so many of them."""
        self.to(x_BD.device)
        numbers_F = self.numbers
        deviation_F = self.deviation[numbers_F]
        factor_F = (LENGTH / math.sqrt(len(numbers_F)) / deviation_F).masked_fill(deviation_F == 0, 0.0)
        return ((x_BD[:, numbers_F] - self.mean[numbers_F]) * factor_F)[:, :dim]

    def of(self, numbers_F: Tensor) -> Scale:
        """Choose the scale of some numbers, int64 [F]."""
        return Scale(self.mean.cpu()[numbers_F], self.deviation.cpu()[numbers_F], self.origin)

    def like(self, other: Scale | None) -> Scale:
        """Return the same, but without the numbers that another one leaves out."""
        if other is None:
            return self
        left_out_D = other.deviation.cpu().isinf()
        return Scale(self.mean.cpu(), self.deviation.cpu().masked_fill(left_out_D, torch.inf), self.origin)


def joined(scales: Sequence[Scale]) -> Scale:
    """Join the scales of vectors that stand side by side."""
    return Scale(torch.cat([scale.mean for scale in scales]), torch.cat([s.deviation for s in scales]))


def spread(text: Sequence[Span], most: int = SAMPLE, block: int = BLOCK) -> list[Span]:
    """Return the blocks of successive sentences, spread evenly over a text.

    Args:
        text: the parts of the text, in order.
        most: sentences of all blocks together; a shorter text is read whole.
        block: sentences of a block at most; the end of a part ends one.
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
