"""A model stored compactly, as the encoder in the package is: all its vectors in model.safetensors.

Word vectors are pairs of 4-bit numbers plus 8 in a byte (the first in the lower half; 0 fills an odd row up),
matrices are int8, both with a bfloat16 scale per row; all else is float16. A read-out's matrix lies
transposed, [K, D], so that it has one scale per number of the meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from corpora.support.errors import UserError
from corpora.support.files import atomic_path, file_record, read_record, write_record
from multiview.words.table import Fixed, PackedVectors
from multiview.words.vectors import VECTORS

WEIGHTS = "model.safetensors"
FIXED, SCALE = "words.fixed", ".scale"
"""The name of fixed word vectors; follows a tensor's name in that of its scales."""


def pack_model(trained: Path, folder: Path, *more: str) -> None:
    """Write a compact copy of a model with fixed words and ``more`` views without weights, for a read-out."""
    record, packed = read_record(trained / "config.json"), dict[str, Tensor]()
    for name, value in load_file(trained / WEIGHTS).items():
        packed |= pack_matrix(name, value) if value.ndim == 2 else {name: value.half()}
    words_WE = torch.from_numpy(np.load(trained / VECTORS))
    # Of 15 steps over normal numbers those to 2.7 standard deviations err least.
    scale_W1 = torch.minimum(words_WE.abs().amax(1, True), 2.7 * words_WE.square().mean(1, True).sqrt()) / 7
    scale_W1 = scale_W1.clamp(min=1e-30).bfloat16()
    steps_WE = ((words_WE / scale_W1.float()).round().clamp(-7, 7) + 8).to(torch.uint8)
    packed[FIXED], packed[FIXED + SCALE] = steps_WE[:, ::2] | steps_WE[:, 1::2] << 4, scale_W1[:, 0]
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("README.md", "modules.json", "time.json", "vocab.txt"):
        (folder / name).write_bytes((trained / name).read_bytes())
    with atomic_path(folder / "config.json") as last, atomic_path(folder / WEIGHTS) as weights:
        save_file(packed, weights)
        record["files"] = {"vocab.txt": record["files"]["vocab.txt"], WEIGHTS: file_record(weights)}
        write_record(last, {**record, "views": [*record["views"], *more], "storage": "compact"})


def unpack(packed: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Float32 weights by name, of compact ones without :func:`word_vectors`.

    A bfloat16 has 8 significant bits, so a number times its scale is exact in float32.

    Raises:
        UserError: numbers of 8 bits without a scale per row.
    """
    scales = {name + SCALE for name in packed}
    return {
        name: value.float() * _scale(packed, name) if value.dtype == torch.int8 else value.float()
        for name, value in packed.items()
        if name not in scales
    }


def word_vectors(packed: dict[str, Tensor]) -> Fixed:
    """Take the fixed vectors, [W, E], out of compact weights.

    Raises:
        UserError: numbers of 8 or 4 bits without a scale per row.
        KeyError: there are none.
    """
    own = {name: packed.pop(name) for name in (FIXED, FIXED + SCALE) if name in packed}
    if own[FIXED].dtype == torch.uint8:
        return PackedVectors(own[FIXED].numpy(), _scale(own, FIXED).numpy())
    return unpack(own)[FIXED].numpy()


def _scale(packed: Mapping[str, Tensor], name: str) -> Tensor:
    """Scales of a matrix's rows, float32 [n, 1]."""
    value, scale = packed[name], packed.get(name + SCALE)
    if value.ndim != 2 or scale is None or scale.shape != value.shape[:1]:
        raise UserError(f"{name} is {value.dtype} {list(value.shape)} without a scale per row")
    return scale.float()[:, None]


def pack_matrix(name: str, matrix: Tensor) -> dict[str, Tensor]:
    """A matrix in int8 with its scales, as the compact storage has it; :func:`unpack` gives it back."""
    scale = (matrix.abs().amax(dim=1).clamp(min=1e-30) / 127).bfloat16()
    whole = (matrix / scale.float()[:, None]).round().clamp(-127, 127).to(torch.int8)
    return {name: whole, name + SCALE: scale}
