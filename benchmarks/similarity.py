"""Score the judge's similarity: beside cosines, without some of its numbers, and beside people's scale.

    python -m benchmarks.similarity [--scored] [--hans FILE] [--cache FOLDER]

Both weights of :mod:`tools.fit_similarity` are fitted anew, also without groups of numbers. Spearman's
correlation times 100 with people's ratings; of pairs that say the same or not the area under the ROC curve;
intervals of 95 % over rows. GS2011 and KS2013 are halved so that no verb is in both halves; ``--scored``
takes the halves, and of the others the test splits, that nothing was chosen on. MULTIVIEW_DATA is the folder
of the real data.
"""

import sys
from pathlib import Path

import numpy as np
from scipy.sparse.csgraph import connected_components, laplacian

from benchmarks.opposites import judge_auc
from benchmarks.structure import print_table
from corpora.inputs import read_table
from corpora.senteval.structure import FILLINGS, task_pairs
from multiview.folder.reading import TextSource
from multiview.judge.similarity import SimilarityWeights, weights_of
from multiview.judge.weights import NUMBERS, Floats
from runtime.cli import Command, configuration
from senteval_runner.protocol.config import TaskResult
from senteval_runner.protocol.statistics import interval, resample_score
from tools import data_folder
from tools.fit_similarity import (
    CACHE,
    RATED,
    STRENGTHS,
    cached,
    fit,
    numbers_of,
    rated_pairs,
    read_graded,
)
from tools.judge_rows import read_sides
from tools.pair_sets import PairSet

NAMES = SimilarityWeights.names
SLOTS = ("slots", "agents", "patients", "predicates")
ABLATIONS = {
    "without slots": SLOTS,
    "without structure": ("structure",),
    "without meaning": ("meaning",),
    "words and trees alone": ("meaning", "structure"),
    "slots, meaning, structure alone": tuple(NUMBERS),
}
"""Numbers that are left out; the last but one needs no encoder."""
BINS = 5


@configuration
class SimilarityConfig:
    """Options of ``python -m benchmarks.similarity``."""

    scored: bool = False
    """Take the rows that nothing was chosen on."""
    hans: Path | None = None
    """HANS's heuristics_evaluation_set.txt, or what its authors' generator wrote."""
    cache: Path = CACHE
    """The folder of numbers that were computed before."""


def halves(pairs: list[tuple[str, str]]) -> list[int]:
    """Return the half of each row, 0 or 1, or -1 where its verbs, the third words, are of both halves."""
    verbs: dict[str, int] = {}
    verb_n2 = np.array([[verbs.setdefault(text.split()[2], len(verbs)) for text in pair] for pair in pairs])
    links = np.zeros((len(verbs), len(verbs)))
    np.add.at(links, (*verb_n2.T,), 1)
    links += links.T
    count, component = connected_components(links)
    if count == 1:  # cut by the second eigenvector of the Laplacian (Fiedler 1973)
        cut = np.linalg.eigh(laplacian(links))[1][:, 1] > 0
        half = (cut != cut[0]).astype(int)
    else:
        sizes, totals = np.bincount(component[verb_n2[:, 0]], minlength=count), [0, 0]
        half_of_component = np.zeros(count, int)
        for index in np.argsort(-sizes, kind="stable"):
            half_of_component[index] = int(totals[1] < totals[0])
            totals[half_of_component[index]] += sizes[index]
        half = half_of_component[component]
    first_n, second_n = half[verb_n2].T
    return np.where(first_n == second_n, first_n, -1).tolist()


def read_sets(data: Path, hans: Path | None, *, is_scored: bool) -> dict[str, PairSet]:
    """Return the sets of one side, by name."""
    sets = {}
    for name, task in zip(("STS-B", "SICK-R"), RATED, strict=True):
        texts, gold = rated_pairs(data, task, "test" if is_scored else "dev")
        sets[name] = PairSet(gold, texts)
    for name in ("GS2011", "KS2013"):
        file = data / f"structure/graded_{name.lower()}.tsv"
        rows = [row.cells for row in read_table(file, ("sentence1", "sentence2", "score"))]
        half_n = halves([(a, b) for a, b, _ in rows])
        rows = [row for row, half in zip(rows, half_n, strict=True) if half == int(is_scored)]
        sets[name] = PairSet(np.array([float(score) for *_, score in rows]), [(a, b) for a, b, _ in rows])
    sides = read_sides(data)
    rows_by_set = sides.scored if is_scored else sides.fitted
    for name, size in (("Binding", 2 * FILLINGS), ("PAWS", 1), ("SemAntoNeg", 3)):
        sets[name] = PairSet.of([pair for row in rows_by_set[name] for pair in row], size)
    if hans:
        sets["HANS"] = PairSet.of(list(task_pairs("HANS", hans))[int(is_scored) :: 2])
    return sets


def score_text(name: str, pairs: PairSet, value_n: Floats) -> str:
    """Return a set's score with its interval, as text."""
    if set(np.unique(pairs.gold)) <= {0.0, 1.0}:
        return str(judge_auc({name: pairs}, {name: value_n}, name))
    result = TaskResult(task="", metrics={}, dim=0, rows={}, gold={"": pairs.gold}, predictions={"": value_n})
    score = resample_score(result, "spearman")
    low, high = interval(score.resamples_R)
    return f"{100 * score.score:.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def without(numbers_nF: Floats, names: tuple[str, ...]) -> Floats:
    """Set some numbers to 0."""
    return np.where([name in names for name in NAMES], 0, numbers_nF)


def print_scale(sets: dict[str, PairSet], values: dict[str, dict[str, Floats]]) -> None:
    """Print the mean of people's ratings for each fifth of the scale, and the mean absolute difference."""
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
    numbers = {
        name: cached("numbers", pairs.texts, options.cache, lambda texts: numbers_of(texts, source))
        for name, pairs in sets.items()
    }
    values: dict[str, dict[str, Floats]] = {
        f"cosine of {name}": {key: set_nF[:, NAMES.index(name)] for key, set_nF in numbers.items()}
        for name in ("meaning", "structure", "slots")
    }
    for weights, strength in STRENGTHS.items():
        for control, names in {"": (), **ABLATIONS}.items():
            parts = [part._replace(numbers_nF=without(part.numbers_nF, names)) for part in graded[weights]]
            fitted = fit(parts, strength) if control else weights_of(weights)
            values[f"{weights} {control}".strip()] = {
                key: fitted.probabilities(without(set_nF, names)) for key, set_nF in numbers.items()
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
