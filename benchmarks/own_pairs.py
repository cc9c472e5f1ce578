"""Fit the judge to pairs of one's own, and use it behind a cache of answers and a search for duplicates.

    python -m benchmarks.own_pairs fit
    python -m benchmarks.own_pairs cache

``fit`` draws pairs of a set and fits a judge to them, which starts from the judge in the package. It prints
by how many points the area under the ROC curve is higher than that of the package's judge, on pairs of other
sentences, and how many of the package's checks the new judge breaks.

``cache`` stores StackFAQ's questions of every fourth thread, and asks the questions of all odd threads. The
nearest stored question is right if it is of the same thread; half of the questions have no right answer. It
prints which percentage of the accepted pairs is wrong, at thresholds that accept 50, 70 and 90 % of the right
pairs. It prints the same for all near pairs, which ``multiview.duplicates`` would judge. "own judge" was
fitted to near questions of even threads. MULTIVIEW_DATA is the folder of the real data.

Legend of dimension suffixes: N questions, n pairs, F features of a pair, T thresholds.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from tyro.conf import Positional

from benchmarks.structure import print_table
from corpora.senteval.structure import Pair, task_pairs
from corpora.tables import read_table
from multiview.folder.reading import TextSource
from multiview.judge import FEATURES, Judge
from multiview.judge.checks import Checks
from multiview.judge.limits import Limits
from multiview.judge.pair_reading import read_features
from multiview.judge.thresholds import curve
from multiview.judge.weights import Floats
from multiview.model import MultiViewEncoder
from multiview.search import semantic_search
from parsing.trees.cache import TreeCache
from runtime.cli import Command, Count, configuration
from runtime.statistics import area_under_curve
from tools import data_folder
from tools.fit_judge import CACHE
from tools.judge_rows import PAWS_ROWS, Sides, parsed, read_sides, sentences_of, texts_of
from tools.pair_sets import has_minilm, minilm_vectors

SIZES = (100, 300, 1000, 2000)
"""Numbers of pairs that a judge is fitted to."""
HIT_RATES = (50, 70, 90)
"""Percentages of right pairs that are accepted."""
NEIGHBOURS = 10
FITTED_TWEETS, SCORED_TWEETS, SCORED_PAWS = 1131, 600, 1250
REFUSED = 0.05
"""The judge as a guard refuses pairs below this probability, whatever their cosine is."""
Sets = dict[str, tuple[list[Pair], list[Pair]]]
"""The pairs to fit a judge to, and the pairs to score it on, by set."""


@configuration
class OwnPairsConfig:
    """Options of ``python -m benchmarks.own_pairs``."""

    part: Positional[Literal["fit", "cache"]]
    """The table to make: what own pairs gain, or false hits before a cache."""
    draws: Count = 10
    """Draws of pairs, for each set and number of pairs."""
    sets: tuple[str, ...] = ("PAWS", "MRPC", "Twitter", "StackFAQ")
    """Sets to fit on."""


def read_questions(data: Path, parity: int) -> dict[str, int]:
    """Return StackFAQ's questions and queries of even (``parity`` 0) or odd threads, with their threads."""
    threads: dict[str, int] = {}
    for file, column in (("faq.tsv", "question"), ("queries.tsv", "query")):
        for row in read_table(data / "retrieval/stackfaq" / file, ("thread", column)):
            threads.setdefault(row.cells[1], int(row.cells[0]))
    return {question: thread for question, thread in threads.items() if thread % 2 == parity}


