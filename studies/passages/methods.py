"""The compared methods as cells (BM25, scorers over frozen vectors, cross-encoders), and EMP's Table 3."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from corpora.inputs import input_hash
from corpora.ranking.lexical import Bm25
from corpora.ranking.sets import PassageSet, filtered, parse_spec, read_set
from multiview.names.opened import OpenedEncoder, distinct_names
from multiview.names.sources import find_source
from runtime.errors import UserError
from senteval_runner.report.page import Cell as TableCell
from senteval_runner.report.page import Column, Page, Score, Section, Table
from senteval_runner.towers.backbones import open_layers
from senteval_runner.vectors import open_model
from studies.kit import Cell, Figures, Run, published
from studies.passages import cross
from studies.passages.config import Feature, PassagesConfig, Scorer
from studies.passages.ranker import (
    METRICS,
    Part,
    Scores,
    make_scorer,
    mean,
    measure,
    scaled,
    score,
    train_scorer,
)

SCORERS: tuple[Scorer, ...] = ("linear", "mlp")
"""Scorers on [u; v] and [u; v; |u-v|; u*v]."""
Label = tuple[str, str, str]
"""Model, feature and scorer of a row."""
COLUMNS: tuple[str | Column, ...] = (
    *("model", "feature", "scorer"),
    *(Column(name.upper(), digits=1, best="high") for name in METRICS),
)
INTERVALS = "In brackets: 95 % interval from resampling questions. ±: standard deviation over seeds."
MARGIN_0 = (
    "Pairwise hinge loss with margin 0, as EMP prints it: equal scores are a minimum, so a scorer that gives "
    "every passage one score has loss 0, and a pair in the right order teaches nothing."
)
PUBLISHED = "Published, not computed here: Ma et al. 2019, Universal Text Representation from BERT, Table 3"
NOTE = (
    "Other candidates, splits and encoders may stand behind the published rows. The paper's R@k of Quasar-T "
    "and SearchQA stands under S@k, whether a relevant passage is among the first k: as a fraction of all "
    "relevant passages, of which most questions have several, R@1 could not reach 76."
)


class Method(NamedTuple):
    """One row of the tables."""

    label: Label
    identity: Sequence[object]
    """JSON values of everything that decides its scores, except set and seed."""
    seeds: int
    compute: Callable[[PassageSet, int, Path], tuple[Scores, Figures]]
    """Gives the test questions' scores and further figures, from set, seed and folder for unfinished work."""


def rank(config: PassagesConfig, run: Run) -> Page:
    """Rank with every method on every set."""
    sets: dict[str, PassageSet] = {}
    digests: dict[str, str] = {}
    for spec in dict.fromkeys(config.sets):
        try:
            data = filtered(read_set(spec), config.keep)
            if data.name in sets:
                raise UserError(f"a set of the name {data.name} is there already; rename the folder")
            digests[data.name] = input_hash(parse_spec(spec)[1], data.files)
            sets[data.name] = data
        except UserError as error:
            run.leave_out(spec, error)
    cells = {
        (data.name, method.label, seed): Cell(
            name=f"{data.name}: {' '.join(filter(None, method.label))}, seed {seed}",
            identity=[digests[data.name], config.keep, *method.identity, seed],
            compute=partial(_figures, data, method, seed),
        )
        for data, method in product(sets.values(), make_methods(config, run))
        for seed in range(method.seeds)
    }
    rows: dict[str, dict[Label, list[Figures]]] = {name: {} for name in sets}
    for (name, label, _), figures in run.figures(cells).items():
        rows[name].setdefault(label, []).append(figures)
    sections = []
    for name, data in sets.items():
        counts = (
            f"{split}: {questions:,} questions, {candidates:,} candidates, {relevant:,} relevant"
            for split, (questions, candidates, relevant) in data.counts().items()
        )
        note = ". ".join([*counts, *data.notes]) + "."
        sections.append(Section(name, [_table(name, rows[name])], note=note))
    loss = f"Pairwise hinge loss with margin {config.margin:g}." if config.margin else MARGIN_0
    return Page("Passage ranking", sections, f"{loss} {INTERVALS}")


def _figures(data: PassageSet, method: Method, seed: int, folder: Path) -> Figures:
    """Compute the means over the test questions, and keep the average precision of each."""
    scores, more = method.compute(data, seed, folder)
    values = measure(data.splits["test"], scores)
    return {**mean(values), "average_precisions": values["map"].tolist(), **more}


def make_methods(config: PassagesConfig, run: Run) -> list[Method]:
    """Make all methods, in the order of the tables."""
    frozen = FrozenScorers(_open_models(config, run), config)
    return [Method(("BM25", "words", ""), ["bm25"], 1, bm25), *frozen.methods(), *cross_encoders(config, run)]


def bm25(data: PassageSet, seed: int, folder: Path) -> tuple[Scores, Figures]:
    """Score the test questions; word statistics come from all passages of the set."""
    index = Bm25(data.passages)
    return [index.scores(q.text)[q.candidates] for q in data.splits["test"]], {}


