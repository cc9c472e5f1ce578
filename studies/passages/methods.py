"""Compare BM25, scorers over frozen vectors and cross-encoders, each a cell, for EMP's Table 3."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from corpora.inputs import input_hash
from corpora.ranking.lexical import Bm25
from corpora.ranking.sets import PassageSet, filter_questions, read_set
from multiview.names.constructors import encoder_of
from multiview.names.opened import OpenedEncoder, distinct_names
from runtime.errors import UserError
from senteval_runner.evaluation_trees import open_model
from senteval_runner.report.page import Column, Page, Score, Section, Table, TableCell
from senteval_runner.towers.backbones import open_layers
from studies.passages.config import Feature, PassagesConfig
from studies.passages.ranker import (
    HIDDEN_UNITS,
    METRICS,
    Scorer,
    Scores,
    Split,
    cross_scores,
    fine_tune,
    measure,
    scale_rows,
    score,
    train_scorer,
)
from studies.runner import Cell, Figures, StudyRun, read_published, score_table

Label = tuple[str, str, str]
"""Model, feature and scorer of a row."""
LABELS = ("model", "feature", "scorer")
COLUMNS = [Column(name.upper(), digits=1, best="high") for name in METRICS]
INTERVALS = "In brackets: 95 % interval from resampling questions. ±: standard deviation over seeds."
MARGIN_0 = (
    "Pairwise hinge loss with margin 0, as EMP prints it: equal scores are a minimum, so a scorer that gives "
    "every passage one score has loss 0, and a pair in the right order teaches nothing."
)
SOURCE = "Published, not computed here: Ma et al. 2019, Universal Text Representation from BERT, Table 3"
NOTE = (
    "Other candidates, splits and encoders may stand behind the published rows. The paper's R@k of Quasar-T "
    "and SearchQA stands under S@k, whether a relevant passage is among the first k: as a fraction of all "
    "relevant passages, of which most questions have several, R@1 could not reach 76."
)


class Method(NamedTuple):
    """A way to score passages, which has a row in the tables."""

    label: Label
    identity: Sequence[object]
    """JSON values of all that the scores depend on, except set and seed."""
    seeds: int
    """Number of seeds; 1 if nothing is trained."""
    compute: Callable[[PassageSet, int, Path], tuple[Scores, Figures]]
    """Returns the scores of a set's test questions and further figures.

    Its arguments are the set, the seed and a folder for unfinished work.
    """


def rank(config: PassagesConfig, run: StudyRun) -> Page:
    """Rank the passages of every set by every method, and return the page of tables."""
    digests: dict[str, str] = {}

    def read(spec: str) -> PassageSet:
        data = filter_questions(read_set(spec), config.keep)
        if data.name in digests:
            raise UserError(f"a set of the name {data.name} is there already; rename the folder")
        digests[data.name] = input_hash(data.folder, data.files)
        return data

    def compute(data: PassageSet, method: Method, seed: int, folder: Path) -> Figures:
        scores, details = method.compute(data, seed, folder)
        values = measure(data.splits["test"], scores)
        means = {name: float(values_Q.mean()) for name, values_Q in values.items()}
        return {**means, "average_precisions": values["map"].tolist(), **details}

    sets = run.open_all({spec: partial(read, spec) for spec in config.sets}).values()
    cells = {
        (data.name, method.label, seed): Cell(
            name=f"{data.name}: {' '.join(filter(None, method.label))}, seed {seed}",
            identity=[digests[data.name], config.keep, *method.identity, seed],
            compute=partial(compute, data, method, seed),
        )
        for data, method in product(sets, make_methods(config, run))
        for seed in range(method.seeds)
    }
    rows: dict[str, dict[Label, list[Figures]]] = {data.name: {} for data in sets}
    for (name, label, _), figures in run.compute(cells).items():
        rows[name].setdefault(label, []).append(figures)
    sections = []
    for data in sets:
        note = ". ".join([*counts(data), *data.notes]) + "."
        sections.append(Section(data.name, [_table(data.name, rows[data.name])], note=note))
    loss = f"Pairwise hinge loss with margin {config.margin:g}." if config.margin else MARGIN_0
    return Page("Passage ranking", sections, f"{loss} {INTERVALS} Seeds of what is trained: {config.runs}.")


def counts(data: PassageSet) -> Iterator[str]:
    """Yield for each split how many questions, candidates and relevant candidates it has."""
    for split, questions in data.splits.items():
        relevant_K = np.concatenate([question.relevant for question in questions])
        relevant = f"{relevant_K.sum():,} relevant"
        yield f"{split}: {len(questions):,} questions, {len(relevant_K):,} candidates, {relevant}"


def make_methods(config: PassagesConfig, run: StudyRun) -> list[Method]:
    """Return all methods whose model can be opened, in the order of the tables."""
    training = {name: getattr(config, name) for name in ("epochs", "learning_rate", "margin")}

    def score_vectors(
        model: OpenedEncoder, feature: Feature, units: int | None, data: PassageSet, seed: int, folder: Path
    ) -> tuple[Scores, Figures]:
        splits = encode_splits(model, data)
        dim = splits["test"].passage_ND.shape[1]
        scorer, curve = Scorer(feature, units, dim, seed), []
        if feature != "cosine":
            curve = train_scorer(scorer, splits["train"], splits["dev"], seed=seed, **training)
        return score(scorer, splits["test"]), {"dimensions": dim, "curve": curve}

    def score_tuned(backbone: str, data: PassageSet, seed: int, folder: Path) -> tuple[Scores, Figures]:
        net, history = fine_tune(data, backbone, config, seed=seed, folder=folder)
        return cross_scores(net, data.splits["test"], data.passages), {"history": history}

    locations: dict[str, Any] = {"cache": config.cache, "device": config.device}
    openers = {spec: partial(open_model, spec, **locations) for spec in config.models}
    for spec, layers, pooling in product(config.backbones, config.layers, config.poolings):
        opener = partial(open_layers, spec, layers, pooling, max_length=512, **locations)
        openers[f"{spec} {layers} {pooling}"] = opener
    models = list(run.open_all(openers).values())
    names = distinct_names([model.name for model in models], [model.full_name for model in models])
    methods = [Method(("BM25", "words", ""), ["bm25"], 1, bm25)]
    for (name, model), feature in product(zip(names, models, strict=True), config.features):
        options = None if feature == "cosine" else training
        kinds = ("linear", "mlp") if feature.startswith("uv") else (None,)
        for kind in kinds:
            compute = partial(score_vectors, model, feature, HIDDEN_UNITS if kind == "mlp" else None)
            identity = [*model.identity(), feature, kind, options]
            seeds = config.runs if options else 1
            methods.append(Method((name, feature, kind or ""), identity, seeds, compute))
    for backbone, encoder in run.open_all({spec: partial(encoder_of, spec) for spec in config.cross}).items():
        name = Path(backbone).name if Path(backbone).exists() else backbone
        identity = ["cross", encoder.key(), config.cross_epochs, config.margin]
        label = name, "cross-encoder", "mlp"
        methods.append(Method(label, identity, config.runs, partial(score_tuned, backbone)))
    return methods


def bm25(data: PassageSet, seed: int, folder: Path) -> tuple[Scores, Figures]:
    """Return the BM25 scores of test questions; words are counted in all passages of the set."""
    index = Bm25(data.passages)
    return [index.scores(question.text)[question.candidates] for question in data.splits["test"]], {}


@lru_cache(maxsize=1)  # only the vectors of one model and set are kept in memory
def encode_splits(encode: OpenedEncoder, data: PassageSet) -> dict[str, Split]:
    """Return the splits of a set with a model's vectors of questions and of candidates.

    Passages that are no candidates have zeros.
    """
    candidates = [question.candidates for questions in data.splits.values() for question in questions]
    rows = np.unique(np.concatenate(candidates))
    vectors = encode.encode([data.passages[row].split() for row in rows])
    passages = np.zeros((len(data.passages), vectors.shape[1]), dtype=np.float32)
    passages[rows] = vectors
    passage_ND = scale_rows(passages)
    splits = {}
    for name, questions in data.splits.items():
        question_vectors = encode.encode([question.text.split() for question in questions])
        splits[name] = Split(questions, scale_rows(question_vectors), passage_ND)
    return splits


def _table(name: str, rows: Mapping[Label, Sequence[Figures]]) -> Table:
    """Return the table of a set in percent, with the paper's rows for this set below ours."""
    own_rows: dict[Label, dict[str, TableCell]] = {}
    for label, seeds in rows.items():
        precisions = np.mean([figures["average_precisions"] for figures in seeds], axis=0)
        intervals = {"map": Score.over_groups(100 * precisions, np.arange(len(precisions))).interval}
        own_rows[label] = {
            metric.upper(): Score.over_seeds([100 * row[metric] for row in seeds], intervals.get(metric))
            for metric in METRICS
        }
    prefix = f"{name.lower()} "
    paper_rows: dict[Label, dict[str, float]] = {}
    for model, figures in read_published(Path(__file__).with_name("published.csv")).items():
        for metric, value in figures.items():
            if metric.startswith(prefix):
                paper_rows.setdefault((model, "", ""), {})[metric.removeprefix(prefix).upper()] = value
    notes = [NOTE] if paper_rows else []
    return score_table(LABELS, COLUMNS, own_rows, paper_rows, notes=notes, quoted_source=SOURCE)
