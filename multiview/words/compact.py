"""A model stored compactly, as the encoder in the package is: all its vectors in model.safetensors.

Word vectors are pairs of 4-bit numbers plus 8 in a byte (the first in the lower half), matrices are int8,
both with a bfloat16 scale per row; all else is float16. A read-out's matrix lies transposed, [K, D], so that
it has one scale per number of the meaning.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from multiview.words.table import PackedVectors
from multiview.words.vectors import VECTORS
from runtime.errors import UserError
from runtime.files import atomic_path, file_record, read_record, write_record

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


def unpack(packed: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return float32 weights by name, of compact ones; word vectors of 4 bits as :class:`PackedVectors`.

    A bfloat16 has 8 significant bits, so a number times its scale is exact in float32. Numbers of 8 or 4
    bits without a scale per row are a UserError.
    """
    weights: dict[str, Any] = {}
    for name, value in packed.items():
        if name.endswith(SCALE) and name.removesuffix(SCALE) in packed:
            continue
        if value.dtype not in (torch.int8, torch.uint8):
            weights[name] = value.float() if value.dtype in (torch.float16, torch.bfloat16) else value
            continue
        scale, pairs = packed.get(name + SCALE), value.dtype == torch.uint8
        scaled = scale is not None and scale.dtype == torch.bfloat16 and scale.shape == value.shape[:1]
        if scale is None or not scaled or value.ndim != 2 or pairs != (name == FIXED):
            raise UserError(f"{name} is {value.dtype} {list(value.shape)} without a scale per row")
        scale_N1 = scale.float()[:, None]
        weights[name] = PackedVectors(value.numpy(), scale_N1.numpy()) if pairs else value * scale_N1
    return weights


def pack_matrix(name: str, matrix: Tensor) -> dict[str, Tensor]:
    """Give a matrix in int8 with its scales, as the compact storage has it; :func:`unpack` gives it back."""
    scale = (matrix.abs().amax(dim=1).clamp(min=1e-30) / 127).bfloat16()
    whole = (matrix / scale.float()[:, None]).round().clamp(-127, 127).to(torch.int8)
    return {name: whole, name + SCALE: scale}
