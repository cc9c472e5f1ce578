"""Fit the weights of the judge's similarity in the package (:mod:`multiview.judge.similarity`).

    python -m tools.fit_similarity FOLDER [--cache FOLDER]

This writes two files to FOLDER: free.json, whose data may be used in production, and rated.json, for research
alone. The weights are fitted to grades of pairs, from 0 (different) to 1 (the same):

- the grade of a pair of free text is its cosine by MiniLM, the teacher of ``builtin``; a tenth is added if
  SNLI's annotators called it entailment, and subtracted if they called it contradiction;
- the grade of a pair made by rule is set in this file;
- the grades of SICK and STS-B are people's ratings.

MULTIVIEW_DATA is the folder of the real data; MiniLM's package must be installed.

Legend of dimension suffixes: n pairs, F features of a pair.
"""

import itertools
import lzma
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from tyro.conf import Positional, arg

from corpora.tables import read_table
from multiview.folder.reading import TextSource
from multiview.judge.pair_reading import read_features
from multiview.judge.similarity import SimilarityWeights, similarity_features
from multiview.judge.weights import Floats
from multiview.libraries.arrays import unit_rows
from multiview.model import MultiViewEncoder
from runtime.cli import Command, configuration
from runtime.files import json_digest
from tools import data_folder
from tools.judge_rows import read_sides
from tools.pair_sets import PairSet, cosines_by, minilm_vectors, texts_of

CACHE = Path("runs/similarity")
RULES = {
    "Binding": (0.6, 0.075), "SemAntoNeg": (0.6, 0.075), "PAWS": (0.65, 0.075),
    "swap object": (0.6, 0.015), "swap attribute": (0.6, 0.03), "replace relation": (0.6, 0.03),
    "replace attribute": (0.6, 0.02),
}  # fmt: skip
"""The grade of the pairs of a set that do not mean the same, and the weight of the set in the fit."""
SAME = 0.95
"""The grade of pairs made by rule that mean the same."""
LABELS = {"entailment": 0.1, "neutral": 0.0, "contradiction": -0.1}
"""The number that is added to the teacher's cosine, for each label of SNLI."""
SNLI_PAIRS, POOL, NEIGHBOURS = 3500, 3500, 1200
"""Pairs of SNLI; sentences of a kind of text, and how many of them are paired with a near sentence."""
STRENGTHS = {"free": 30.0, "rated": 10.0}
"""Strength of the L2 penalty, for a thousand pairs, by file of weights."""
RATED = {"STSBenchmark": (0, 5), "SICKRelatedness": (1, 5)}
"""The tasks that people rated, with the lowest and highest rating."""
DATA = {
    "SNLI": "SNLI dev, 3,500 pairs with labels (Bowman et al. 2015), CC BY-SA 4.0; and near pairs among them",
    "Wikipedia": "1,200 pairs of near sentences, CC BY-SA 3.0",
    "MASC": "1,200 pairs of near sentences, for any use, commercial development too",
    "MiniLM": "cosines of all-MiniLM-L6-v2, the teacher, for the pairs above, Apache 2.0",
    "PAWS": "PAWS-Wiki dev, rows 1 to 2,000 (Zhang et al. 2019), free for any purpose; source: Google LLC",
    "SugarCrepe++": "SugarCrepe++, every second row of four files (Dumpala et al. 2024), CC BY 4.0",
    "SemAntoNeg": "SemAntoNeg, half of its pairs of antonyms (Vahtola et al. 2022), CC BY 4.0",
    "Binding": "Binding, development part: this package, Apache 2.0",
}
RATED_DATA = {
    "STS-B": "STS Benchmark, train (Cer et al. 2017): texts with terms of their own, some for research only",
    "SICK": "SICK, train (Marelli et al. 2014), CC BY-NC-SA 3.0",
}
LICENCE = "Apache-2.0 AND CC-BY-4.0 AND CC-BY-SA-4.0 AND LicenseRef-PAWS"
Pairs = Sequence[tuple[str, str]]


class Graded(NamedTuple):
    """The features of the pairs of a set, their grades, and the weight of the set in the fit."""

    features_nF: Floats
    grade_n: Floats
    share: float


def cached(file: str, pairs: Pairs, cache: Path, compute: Callable[[Pairs], Any]) -> Any:
    """Return the array that ``compute`` makes from pairs; it is computed once, and kept in ``cache``.

    ``file`` is the beginning of the file name; the rest is a digest of the pairs.
    """
    path = cache / f"{file}-{json_digest([*map(list, pairs)], 16)}.npy"
    if not path.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        np.save(path, compute(pairs))
    return np.load(path)


def features_of(pairs: Pairs, source: TextSource) -> Floats:
    """Return the features of pairs that the similarity reads, [n, F]."""
    comparison, features_nF = read_features(pairs, source)
    return similarity_features(pairs, comparison, features_nF, source)[0]


def teacher_cosines(pairs: Pairs) -> Floats:
    """Return MiniLM's cosines of pairs, [n]; those below 0 are set to 0."""
    sets = {"": PairSet(np.zeros(len(pairs)), list(pairs))}
    return np.clip(cosines_by(sets, minilm_vectors(texts_of(sets)))[""], 0, 1)


