"""Initial weights of the encoders."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def xavier_blocks_(weight: Tensor, rows: int, columns: int) -> Tensor:
    """Fills each [rows, columns] block of a fused weight by Xavier on its own.

    The fused matrix as a whole would be given the bounds of a wider layer: 1.7 times too small for [5D, 2D].
    """
    with torch.no_grad():
        for block_row in weight.split(rows, 0):
            for block in block_row.split(columns, 1):
                nn.init.xavier_uniform_(block)
    return weight
