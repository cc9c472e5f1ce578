"""The compared methods: lexical rankers, scorers over frozen vectors, cross-encoders.

A method runs in cells (set, method, seed). The outcome of a cell is plain JSON: development means, test
values per question, how the method was chosen, seconds.
"""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from corpora.ranking.lexical import K1, B, Bm25, Tfidf
from corpora.ranking.questions import PassageSet, Question
from corpora.support.progress import progress
from corpora.tokenize import SpaceTokenizer
from senteval_runner.protocol.features import Float
from senteval_runner.vectors.embed import SentenceVectors, StoredEncoder, Tokens
from senteval_runner.vectors.sources import find_source
from studies.passages.config import Baseline, Feature, PassagesConfig, Scorer
from studies.passages.metrics import TIE, Scores, mean, measure

if TYPE_CHECKING:
    from studies.passages.ranker import Part

Outcome = dict[str, Any]
BM25_K1 = (0.6, 0.9, 1.2, 1.5, 2.0)
BM25_B = (0.0, 0.3, 0.6, 0.75, 0.9)


@dataclass(frozen=True, kw_only=True, eq=False)
class Method:
    """One row of the tables."""

    model: str
    feature: str
    scorer: str
    identity: list[Any]
    """JSON values of everything that decides its scores, except set, seed and versions."""
    seeds: int
    run: Callable[[PassageSet, int, Path], Outcome]
    """(set, seed, folder for unfinished work) to the outcome."""


def outcome(data: PassageSet, dev: Scores, test: Scores, started: float, **info: Any) -> Outcome:
    """The JSON of a cell from the scores of dev and test."""
    return {
        "dev": mean(measure(data.splits["dev"], dev)),
        "test": {name: values.tolist() for name, values in measure(data.splits["test"], test).items()},
        "tied": tied_fraction(data.splits["test"], test),
        "seconds": time.perf_counter() - started,
        "info": info,
    }


def tied_fraction(questions: Sequence[Question], scores: Scores) -> float:
    """Fraction of (relevant, irrelevant) candidate pairs whose scores differ by at most 1e-6."""
    tied = pairs = 0
    for question, scores_K in zip(questions, scores, strict=True):
        right, wrong = scores_K[question.relevant], np.sort(scores_K[~question.relevant])
        tied += int(
            (np.searchsorted(wrong, right + TIE, "right") - np.searchsorted(wrong, right - TIE)).sum()
        )
        pairs += len(right) * len(wrong)
    return tied / pairs if pairs else 0.0


def lexical_scores(index: Bm25 | Tfidf, questions: Sequence[Question]) -> list[NDArray[np.floating]]:
    """Scores of every question's candidates, [K] each; word statistics come from all passages of the set."""
    return [index.scores(q.text)[q.candidates] for q in questions]


def tune_bm25(data: PassageSet, select: str) -> tuple[float, float, float]:
    """(k1, b, score) that are best on dev; ties keep the smaller values."""
    tokens = Bm25.tokenize(data.passages)
    best = (BM25_K1[0], BM25_B[0], -1.0)
    grid = list(itertools.product(BM25_K1, BM25_B))
    with progress(total=len(grid), unit="setting", description="tune BM25") as bar:
        for k1, b in grid:
            index = Bm25(data.passages, k1=k1, b=b, tokens=tokens)
            found = mean(measure(data.splits["dev"], lexical_scores(index, data.splits["dev"])))[select]
            if found > best[2]:
                best = (k1, b, found)
            bar.update(1)
    return best


def lexical(name: Baseline, config: PassagesConfig) -> Method:
    """BM25 with default or tuned parameters, or TF-IDF."""

    def run(data: PassageSet, seed: int, folder: Path) -> Outcome:
        started, info = time.perf_counter(), {}
        if name == "tfidf":
            index: Bm25 | Tfidf = Tfidf(data.passages)
        else:
            k1, b = (K1, B) if name == "bm25" else tune_bm25(data, config.select)[:2]
            index, info = Bm25(data.passages, k1=k1, b=b), {"k1": k1, "b": b}
        dev, test = (lexical_scores(index, data.splits[split]) for split in ("dev", "test"))
        return outcome(data, dev, test, started, **info)

    shown = {"bm25": "BM25", "bm25-tuned": "BM25, tuned", "tfidf": "TF-IDF"}[name]
    identity = [name, config.select] if name == "bm25-tuned" else [name]
    return Method(model=shown, feature="words", scorer="none", identity=identity, seeds=1, run=run)


class SentenceMeans:
    """Texts of several sentences as the mean of their sentences' vectors (cut by spaCy's sentencizer)."""

    def __init__(self, inner: SentenceVectors) -> None:
        self.inner = inner
        self.tokenizer = SpaceTokenizer(running=True)

    def __call__(self, sentences: Sequence[Tokens]) -> Float:
        """One row per text, in order: [n, d]."""
        parts = [self.tokenizer.sentences(" ".join(tokens)) or [("",)] for tokens in sentences]
        distinct = {part: row for row, part in enumerate(dict.fromkeys(p for text in parts for p in text))}
        vectors = self.inner([list(part) for part in distinct])
        rows = [[distinct[part] for part in text] for text in parts]
        means: Float = np.stack([vectors[each].mean(axis=0) for each in rows])
        return means


