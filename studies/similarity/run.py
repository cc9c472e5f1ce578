"""Models on sets of words, phrases and sentences: a cell each, and their table.

SemEval-2013 task 5(a), does a phrase mean a word? Accuracy on the test pairs in percent. Frozen vectors: a
classifier on [|u - v|, u ∗ v] of word and phrase, its L2 weight chosen by cross-validation on the training
pairs, as SentEval does for MRPC. Fine-tuned, as BURT does it: encoder and softmax head on [u; v; |u-v|]
together. BURT gives no settings; batch, length and optimiser are those of its pre-training. Tested on
hand-made files only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from corpora.pairs.labelled import read_ppdb
from corpora.pairs.similarity import SETS, WordPhrasePairs, find_set, read_semeval2013_5a
from corpora.senteval.files import TaskData, read_task
from corpora.senteval.tasks import RELATEDNESS_TASKS
from multiview.names.grammar import split_parts
from multiview.names.opened import SentenceVectors
from multiview.names.sources import find_source
from runtime.device import pick_device
from runtime.errors import UserError
from runtime.files import json_digest, sha256_file
from senteval_runner.evaluation import data_hashes, evaluate_task
from senteval_runner.protocol.classify import kfold
from senteval_runner.protocol.config import get_protocol
from senteval_runner.protocol.correlation import accuracy, cosines, spearman
from senteval_runner.protocol.features import design, pair_blocks
from senteval_runner.report.page import Column, Page, Section, Table
from senteval_runner.towers.transformer import Tower, load_tower
from senteval_runner.vectors import open_model
from studies.finetune.examples import Examples, fixed
from studies.finetune.heads import tune_pairs
from studies.finetune.phrases import PER_CLASS, split_phrases
from studies.kit import Cell, Figures, Run, published

if TYPE_CHECKING:
    from studies.similarity.__main__ import SimilarityConfig

STS_TASKS = ("STS12", "STS13", "STS14", "STS15", "STS16")
PHRASES = "PPDB phrases"
SEMEVAL = "SemEval-2013 5(a)"
"""The column where the encoder is fine-tuned, as in BURT."""
FROZEN = f"{SEMEVAL}, frozen"
EPOCHS = 2
AVERAGES: Mapping[str, Sequence[str]] = {
    "STS12-16": STS_TASKS,
    "sentences": (*STS_TASKS, *(f"{name} (trained head)" for name in RELATEDNESS_TASKS)),
    "words": ("SimLex-999", "WS-353-sim", "WS-353-rel", "MEN", "SCWS"),
}
"""Table 4's STS*, and the Avg. of Tables 2 and 3."""


class Model:
    """A model of the table, loaded when it is needed; the seed is that of random encoders."""

    def __init__(self, spec: str, seed: int) -> None:
        self.spec, self.seed = spec, seed
        sources = [find_source(part, seed=seed) for part in split_parts(spec)]
        self.identity = [source.key for source in sources]
        self.kinds = [source.kind for source in sources]
        self.tunable = self.kinds in (["sentence-transformers"], ["pooled"])
        """Whether gradients reach it; BURT keeps word vectors and older encoders fixed."""

    @cached_property
    def vectors(self) -> SentenceVectors:
        """Open the model's frozen vectors."""
        return open_model(self.spec, seed=self.seed)

    def tower(self) -> Tower:
        """Load a fresh copy for training."""
        device = pick_device("auto")
        if self.kinds == ["pooled"]:
            pooling, _, name = self.spec.partition(":")
            return load_tower(name, pooling=pooling, device=device)  # type: ignore[arg-type]
        return load_tower(self.spec, pooling=None, device=device)


Score = Callable[[Model, Path], Figures]
"""Gives a model's figures by column of the table, from a folder for unfinished work."""


@dataclass(frozen=True)
class SimilaritySet:
    """One set of pairs and how a model is scored on it."""

    name: str
    identity: object
    """JSON values that decide the figures beside the model: the content of the files, the options."""
    texts: Sequence[str]
    """Both sides of all pairs, tokens joined by spaces."""
    score: Score


