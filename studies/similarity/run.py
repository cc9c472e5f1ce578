"""Cells of ``studies.similarity``, a model on a set each, and their two tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from statistics import fmean
from typing import Any

from torch import nn

from corpora.pairs.phrases import read_semeval2013_5a
from corpora.pairs.similarity import SETS, find_set, published_files
from corpora.senteval.files import TaskData, read_task
from corpora.senteval.tasks import RELATEDNESS_TASKS
from corpora.support.errors import UserError
from corpora.support.files import json_digest, sha256_file
from parsing.networks.device import pick_device
from senteval_runner.evaluation import data_hashes
from senteval_runner.report.page import Page, Section
from senteval_runner.report.table import Column, Table
from senteval_runner.towers.transformer import load_tower, load_whole
from senteval_runner.vectors.embed import SentenceVectors
from senteval_runner.vectors.encoders import open_model
from senteval_runner.vectors.sources import find_source, split_parts
from studies.kit.data import published
from studies.kit.runner import Cell, Figures, Run
from studies.similarity.config import SimilarityConfig
from studies.similarity.correlations import correlate, phrase_pairs, sentence_similarity
from studies.similarity.semeval import MAX_LENGTH, frozen_scores, tuned_scores

STS_TASKS = ("STS12", "STS13", "STS14", "STS15", "STS16")
WORDS = ("SimLex-999", "WS-353-sim", "WS-353-rel", "MEN", "SCWS")
"""The word sets of BURT's Table 3."""
PHRASES = "PPDB phrases"
SEMEVAL = "SemEval-2013 5(a)"
AVERAGES: Mapping[str, Sequence[str]] = {
    "STS12-16": STS_TASKS,
    "sentences": (*STS_TASKS, *(f"{name} (trained head)" for name in RELATEDNESS_TASKS)),
    "words": WORDS,
}
"""Table 4's STS*, and the Avg. of Tables 2 and 3."""
TUNABLE = (["sentence-transformers"], ["pooled"], ["multiview"])
"""What gradients reach; BURT keeps word vectors and older encoders fixed."""


class Model:
    """A row, loaded when it is needed.

    Args:
        spec: as it was given.
        seed: of random encoders.
    """

    def __init__(self, spec: str, seed: int) -> None:
        self.spec, self.seed = spec, seed
        sources = [find_source(part, seed=seed) for part in split_parts(spec)]
        self.identity = [source.key for source in sources]
        self.kinds = [source.kind for source in sources]
        self.tunable = self.kinds in TUNABLE

    @cached_property
    def vectors(self) -> SentenceVectors:
        """Its frozen vectors."""
        return open_model(self.spec, seed=self.seed)

    def tower(self) -> nn.Module:
        """A fresh copy for training."""
        device = pick_device("auto")
        if self.kinds == ["pooled"]:
            pooling, _, name = self.spec.partition(":")
            return load_tower(name, pooling=pooling, max_length=MAX_LENGTH, device=device)  # type: ignore[arg-type]
        return load_whole(self.spec, max_length=MAX_LENGTH, device=device)


@dataclass(frozen=True)
class Set:
    """What models are scored on; ``score`` gives figures by column of the tables."""

    name: str
    identity: object
    score: Callable[[Model, Path], Figures]
    tunes: bool = False
    """Whether it trains the model."""


def score(config: SimilarityConfig, run: Run) -> Page:
    """Score every model on every requested set.

    Raises:
        UserError: nothing to compare.
    """
    if not config.models:
        raise UserError("name at least one model")
    if config.fine_tune and config.semeval2013 is None:
        raise UserError("--fine-tune needs --semeval2013 FOLDER")
    absent: list[str] = []
    sets = list(_sets(config, run, absent))
    if not sets and not run.left_out:
        raise UserError(
            "nothing to compare: give --words FOLDER, --data FOLDER, --phrases FILE or --semeval2013 FOLDER"
        )
    cells = {
        (model.spec, one.name): Cell(
            name=f"{model.spec}, {one.name}",
            identity=[model.identity, one.name, one.identity, config.seed, config.learning_rate],
            compute=partial(one.score, model),
        )
        for model in (Model(spec, config.seed) for spec in config.models)
        for one in sets
        if not one.tunes or model.tunable
    }
    found: dict[str, Figures] = {}
    for (model_name, _), figures in run.figures(cells).items():
        found.setdefault(model_name, {}).update(figures)
    return _page(config, found, f"Not below {config.words}: {', '.join(absent)}." if absent else "")


