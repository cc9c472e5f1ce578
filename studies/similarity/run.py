"""Models on sets of words, phrases and sentences: a cell each, and their table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from corpora.pairs.labelled import read_ppdb
from corpora.pairs.similarity import SETS, find_set, read_semeval2013_5a
from corpora.senteval.files import TaskData, read_task
from corpora.senteval.tasks import RELATEDNESS_TASKS
from corpora.support.errors import UserError
from corpora.support.files import json_digest, sha256_file
from parsing.networks.device import pick_device
from senteval_runner.evaluation import data_hashes, evaluate_task
from senteval_runner.protocol.config import get_protocol
from senteval_runner.protocol.correlation import cosines, spearman
from senteval_runner.report.page import Column, Page, Section, Table
from senteval_runner.towers.transformer import Tower, load_tower, load_whole
from senteval_runner.vectors.embed import SentenceVectors
from senteval_runner.vectors.encoders import find_source, open_model, split_parts
from studies.finetune.examples import pair_in_fraction
from studies.kit.data import published
from studies.kit.runner import Cell, Figures, Run
from studies.similarity.config import SimilarityConfig
from studies.similarity.semeval import MAX_LENGTH, frozen_accuracy, tuned_accuracy

STS_TASKS = ("STS12", "STS13", "STS14", "STS15", "STS16")
PHRASES = "PPDB phrases"
SEMEVAL = "SemEval-2013 5(a)"
"""With the encoder fine-tuned, as in BURT."""
AVERAGES: Mapping[str, Sequence[str]] = {
    "STS12-16": STS_TASKS,
    "sentences": (*STS_TASKS, *(f"{name} (trained head)" for name in RELATEDNESS_TASKS)),
    "words": ("SimLex-999", "WS-353-sim", "WS-353-rel", "MEN", "SCWS"),
}
"""Table 4's STS*, and the Avg. of Tables 2 and 3."""


class Model:
    """A row, loaded when it is needed; the seed is that of random encoders."""

    def __init__(self, spec: str, seed: int) -> None:
        self.spec, self.seed = spec, seed
        sources = [find_source(part, seed=seed) for part in split_parts(spec)]
        self.identity = [source.key for source in sources]
        self.kinds = [source.kind for source in sources]
        self.tunable = self.kinds in (["sentence-transformers"], ["pooled"])
        """Whether gradients reach it; BURT keeps word vectors and older encoders fixed."""

    @cached_property
    def vectors(self) -> SentenceVectors:
        """Its frozen vectors."""
        return open_model(self.spec, seed=self.seed)

    def tower(self) -> Tower:
        """A fresh copy for training."""
        device = pick_device("auto")
        if self.kinds == ["pooled"]:
            pooling, _, name = self.spec.partition(":")
            return load_tower(name, pooling=pooling, max_length=MAX_LENGTH, device=device)  # type: ignore[arg-type]
        return load_whole(self.spec, max_length=MAX_LENGTH, device=device)


Score = Callable[[Model, Path], Figures]
"""From a model and a folder for unfinished work to figures by column of the table."""


def score(config: SimilarityConfig, run: Run) -> Page:
    """Score every model on every requested set.

    Raises:
        UserError: nothing to compare.
    """
    if config.fine_tune and config.semeval2013 is None:
        raise UserError("--fine-tune needs --semeval2013 FOLDER")
    absent: list[str] = []
    sets = list(_sets(config, run, absent))
    if not sets and not run.left_out:
        raise UserError("nothing to compare: give --words, --data, --phrases or --semeval2013")
    cells = {
        (model.spec, name): Cell(
            name=f"{model.spec}, {name}",
            identity=[model.identity, name, identity, config.seed],
            compute=partial(compute, model),
        )
        for model in (Model(spec, config.seed) for spec in config.models)
        for name, identity, compute in sets
        if name != SEMEVAL or model.tunable
    }
    found: dict[str, Figures] = {}
    for (spec, _), figures in run.figures(cells).items():
        found.setdefault(spec, {}).update(figures)
    return _page(config, found, f"Not below {config.words}: {', '.join(absent)}." if absent else "")