def score(config: SimilarityConfig, run: Run) -> Page:
    """Score every model on every requested set; published rows stand below."""
    names = (*STS_TASKS, *RELATEDNESS_TASKS) if config.data is not None else ()
    tasks = run.opened({name: partial(read_task, name, config.data or Path()) for name in names})
    sets = list(open_sets(config, tasks.values()))
    cells = {
        (model.spec, one.name): Cell(
            name=f"{model.spec}, {one.name}",
            identity=[model.identity, one.name, one.identity, config.seed],
            compute=partial(one.score, model),
        )
        for model in (Model(spec, config.seed) for spec in config.models)
        for one in sets
        if one.name != SEMEVAL or model.tunable
    }
    rows: dict[str, Figures] = {}
    for (spec, _), figures in run.figures(cells).items():
        rows.setdefault(spec, {}).update(figures)
    ours = {name: with_averages(figures) for name, figures in rows.items()}
    columns = list(dict.fromkeys(column for row in ours.values() for column in row))
    file = Path(__file__).with_name(f"published-{config.published}.csv")
    theirs = published(file) if config.published else {}
    table = Table(
        ["model", *(Column(column, digits=1, best="high") for column in columns)],
        [[name, *map(row.get, columns)] for name, row in ours.items()],
        notes=["Spearman's correlation × 100; SemEval-2013 5(a): accuracy in percent."],
        quoted=[[name, *map(with_averages(row).get, columns)] for name, row in theirs.items()],
        quoted_title="published (BURT)",
    )
    absent = [name for name in SETS if config.words and name not in {one.name for one in sets}]
    note = f"Not below {config.words}: {', '.join(absent)}." if absent else ""
    return Page("Similarity of words, phrases and sentences", [Section("Scores", [table])], note)


def open_sets(config: SimilarityConfig, tasks: Iterable[TaskData]) -> Iterator[SimilaritySet]:
    """Read the requested sets; ``tasks`` are those of SentEval that are there.

    Raises:
        UserError: a folder without any set of words, or a file that cannot be read.
    """
    if config.words is not None:
        word_sets = [pairs for name in SETS if (pairs := find_set(name, config.words)) is not None]
        if not word_sets:
            raise UserError(f"{config.words}: holds none of the word sets {', '.join(SETS)}")
        for pairs in word_sets:
            yield _graded(pairs.name, sha256_file(pairs.file), pairs.left, pairs.right, pairs.score)
    if config.phrases is not None:
        identity = [sha256_file(config.phrases), config.held_out]
        yield _graded(PHRASES, identity, *phrase_pairs(config.phrases, config.held_out))
    for task in tasks:
        yield _sentences(task, config.seed)
    if config.semeval2013 is not None:
        yield from _semeval(config, *read_semeval2013_5a(config.semeval2013))


def _graded(
    name: str, identity: object, left: Sequence[str], right: Sequence[str], gold: Sequence[float]
) -> SimilaritySet:
    """Pairs of words or phrases with gold scores, whose figure is a correlation."""
    return SimilaritySet(
        name, identity, [*left, *right], lambda model, _: {name: correlate(model.vectors, left, right, gold)}
    )


def _sentences(task: TaskData, seed: int) -> SimilaritySet:
    """Sentence pairs of a task of SentEval."""
    texts = [" ".join(tokens) for split in task.splits.values() for tokens in split.sentences()]
    return SimilaritySet(
        task.name,
        data_hashes(task),
        texts,
        lambda model, _: {**sentence_similarity(model.vectors, task, seed)},
    )


def _semeval(
    config: SimilarityConfig, train: WordPhrasePairs, test: WordPhrasePairs
) -> Iterator[SimilaritySet]:
    """SemEval-2013 5(a) with frozen vectors and, where it is asked for, with the encoder trained too."""
    identity = json_digest([[part.words, part.phrases, part.same] for part in (train, test)], 64)
    texts = [*train.words, *train.phrases, *test.words, *test.phrases]
    options: dict[str, Any] = {"seed": config.seed, "learning_rate": config.learning_rate}

    def frozen(model: Model, folder: Path) -> Figures:
        return {FROZEN: frozen_accuracy(model.vectors, train, test, config.seed)}

    def tuned(model: Model, folder: Path) -> Figures:
        return {SEMEVAL: tuned_accuracy(model.tower(), train, test, folder=folder, **options)}

    yield SimilaritySet(FROZEN, identity, texts, frozen)
    if config.fine_tune:
        yield SimilaritySet(SEMEVAL, [identity, config.learning_rate], texts, tuned)


