"""Score opposites and exchanged words: by the structure vector, shares of it, and the judge of pairs.

    python -m benchmarks.opposites [--part development|scored] [--hans FILE] [--limit N] [--minilm-rows N]

The halves are those of :func:`tools.fit_judge.read_half`; the judges were fitted on the development half. It
has the training rows of SICK and STS-B (without those of STS12, 14 and 16), and the scored half has the test
rows and CANNOT's claims. The tables show the per cent of rows that are right (AP for HANS and PAWS, Spearman
for STS-B and SICK-R); the area under the ROC curve; and the per cent of pairs that say otherwise which are
accepted by the threshold that accepts 90 % of MRPC's true paraphrases. MULTIVIEW_DATA is the folder of the
real data.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Literal
from unittest.mock import patch

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks import data_folder
from benchmarks.structure import (
    PairSet,
    Values,
    cosines_by,
    has_minilm,
    minilm_vectors,
    precision_text,
    print_table,
    texts_of,
)
from corpora.senteval.files import TaskData, read_task
from corpora.senteval.structure import FILLINGS, task_pairs
from multiview.folder.reading import TextSource
from multiview.judge import Judge
from multiview.judge.judge import read_numbers
from multiview.model import MultiViewEncoder
from multiview.structure import poles
from runtime.cli import Command, CountOrNone, configuration
from senteval_runner.protocol.correlation import spearman
from senteval_runner.protocol.cosine_tasks import nearer, nearest, opposite_scores
from senteval_runner.protocol.statistics import grouped_mean, interval
from tools.fit_judge import CAPTIONS, differing_words, read_half

TRIPLETS = ("SemAntoNeg", *CAPTIONS)
SHARES = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3)
VECTOR_SETS = (*TRIPLETS, "Binding", "HANS", "PAWS", "STS-B", "SICK-R")
JUDGED_SETS = ("PAWS", "MRPC", "swap", "replace", "SemAntoNeg", "Binding")
ACCEPTANCE_SETS = ("SemAntoNeg", "PAWS", "swap object", "swap attribute", "claims", "Binding")
DRAWS = 200
Cell = Callable[[Values, str], str]


def first_pairs(pairs: PairSet, limit: int) -> PairSet:
    """Return the first ``limit`` pairs in whole rows, at least one row; all if ``limit`` is 0."""
    end = max(limit - limit % pairs.size, pairs.size) if limit else len(pairs.texts)
    return PairSet(pairs.gold[:end], pairs.texts[:end], pairs.size)


def read_sets(data: Path, hans: Path | None, *, is_scored: bool) -> dict[str, PairSet]:
    """Read the sets of a half, by name."""
    pairs = read_half(data, is_scored=is_scored)
    if hans:
        rows = list(task_pairs("HANS", hans))
        pairs["HANS"] = random.Random(0).sample(rows, len(rows))  # the file is sorted by label
    if is_scored:
        claims = data / "structure/cannot_wikifactcheck_english_0.tsv"
        pairs["claims"] = list(task_pairs("Opposites", claims))
    sizes = {"Binding": 2 * FILLINGS, **dict.fromkeys(TRIPLETS, 3)}
    sets = {name: PairSet.of(part, sizes.get(name, 1)) for name, part in pairs.items()}
    folder, split = data / "senteval", "test" if is_scored else "train"
    similarity = _graded_pairs(read_task("STSBenchmark", folder), split)
    sets["STS-B"] = similarity if is_scored else _without_shared_pairs(similarity, folder)
    sets["SICK-R"] = _graded_pairs(read_task("SICKRelatedness", folder), split)
    return sets


def _graded_pairs(task: TaskData, split: str) -> PairSet:
    rows = task.splits[split]
    texts = [(" ".join(a), " ".join(b)) for a, b in zip(rows.a, rows.b or [], strict=True)]
    return PairSet(np.array(rows.y, np.float64), texts)


def _without_shared_pairs(similarity: PairSet, folder: Path) -> PairSet:
    """Return STS-B without the pairs that other tasks have."""

    def letters(pair: tuple[str, str]) -> frozenset[str]:
        return frozenset(re.sub(r"\W", "", text.lower()) for text in pair)

    pairs_of_others: set[frozenset[str]] = set()
    for task in (read_task(name, folder) for name in ("STS12", "STS14", "STS16")):
        for split in task.splits:
            pairs_of_others |= {letters(pair) for pair in _graded_pairs(task, split).texts}
    rows = [row for row, pair in enumerate(similarity.texts) if letters(pair) not in pairs_of_others]
    return PairSet(similarity.gold[rows], [similarity.texts[row] for row in rows])


@contextmanager
def without_antonyms(pairs: PairSet) -> Iterator[None]:
    """Remove the antonyms of SemAntoNeg's rows from the list of the structure vector."""
    rows = zip(pairs.texts[::3], pairs.texts[2::3], strict=True)
    forms = []
    for pair in {frozenset(differing_words(no_not, paraphrase)) for (_, paraphrase), (_, no_not) in rows}:
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


