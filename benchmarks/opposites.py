"""Score opposites and exchanged words by the structure vector, by shares of it, and by the judge of pairs.

    python -m benchmarks.opposites [--part development|scored] [--hans FILE] [--rows N] [--cache FOLDER]

The judges were fitted on the rows of the part ``development``; the rows of the part ``scored`` have no
sentence and no pair of antonyms of these (:mod:`tools.judge_rows`). At most ``--rows`` pairs of every set are
scored. There are three kinds of tables:

- vectors: the percentage of rows that are right; for HANS and PAWS average precision, for STS-B and SICK-R
  Spearman's correlation;
- judges: the area under the ROC curve;
- wrong pairs: the percentage of pairs that do not mean the same, but are accepted by the threshold that
  accepts 90 % of the paraphrases of a set.

Intervals are of 95 %, over rows. The last line is a list of all figures in JSON: name, value, low, high.
MULTIVIEW_DATA is the folder of the real data.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from benchmarks.structure import print_table, score_with_interval
from corpora.senteval.structure import FILLINGS, task_pairs
from multiview.folder.reading import TextSource
from multiview.judge import FEATURES, Judge
from multiview.judge.limits import Limits
from multiview.judge.pair_reading import read_features
from multiview.model import MultiViewEncoder
from multiview.names.opened import open_encoder
from multiview.structure.forms import possible_bases
from multiview.structure.joining import structure_vectors
from multiview.structure.poles import Opposites, known_opposites
from parsing.trees.cache import TreeCache
from runtime.cli import Command, Count, configuration
from runtime.statistics import area_under_curve
from senteval_runner.protocol.correlation import spearman
from senteval_runner.protocol.cosine_tasks import ACCEPTED_SHARE, is_best_of_three, is_best_of_two
from senteval_runner.protocol.statistics import grouped_mean, interval
from tools import data_folder
from tools.fit_judge import CACHE
from tools.judge_rows import CAPTIONS, Sides, differing_words, parsed, read_sides
from tools.judge_rows import texts_of as texts_of_sides
from tools.pair_sets import MINILM, PairSet, Values, cosines_by, find_peer, has_minilm, texts_of

TRIPLETS = ("SemAntoNeg", *CAPTIONS)
SHARES = (0.0, 0.1, 0.15, 0.2)
VECTOR_SETS = (*TRIPLETS, "Binding", "HANS", "PAWS", "STS-B", "SICK-R")
JUDGED_SETS = ("PAWS", "MRPC", "swap", "replace", "SemAntoNeg", "Binding")
ACCEPTANCE_SETS = ("SemAntoNeg", "PAWS", "swap object", "swap attribute", "claims", "Binding")
PARAPHRASES = ("PAWS", "MRPC", "Quora")
DRAWS = 1000
"""Number of resamples."""


class Percentage(NamedTuple):
    """A score and the ends of its interval, in percent."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.1f} [{self.low:.1f}, {self.high:.1f}]"


def first_pairs(pairs: PairSet, limit: int) -> PairSet:
    """Return the first ``limit`` pairs in whole rows, at least one row."""
    end = max(limit - limit % pairs.size, pairs.size)
    return PairSet(pairs.gold[:end], pairs.texts[:end], pairs.size)


def read_sets(sides: Sides, data: Path, hans: Path | None, *, is_scored: bool) -> dict[str, PairSet]:
    """Return the sets of the scored or the fitted side, by name."""
    sizes = {"Binding": 2 * FILLINGS, **dict.fromkeys(TRIPLETS, 3)}
    rows_by_set = sides.scored if is_scored else sides.fitted
    pairs_by_set = {name: [pair for row in rows for pair in row] for name, rows in rows_by_set.items()}
    if hans:
        rows = list(task_pairs("HANS", hans))
        pairs_by_set["HANS"] = random.Random(0).sample(rows, len(rows))  # the file is sorted by label
    sets = {name: PairSet.of(pairs, sizes.get(name, 1)) for name, pairs in pairs_by_set.items()}
    for name, task in (("STS-B", "STSBenchmark"), ("SICK-R", "SICKRelatedness")):
        sets[name] = PairSet.of_graded(data, task, "test" if is_scored else "train")
    return sets


def _antonyms(pairs: PairSet) -> list[frozenset[str]]:
    """Return the words in which the paraphrase and the opposite of each row of SemAntoNeg differ.

    The rows are triplets; the paraphrase is in the first pair, the opposite in the third.
    """
    rows = zip(pairs.texts[::3], pairs.texts[2::3], strict=True)
    return [frozenset(differing_words(opposite, paraphrase)) for (_, paraphrase), (_, opposite) in rows]


