"""The compared methods as cells: BM25, scorers over frozen vectors, cross-encoders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from corpora.inputs import input_hash
from corpora.ranking.lexical import Bm25
from corpora.ranking.questions import PassageSet, filtered
from corpora.ranking.sets import parse_spec, read_set
from corpora.support.errors import UserError
from senteval_runner.report.page import Page
from senteval_runner.towers.backbones import open_layers
from senteval_runner.towers.config import BackboneConfig
from senteval_runner.vectors.embed import StoredEncoder
from senteval_runner.vectors.encoders import open_model
from senteval_runner.vectors.sources import distinct_names, find_source
from studies.kit.runner import Cell, Figures, Run
from studies.passages import cross
from studies.passages.config import Feature, PassagesConfig, Scorer
from studies.passages.metrics import Scores, mean, measure
from studies.passages.ranker import Part, make_scorer, scaled, score, train_scorer
from studies.passages.report import Label, Rows, page


@dataclass(frozen=True, kw_only=True, eq=False)
class Method:
    """One row of the tables."""

    label: Label
    identity: Sequence[object]
    """JSON values of everything that decides its scores, except set and seed."""
    seeds: int = 1
    compute: Callable[[PassageSet, int, Path], tuple[Scores, Figures]]
    """(set, seed, folder for unfinished work) to the scores of the test questions and what to say of them."""


def rank(config: PassagesConfig, run: Run) -> Page:
    """Rank with every method on every set."""
    sets: dict[str, PassageSet] = {}
    digests: dict[str, str] = {}
    for spec in dict.fromkeys(config.sets):
        try:
            data = filtered(read_set(spec), config.keep, config.limit)
            if data.name in sets:
                raise UserError(f"a set of the name {data.name} is there already; rename the folder")
            digests[data.name] = input_hash(parse_spec(spec)[1], data.files)
            sets[data.name] = data
        except UserError as error:
            run.leave_out(spec, error)
    methods = make_methods(config, run)
    cells = {
        (data.name, method.label, seed): Cell(
            name=f"{data.name}: {' '.join(filter(None, method.label))}, seed {seed}",
            identity=[digests[data.name], config.keep, config.limit, *method.identity, seed],
            compute=partial(_figures, data, method, seed),
        )
        for data, method in product(sets.values(), methods)
        for seed in range(method.seeds)
    }
    rows: Rows = {}
    for (name, label, _), figures in run.figures(cells).items():
        rows.setdefault((name, label), []).append(figures)
    return page(rows, list(sets.values()), config.margin)


def make_methods(config: PassagesConfig, run: Run) -> list[Method]:
    """All methods; models are opened without loading them, and left out where that fails."""
    reading = BackboneConfig(max_length=512, device=config.device)
    openers: dict[str, Callable[[], StoredEncoder]] = {
        spec: partial(open_model, spec, cache=config.cache, device=config.device) for spec in config.models
    }
    for spec, layers, pooling in product(config.backbones, config.layers, config.poolings):
        name = f"{spec} {layers} {pooling}"
        openers[name] = partial(open_layers, spec, layers, pooling, reading, cache=config.cache)
    models = []
    for name, opened in openers.items():
        try:
            models.append(opened())
        except UserError as error:
            run.leave_out(name, error)
    names = distinct_names([model.name for model in models], [model.spec for model in models])
    methods = [Method(label=("BM25", "words", ""), identity=["bm25"], compute=_bm25)]
    for name, model in zip(names, models, strict=True):
        frozen = Frozen(model)
        for feature in config.features:
            for scorer in config.scorers if feature.startswith("uv") else (None,):
                methods.append(_scorer_method(name, frozen, feature, scorer, config))
    for backbone in config.cross:
        methods.append(_cross_method(backbone, config, run))
    return methods


def _figures(data: PassageSet, method: Method, seed: int, folder: Path) -> Figures:
    """Means over the test questions, and the average precision of each."""
    scores, more = method.compute(data, seed, folder)
    found = measure(data.splits["test"], scores)
    return {**mean(found), "average_precisions": found["map"].tolist(), **more}


def _bm25(data: PassageSet, seed: int, folder: Path) -> tuple[Scores, Figures]:
    """Word statistics come from all passages of the set."""
    index = Bm25(data.passages)
    return [index.scores(q.text)[q.candidates] for q in data.splits["test"]], {}


class Frozen:
    """A model's vectors of the sets' questions and passages, one set in memory at a time.

    Args:
        model: see :func:`senteval_runner.vectors.encoders.open_model`.
    """

    def __init__(self, model: StoredEncoder) -> None:
        self.model = model
        self._held: tuple[PassageSet, dict[str, Part]] | None = None

    def parts(self, data: PassageSet) -> dict[str, Part]:
        """Train, dev and test with their vectors."""
        if self._held is None or self._held[0] is not data:
            encode, rows = self.model, data.used_passages()
            vectors = encode([data.passages[row].split() for row in rows])
            passages = np.zeros((len(data.passages), vectors.shape[1]), dtype=np.float32)
            passages[rows] = vectors
            passage_ND = scaled(passages)
            self._held = (
                data,
                {
                    split: Part(questions, scaled(encode([q.text.split() for q in questions])), passage_ND)
                    for split, questions in data.splits.items()
                },
            )
        return self._held[1]


def _scorer_method(
    name: str, frozen: Frozen, feature: Feature, scorer: Scorer | None, config: PassagesConfig
) -> Method:
    """A scorer over a model's vectors."""
    trained = feature != "cosine"
    options: dict[str, Any] = {
        "epochs": config.epochs,
        "learning_rate": config.learning_rate,
        "margin": config.margin,
    }

    def compute(data: PassageSet, seed: int, folder: Path) -> tuple[Scores, Figures]:
        parts = frozen.parts(data)
        dim = parts["train"].passage_ND.shape[1]
        net = make_scorer(feature, scorer, dim, seed)
        curve = (
            []
            if feature == "cosine"
            else train_scorer(net, parts["train"], parts["dev"], seed=seed, **options)
        )
        return score(net, parts["test"]), {"dimensions": dim, "curve": curve}

    trained = feature != "cosine"
    return Method(
        label=(name, feature, scorer or ""),
        identity=[*frozen.model.identity, feature, scorer, options if trained else None],
        seeds=config.runs if trained else 1,
        compute=compute,
    )


def _cross_method(backbone: str, config: PassagesConfig, run: Run) -> Method:
    """A cross-encoder fine-tuned from ``backbone``."""

    def compute(data: PassageSet, seed: int, folder: Path) -> tuple[Scores, Figures]:
        net, history = cross.fine_tune(data, backbone, config, seed=seed, folder=folder, report=run.log)
        return cross.cross_scores(net, data.splits["test"], data.passages), {"history": history}

    options = [config.cross_steps, config.cross_learning_rate, config.margin]
    return Method(
        label=(Path(backbone).name if Path(backbone).exists() else backbone, "cross-encoder", "mlp"),
        identity=["cross", find_source(backbone).key, *options],
        seeds=config.runs,
        compute=compute,
    )
