"""Neighbouring sentences found in documents that no model read, by each model, and gains over the first.

    python -m benchmarks.neighbours runs/trees/unseen builtin runs/models/builtin-laptop

Of each sentence: is the nearest of a block of 400 sentences, by the cosine of the meaning, the one before or
after it in its document? Per cent, and the 95 % interval of each gain over documents. A line of JSON a model.
"""

import json
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tyro.conf import Positional

from multiview.model import MultiViewEncoder
from multiview.training.objective import (
    BLOCK_SENTENCES,
    UNUSABLE_FLAGS,
    Positions,
    best_is_positive,
    neighbour_targets,
)
from parsing.trees.cache import TreeCache
from runtime.cli import Command, configuration
from senteval_runner.protocol.statistics import grouped_mean


@configuration
class NeighboursConfig:
    """Options of ``benchmarks.neighbours``."""

    trees: Positional[Path]
    """A tree cache of documents that the models did not read."""
    models: Positional[tuple[str, ...]]
    """Model folders or ``builtin``; gains are over the first."""


def found_neighbours(model: str, trees: TreeCache) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return 1 or 0 for each sentence that has a neighbour, float64 [A], and its document, int64 [A]."""
    import torch

    encoder = MultiViewEncoder.load(model).with_options(structure=0)
    meaning_ND = torch.from_numpy(encoder.encode(None, trees=trees, normalize_embeddings=True))
    number = np.arange(len(trees))
    document = np.searchsorted(trees.documents(), number, side="right") - 1
    is_usable = np.asarray(trees.flags()) & UNUSABLE_FLAGS == 0
    hits, documents = [], []
    for start in range(0, len(trees), BLOCK_SENTENCES):
        block = slice(start, start + BLOCK_SENTENCES)
        targets = neighbour_targets(Positions(number[block], document[block], is_usable[block]), "document")
        if len(targets.anchor):
            score_AB = meaning_ND[block][targets.anchor] @ meaning_ND[block].T
            hits.append(best_is_positive(score_AB, targets).double().numpy())
            documents.append(document[block][targets.anchor.numpy()])
    return np.concatenate(hits), np.concatenate(documents)


def main(config: NeighboursConfig) -> None:
    """Print the share that each model finds."""
    trees = TreeCache.open(config.trees)
    first: NDArray[np.float64] | None = None
    for model in config.models:
        hits, documents = found_neighbours(model, trees)
        line: dict[str, object] = {"benchmark": "neighbours", "trees": trees.folder.name, "model": model}
        line["neighbours"] = f"{100 * hits.mean():.2f}"
        if first is None:
            first = hits
        else:
            mean, (low, high) = grouped_mean(100 * (hits - first), documents)
            line["gain"] = f"{mean:.2f} [{low:.2f}, {high:.2f}]"
        print(json.dumps(line), flush=True)


cli = Command(NeighboursConfig, main, "benchmarks.neighbours", "Find neighbouring sentences by each model.")

if __name__ == "__main__":
    sys.exit(cli())
