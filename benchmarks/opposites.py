"""Opposites and exchanged words: the structure vector, shares of it in encoders, and the judge of pairs.

    python -m benchmarks.opposites [--part development|scored] [--hans FILE] [--limit N] [--minilm-rows N]

Halves are those of :func:`tools.fit_judge.read_half`; the judges were fitted on the development half. SICK's
and STS-B's rows are their training or test rows; training rows of STS-B are those that STS12, 14 and 16 do
not have. Quora's pairs and CANNOT's claims and reviews come with the scored half. Tables: per cent of rows
right, AP for HANS and PAWS, Spearman for STS-B and SICK-R; the area under the ROC curve; and of pairs that
say otherwise, what a threshold accepts which accepts 90 % of true paraphrases. MULTIVIEW_DATA is the folder
of the real data.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score

from benchmarks.pair_sets import TRIPLETS, PairSet, read_sets, without_antonyms
from benchmarks.structure import data_folder, has_minilm, minilm_vectors
from corpora.senteval.structure import FILLINGS
from multiview.judge import Judge
from multiview.model import MultiViewEncoder
from multiview.pair_numbers import numbered_pairs
from runtime.cli import Command, CountOrNone, configuration
from senteval_runner.protocol.correlation import Scores, cosines, spearman
from senteval_runner.protocol.cosine_tasks import nearer, nearest, opposite_scores
from senteval_runner.protocol.statistics import grouped_mean, interval

SHARES = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3)
VECTORS = (*TRIPLETS, "Binding", "HANS", "PAWS", "STS-B", "SICK-R")
JUDGED = ("PAWS", "MRPC", "swap", "replace", "SemAntoNeg", "Binding")
OTHERWISE = ("SemAntoNeg", "PAWS", "swap object", "swap attribute", "claims", "reviews", "Binding")
DRAWS = 200
Values = Mapping[str, Scores]
"""Numbers of the first pairs of each set, [n] or fewer."""
Cell = Callable[[Values, str], str]


def resampled(score: Callable[[Scores, Scores], float], gold: Scores, values: Scores, size: int = 1) -> str:
    """A score in per cent with its interval over rows of so many pairs."""
    drawn, rows = np.random.default_rng(0), np.arange(len(gold)).reshape(-1, size)
    picks = [drawn.choice(rows, len(rows)).ravel() for _ in range(DRAWS)]
    low, high = interval(np.array([100 * score(gold[pick], values[pick]) for pick in picks]))
    return f"{100 * score(gold, values):.1f} [{low:.1f}, {high:.1f}]"


def vector_cell(sets: Mapping[str, PairSet], values: Values, name: str) -> str:
    """How good cosines are on a set; none where they are missing."""
    if name not in values:
        return ""
    cosine, size = values[name], sets[name].size
    gold = sets[name].gold[: len(cosine)]
    if name in ("STS-B", "SICK-R"):
        return f"{100 * spearman(gold, cosine):.1f}"
    if size == 1:
        return resampled(average_precision_score, gold, cosine)
    right = 100.0 * (nearest(cosine) if size == 3 else nearer(cosine))
    mean, (low, high) = grouped_mean(right, np.arange(len(right)) // (1 if size == 3 else FILLINGS))
    return f"{mean:.1f} [{low:.1f}, {high:.1f}]"


def judged_cell(sets: Mapping[str, PairSet], values: Values, group: str) -> str:
    """The area under the ROC curve; a triplet gives one pair of either kind."""
    names = [name for name in sets if name.split()[0] == group]
    gold = np.concatenate([sets[name].gold[: len(values[name])] for name in names])
    own = np.concatenate([values[name] for name in names])
    size = sets[names[0]].size
    if size == 3:
        gold, own, size = gold.reshape(-1, 3)[:, :2].ravel(), own.reshape(-1, 3)[:, :2].ravel(), 2
    return resampled(roc_auc_score, gold, own, size)


def accepted_cell(sets: Mapping[str, PairSet], true: str, values: Values, name: str) -> str:
    """Per cent of a set's pairs that say otherwise and are accepted where 90 % of true paraphrases are."""
    gold = {part: sets[part].gold[: len(values[part])] for part in (true, name)}
    chosen = {"paraphrases": values[true][gold[true] == 1], name: values[name][gold[name] == 0]}
    return f"{opposite_scores(chosen)[0][f'{name}.accepted']:.1f}"