def without_antonyms(pairs: PairSet) -> Opposites:
    """Return the package's list of opposites without the antonyms of SemAntoNeg's rows."""
    known = known_opposites()
    forms_of_antonyms = []
    for words in set(_antonyms(pairs)):
        forms: set[str] = set()
        for word in words:
            forms |= {*possible_bases(word), known.base_and_sign(word)[0]}
        forms_of_antonyms.append(forms)

    def is_known(one: str, other: str) -> bool:
        bases = {known.base_and_sign(one)[0], known.base_and_sign(other)[0]}
        return any({one, other} <= forms or bases <= forms for forms in forms_of_antonyms)

    return Opposites(row for row in known.rows if not is_known(row[0], row[1]))


def listed_share(pairs: PairSet) -> float:
    """Return the percentage of SemAntoNeg's rows whose antonyms are opposites in the package's list."""
    opposites = known_opposites()
    is_opposed = [len(words) == 2 and opposites.agreement(*sorted(words)) < 0 for words in _antonyms(pairs)]
    return 100 * float(np.mean(is_opposed))


def vector_score(pairs: PairSet, name: str, cosine: Any) -> Percentage:
    """Return the score of the cosines of a set: correlation, average precision or accuracy."""
    gold = pairs.gold
    if name in ("STS-B", "SICK-R"):
        values = [100 * spearman(gold[rows], cosine[rows]) for rows in _draws(len(gold))]
        return Percentage(100 * spearman(gold, cosine), *interval(np.array(values)))
    if pairs.size == 1:
        return Percentage(*score_with_interval("ap", gold, cosine))
    is_triplet = pairs.size == 3
    right = 100.0 * (is_best_of_three(cosine) if is_triplet else is_best_of_two(cosine))
    group_size = 1 if is_triplet else FILLINGS
    mean, (low, high) = grouped_mean(right, np.arange(len(right)) // group_size)
    return Percentage(mean, low, high)


def _draws(count: int, size: int = 1) -> list[Any]:
    """Return the indices of :data:`DRAWS` resamples of ``count`` items.

    Rows of ``size`` successive items are drawn together, with replacement.
    """
    generator = np.random.default_rng(0)
    rows = np.arange(count).reshape(-1, size)
    return [generator.choice(rows, len(rows)).ravel() for _ in range(DRAWS)]


def judge_auc(sets: Mapping[str, PairSet], values: Values, group: str) -> Percentage:
    """Return the area under the ROC curve of a judge's values over the sets of a group.

    Sets whose names begin with the same word are a group. Of a triplet the first two pairs are taken, of
    which one means the same and one does not.
    """
    names = [name for name in sets if name.split()[0] == group]
    gold = np.concatenate([sets[name].gold for name in names])
    scores = np.concatenate([values[name] for name in names])
    size = sets[names[0]].size
    if size == 3:
        gold, scores = (column.reshape(-1, 3)[:, :2].ravel() for column in (gold, scores))
        size = 2
    areas = [100 * area_under_curve(scores[rows], gold[rows] == 1) for rows in _draws(len(gold), size)]
    return Percentage(100 * area_under_curve(scores, gold == 1), *interval(np.array(areas)))


def accepted_share(sets: Mapping[str, PairSet], values: Values, paraphrases: str, name: str) -> Percentage:
    """Return the percentage of pairs of set ``name`` that are accepted, although they do not mean the same.

    The threshold is the one that accepts 90 % of the paraphrases of set ``paraphrases``.
    """
    same = values[paraphrases][sets[paraphrases].gold == 1]
    pairs = sets[name]
    others, is_other = values[name], pairs.gold == 0

    def accepted(same_rows: Any, rows: Any) -> float:
        threshold = np.quantile(same[same_rows], 1 - ACCEPTED_SHARE)
        return 100 * float((others[rows][is_other[rows]] >= threshold).mean())

    draws = zip(_draws(len(same)), _draws(len(others), pairs.size), strict=True)
    drawn = np.array([accepted(same_rows, rows) for same_rows, rows in draws])
    return Percentage(accepted(slice(None), slice(None)), *interval(drawn))


@configuration
class OppositesConfig:
    """Options of ``python -m benchmarks.opposites``."""

    part: Literal["development", "scored"] = "scored"
    """Which rows are scored."""
    hans: Path | None = None
    """HANS's heuristics_evaluation_set.txt, of which all rows of lexical overlap are read."""
    rows: Count = 1000
    """Pairs of each set at most, in whole rows."""
    cache: Path = CACHE
    """Folder where trees, and MiniLM's vectors, are kept."""


def read_values(
    sets: Mapping[str, PairSet], trees: TreeCache, folder: Path
) -> tuple[dict[str, Values], dict[str, Values]]:
    """Return the cosines of every vector by set, and the values of every judge and some cosines by set.

    ``trees`` are those of all sentences; ``folder`` keeps MiniLM's vectors.
    """
    encoder = MultiViewEncoder.load("builtin", "cpu")
    source = TextSource.of(encoder)
    pairs = [pair for pair_set in sets.values() for pair in pair_set.texts]
    comparison, features_nF = read_features(pairs, source, trees=trees)
    limits = Limits.of(pairs, comparison)
    ends = np.cumsum([len(pair_set.texts) for pair_set in sets.values()])[:-1]

    def by_set(values: Any) -> Values:
        return dict(zip(sets, np.split(values, ends), strict=True))

    texts = texts_of(sets)
    meanings = {"builtin": cosines_by(sets, encoder.with_options(structure=0).encode(texts))}
    structure = cosines_by(sets, encoder.structure_vectors(texts))
    if has_minilm():
        minilm = open_encoder(find_peer(MINILM), cache=folder / "vectors")
        meanings["MiniLM"] = cosines_by(sets, minilm.encode([text.split(" ") for text in texts]))
    vectors: dict[str, Values] = {"structure alone": structure}
    rows = {"SemAntoNeg": sets["SemAntoNeg"]}
    others = without_antonyms(rows["SemAntoNeg"])
    vectors["structure, without these antonyms"] = cosines_by(
        rows, structure_vectors(source, texts_of(rows), others)
    )
    for name, cosines_by_set in meanings.items():
        for share in SHARES:
            vectors[f"{name}, share {share}"] = {
                set_name: (1 - share) * cosine + share * structure[set_name]
                for set_name, cosine in cosines_by_set.items()
            }
    scorers: dict[str, Values] = {}
    for name in ("pairs", "pairs-with-mrpc"):
        weights = Judge.load(name, source=source).weights
        scorers[f"judge {name}"] = by_set(limits.limit(weights.probabilities(features_nF)))
    scorers["words in common"] = by_set(features_nF[:, list(FEATURES).index("every word")])
    names = [f"{name}, share 0.0" for name in meanings]
    for name in (*names, "structure alone", "builtin, share 0.15"):
        scorers[name] = vectors[name]
    return vectors, scorers


def main(options: OppositesConfig) -> None:
    """Print each table and a line of JSON for it, then all figures."""
    data = data_folder()
    sides = read_sides(data)
    complete_sets = read_sets(sides, data, options.hans, is_scored=options.part == "scored")
    trees = parsed(texts_of_sides(sides), options.cache)
    sets = {name: first_pairs(pair_set, options.rows) for name, pair_set in complete_sets.items()}
    print({name: (len(pair_set.texts), sides.dropped.get(name, 0)) for name, pair_set in sets.items()})
    vectors, scorers = read_values(sets, trees, options.cache)
    others = [name for name in ACCEPTANCE_SETS if name in sets]
    tables: dict[str, dict[str, dict[str, Percentage]]] = {"vector": {}, "area under ROC": {}}
    for name, values in vectors.items():
        tables["vector"][name] = {
            part: vector_score(sets[part], part, values[part]) for part in VECTOR_SETS if part in values
        }
    for name, values in scorers.items():
        areas = {group: judge_auc(sets, values, group) for group in JUDGED_SETS}
        tables["area under ROC"][name] = areas
    compared = [name for name in scorers if name.startswith(("judge", "MiniLM", "words"))]
    for same in PARAPHRASES:
        if same in sets:
            tables[f"accepted with 90 % of {same}"] = {
                name: {other: accepted_share(sets, scorers[name], same, other) for other in others}
                for name in compared
            }
    figures: list[dict[str, Any]] = []
    for side, rows_by_set in (("fitted", sides.fitted), ("scored", sides.scored)):
        pairs = [pair for row in rows_by_set["SemAntoNeg"] for pair in row]
        share = listed_share(PairSet.of(pairs, 3))
        figures.append({"name": f"antonyms in the list, {side}", "value": share, "low": share, "high": share})
    for title, rows in tables.items():
        columns = list(dict.fromkeys(column for row in rows.values() for column in row))
        cells = {}
        for name, row in rows.items():
            cells[name] = {column: str(row.get(column, "")) for column in columns}
            for column, percentage in row.items():
                figures.append({"name": f"{title}, {name}, {column}", **percentage._asdict()})
        print_table("opposites", title, cells)
    print(json.dumps(figures))


cli = Command(OppositesConfig, main, "benchmarks.opposites", "Opposites, and the judge of pairs.")


if __name__ == "__main__":
    sys.exit(cli())