def rated_pairs(data: Path, task: str, split: str) -> tuple[list[tuple[str, str]], Floats]:
    """Return the pairs of a task that people rated, and the ratings, scaled to 0 to 1, [n]."""
    pairs = PairSet.of_graded(data, task, split)
    low, high = RATED[task]
    return pairs.texts, (pairs.gold - low) / (high - low)


def free_pairs(data: Path) -> list[tuple[list[tuple[str, str]], Floats]]:
    """Return sets of pairs of free text, each with the amounts that labels add to its grades, [n].

    The sets are pairs of SNLI, and near sentences of SNLI, Wikipedia and MASC. Sentences of the rated tasks
    are left out.
    """
    known: set[str] = set()
    for task, split in itertools.product(RATED, ("train", "dev", "test")):
        rated, _ = rated_pairs(data, task, split)
        known |= {_normalise(text) for pair in rated for text in pair}
    rng = np.random.default_rng(0)
    columns = ("label", "sentence1", "sentence2")
    rows = [row.cells for row in read_table(data / "nli/snli_dev.tsv", columns)]
    rows = [row for row in rows if known.isdisjoint(map(_normalise, row[1:]))]
    rows = [rows[index] for index in rng.permutation(len(rows))[:SNLI_PAIRS]]
    labels, premises, hypotheses = (list(column) for column in zip(*rows, strict=True))
    parts = [(list(zip(premises, hypotheses, strict=True)), np.array([LABELS[label] for label in labels]))]
    pools = [list(dict.fromkeys(premises + hypotheses))]
    for name in ("wikipedia", "masc"):
        with lzma.open(data / f"corpora/{name}.txt.xz", "rt", encoding="utf-8") as stream:
            lines = [line.strip() for line in itertools.islice(stream, 60_000)]
        pools.append([line for line in lines if 20 < len(line) < 160 and _normalise(line) not in known])
    encoder = MultiViewEncoder.load("builtin", "cpu", structure=0)
    for pool in pools:
        texts = [pool[index] for index in rng.permutation(len(pool))[:POOL]]
        vectors = unit_rows(encoder.encode(texts))
        near = np.argsort(-vectors[:NEIGHBOURS] @ vectors.T, axis=1)
        ranks = rng.choice([1, 1, 1, 2, 3, 6, 20, 200], NEIGHBOURS)
        pairs = [(texts[index], texts[near[index, rank]]) for index, rank in enumerate(ranks)]
        parts.append((pairs, np.zeros(NEIGHBOURS)))
    return parts


def _normalise(text: str) -> str:
    """Return the words of a text in lower case, without punctuation."""
    return " ".join(re.findall(r"\w+", text.lower()))


def read_graded(data: Path, cache: Path, source: TextSource) -> dict[str, list[Graded]]:
    """Return the sets of pairs that the weights ``free`` and ``rated`` are fitted to."""

    def features(pairs: Pairs) -> Any:
        return cached("features", pairs, cache, lambda pairs: features_of(pairs, source))

    sets = []
    for (pairs, added_n), share in zip(free_pairs(data), (1, 0.5, 0.7, 0.5), strict=True):
        grade_n = np.clip(cached("teacher", pairs, cache, teacher_cosines) + added_n, 0, 1)
        sets.append(Graded(features(pairs), grade_n, share))
    fitted = read_sides(data).fitted
    for name, (other, share) in RULES.items():
        rows = [pair for row in fitted[name] for pair in row]
        grade_n = np.where([pair.is_same for pair in rows], SAME, other)
        sets.append(Graded(features([pair[1:] for pair in rows]), grade_n, share))
    rated_sets = []
    for task in RATED:
        pairs, grade_n = rated_pairs(data, task, "train")
        rated_sets.append(Graded(features(pairs), grade_n, 1))
    return {"free": sets, "rated": sets + rated_sets}


def fit(sets: Sequence[Graded], strength: float, about: dict[str, Any] | None = None) -> SimilarityWeights:
    """Return weights that are fitted to sets of pairs, with ``strength`` of the L2 penalty."""
    shares = [np.full(len(part.grade_n), part.share / len(part.grade_n)) for part in sets]
    return SimilarityWeights.fit(
        np.concatenate([part.features_nF for part in sets]),
        np.concatenate([part.grade_n for part in sets]),
        np.concatenate(shares),
        strength=strength,
        about=about,
    )


@configuration
class FitSimilarityConfig:
    """Options of ``python -m tools.fit_similarity``."""

    folder: Annotated[Positional[Path], arg(metavar="FOLDER")]
    """Folder of the files."""
    cache: Path = CACHE
    """Folder where features and cosines are kept."""


def main(config: FitSimilarityConfig) -> None:
    """Fit both weights, and write their files."""
    folder = config.folder
    graded = read_graded(data_folder(), config.cache, TextSource.load("builtin", "cpu"))
    for name, data, licence in (
        ("free", DATA, LICENCE),
        ("rated", DATA | RATED_DATA, f"{LICENCE} AND LicenseRef-STS-and-SICK"),
    ):
        pair_count = sum(len(part.grade_n) for part in graded[name])
        about = {"data": data, "licence": licence, "meaning": "builtin", "pairs": pair_count}
        fit(graded[name], STRENGTHS[name], about).save(folder / f"{name}.json")


cli = Command(FitSimilarityConfig, main, "tools.fit_similarity", "Fit the similarities in the package.")


if __name__ == "__main__":
    sys.exit(cli())
