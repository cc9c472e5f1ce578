"""Score the judge's similarity, in comparison with cosines and without some of its features.

    python -m benchmarks.similarity [--scored] [--hans FILE] [--cache FOLDER]

Both weights of :mod:`tools.fit_similarity` are scored, and weights that are fitted without groups of
features. Where people rated the pairs of a set, the score is Spearman's correlation times 100; where pairs
mean the same or not, it is the area under the ROC curve. Intervals are of 95 %, over rows. The verbs of
GS2011 and KS2013 are divided so that no verb is in both halves of the rows. ``--scored`` takes the halves and
the test splits on which nothing was chosen. A second table compares the similarity with the scale of people's
ratings. MULTIVIEW_DATA is the folder of the real data.
"""

import sys
from pathlib import Path

import numpy as np
from scipy.sparse.csgraph import connected_components, laplacian

from benchmarks.opposites import judge_auc
from benchmarks.structure import print_table, score_with_interval
from corpora.senteval.structure import FILLINGS, task_pairs
from corpora.tables import read_table
from multiview.folder.reading import TextSource
from multiview.judge.similarity import SimilarityWeights, weights_of
from multiview.judge.weights import FEATURES, Floats
from runtime.cli import Command, configuration
from tools import data_folder
from tools.fit_similarity import (
    CACHE,
    RATED,
    STRENGTHS,
    cached,
    features_of,
    fit,
    rated_pairs,
    read_graded,
)
from tools.judge_rows import read_sides
from tools.pair_sets import PairSet

NAMES = SimilarityWeights.required_features
SLOTS = ("slots", "agents", "patients", "predicates")
ABLATIONS = {
    "without slots": SLOTS,
    "without structure": ("structure",),
    "without meaning": ("meaning",),
    "words and trees alone": ("meaning", "structure"),
    "slots, meaning, structure alone": tuple(FEATURES),
}
"""The features that are left out, by name; "words and trees alone" needs no encoder."""
BINS = 5
"""Number of parts of the scale in the second table."""


@configuration
class SimilarityConfig:
    """Options of ``python -m benchmarks.similarity``."""

    scored: bool = False
    """Take the rows that nothing was chosen on."""
    hans: Path | None = None
    """HANS's heuristics_evaluation_set.txt, or what its authors' generator wrote."""
    cache: Path = CACHE
    """The folder of features that were computed before."""


def halves(pairs: list[tuple[str, str]]) -> list[int]:
    """Return the half of each pair of sentences, 0 or 1, so that the halves have no verb in common.

    The verb is the third word of a sentence. A pair whose two verbs are in different halves gets -1.

    Verbs that are in one pair are linked. If the graph has several components, these are distributed over the
    halves, the largest first; if it is connected, it is cut in two by the second eigenvector of its Laplacian
    (Fiedler 1973).
    """
    index_of_verb: dict[str, int] = {}
    verb_n2 = np.empty((len(pairs), 2), int)
    for row, pair in enumerate(pairs):
        for side, text in enumerate(pair):
            verb_n2[row, side] = index_of_verb.setdefault(text.split()[2], len(index_of_verb))
    links = np.zeros((len(index_of_verb), len(index_of_verb)))
    np.add.at(links, (verb_n2[:, 0], verb_n2[:, 1]), 1)
    links += links.T
    count, component_of_verb = connected_components(links)
    if count == 1:
        _, eigenvectors = np.linalg.eigh(laplacian(links))
        cut = eigenvectors[:, 1] > 0
        half_of_verb = (cut != cut[0]).astype(int)
    else:
        sizes = np.bincount(component_of_verb[verb_n2[:, 0]], minlength=count)
        totals = [0, 0]
        half_of_component = np.zeros(count, int)
        for index in np.argsort(-sizes, kind="stable"):
            half = int(totals[1] < totals[0])
            half_of_component[index] = half
            totals[half] += sizes[index]
        half_of_verb = half_of_component[component_of_verb]
    first_n, second_n = half_of_verb[verb_n2].T
    return np.where(first_n == second_n, first_n, -1).tolist()


