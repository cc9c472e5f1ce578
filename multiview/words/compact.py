"""The compact storage of a model, which the encoder in the package has: all tensors in model.safetensors.

A word vector has 4 bits a number: a byte holds two numbers, each plus 8, the first in its lower half.
Matrices are int8. Word vectors and matrices have a bfloat16 scale for each row, and all other tensors are
float16. The matrix of a read-out is stored transposed, [K, D], so that each number of a meaning has a scale.
If training goes on from a compact model, the new model has the packed words, and its other tensors in
float32.
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
from runtime.files import atomic_path, read_record, write_record

WEIGHTS = "model.safetensors"
FIXED_VECTORS = "words.fixed"
"""The name of the tensor of fixed word vectors."""
SCALE_SUFFIX = ".scale"
"""The suffix of the name of a tensor with the scales of another tensor."""


def pack_model(source: Path, target: Path, *extra_views: str) -> None:
    """Write a compact copy of a model with fixed words; ``extra_views``, without weights, are added to it."""
    tensors: dict[str, Tensor] = {}
    for name, tensor in load_file(source / WEIGHTS).items():
        tensors |= pack_matrix(name, tensor) if tensor.ndim == 2 else {name: tensor.half()}
    words_WE = torch.from_numpy(np.load(source / VECTORS))
    # If normal numbers are rounded to 15 values, the error is least with values up to 2.7 deviations.
    limit_W1 = torch.minimum(words_WE.abs().amax(1, True), 2.7 * words_WE.square().mean(1, True).sqrt())
    scale_W1 = (limit_W1 / 7).clamp(min=1e-30).bfloat16()
    steps_WE = ((words_WE / scale_W1.float()).round().clamp(-7, 7) + 8).to(torch.uint8)
    tensors[FIXED_VECTORS] = steps_WE[:, ::2] | steps_WE[:, 1::2] << 4
    tensors[FIXED_VECTORS + SCALE_SUFFIX] = scale_W1[:, 0]
    target.mkdir(parents=True, exist_ok=True)
    for name in ("README.md", "modules.json", "time.json", "vocab.txt"):
        (target / name).write_bytes((source / name).read_bytes())
    record = read_record(source / "config.json")
    record |= {"views": [*record["views"], *extra_views], "storage": "compact"}
    with atomic_path(target / WEIGHTS) as temporary:
        save_file(tensors, temporary)
    write_record(target / "config.json", record, ("vocab.txt", WEIGHTS))


def packed_tensors(vectors: PackedVectors) -> dict[str, Tensor]:
    """Return the tensors of packed word vectors, under the names that :func:`unpack` reads."""
    scale = torch.from_numpy(vectors.scale[:, 0]).bfloat16()  # exact: it came from bfloat16
    return {FIXED_VECTORS: torch.from_numpy(vectors.pairs), FIXED_VECTORS + SCALE_SUFFIX: scale}


def unpack(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return the float32 weights of a compact model by name; word vectors stay :class:`PackedVectors`.

    A bfloat16 has 8 significant bits, so a number times its scale is exact in float32. Raises UserError if
    numbers of 8 or 4 bits have no scale for each row.
    """
    weights: dict[str, Any] = {}
    for name, tensor in tensors.items():
        if name.endswith(SCALE_SUFFIX) and name.removesuffix(SCALE_SUFFIX) in tensors:
            continue
        if tensor.dtype in (torch.float16, torch.bfloat16):
            weights[name] = tensor.float()
        elif tensor.dtype not in (torch.int8, torch.uint8):
            weights[name] = tensor
        else:
            scale = tensors.get(name + SCALE_SUFFIX, torch.empty(0))
            has_scale = scale.dtype == torch.bfloat16 and scale.shape == tensor.shape[:1]
            is_packed = tensor.dtype == torch.uint8
            if not has_scale or tensor.ndim != 2 or is_packed != (name == FIXED_VECTORS):
                raise UserError(f"{name} is {tensor.dtype} {list(tensor.shape)} without a scale per row")
            scale_N1 = scale.float()[:, None]
            packed_vectors = PackedVectors(tensor.numpy(), scale_N1.numpy())
            weights[name] = packed_vectors if is_packed else tensor * scale_N1
    return weights


def pack_matrix(name: str, matrix: Tensor) -> dict[str, Tensor]:
    """Return the tensors of a matrix, int8 and its scales, under the names that :func:`unpack` reads."""
    scale = (matrix.abs().amax(dim=1).clamp(min=1e-30) / 127).bfloat16()
    integers = (matrix / scale.float()[:, None]).round().clamp(-127, 127).to(torch.int8)
    return {name: integers, name + SCALE_SUFFIX: scale}