class FrozenScorers:
    """Scorers on the vectors of some models; those of one model and set are in memory at a time."""

    def __init__(self, models: Mapping[str, OpenedEncoder], config: PassagesConfig) -> None:
        self.models, self.config = models, config
        names = ("epochs", "learning_rate", "margin")
        self.options: dict[str, Any] = {name: getattr(config, name) for name in names}
        self._parts: tuple[tuple[str, str], dict[str, Part]] = (("", ""), {})

    def parts(self, model: str, data: PassageSet) -> dict[str, Part]:
        """Encode the splits of a set by a model."""
        key = model, data.name
        if self._parts[0] != key:
            self._parts = key, _parts(self.models[model], data)
        return self._parts[1]

    def scores(
        self,
        model: str,
        feature: Feature,
        scorer: Scorer | None,
        data: PassageSet,
        seed: int,
        folder: Path,
    ) -> tuple[Scores, Figures]:
        """Train a scorer on a set, unless it is the cosine, and score the test questions."""
        train, dev, test = (self.parts(model, data)[split] for split in ("train", "dev", "test"))
        dim = train.passage_ND.shape[1]
        net = make_scorer(feature, scorer, dim, seed)
        curve = [] if feature == "cosine" else train_scorer(net, train, dev, seed=seed, **self.options)
        return score(net, test), {"dimensions": dim, "curve": curve}

    def methods(self) -> Iterator[Method]:
        """Make a method of every model with every feature and scorer."""
        for (name, model), feature in product(self.models.items(), self.config.features):
            for scorer in SCORERS if feature.startswith("uv") else (None,):
                options = None if feature == "cosine" else self.options
                yield Method(
                    (name, feature, scorer or ""),
                    [*model.identity, feature, scorer, options],
                    self.config.runs if options else 1,
                    partial(self.scores, name, feature, scorer),
                )


def cross_encoders(config: PassagesConfig, run: Run) -> Iterator[Method]:
    """Make a method of every cross-encoder that can be opened."""

    def tuned(backbone: str, data: PassageSet, seed: int, folder: Path) -> tuple[Scores, Figures]:
        net, history = cross.fine_tune(data, backbone, config, seed=seed, folder=folder, report=run.log)
        return cross.cross_scores(net, data.splits["test"], data.passages), {"history": history}

    for backbone, source in run.opened({one: partial(find_source, one) for one in config.cross}).items():
        name = Path(backbone).name if Path(backbone).exists() else backbone
        identity = ["cross", source.key, config.cross_epochs, config.margin]
        yield Method((name, "cross-encoder", "mlp"), identity, config.runs, partial(tuned, backbone))


def _open_models(config: PassagesConfig, run: Run) -> dict[str, OpenedEncoder]:
    """Models by name, opened without loading them; left out where that fails."""
    reading: dict[str, Any] = {"max_length": 512, "device": config.device, "cache": config.cache}
    openers: dict[str, Callable[[], OpenedEncoder]] = {
        spec: partial(open_model, spec, cache=config.cache, device=config.device) for spec in config.models
    }
    for spec, layers, pooling in product(config.backbones, config.layers, config.poolings):
        openers[f"{spec} {layers} {pooling}"] = partial(open_layers, spec, layers, pooling, **reading)
    models = list(run.opened(openers).values())
    names = distinct_names([model.name for model in models], [model.spec for model in models])
    return dict(zip(names, models, strict=True))


def _parts(encode: OpenedEncoder, data: PassageSet) -> dict[str, Part]:
    """Train, dev and test with a model's vectors of questions and passages."""
    used = np.zeros(len(data.passages), dtype=bool)  # passages that are a candidate of some question
    for question in (q for questions in data.splits.values() for q in questions):
        used[question.candidates] = True
    vectors = encode([data.passages[row].split() for row in np.flatnonzero(used)])
    passages = np.zeros((len(data.passages), vectors.shape[1]), dtype=np.float32)
    passages[used] = vectors
    passage_ND = scaled(passages)
    return {
        split: Part(questions, scaled(encode([q.text.split() for q in questions])), passage_ND)
        for split, questions in data.splits.items()
    }


def _table(name: str, rows: Mapping[Label, Sequence[Figures]]) -> Table:
    """The rows of a set, and below them those that the paper has for it."""
    quoted: list[list[TableCell]] = []
    for model, figures in published(Path(__file__).with_name("published.csv")).items():
        row = [figures.get(f"{name.lower()} {metric}") for metric in METRICS]
        if any(row):
            quoted.append([model, "", "", *row])
    return Table(
        COLUMNS,
        [[*label, *_scores(seeds)] for label, seeds in rows.items()],
        notes=[NOTE] if quoted else [],
        quoted=quoted,
        quoted_title=PUBLISHED if quoted else "",
    )


def _scores(seeds: Sequence[Figures]) -> list[Score]:
    """Make percentages, with deviations over several seeds and an interval of MAP."""
    scores = []
    for metric in METRICS:
        score = Score.over_seeds([100 * figures[metric] for figures in seeds])
        assert score is not None
        if metric == "map":
            values = np.mean([figures["average_precisions"] for figures in seeds], axis=0)
            over = Score.over_groups(100 * values, np.arange(len(values)))
            score = Score(score.value, score.deviation, over.interval)
        scores.append(score)
    return scores