def minilm_cosines(sets: Mapping[str, PairSet]) -> Values:
    """MiniLM's cosines of every set, each sentence encoded once."""
    texts = list(dict.fromkeys(text for found in sets.values() for pair in found.texts for text in pair))
    of_text = dict(zip(texts, minilm_vectors(texts), strict=True))
    cosines_of = {}
    for name, found in sets.items():
        one, other = (np.array([of_text[text] for text in side]) for side in zip(*found.texts, strict=True))
        cosines_of[name] = cosines(one, other)
    return cosines_of


def table(title: str, columns: Iterable[str], rows: Mapping[str, Values], cell: Cell) -> None:
    """Print a table, and it as a line of JSON."""
    print(f"| {title} | {' | '.join(columns)} |")
    cells = {name: {column: cell(own, column) for column in columns} for name, own in rows.items()}
    for name, row in cells.items():
        print(f"| {name} | {' | '.join(row.values())} |")
    print(json.dumps({"benchmark": "opposites", "table": title, "scores": cells}), flush=True)


@configuration
class OppositesConfig:
    """Options of ``python -m benchmarks.opposites``."""

    part: Literal["development", "scored"] = "development"
    """Which half of the sets."""
    hans: Path | None = None
    """HANS's heuristics_evaluation_set.txt, of which all rows of lexical overlap are read."""
    limit: CountOrNone = 0
    """Pairs of each set at most, in whole rows; 0 is all."""
    minilm_rows: CountOrNone = 1200
    """As many of each set for MiniLM, where it is installed."""


def main(options: OppositesConfig) -> None:
    """Print the tables, each also as a line of JSON."""
    source = MultiViewEncoder.load("builtin", "cpu")
    whole = read_sets(data_folder(), options.hans, scored=options.part == "scored")
    sets = {name: found.first(options.limit) for name, found in whole.items()}
    numbers = numbered_pairs([pair for found in sets.values() for pair in found.texts], source).numbers
    ends = np.cumsum([len(found.texts) for found in sets.values()])[:-1]
    of_set = dict(zip(sets, np.split(numbers, ends), strict=True))
    meaning, structure = ({name: part[:, n] for name, part in of_set.items()} for n in (0, 1))
    encoders: dict[str, Values] = {"builtin": meaning}
    if has_minilm():
        encoders["MiniLM"] = minilm_cosines({name: s.first(options.minilm_rows) for name, s in sets.items()})
    with without_antonyms(sets["SemAntoNeg"]):
        control = {"SemAntoNeg": numbered_pairs(sets["SemAntoNeg"].texts, source).numbers[:, 1]}
    vectors: dict[str, Values] = {"structure alone": structure, "structure, without these antonyms": control}
    for name, own in encoders.items():
        for share in SHARES:
            vectors[f"{name}, share {share}"] = {
                part: (1 - share) * cosine + share * structure[part][: len(cosine)]
                for part, cosine in own.items()
            }
    judges = {name: Judge.load(name, source=source).weights for name in ("pairs", "pairs-without-mrpc")}
    scorers: dict[str, Values] = {
        f"judge {name}": {part: own.probabilities(x) for part, x in of_set.items()}
        for name, own in judges.items()
    }
    single = [f"{name}, share 0.0" for name in encoders]
    scorers |= {name: vectors[name] for name in (*single, "structure alone", "builtin, share 0.15")}
    table("vector", [name for name in VECTORS if name in sets], vectors, partial(vector_cell, sets))
    table("area under ROC", JUDGED, scorers, partial(judged_cell, sets))
    asked, rows = [name for name in OTHERWISE if name in sets], ("judge pairs", *single)
    for true in (name for name in ("PAWS", "MRPC", "Quora") if name in sets):
        cell = partial(accepted_cell, sets, true)
        table(f"accepted with 90 % of {true}", asked, {name: scorers[name] for name in rows}, cell)


cli = Command(OppositesConfig, main, "benchmarks.opposites", "Opposites, and the judge of pairs.")


if __name__ == "__main__":
    sys.exit(cli())
