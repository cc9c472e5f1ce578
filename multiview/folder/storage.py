"""Compact storage of a model: word vectors as int8 with one scale per row, all other weights as float16.

A row x of word vectors is stored as q = round(x / scale), int8, with scale = max|x| / 127 in bfloat16. No
number is off by more than scale / 2. A bfloat16 has 8 significant bits, so q * scale is exact in float32: a
compact model that is loaded and stored again gives the same bytes.

Legend of dimension suffixes: W table rows, E word-vector size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from corpora.support.errors import UserError
from multiview.words.vectors import Float

Storage = Literal["float32", "compact"]
FIXED = "words.fixed"
"""Name of fixed word vectors among compact weights; a float32 model has them in vectors.npy."""
TABLES = "words."
"""Where the names of word vectors start."""
SCALE = ".scale"
"""Follows the name of an int8 tensor in the name of its scales."""
LARGEST = 127


def pack(weights: Mapping[str, Tensor], fixed: Float | None) -> dict[str, Tensor]:
    """Compact weights by name.

    Args:
        weights: float32 by name; of these, word tables are [W, E].
        fixed: fixed word vectors float32 [W, E], if the model has such.

    Raises:
        UserError: a weight is not finite, or is too large for float16; it is named.
    """
    packed: dict[str, Tensor] = {}
    everything = dict(weights)
    if fixed is not None:
        everything[FIXED] = torch.from_numpy(np.array(fixed, dtype=np.float32))
    for name, value in everything.items():
        if name.startswith(TABLES):
            packed[name], packed[name + SCALE] = quantise(value)
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
        UserError: int8 numbers without a scale per row, or fixed vectors are missing.
    """
    weights: dict[str, Tensor] = {}
    for name, value in packed.items():
        if name.endswith(SCALE) and name.removesuffix(SCALE) in packed:
            continue
        if value.dtype != torch.int8:
            weights[name] = value.float()
            continue
        scale = packed.get(name + SCALE)
        if value.ndim != 2 or scale is None or scale.shape != value.shape[:1]:
            raise UserError(f"{name} is int8 {list(value.shape)} without a scale per row")
        weights[name] = value.float() * scale.float()[:, None]
    if not fixed:
        return weights, None
    if FIXED not in weights:
        raise UserError(f"{FIXED} is missing")
    return weights, weights.pop(FIXED).numpy()


def quantise(rows_WE: Tensor) -> tuple[Tensor, Tensor]:
    """Numbers int8 [W, E] and scales bfloat16 [W] of float32 rows [W, E]; a row of zeros has scale 0."""
    scale_W = (rows_WE.abs().amax(dim=1) / LARGEST).bfloat16()
    divisor_W1 = torch.where(scale_W > 0, scale_W, torch.ones_like(scale_W)).float()[:, None]
    return (rows_WE / divisor_W1).round().clamp(-LARGEST, LARGEST).to(torch.int8), scale_W