def _sets(config: SimilarityConfig, run: Run, absent: list[str]) -> Iterator[tuple[str, object, Score]]:
    """Names, identities and scores of the requested sets; word sets that are not there go to ``absent``."""
    if config.words is not None:
        found = {name: find_set(name, config.words) for name in SETS}
        absent += [name for name, pairs in found.items() if pairs is None]
        if len(absent) == len(SETS):
            raise UserError(f"{config.words}: holds none of the word sets {', '.join(SETS)}")
        for name, pairs in found.items():
            if pairs is not None:
                rows = (pairs.left, pairs.right, pairs.score)
                yield name, sha256_file(pairs.file), _scored(name, correlate, *rows)
    if config.phrases is not None:
        pairs_of = phrase_pairs(config.phrases, config.held_out)
        yield PHRASES, [sha256_file(config.phrases), config.held_out], _scored(PHRASES, correlate, *pairs_of)
    for name in (*STS_TASKS, *RELATEDNESS_TASKS):
        if config.data is None:
            break
        try:
            task = read_task(name, config.data)
        except UserError as error:
            run.leave_out(name, error)
            continue
        yield name, data_hashes(task), _scored("", sentence_similarity, task, config.seed)
    if config.semeval2013 is not None:
        both = read_semeval2013_5a(config.semeval2013)
        identity = json_digest([[part.words, part.phrases, part.same] for part in both], 64)
        frozen = f"{SEMEVAL}, frozen"
        yield frozen, identity, _scored(frozen, frozen_accuracy, *both, config.seed)
        if config.fine_tune:
            options: dict[str, Any] = {"seed": config.seed, "learning_rate": config.learning_rate}
            yield (
                SEMEVAL,
                [identity, config.learning_rate],
                lambda model, work: {SEMEVAL: tuned_accuracy(model.tower(), *both, folder=work, **options)},
            )


def _scored(column: str, function: Callable[..., Any], *arguments: object) -> Score:
    """Figures of a function of frozen vectors, which names its columns itself where ``column`` is empty."""

    def compute(model: Model, _: Path) -> Figures:
        found = function(model.vectors, *arguments)
        return {column: found} if column else found

    return compute


def correlate(
    vectors: SentenceVectors, left: Sequence[str], right: Sequence[str], gold: Sequence[float]
) -> float:
    """Spearman's correlation x 100 of cosines with gold scores; constant cosines count as 0."""
    similarity = cosines(*(vectors([t.split() for t in side]).astype(np.float64) for side in (left, right)))
    if similarity.max() - similarity.min() < 1e-6:  # float32 vectors of equal texts differ in the last bit
        return 0.0
    return 100 * spearman(similarity, np.asarray(gold, dtype=np.float64))


def sentence_similarity(vectors: SentenceVectors, task: TaskData, seed: int) -> dict[str, float]:
    """STS12-16 by cosine, the mean over their parts; STS-B and SICK-R with a trained head, and by cosine.

    The head is SentEval's regression (:mod:`senteval_runner.protocol.correlation`) on frozen vectors.
    """
    result = evaluate_task(vectors, task, get_protocol("default"), seed)
    if task.name not in RELATEDNESS_TASKS:
        return {task.name: 100 * result["all.spearman.mean"]}
    return {
        f"{task.name} (trained head)": 100 * result["spearman"],
        f"{task.name} (untrained)": 100 * result["cosine.spearman"],
    }


def phrase_pairs(file: Path, held_out: float = 0.0) -> tuple[list[str], list[str], list[float]]:
    """PPDB's phrase pairs and their scores of equivalence; two single words are none.

    ``Equivalence`` is the probability that the authors' classifier gives that relation. ``held_out`` is the
    fraction that ``studies.burt --held-out`` keeps out of training; 0 takes all.

    Raises:
        UserError: no line is such a pair.
    """
    left, right, gold = [], [], []
    for pair in read_ppdb(file):
        score = pair.feature("Equivalence")
        is_held = not held_out or pair_in_fraction(pair.left, pair.right, held_out)
        if score is not None and is_held and (" " in pair.left or " " in pair.right):
            left.append(pair.left)
            right.append(pair.right)
            gold.append(score)
    if not gold:
        raise UserError(f"{file}: no (held-out) pair of phrases with PPDB 2.0's feature Equivalence")
    return left, right, gold


def with_averages(scores: Mapping[str, float]) -> dict[str, float]:
    """Scores by column and the averages whose columns are all there: over some it would be another score."""
    found = dict(scores)
    for name, columns in AVERAGES.items():
        if set(columns) <= scores.keys():
            found[name] = fmean(scores[column] for column in columns)
    return found


def _page(config: SimilarityConfig, found: Mapping[str, Figures], note: str) -> Page:
    """A row per model, published rows below."""
    ours = {name: with_averages(figures) for name, figures in found.items()}
    columns = list(dict.fromkeys(column for row in ours.values() for column in row))
    theirs = []
    if config.published:
        rows = published(Path(__file__).with_name(f"published-{config.published}.csv"))
        theirs = [[name, *map(with_averages(row).get, columns)] for name, row in rows.items()]
    table = Table(
        ["model", *(Column(column, digits=1, best="high") for column in columns)],
        [[name, *map(row.get, columns)] for name, row in ours.items()],
        notes=["Spearman's correlation × 100; SemEval-2013 5(a): accuracy in percent."],
        quoted=theirs,
        quoted_title="published (BURT)" if theirs else "",
    )
    return Page("Similarity of words, phrases and sentences", [Section("Scores", [table])], note)
