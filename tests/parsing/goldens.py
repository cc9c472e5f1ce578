"""25 steps of parser training, for ``tests/test_goldens.py``: five epochs of five batches of like length."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from parsing.networks.constituency import LabelHead
from parsing.train import cli
from tests.fixtures.goldens import Section
from tests.fixtures.treebanks import write_treebank
from tests.oracles.training import Recipe

OPTIONS = """
--model.encoder.word-dim 6 --model.encoder.character-dim 4 --model.encoder.character-hidden 6
--model.encoder.hidden 8 --model.encoder.layers 2 --model.arcs.arc-dim 7 --model.arcs.relation-dim 5
--model.spans.label-hidden 9 --model.spans.tag-hidden 8 --model.min-count 1
--loop.dropout 0.2 --loop.batch-tokens 28 --loop.learning-rate 0.01 --loop.epochs 5 --device cpu
"""


def train(kind: str, folder: Path) -> list[Path]:
    """Train a parser, or both, in a folder; its weights, best weights and checkpoints."""
    folder.mkdir(parents=True, exist_ok=True)
    path_of_kind = dict(zip(("dep", "const"), map(str, write_treebank(folder)), strict=True))
    kinds = list(path_of_kind) if kind == "both" else [kind]
    files = [f"--{use}-{one}={path_of_kind[one]}" for one in kinds for use in ("train", "dev")]
    assert cli([*files, "--output", str(folder / "model"), *OPTIONS.split()]) == 0
    return sorted((folder / "model").glob("**/*.safetensors"))


def follow(kind: str, folder: Path) -> dict[str, Any]:
    """Train; no figure is kept."""
    with patch.object(LabelHead, "_best_labels_on_cpu", worst_spans):
        train(kind, folder)
    return {}


def worst_spans(head: LabelHead, projected: Tensor, *rest: Any) -> Any:
    """On a CPU the compiled kernels, which are of float32; in float64 what a device does."""
    return (of_device if projected.dtype == torch.float64 else on_cpu)(head, projected, *rest)


def rate(step: int, steps: int) -> float:
    """Rises over a fiftieth of the run, then falls to 0."""
    middle = (step + 0.5) / steps
    return 0.01 * min(1.0, middle / 0.02) * min(1.0, (1 - middle) / 0.98)


RECIPE = Recipe(
    rate=rate, betas=(0.9, 0.98), clip=5.0, average=lambda done: min(0.999, (1 + done) / (10 + done))
)
on_cpu, of_device = LabelHead._best_labels_on_cpu, LabelHead._best_labels_on_gpu
SECTIONS: Mapping[str, Section] = {
    f"parser {kind}": Section(partial(follow, kind), RECIPE) for kind in ("dep", "const", "both")
}
TRAININGS: Mapping[str, Callable[[Path], list[Path]]] = {"parsers": partial(train, "both")}
