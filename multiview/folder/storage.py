"""Compact storage of a model: numbers of 8 or 4 bits with one scale per row, and float16.

With 8 bits, a row x of word vectors is stored as q = round(x / scale), int8, with scale = max|x| / 127 in
bfloat16; all other weights are float16. No number is off by more than scale / 2.

With 4 bits, word vectors are stored as q from -7 to 7, two in a byte (q + 8, the first in the lower half; 0
fills an odd row up). The scale is max|x| / 7 or less, whichever of three leaves the smallest squared error:
few numbers of a row are near its largest. Weight matrices then are int8 by rows, and vectors of weights
float16.

A bfloat16 has 8 significant bits, so q * scale is exact in float32: a compact model that is loaded and stored
again gives the same bytes.

Legend of dimension suffixes: W table rows, E word-vector size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from corpora.support.errors import UserError
from multiview.config import Bits
from multiview.words.vectors import Float

Storage = Literal["float32", "compact"]
FIXED = "words.fixed"
"""Name of fixed word vectors among compact weights; a float32 model has them in vectors.npy."""
TABLES = "words."
"""Where the names of word vectors start."""
SCALE = ".scale"
"""Follows the name of an int8 tensor in the name of its scales."""
LARGEST = 127
LARGEST_OF_4 = 7
CLIPPED = (1.0, 0.85, 0.7)
"""Fractions of a row's largest number that may be the largest to be stored in 4 bits."""


def pack(weights: Mapping[str, Tensor], fixed: Float | None, bits: Bits = 8) -> dict[str, Tensor]:
    """Compact weights by name.

    Args:
        weights: float32 by name; of these, word tables are [W, E].
        fixed: fixed word vectors float32 [W, E], if the model has such.
        bits: of a number of a word vector.

    Raises:
        UserError: a weight is not finite, or is too large for float16; it is named.
    """
    packed: dict[str, Tensor] = {}
    everything = dict(weights)
    if fixed is not None:
        everything[FIXED] = torch.from_numpy(np.array(fixed, dtype=np.float32))
    for name, value in everything.items():
        is_table = name.startswith(TABLES)
        if is_table or (bits == 4 and value.ndim == 2):
            smaller = quantise_to_4 if is_table and bits == 4 else quantise
            packed[name], packed[name + SCALE] = smaller(value)
            finite = bool(torch.isfinite(value).all())
        else:
            packed[name] = value.half()
            finite = bool(torch.isfinite(packed[name]).all())
        if not finite:
            raise UserError(f"weights {name}: not finite, or beyond the range of float16")
    return packed


def unpack(packed: Mapping[str, Tensor], *, fixed: bool) -> tuple[dict[str, Tensor], Float | None]:
    """Float32 weights by name, and fixed word vectors float32 [W, E].

    Args:
        packed: what :func:`pack` returned.
        fixed: whether the model has fixed word vectors.

    Raises:
        UserError: numbers of 8 or 4 bits without a scale per row, or fixed vectors are missing.
    """
    weights: dict[str, Tensor] = {}
    for name, value in packed.items():
        if name.endswith(SCALE) and name.removesuffix(SCALE) in packed:
            continue
        if value.dtype not in (torch.int8, torch.uint8):
            weights[name] = value.float()
            continue
        scale = packed.get(name + SCALE)
        if value.ndim != 2 or scale is None or scale.shape != value.shape[:1]:
            kind = str(value.dtype).removeprefix("torch.")
            raise UserError(f"{name} is {kind} {list(value.shape)} without a scale per row")
        whole = value if value.dtype == torch.int8 else _halves(value)
        weights[name] = whole.float() * scale.float()[:, None]
    if not fixed:
        return weights, None
    if FIXED not in weights:
        raise UserError(f"{FIXED} is missing")
    return weights, weights.pop(FIXED).numpy()


def quantise(rows_WE: Tensor) -> tuple[Tensor, Tensor]:
    """Numbers int8 [W, E] and scales bfloat16 [W] of float32 rows [W, E]; a row of zeros has scale 0."""
    scale_W = (rows_WE.abs().amax(dim=1) / LARGEST).bfloat16()
    return _divided(rows_WE, scale_W, LARGEST), scale_W


def quantise_to_4(rows_WE: Tensor) -> tuple[Tensor, Tensor]:
    """Pairs of numbers uint8 [W, (E + 1) // 2] and scales bfloat16 [W] of float32 rows [W, E]."""
    most_W = torch.amax(rows_WE.abs(), dim=1) / LARGEST_OF_4
    found = []
    for fraction in CLIPPED:
        scale_W = (most_W * fraction).bfloat16()
        q_WE = _divided(rows_WE, scale_W, LARGEST_OF_4)
        error_W = (q_WE.float() * scale_W.float()[:, None] - rows_WE).square().sum(dim=1)
        found.append((error_W, q_WE, scale_W))
    best_W = torch.stack([error_W for error_W, _, _ in found]).argmin(dim=0)
    row = torch.arange(len(rows_WE))
    q_WE = torch.stack([q_WE for _, q_WE, _ in found])[best_W, row] + 8
    if q_WE.shape[1] % 2:
        q_WE = torch.nn.functional.pad(q_WE, (0, 1))
    pairs = (q_WE[:, ::2] + 16 * q_WE[:, 1::2].int()).to(torch.uint8)
    return pairs, torch.stack([scale_W for _, _, scale_W in found])[best_W, row]


def _divided(rows_WE: Tensor, scale_W: Tensor, largest: int) -> Tensor:
    """Rows over their scales, rounded: int8 [W, E]."""
    divisor_W1 = torch.where(scale_W > 0, scale_W, torch.ones_like(scale_W)).float()[:, None]
    return (rows_WE / divisor_W1).round().clamp(-largest, largest).to(torch.int8)


def _halves(pairs: Tensor) -> Tensor:
    """Both numbers of every byte: int8 [W, E]."""
    both = torch.stack([pairs & 15, pairs >> 4], dim=2).flatten(1).to(torch.int8)
    filled = both.shape[1] > 0 and not bool(both[:, -1].any())
    return (both[:, :-1] if filled else both) - 8