def vector_cell(sets: Mapping[str, PairSet], values: Values, name: str) -> str:
    """Return the score of cosines on a set as text; "" where they are missing."""
    if name not in values:
        return ""
    cosine, size = values[name], sets[name].size
    gold = sets[name].gold[: len(cosine)]
    if name in ("STS-B", "SICK-R"):
        return f"{100 * spearman(gold, cosine):.1f}"
    if size == 1:
        return precision_text(gold, cosine)
    right = 100.0 * (nearest(cosine) if size == 3 else nearer(cosine))
    mean, (low, high) = grouped_mean(right, np.arange(len(right)) // (1 if size == 3 else FILLINGS))
    return f"{mean:.1f} [{low:.1f}, {high:.1f}]"


def judged_cell(sets: Mapping[str, PairSet], values: Values, group: str) -> str:
    """Return the area under the ROC curve as text; a triplet has one pair of either kind."""
    names = [name for name in sets if name.split()[0] == group]
    gold = np.concatenate([sets[name].gold[: len(values[name])] for name in names])
    scores = np.concatenate([values[name] for name in names])
    size = sets[names[0]].size
    if size == 3:
        gold, scores = (column.reshape(-1, 3)[:, :2].ravel() for column in (gold, scores))
        size = 2
    generator, rows = np.random.default_rng(0), np.arange(len(gold)).reshape(-1, size)
    samples = [generator.choice(rows, len(rows)).ravel() for _ in range(DRAWS)]
    low, high = interval(np.array([100 * roc_auc_score(gold[sample], scores[sample]) for sample in samples]))
    return f"{100 * roc_auc_score(gold, scores):.1f} [{low:.1f}, {high:.1f}]"


def accepted_cell(sets: Mapping[str, PairSet], values: Values, name: str) -> str:
    """Return the per cent of pairs that say otherwise which are accepted with 90 % of MRPC's paraphrases."""
    gold = {part: sets[part].gold[: len(values[part])] for part in ("MRPC", name)}
    scores = {"paraphrases": values["MRPC"][gold["MRPC"] == 1], name: values[name][gold[name] == 0]}
    return f"{opposite_scores(scores)[0][f'{name}.accepted']:.1f}"


def table(title: str, columns: Iterable[str], rows: Mapping[str, Values], cell: Cell) -> None:
    """Print a table of the cells of each row."""
    cells = {name: {column: cell(values, column) for column in columns} for name, values in rows.items()}
    print_table("opposites", title, cells)


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
    complete_sets = read_sets(data_folder(), options.hans, is_scored=options.part == "scored")
    sets = {name: first_pairs(pair_set, options.limit) for name, pair_set in complete_sets.items()}
    _, numbers = read_numbers(
        [pair for pair_set in sets.values() for pair in pair_set.texts], TextSource.of(source)
    )
    ends = np.cumsum([len(pair_set.texts) for pair_set in sets.values()])[:-1]
    numbers_by_set = dict(zip(sets, np.split(numbers, ends), strict=True))
    encoders = {"builtin": cosines_by(sets, source.encode(texts_of(sets), structure=0))}
    structure = cosines_by(sets, source.structure_vectors(texts_of(sets)))
    if has_minilm():
        smaller_sets = {name: first_pairs(pair_set, options.minilm_rows) for name, pair_set in sets.items()}
        encoders["MiniLM"] = cosines_by(smaller_sets, minilm_vectors(texts_of(smaller_sets)))
    with without_antonyms(sets["SemAntoNeg"]):
        rows = {"SemAntoNeg": sets["SemAntoNeg"]}
        control = cosines_by(rows, source.structure_vectors(texts_of(rows)))
    vectors: dict[str, Values] = {"structure alone": structure, "structure, without these antonyms": control}
    for name, cosines_by_set in encoders.items():
        for share in SHARES:
            vectors[f"{name}, share {share}"] = {
                part: (1 - share) * cosine + share * structure[part][: len(cosine)]
                for part, cosine in cosines_by_set.items()
            }
    judges = {name: Judge.load(name, source=source).weights for name in ("pairs", "pairs-without-mrpc")}
    scorers: dict[str, Values] = {
        f"judge {name}": {part: weights.probabilities(part_nF) for part, part_nF in numbers_by_set.items()}
        for name, weights in judges.items()
    }
    meanings = [f"{name}, share 0.0" for name in encoders]
    scorers |= {name: vectors[name] for name in (*meanings, "structure alone", "builtin, share 0.15")}
    table("vector", [name for name in VECTOR_SETS if name in sets], vectors, partial(vector_cell, sets))
    table("area under ROC", JUDGED_SETS, scorers, partial(judged_cell, sets))
    names = [name for name in ACCEPTANCE_SETS if name in sets]
    scored_rows = {name: scorers[name] for name in ("judge pairs", *meanings)}
    table("accepted with 90 % of MRPC", names, scored_rows, partial(accepted_cell, sets))


cli = Command(OppositesConfig, main, "benchmarks.opposites", "Opposites, and the judge of pairs.")


if __name__ == "__main__":
    sys.exit(cli())