def near_pairs(
    threads: dict[str, int], vectors: NDArray[Any], count: int, is_stored: NDArray[np.bool_] | None = None
) -> tuple[list[Pair], Floats]:
    """Return the pairs of each question with the ``count`` nearest other questions, and their cosines.

    If ``count`` is above 1, a pair of two questions is returned once, not in both orders.

    Args:
        threads: the thread of each question; two questions of one thread mean the same.
        vectors: the vectors of the questions, [N, D].
        count: number of nearest questions.
        is_stored: the questions to search, [N]; None searches all.
    """
    texts = np.array(list(threads), object)
    is_stored = np.ones(len(texts), bool) if is_stored is None else is_stored
    stored = texts[is_stored]
    hits_of_asked = semantic_search(vectors, vectors[is_stored], top_k=count + 1)
    pairs: dict[Any, tuple[Pair, float]] = {}
    for asked, hits in zip(texts, hits_of_asked, strict=True):
        other_hits = [hit for hit in hits if stored[hit.corpus_id] != asked]
        for hit in other_hits[:count]:
            found = stored[hit.corpus_id]
            key = asked if count == 1 else frozenset((asked, found))
            pairs[key] = Pair(threads[asked] == threads[found], asked, found), hit.score
    return [pair for pair, _ in pairs.values()], np.array([cosine for _, cosine in pairs.values()])


def read_sets(sides: Sides, data: Path) -> Sets:
    """Return for each set the pairs to fit a judge to, and pairs of other sentences to score it on."""
    scored_paws = [row[0] for row in sides.scored["PAWS"]]
    scored_mrpc = [row[0] for row in sides.scored["MRPC"]]
    paws = list(task_pairs("PAWS", data / "structure/paws_wiki_dev.tsv"))[PAWS_ROWS:]
    tweets = []
    for row in read_table(data / "paraphrase/twitter_url_test.tsv.gz", ("label", "sentence1", "sentence2")):
        label, first, second = row.cells
        tweets.append(Pair(label == "1", first, second))
    encode = MultiViewEncoder.load("builtin", "cpu", structure=0).encode
    questions = []
    for parity in (0, 1):
        threads = read_questions(data, parity)
        pairs, _ = near_pairs(threads, encode(list(threads)), NEIGHBOURS)
        questions.append(pairs)
    sets = {
        "PAWS": (paws, scored_paws[-SCORED_PAWS:]),
        "MRPC": (scored_mrpc[::2], scored_mrpc[1::2]),
        "Twitter": (tweets[:FITTED_TWEETS], tweets[-SCORED_TWEETS:]),
        "StackFAQ": (questions[0], questions[1]),
    }
    for name, (own, others) in sets.items():
        known = sentences_of(tuple(others))
        sets[name] = [pair for pair in own if sentences_of((pair,)).isdisjoint(known)], others
    return sets


def features_of(
    pairs: Sequence[Pair], source: TextSource, trees: TreeCache | None = None
) -> tuple[Any, Floats, Floats]:
    """Return the comparison of pairs, their features [n, F], and 1 for pairs that mean the same, else 0, [n].

    Without ``trees`` the sentences are parsed, and their trees are kept.
    """
    trees = trees or parsed(sorted({text for pair in pairs for text in pair[1:]}), CACHE)
    comparison, features_nF = read_features([pair[1:] for pair in pairs], source, trees=trees)
    return comparison, features_nF, np.array([float(pair.is_same) for pair in pairs])


def fit(config: OwnPairsConfig, data: Path, source: TextSource) -> None:
    """Print how much judges gain that are fitted to one's own pairs, and how many checks they break."""
    sides = read_sides(data)
    sets = read_sets(sides, data)
    trees_of_sides = parsed(texts_of(sides), CACHE)
    start, checks = Judge.load(source=source).weights, Checks.read(source)
    cells: dict[str, dict[str, str]] = {}
    for name in config.sets:
        own, others = sets[name]
        trees = trees_of_sides if name in sides.scored else None
        _, own_nF, label_n = features_of(own, source, trees)
        _, other_nF, same_n = features_of(others, source, trees)
        package = 100 * area_under_curve(start.probabilities(other_nF), same_n > 0)
        for size in dict.fromkeys(min(size, len(own)) for size in SIZES):
            gains, broken = [], []
            for draw in range(config.draws):
                rows = np.random.default_rng(draw).permutation(len(own))[:size]
                weights = checks.fit(start, own_nF[rows], label_n[rows])
                gains.append(100 * area_under_curve(weights.probabilities(other_nF), same_n > 0) - package)
                broken.append(len(weights.about["broken checks"]))
            cells[f"{name}, {size:,}"] = {
                "package": f"{package:.1f}",
                "gain": f"{np.mean(gains):+.1f}",
                "least gain": f"{min(gains):+.1f}",
                "broken": f"{np.mean(broken):.1f}",
                "most broken": str(max(broken)),
            }
            print(f"{name}, {size:,}", cells[f"{name}, {size:,}"], file=sys.stderr, flush=True)
    print_table("own pairs", "pairs of", cells)