def correlate(
    vectors: SentenceVectors, left: Sequence[str], right: Sequence[str], gold: Sequence[float]
) -> float:
    """Correlate cosines with gold scores, Spearman x 100; constant cosines count as 0."""
    similarity = cosines(*(vectors([t.split() for t in side]).astype(np.float64) for side in (left, right)))
    if similarity.max() - similarity.min() < 1e-6:  # float32 vectors of equal texts differ in the last bit
        return 0.0
    return 100 * spearman(similarity, np.asarray(gold, dtype=np.float64))


def sentence_similarity(vectors: SentenceVectors, task: TaskData, seed: int) -> dict[str, float]:
    """Score STS12-16 by cosine, their parts averaged; STS-B and SICK-R with a trained head, and by cosine.

    The head is SentEval's regression (:mod:`senteval_runner.protocol.correlation`) on frozen vectors.
    """
    result = evaluate_task(vectors, task, get_protocol("default"), seed)
    if task.name not in RELATEDNESS_TASKS:
        return {task.name: 100 * result["all.spearman.mean"]}
    return {
        f"{task.name} (trained head)": 100 * result["spearman"],
        f"{task.name} (untrained)": 100 * result["cosine.spearman"],
    }


def frozen_accuracy(
    vectors: SentenceVectors, train: WordPhrasePairs, test: WordPhrasePairs, seed: int
) -> float:
    """Tune a classifier on ``train``, and give its accuracy on ``test``.

    Raises:
        UserError: a class has fewer training pairs than there are folds.
    """
    protocol = get_protocol("default")
    fewest = min(train.same.count(0), train.same.count(1))
    if fewest < protocol.kfold:
        raise UserError(f"SemEval-2013 5(a): {fewest} training pairs of a class, folds need {protocol.kfold}")
    sides = (train.words + test.words, train.phrases + test.phrases)
    u, v = (vectors([text.split() for text in side]) for side in sides)
    y, rows = np.array(train.same + test.same), np.arange(len(train) + len(test))
    x = design(list(pair_blocks(u, v)))
    return kfold(x, y, rows[: len(train)], rows[len(train) :], 2, protocol, seed).acc


def tuned_accuracy(
    tower: Tower,
    train: WordPhrasePairs,
    test: WordPhrasePairs,
    *,
    folder: Path,
    seed: int,
    learning_rate: float,
) -> float:
    """Train tower and head on ``train``, and give their accuracy on ``test``; the tower's weights move.

    Seed: of head, batch order and dropout. A state of training found in ``folder`` is resumed.
    """
    fitted, scored = (
        Examples(pairs.words, pairs.phrases, np.array(pairs.same, dtype=np.int64)) for pairs in (train, test)
    )
    name = "semeval2013"
    options: dict[str, Any] = {"epochs": EPOCHS, "learning_rate": learning_rate}
    net = tune_pairs(tower, fixed(fitted), name, seed=seed, folder=folder, **options)
    return round(100 * accuracy(net.predict(name, scored), scored.target), 2)


def phrase_pairs(file: Path, held_out: float = 0.0) -> tuple[list[str], list[str], list[float]]:
    """Read PPDB's phrase pairs and their scores of equivalence; two single words are none.

    ``Equivalence`` is the probability that the authors' classifier gives that relation. Pairs are filtered
    and balanced as for training; ``held_out`` is the fraction that ``studies.burt --held-out`` keeps out of
    it, and 0 takes all.

    Raises:
        UserError: no line is such a pair.
    """
    lines = [(pair, pair.feature("Equivalence")) for pair in read_ppdb(file)]
    scores = {(pair.left, pair.right): score for pair, score in reversed(lines)}
    rows = [(pair.left, pair.right, pair.entailment or None) for pair, _ in lines]
    chosen = split_phrases(rows, PER_CLASS, held_out)[1 if held_out else 0]
    pairs = [
        (left, right, score)
        for left, right in zip(chosen.first, chosen.second or (), strict=True)
        if " " in left + right and (score := scores[left, right]) is not None
    ]
    if not pairs:
        raise UserError(f"{file}: no (held-out) pair of phrases with PPDB 2.0's feature Equivalence")
    left, right, gold = (list(column) for column in zip(*pairs, strict=True))
    return left, right, gold


def with_averages(scores: Mapping[str, float]) -> dict[str, float]:
    """Add the averages whose columns are all there: over some of them it would be another score."""
    averages = {
        name: fmean(scores[column] for column in columns)
        for name, columns in AVERAGES.items()
        if set(columns) <= scores.keys()
    }
    return {**scores, **averages}