class Frozen:
    """A model's vectors of the sets' questions and passages, one set in memory at a time.

    Args:
        model: see :func:`senteval_runner.vectors.encoders.open_model`.
        unit: ``passage`` or ``sentence`` (:class:`SentenceMeans`).
    """

    def __init__(self, model: StoredEncoder, unit: str) -> None:
        self.model = model
        self.passage_vectors = SentenceMeans(model) if unit == "sentence" else model
        self._held: tuple[PassageSet, dict[str, Part]] | None = None

    def parts(self, data: PassageSet) -> dict[str, Part]:
        """Train, dev and test with their vectors."""
        if self._held is None or self._held[0] is not data:
            self._held = data, self._parts(data)
        return self._held[1]

    def _parts(self, data: PassageSet) -> dict[str, Part]:
        from studies.passages.ranker import Part, scaled

        rows = data.used_passages()
        vectors = self.passage_vectors([data.passages[row].split() for row in rows])
        passages = np.zeros((len(data.passages), vectors.shape[1]), dtype=np.float32)
        passages[rows] = vectors
        passage_ND = scaled(passages)
        return {
            split: Part(questions, scaled(self.model([q.text.split() for q in questions])), passage_ND)
            for split, questions in data.splits.items()
        }


def scorer_method(frozen: Frozen, feature: Feature, scorer: Scorer, config: PassagesConfig) -> Method:
    """A scorer over a model's vectors."""
    is_trained = feature != "cosine"

    def run(data: PassageSet, seed: int, folder: Path) -> Outcome:
        from studies.passages.ranker import make_scorer, score, train_scorer

        started = time.perf_counter()
        parts = frozen.parts(data)
        dim = parts["train"].passage_ND.shape[1]
        net = make_scorer(feature, scorer, dim, config.ranker.hidden, seed)
        info: dict[str, Any] = {"dimensions": dim}
        if is_trained:
            with progress(total=config.ranker.epochs, unit="pass", description=f"{feature} {scorer}") as bar:
                fit = train_scorer(
                    net,
                    parts["train"],
                    parts["dev"],
                    config.ranker,
                    margin=config.margin,
                    select=config.select,
                    seed=seed,
                    step=lambda: bar.update(1),
                )
            info |= {"epoch": fit.epoch, "curve": fit.curve}
            info |= {"before": dataclasses.asdict(fit.before), "after": dataclasses.asdict(fit.after)}
        dev, test = (score(net, parts[split]) for split in ("dev", "test"))
        return outcome(data, dev, test, started, **info)

    identity: list[Any] = ["frozen", *frozen.model.identity, config.unit, feature]
    shown = scorer if feature.startswith("uv") else "none"
    if is_trained:
        identity += [shown, dataclasses.asdict(config.ranker), config.margin, config.select]
    return Method(
        model=frozen.model.name,
        feature=feature,
        scorer=shown,
        identity=identity,
        seeds=config.runs if is_trained else 1,
        run=run,
    )


def scorer_methods(frozen: Frozen, config: PassagesConfig) -> list[Method]:
    """Every feature with every scorer that applies to it."""
    methods = []
    for feature in dict.fromkeys(config.features):
        scorers: Iterable[Scorer] = dict.fromkeys(config.scorers) if feature.startswith("uv") else ("linear",)
        methods += [scorer_method(frozen, feature, scorer, config) for scorer in scorers]
    return methods


def cross_method(backbone: str, config: PassagesConfig, log: Callable[[str], None]) -> Method:
    """A cross-encoder fine-tuned from ``backbone``."""
    margin = config.margin if config.cross.margin is None else config.cross.margin

    def run(data: PassageSet, seed: int, folder: Path) -> Outcome:
        from studies.passages.cross import cross_scores, fine_tune

        started = time.perf_counter()
        net, history = fine_tune(
            data,
            backbone,
            config.cross,
            margin=margin,
            select=config.select,
            seed=seed,
            device=config.device or "auto",
            folder=folder,
            report=log,
        )
        splits = [data.splits[split] for split in ("dev", "test")]
        total = sum(len(q.candidates) for questions in splits for q in questions)
        with progress(total=total, unit="pair", description="score") as bar:
            dev, test = (cross_scores(net, questions, data.passages, bar.update) for questions in splits)
        return outcome(data, dev, test, started, steps=config.cross.steps, history=history, margin=margin)

    source = find_source(backbone)
    options = dataclasses.asdict(config.cross)
    del options["backbones"]
    identity = ["cross", source.key, options, margin, config.select]
    name = Path(backbone).name if Path(backbone).exists() else backbone
    return Method(
        model=name, feature="cross-encoder", scorer="mlp", identity=identity, seeds=config.runs, run=run
    )