def false_hits(score_n: Floats, same_n: Floats) -> dict[str, str]:
    """Return the percentage of accepted pairs that do not mean the same, for each of :data:`HIT_RATES`."""
    _, accepted_T, false_T = curve(score_n, same_n > 0)
    hit_rate_T = 100 * (accepted_T - false_T) / same_n.sum()
    cells = {}
    for rate in HIT_RATES:
        index = int((hit_rate_T < rate - 1e-9).sum())  # of the first threshold that reaches the rate
        cells[f"{rate} %"] = f"{100 * false_T[index] / accepted_T[index]:.1f}"
    return cells


def cache(data: Path, source: TextSource) -> None:
    """Print the false hits of a cache, and of a search for duplicates, by cosine and by judges."""
    even, odd = read_questions(data, 0), read_questions(data, 1)
    encoders = {"builtin": MultiViewEncoder.load("builtin", "cpu", structure=0).encode}
    if has_minilm():
        encoders["MiniLM"] = minilm_vectors
    start, checks = Judge.load(source=source).weights, Checks.read(source)
    topic = list(FEATURES).index("topic")
    is_stored = np.array([thread % 4 == 1 for thread in odd.values()])
    tables: dict[str, dict[str, dict[str, str]]] = {"cache": {}, "duplicates": {}}
    for name, encode in encoders.items():
        own, own_cosine_n = near_pairs(even, encode(list(even)), NEIGHBOURS)
        _, own_nF, label_n = features_of(own, source)
        beside_nF = own_nF.copy()
        beside_nF[:, topic] = own_cosine_n
        scaled = start.with_scale_of("topic", beside_nF)
        judges = {
            "judge": start,
            "own judge": checks.fit(start, own_nF, label_n),
            "own judge beside it": checks.fit(scaled, beside_nF, label_n),
        }
        vectors = encode(list(odd))
        for title, chosen in (("cache", (1, is_stored)), ("duplicates", (NEIGHBOURS, None))):
            pairs, cosine_n = near_pairs(odd, vectors, *chosen)
            comparison, features_nF, same_n = features_of(pairs, source, parsed(sorted(odd), CACHE))
            cells, limits = tables[title], Limits.of([pair[1:] for pair in pairs], comparison)
            cells[f"cosine of {name}: {same_n.sum():,.0f} of {len(pairs):,}"] = false_hits(cosine_n, same_n)
            for judge, weights in judges.items():
                if "beside" in judge:
                    features_nF[:, topic] = cosine_n
                probability_n = limits.limit(weights.probabilities(features_nF))
                cells[f"{name}, then {judge}"] = false_hits(probability_n, same_n)
                if judge == "judge":
                    guarded_n = np.where(probability_n < REFUSED, -1, cosine_n)
                    cells[f"cosine of {name}, judge as guard"] = false_hits(guarded_n, same_n)
    for title, cells in tables.items():
        print_table("own pairs", title, cells)


def main(config: OwnPairsConfig) -> None:
    """Print the tables of the part that is named."""
    data, source = data_folder(), TextSource.load("builtin", "cpu")
    if config.part == "fit":
        fit(config, data, source)
    else:
        cache(data, source)


cli = Command(OwnPairsConfig, main, "benchmarks.own_pairs", "Fit the judge to own pairs, and use it.")


if __name__ == "__main__":
    sys.exit(cli())
