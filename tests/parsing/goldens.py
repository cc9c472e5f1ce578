"""25 steps of parser training, for ``tests/test_goldens.py``: five epochs of five batches of like length."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from parsing.train import cli
from tests.fixtures.goldens import fingerprint
from tests.fixtures.treebanks import write_treebank

SCORES = ("uas", "las", "f1", "tags")


def train(kind: str, folder: Path) -> list[Path]:
    """Train a parser, or both, in a folder; its weights, best weights and checkpoints."""
    folder.mkdir(parents=True, exist_ok=True)
    arcs, brackets = write_treebank(folder)
    given = {"dep": arcs, "const": brackets}
    kinds = list(given) if kind == "both" else [kind]
    files = [part for one in kinds for use in ("train", "dev") for part in (f"--{use}-{one}", given[one])]
    sizes = {"word-dim": 6, "character-dim": 4, "character-hidden": 6, "hidden": 8, "layers": 2}
    options = [part for name, value in sizes.items() for part in (f"--model.encoder.{name}", value)]
    options += ["--loop.dropout", 0.2]
    options += ["--model.arcs.arc-dim", 7, "--model.arcs.relation-dim", 5]
    options += ["--model.spans.label-hidden", 9, "--model.spans.tag-hidden", 8]
    options += ["--model.min-count", 1, "--loop.batch-tokens", 28, "--loop.learning-rate", 0.01]
    options += ["--loop.epochs", 5]
    output = folder / "model"
    command = (*files, "--output", output, "--device", "cpu", *options)
    assert cli([str(part) for part in command]) == 0
    return sorted(output.glob("**/*.safetensors"))


def figures(kind: str, folder: Path) -> list[float]:
    """The last weights, whatever they are called, and the last dev scores."""
    train(kind, folder)
    training = folder / "model" / "training"
    tensors = load_file(training / "checkpoints" / "step-00000025" / "weights.safetensors")
    lines = [fingerprint({"": tensor}) for tensor in tensors.values()]
    scores = json.loads((training / "log.jsonl").read_text().splitlines()[-1])
    return [*(value for pair in sorted(lines) for value in pair), *(scores[s] for s in SCORES if s in scores)]


KINDS = ("dep", "const", "both")
SECTIONS: Mapping[str, Callable[[Path], Any]] = {f"parser {kind}": partial(figures, kind) for kind in KINDS}
KILLED: Mapping[str, Callable[[Path], list[Path]]] = {
    f"parser {kind}": partial(train, kind) for kind in KINDS
}
