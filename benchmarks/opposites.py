"""Score opposites and exchanged words: by the structure vector, shares of it, and the judge of pairs.

    python -m benchmarks.opposites [--part development|scored] [--hans FILE] [--limit N] [--minilm-rows N]

Halves are those of :func:`tools.fit_judge.read_half`; the judges were fitted on the development half. SICK's
and STS-B's rows are their training or test rows; training rows of STS-B are those that STS12, 14 and 16 do
not have. CANNOT's claims come with the scored half. Tables: per cent of rows right, AP for HANS and PAWS,
Spearman for STS-B and SICK-R; the area under the ROC curve; and of pairs that say otherwise, what a threshold
accepts which accepts 90 % of MRPC's true paraphrases. MULTIVIEW_DATA is the folder of the real data.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score

from benchmarks import data_folder
from benchmarks.structure import has_minilm, minilm_vectors
from corpora.senteval.files import TaskData, read_task
from corpora.senteval.structure import FILLINGS, task_pairs
from multiview.encoders import poles
from multiview.judge import Judge, read_numbers
from multiview.model import MultiViewEncoder
from runtime.cli import Command, CountOrNone, configuration
from senteval_runner.protocol.correlation import Scores, cosines, spearman
from senteval_runner.protocol.cosine_tasks import nearer, nearest, opposite_scores
from senteval_runner.protocol.statistics import grouped_mean, interval
from tools.fit_judge import CAPTIONS, exchanged, read_half

TRIPLETS = ("SemAntoNeg", *CAPTIONS)
SHARES = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3)
VECTORS = (*TRIPLETS, "Binding", "HANS", "PAWS", "STS-B", "SICK-R")
JUDGED = ("PAWS", "MRPC", "swap", "replace", "SemAntoNeg", "Binding")
OTHERWISE = ("SemAntoNeg", "PAWS", "swap object", "swap attribute", "claims", "Binding")
DRAWS = 200
Values = Mapping[str, Scores]
"""Numbers of the first pairs of each set, [n] or fewer."""
Cell = Callable[[Values, str], str]


class PairSet(NamedTuple):
    """Pairs of sentences; some come in rows of several."""

    gold: Scores
    """[n], 1 where both say the same, else 0; or how much alike they are."""
    texts: list[tuple[str, str]]
    size: int = 1
    """Pairs that are drawn together: 3 of a triplet's row, all of a frame."""

    def first(self, limit: int) -> PairSet:
        """Take the first pairs, in whole rows and at least one; all if ``limit`` is 0."""
        end = max(limit - limit % self.size, self.size) if limit else len(self.texts)
        return PairSet(self.gold[:end], self.texts[:end], self.size)


def read_sets(data: Path, hans: Path | None, *, scored: bool) -> dict[str, PairSet]:
    """Read the sets of a half, by name."""
    pairs = read_half(data, scored=scored)
    if hans:
        rows = list(task_pairs("HANS", hans))
        pairs["HANS"] = random.Random(0).sample(rows, len(rows))  # the file is sorted by label
    if scored:
        claims = data / "structure/cannot_wikifactcheck_english_0.tsv"
        pairs["claims"] = list(task_pairs("Opposites", claims))
    sizes = {"Binding": 2 * FILLINGS, **dict.fromkeys(TRIPLETS, 3)}
    sets = {
        name: PairSet(np.array([float(p[0]) for p in part]), [p[1:] for p in part], sizes.get(name, 1))
        for name, part in pairs.items()
    }
    folder, split = data / "senteval", "test" if scored else "train"
    similar = _graded(read_task("STSBenchmark", folder), split)
    sets["STS-B"] = similar if scored else _without_others(similar, folder)
    sets["SICK-R"] = _graded(read_task("SICKRelatedness", folder), split)
    return sets


def _graded(task: TaskData, split: str) -> PairSet:
    rows = task.splits[split]
    texts = [(" ".join(a), " ".join(b)) for a, b in zip(rows.a, rows.b or [], strict=True)]
    return PairSet(np.array(rows.y, np.float64), texts)


def _without_others(similar: PairSet, folder: Path) -> PairSet:
    """Take STS-B's rows but for the pairs that other tasks have."""

    def letters(pair: tuple[str, str]) -> frozenset[str]:
        return frozenset(re.sub(r"\W", "", text.lower()) for text in pair)

    known: set[frozenset[str]] = set()
    for task in (read_task(name, folder) for name in ("STS12", "STS14", "STS16")):
        known |= {letters(pair) for split in task.splits for pair in _graded(task, split).texts}
    new = [row for row, pair in enumerate(similar.texts) if letters(pair) not in known]
    return PairSet(similar.gold[new], [similar.texts[row] for row in new])


