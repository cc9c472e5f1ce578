"""Scores on development data, by which the recipe of the presets and of the builtin encoder was chosen.

    python -m benchmarks.recipe MODEL ... --data DIR

MODEL is a name as for ``senteval_runner.run``. Nothing that is reported is scored. Spearman of cosines:
SICK's trial split, and the pairs of STS-B's dev split that are in none of STS12-16 and STS-B's test split.
Accuracy: a fifth of TREC's training questions by a ridge classifier on the rest, five times. ``--classify``
adds tasks by SentEval's own classifier (:mod:`benchmarks.development`). The log is in docs/recipe.md.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tyro.conf import Positional

from benchmarks.development import development_scores
from corpora.senteval.files import Split, has_files, read_task
from corpora.senteval.tasks import STS_SUBSETS
from corpora.support.cli import Command
from corpora.support.config import configuration
from corpora.support.errors import UserError
from senteval_runner.protocol.correlation import cosines, spearman
from senteval_runner.vectors.embed import SentenceVectors
from senteval_runner.vectors.encoders import open_model
from senteval_runner.vectors.evaluation_trees import EvaluationTrees

TASKS = ("SICKRelatedness", "STSBenchmark", "TREC")
FOLDS = 5


@configuration
class RecipeConfig:
    """Options of ``benchmarks.recipe``."""

    models: Positional[tuple[str, ...]]
    """Names as for senteval_runner.run."""
    data: Path | None = None
    """SentEval's folder; None is $MULTIVIEW_DATA/senteval."""
    classify: bool = False
    """Also score development tasks of classification and relatedness, which takes minutes."""
    reviews: Path | None = None
    """Folder with NLTK's product_reviews_2 and pros_cons, for two more of these tasks."""
    trees: Path = Path("runs/trees")
    """Folder for the parsed sentences."""
    cache: Path = Path("runs/embeddings")
    """Folder of sentence vectors."""


def main(config: RecipeConfig) -> None:
    """Print a table and a line of JSON."""
    if config.data is None and not os.environ.get("MULTIVIEW_DATA"):
        raise UserError("--data: give SentEval's folder, or set MULTIVIEW_DATA")
    data = config.data or Path(os.environ["MULTIVIEW_DATA"]) / "senteval"
    sick = read_task("SICKRelatedness", data).splits["dev"]
    similarity = unreported(read_task("STSBenchmark", data).splits["dev"], data)
    trec = read_task("TREC", data).splits["train"]
    absent = [name for name in STS_SUBSETS if not has_files(name, data)]
    unchecked = f" (not looked up, their files are missing: {', '.join(absent)})" if absent else ""
    print(f"{len(similarity)} pairs of STS-B dev are in no reported set{unchecked}")
    found: dict[str, dict[str, float]] = {}
    tasks = (*TASKS, "MRPC") if config.classify or config.reviews else TASKS
    trees = EvaluationTrees(folder=config.trees, data=data, tasks=tasks)
    for spec in config.models:
        vectors = open_model(spec, cache=config.cache, trees=trees).vectors
        scores = {
            "sick_trial": pair_score(vectors, sick),
            "sts_dev": pair_score(vectors, similarity),
            "trec_cv": cross_validated(vectors(trec.a), np.array(trec.y)),
        }
        if config.classify or config.reviews:
            more = development_scores(vectors, data, config.reviews)
            scores |= more | {"mean": float(np.mean(list(more.values())))}
        if not found:
            print(" ".join(f"{name:>10}" for name in scores))
        found[spec] = scores
        print(f"{' '.join(f'{100 * value:10.2f}' for value in scores.values())}  {spec}", flush=True)
    print(json.dumps(found))


def unreported(pairs: Split, data: Path) -> Split:
    """The pairs that no reported set of similarity contains, whichever way round."""
    reported: set[frozenset[str]] = set()
    tests = [read_task("STSBenchmark", data).splits["test"]]
    for name in STS_SUBSETS:
        if has_files(name, data):
            tests += read_task(name, data).splits.values()
    for split in tests:
        assert split.b is not None
        reported |= {_key(a, b) for a, b in zip(split.a, split.b, strict=True)}
    assert pairs.b is not None
    kept = [i for i, (a, b) in enumerate(zip(pairs.a, pairs.b, strict=True)) if _key(a, b) not in reported]
    return Split(
        a=[pairs.a[i] for i in kept], b=[pairs.b[i] for i in kept], y=[float(pairs.y[i]) for i in kept]
    )


def _key(a: list[str], b: list[str]) -> frozenset[str]:
    """The letters and digits of both sentences."""
    return frozenset("".join(c for c in "".join(tokens).lower() if c.isalnum()) for tokens in (a, b))


def pair_score(vectors: SentenceVectors, pairs: Split) -> float:
    """Spearman correlation of the cosines with the human scores."""
    assert pairs.b is not None
    return spearman(cosines(vectors(pairs.a), vectors(pairs.b)), np.array(pairs.y, dtype=np.float64))


def cross_validated(x_ND: NDArray[np.float32], y_N: NDArray[np.int64]) -> float:
    """Mean accuracy of a ridge classifier over stratified folds, its penalty chosen on the training part."""
    from sklearn.linear_model import RidgeClassifierCV
    from sklearn.model_selection import StratifiedKFold, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=1111)
    model = make_pipeline(StandardScaler(), RidgeClassifierCV(np.logspace(0, 5, 6)))
    return float(cross_val_score(model, x_ND, y_N, cv=folds).mean())


cli = Command(RecipeConfig, main, "benchmarks.recipe", "Scores of models on development data.")


if __name__ == "__main__":
    sys.exit(cli())