def read_sets(data: Path, hans: Path | None, *, is_scored: bool) -> dict[str, PairSet]:
    """Return the sets of the scored or the fitted side, by name."""
    sets = {}
    for name, task in zip(("STS-B", "SICK-R"), RATED, strict=True):
        texts, gold = rated_pairs(data, task, "test" if is_scored else "dev")
        sets[name] = PairSet(gold, texts)
    for name in ("GS2011", "KS2013"):
        file = data / f"structure/graded_{name.lower()}.tsv"
        rows = [row.cells for row in read_table(file, ("sentence1", "sentence2", "score"))]
        texts = [(first, second) for first, second, _ in rows]
        indices = [index for index, half in enumerate(halves(texts)) if half == int(is_scored)]
        gold = np.array([float(rows[index][2]) for index in indices])
        sets[name] = PairSet(gold, [texts[index] for index in indices])
    sides = read_sides(data)
    rows_by_set = sides.scored if is_scored else sides.fitted
    for name, size in (("Binding", 2 * FILLINGS), ("PAWS", 1), ("SemAntoNeg", 3)):
        sets[name] = PairSet.of([pair for row in rows_by_set[name] for pair in row], size)
    if hans:
        sets["HANS"] = PairSet.of(list(task_pairs("HANS", hans))[int(is_scored) :: 2])
    return sets


def score_text(name: str, pairs: PairSet, value_n: Floats) -> str:
    """Return the score of the values [n] of a set's pairs, with its interval, as text."""
    if set(np.unique(pairs.gold)) <= {0.0, 1.0}:
        return str(judge_auc({name: pairs}, {name: value_n}, name))
    value, low, high = score_with_interval("spearman", pairs.gold, value_n)
    return f"{100 * value:.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def without(features_nF: Floats, names: tuple[str, ...]) -> Floats:
    """Return the features with those of some names set to 0."""
    return np.where([name in names for name in NAMES], 0, features_nF)


def print_scale(sets: dict[str, PairSet], values: dict[str, dict[str, Floats]]) -> None:
    """Print the mean rating of the pairs in each fifth of the scale, and the mean absolute difference."""
    cells: dict[str, dict[str, str]] = {f"{k / BINS:.1f} to {(k + 1) / BINS:.1f}": {} for k in range(BINS)}
    cells["mean difference"] = {}
    for weights in STRENGTHS:
        for name in ("STS-B", "SICK-R"):
            value_n, gold_n = values[weights][name], sets[name].gold
            bin_n = np.minimum((value_n * BINS).astype(int), BINS - 1)
            for bin_number, row in enumerate(list(cells.values())[:BINS]):
                is_in_n = bin_n == bin_number
                mean = f"{gold_n[is_in_n].mean():.2f}" if is_in_n.any() else "-"
                row[f"{weights}, {name}"] = f"{mean} ({int(is_in_n.sum())})"
            cells["mean difference"][f"{weights}, {name}"] = f"{np.abs(value_n - gold_n).mean():.3f}"
    print_table("similarity", "similarity: people's mean rating (pairs)", cells)


def main(options: SimilarityConfig) -> None:
    """Print both tables."""
    data, source = data_folder(), TextSource.load("builtin", "cpu")
    graded = read_graded(data, options.cache, source)
    sets = read_sets(data, options.hans, is_scored=options.scored)
    features = {
        name: cached("features", pairs.texts, options.cache, lambda texts: features_of(texts, source))
        for name, pairs in sets.items()
    }
    values: dict[str, dict[str, Floats]] = {}
    for name in ("meaning", "structure", "slots"):
        index = NAMES.index(name)
        values[f"cosine of {name}"] = {part: part_nF[:, index] for part, part_nF in features.items()}
    for weights, strength in STRENGTHS.items():
        fitted = weights_of(weights)
        values[weights] = {part: fitted.probabilities(part_nF) for part, part_nF in features.items()}
        for ablation, names in ABLATIONS.items():
            parts = [part._replace(features_nF=without(part.features_nF, names)) for part in graded[weights]]
            fitted = fit(parts, strength)
            values[f"{weights} {ablation}"] = {
                part: fitted.probabilities(without(part_nF, names)) for part, part_nF in features.items()
            }
    cells = {
        row: {name: score_text(name, pairs, values[row][name]) for name, pairs in sets.items()}
        for row in values
    }
    print_table("similarity", "scored" if options.scored else "development", cells)
    print_scale(sets, values)


cli = Command(SimilarityConfig, main, "benchmarks.similarity", "The judge's graded similarity.")


if __name__ == "__main__":
    sys.exit(cli())