@contextmanager
def without_antonyms(pairs: PairSet) -> Iterator[None]:
    """Take the pairs of antonyms of SemAntoNeg's rows out of the list of the structure vector."""
    rows = zip(pairs.texts[::3], pairs.texts[2::3], strict=True)
    forms = []
    for pair in {frozenset(exchanged(no_not, paraphrase)) for (_, paraphrase), (_, no_not) in rows}:
        forms.append(
            {form for word in pair for form in (*poles.possible_bases(word), poles.base_and_sign(word)[0])}
        )

    def is_taken(one: str, other: str) -> bool:
        bases = {poles.base_and_sign(one)[0], poles.base_and_sign(other)[0]}
        return any({one, other} <= pair or bases <= pair for pair in forms)

    remaining = [row for row in poles._read_table("opposites.tsv") if not is_taken(row["one"], row["other"])]
    caches = (poles.antonyms, poles.base_and_sign, poles._poles_by_base, poles.poles)
    with patch.object(poles, "_read_table", lambda name: remaining):
        for cache in caches:
            cache.cache_clear()
        yield
    for cache in caches:
        cache.cache_clear()


def resampled(score: Callable[[Scores, Scores], float], gold: Scores, values: Scores, size: int = 1) -> str:
    """Print a score in per cent with its interval over rows of so many pairs."""
    drawn, rows = np.random.default_rng(0), np.arange(len(gold)).reshape(-1, size)
    picks = [drawn.choice(rows, len(rows)).ravel() for _ in range(DRAWS)]
    low, high = interval(np.array([100 * score(gold[pick], values[pick]) for pick in picks]))
    return f"{100 * score(gold, values):.1f} [{low:.1f}, {high:.1f}]"


def vector_cell(sets: Mapping[str, PairSet], values: Values, name: str) -> str:
    """Print how good cosines are on a set; nothing where they are missing."""
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
    """Print the area under the ROC curve; a triplet gives one pair of either kind."""
    names = [name for name in sets if name.split()[0] == group]
    gold = np.concatenate([sets[name].gold[: len(values[name])] for name in names])
    own = np.concatenate([values[name] for name in names])
    size = sets[names[0]].size
    if size == 3:
        gold, own, size = gold.reshape(-1, 3)[:, :2].ravel(), own.reshape(-1, 3)[:, :2].ravel(), 2
    return resampled(roc_auc_score, gold, own, size)


def accepted_cell(sets: Mapping[str, PairSet], values: Values, name: str) -> str:
    """Print what per cent of pairs that say otherwise pass where 90 % of MRPC's true paraphrases do."""
    gold = {part: sets[part].gold[: len(values[part])] for part in ("MRPC", name)}
    chosen = {"paraphrases": values["MRPC"][gold["MRPC"] == 1], name: values[name][gold[name] == 0]}
    return f"{opposite_scores(chosen)[0][f'{name}.accepted']:.1f}"


def cosines_by(sets: Mapping[str, PairSet], vectors_of: Callable[[list[str]], NDArray[np.float32]]) -> Values:
    """Compute an encoder's cosines of every set, each sentence encoded once."""
    texts = list(
        dict.fromkeys(text for pair_set in sets.values() for pair in pair_set.texts for text in pair)
    )
    of_text = dict(zip(texts, vectors_of(texts), strict=True))
    cosines_of = {}
    for name, pair_set in sets.items():
        one, other = (
            np.array([of_text[text] for text in side]) for side in zip(*pair_set.texts, strict=True)
        )
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
    sets = {name: pair_set.first(options.limit) for name, pair_set in whole.items()}
    _, numbers = read_numbers([pair for pair_set in sets.values() for pair in pair_set.texts], source)
    ends = np.cumsum([len(pair_set.texts) for pair_set in sets.values()])[:-1]
    of_set = dict(zip(sets, np.split(numbers, ends), strict=True))
    encoders = {"builtin": cosines_by(sets, partial(source.encode, structure=0))}
    structure = cosines_by(sets, source.structure_vectors)
    if has_minilm():
        first = {name: pair_set.first(options.minilm_rows) for name, pair_set in sets.items()}
        encoders["MiniLM"] = cosines_by(first, minilm_vectors)
    with without_antonyms(sets["SemAntoNeg"]):
        control = cosines_by({"SemAntoNeg": sets["SemAntoNeg"]}, source.structure_vectors)
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
    names, rows = [name for name in OTHERWISE if name in sets], ("judge pairs", *single)
    table(
        "accepted with 90 % of MRPC",
        names,
        {name: scorers[name] for name in rows},
        partial(accepted_cell, sets),
    )


cli = Command(OppositesConfig, main, "benchmarks.opposites", "Opposites, and the judge of pairs.")


if __name__ == "__main__":
    sys.exit(cli())