def _sets(config: SimilarityConfig, run: Run, absent: list[str]) -> Iterator[Set]:
    """The requested sets that are there; names of word sets that are not go to ``absent``."""
    if config.words is not None:
        found = {name: find_set(name, config.words) for name in SETS}
        absent += [name for name, pairs in found.items() if pairs is None]
        if len(absent) == len(SETS):
            files = ", ".join(published_files(name)[0] for name in SETS)
            raise UserError(f"{config.words}: holds none of the word sets; expected e.g. {files}")
        for name, pairs in found.items():
            if pairs is None:
                continue
            rows = (pairs.left, pairs.right, pairs.score)
            yield Set(name, sha256_file(pairs.file), _correlation(name, *rows))
    if config.phrases is not None:
        identity = [sha256_file(config.phrases), config.held_out]
        yield Set(PHRASES, identity, _correlation(PHRASES, *phrase_pairs(config.phrases, config.held_out)))
    for name in (*STS_TASKS, *RELATEDNESS_TASKS):
        if config.data is None:
            break
        try:
            task = read_task(name, config.data)
        except UserError as error:
            run.leave_out(name, error)
            continue
        yield Set(name, data_hashes(task), _sentences(task, config.seed))
    if config.semeval2013 is not None:
        both = read_semeval2013_5a(config.semeval2013)
        identity = [json_digest([part.words, part.phrases, part.same], 64) for part in both]
        yield Set(SEMEVAL, identity, lambda model, _: frozen_scores(model.vectors, *both, config.seed))
        if config.fine_tune:
            yield Set(
                f"{SEMEVAL}, fine-tuned",
                identity,
                lambda model, folder: tuned_scores(
                    model.tower(), *both, folder=folder, seed=config.seed, learning_rate=config.learning_rate
                ),
                tunes=True,
            )


def _sentences(task: TaskData, seed: int) -> Callable[[Model, Path], Figures]:
    return lambda model, _: dict(sentence_similarity(model.vectors, task, seed))


def _correlation(name: str, *rows: Sequence[Any]) -> Callable[[Model, Path], Figures]:
    return lambda model, _: {name: correlate(model.vectors, *rows)}


def with_averages(scores: Mapping[str, float]) -> dict[str, float]:
    """Scores by column and the averages whose columns are all there: over some it would be another score."""
    found = dict(scores)
    for name, columns in AVERAGES.items():
        if set(columns) <= scores.keys():
            found[name] = fmean(scores[column] for column in columns)
    return found


def _page(config: SimilarityConfig, found: Mapping[str, Figures], note: str) -> Page:
    """A row per model; published rows below, whose SemEval-2013 5(a) is of fine-tuned encoders."""
    theirs = {}
    if config.published:
        theirs = published(Path(__file__).with_name(f"published-{config.published}.csv"))
    correlations, classes = {}, {}
    for model, figures in found.items():
        correlations[model] = with_averages(
            {name: one["spearman"] for name, one in figures.items() if isinstance(one, dict)}
        )
        classes[model] = {name: one for name, one in figures.items() if not isinstance(one, dict)}
    quoted = {name: with_averages(row) for name, row in theirs.items()}
    tuned = {name: {"fine-tuned": row[SEMEVAL]} for name, row in theirs.items()}
    sections = [
        Section("Spearman × 100", [_table(correlations, quoted, digits=1)]),
        Section(
            "SemEval-2013 5(a), accuracy and F1 in percent, test part", [_table(classes, tuned, digits=2)]
        ),
    ]
    shown = [any(rows.values()) for rows in (correlations, classes)]
    return Page(
        "Similarity of words, phrases and sentences",
        [section for section, full in zip(sections, shown, strict=True) if full],
        note,
    )


def _table(
    found: Mapping[str, Mapping[str, float]], quoted: Mapping[str, Mapping[str, float]], digits: int
) -> Table:
    """Columns that were scored; published rows that have one of them."""
    columns = list(dict.fromkeys(name for row in found.values() for name in row))
    theirs = [
        [name, *map(row.get, columns)] for name, row in quoted.items() if not row.keys().isdisjoint(columns)
    ]
    return Table(
        ["model", *(Column(column, digits=digits, best="high") for column in columns)],
        [[name, *map(row.get, columns)] for name, row in found.items() if row],
        quoted=theirs,
        quoted_title="published (BURT)" if theirs else "",
    )
