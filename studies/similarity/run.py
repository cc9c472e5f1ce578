"""Score models on sets of words, phrases and sentences, and make the table of scores.

SemEval-2013 task 5(a) asks whether a phrase means the same as a word. On frozen vectors a classifier is
trained that reads [|u - v|, u ∗ v] of word and phrase, as for SentEval's MRPC. Fine-tuning trains the encoder
together with a softmax head on [u; v; |u-v|] (docs/papers/burt.md). Both were tested on hand-made files only.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from corpora.pairs import SETS, find_set, read_ppdb, read_semeval2013_5a
from corpora.senteval.files import TaskData, read_task
from corpora.senteval.tasks import TASKS, tasks_in
from multiview.names.opened import OpenedEncoder
from runtime.device import pick_device
from runtime.errors import UserError
from runtime.files import sha256_file
from senteval_runner.evaluation import data_hashes, evaluate_task
from senteval_runner.evaluation_trees import open_model
from senteval_runner.protocol.classify import kfold
from senteval_runner.protocol.config import get_protocol
from senteval_runner.protocol.correlation import cosines, spearman
from senteval_runner.protocol.features import Float, design, pair_blocks
from senteval_runner.report.page import Column, Page, Section
from studies.finetune.examples import PER_CLASS, Examples, digest, draw_all, split_phrases
from studies.finetune.training import is_tunable, tunable_tower, tune_pairs
from studies.runner import Cell, Figures, StudyRun, read_published, score_table
from studies.similarity.config import SimilarityConfig

STS_TASKS = [name for name in tasks_in("sts7") if TASKS[name].kind == "cosine"]
TRAINED_TASKS = [name for name in tasks_in("sts7") if TASKS[name].kind == "graded"]
PHRASES = "PPDB phrases"
SEMEVAL = "SemEval-2013 5(a)"
"""The column of fine-tuned encoders, as in BURT."""
SEMEVAL_FROZEN = f"{SEMEVAL}, frozen"
EPOCHS = 2
AVERAGES: Mapping[str, Sequence[str]] = {
    "STS12-16": STS_TASKS,
    "sentences": (*STS_TASKS, *(f"{name} (trained head)" for name in TRAINED_TASKS)),
    "words": ("SimLex-999", "WS-353-sim", "WS-353-rel", "MEN", "SCWS"),
}
"""The columns that are averaged, by name of the average: STS* of Table 4, and Avg. of Tables 2 and 3."""


@dataclass(frozen=True)
class SimilaritySet:
    """A set of pairs, and how a model is scored on it."""

    name: str
    identity: object
    """JSON values of all that the figures depend on, except the model: contents of files, options."""
    texts: Sequence[str]
    """Both texts of all pairs, with tokens joined by spaces."""
    score: Callable[[OpenedEncoder, Path], Figures]
    """Returns a model's figures by column of the table; the path is a folder for unfinished work."""


def score(config: SimilarityConfig, run: StudyRun) -> Page:
    """Score every model on every set that the options name, and return the page of the table."""
    if not (config.words or config.data or config.phrases or config.semeval2013):
        raise UserError("nothing to compare: give --words, --data, --phrases or --semeval2013")
    if config.fine_tune and config.semeval2013 is None:
        raise UserError("--fine-tune needs --semeval2013 FOLDER")
    names = tasks_in("sts7") if config.data is not None else ()
    tasks = run.open_all({name: partial(read_task, name, config.data or Path()) for name in names})
    sets = list(open_sets(config, tasks.values()))
    models = {spec: open_model(spec, seed=config.seed) for spec in config.models}
    cells = {
        (spec, pairs.name): Cell(
            name=f"{spec}, {pairs.name}",
            identity=[model.identity(), pairs.name, pairs.identity, config.seed],
            compute=partial(pairs.score, model),
        )
        for spec, model in models.items()
        for pairs in sets
        if pairs.name != SEMEVAL or is_tunable(model)
    }
    rows: dict[str, Figures] = {}
    for (spec, _), figures in run.compute(cells).items():
        rows.setdefault(spec, {}).update(figures)
    own_rows = {spec: with_averages(row) for spec, row in rows.items()}
    paper_rows: dict[str, dict[str, float]] = {}
    if config.published:
        file = Path(__file__).with_name(f"published-{config.published}.csv")
        paper_rows = {name: with_averages(row) for name, row in read_published(file).items()}
    columns = dict.fromkeys(column for row in own_rows.values() for column in row)
    table = score_table(
        ["model"],
        [Column(name, digits=1, best="high") for name in columns],
        own_rows,
        paper_rows,
        notes=["Spearman's correlation × 100; SemEval-2013 5(a): accuracy in percent."],
        quoted_source="published (BURT)",
    )
    absent = [name for name in SETS if config.words and name not in {pairs.name for pairs in sets}]
    note = f"Not below {config.words}: {', '.join(absent)}." if absent else ""
    return Page("Similarity of words, phrases and sentences", [Section("Scores", [table])], note)


def open_sets(config: SimilarityConfig, tasks: Iterable[TaskData]) -> Iterator[SimilaritySet]:
    """Yield the sets that the options name; ``tasks`` are the tasks of SentEval that could be read.

    Raises UserError if the folder of word sets has none, or a file cannot be read.
    """
    if config.words is not None:
        word_sets = list(filter(None, [find_set(name, config.words) for name in SETS]))
        if not word_sets:
            raise UserError(f"{config.words}: holds none of the word sets {', '.join(SETS)}")
        for pairs in word_sets:
            yield _graded(pairs.name, sha256_file(pairs.file), pairs.left, pairs.right, pairs.score)
    if config.phrases is not None:
        identity = [sha256_file(config.phrases), config.held_out]
        yield _graded(PHRASES, identity, *phrase_pairs(config.phrases, config.held_out))
    for task in tasks:
        texts = [" ".join(tokens) for split in task.splits.values() for tokens in split.sentences()]
        score = partial(sentence_similarity, task=task, seed=config.seed)
        yield SimilaritySet(task.name, data_hashes(task), texts, score)
    if config.semeval2013 is not None:
        train, test = (semeval_pairs(config.semeval2013, split) for split in ("train", "test"))
        key = digest([train, test])
        score_frozen = partial(frozen_accuracy, train=train, test=test, seed=config.seed)
        yield SimilaritySet(SEMEVAL_FROZEN, key, (train + test).texts, score_frozen)
        if config.fine_tune:
            score_tuned = partial(
                tuned_accuracy, train=train, test=test, seed=config.seed, learning_rate=config.learning_rate
            )
            yield SimilaritySet(SEMEVAL, [key, config.learning_rate], (), score_tuned)


def semeval_pairs(folder: Path, split: str) -> Examples:
    """Return the pairs of a word and a phrase of SemEval-2013 5(a), class 1 if they mean the same, else 0."""
    words, phrases, is_same = read_semeval2013_5a(folder, split)
    return Examples(words, phrases, np.array(is_same, np.int64))


def _graded(
    name: str, identity: object, left: Sequence[str], right: Sequence[str], gold: Sequence[float]
) -> SimilaritySet:
    """Return a set of words or phrases with gold scores, which is scored by correlation."""

    def score(model: OpenedEncoder, _: Path) -> Figures:
        return {name: correlate(model, left, right, gold)}

    return SimilaritySet(name, identity, [*left, *right], score)


def encode_texts(model: OpenedEncoder, texts: Sequence[str]) -> Float:
    """Return the embeddings of texts whose tokens are separated by spaces, [n, d]."""
    return model.encode([text.split() for text in texts])


def correlate(
    vectors: OpenedEncoder, left: Sequence[str], right: Sequence[str], gold: Sequence[float]
) -> float:
    """Return Spearman's correlation of cosines with gold scores, times 100; 0 if all cosines are equal."""
    u, v = (encode_texts(vectors, texts).astype(np.float64) for texts in (left, right))
    similarity = cosines(u, v)
    if similarity.max() - similarity.min() < 1e-6:  # float32 vectors of equal texts differ in the last bit
        return 0.0
    return 100 * spearman(similarity, np.asarray(gold, dtype=np.float64))


def sentence_similarity(model: OpenedEncoder, _: Path, *, task: TaskData, seed: int) -> Figures:
    """Return a model's scores on a task of SentEval, times 100.

    STS12-16 are scored by cosine, STS-B and SICK-R by SentEval's regression on frozen vectors and by cosine.
    """
    metrics = evaluate_task(model, task, get_protocol("default"), seed)
    if task.task.kind != "graded":
        return {task.name: 100 * metrics["all.spearman.mean"]}
    return {
        f"{task.name} (trained head)": 100 * metrics["spearman"],
        f"{task.name} (untrained)": 100 * metrics["cosine.spearman"],
    }


def frozen_accuracy(model: OpenedEncoder, _: Path, *, train: Examples, test: Examples, seed: int) -> Figures:
    """Return the accuracy on ``test`` of a classifier of frozen vectors that is trained on ``train``.

    Raises UserError if a class of ``train`` has fewer pairs than the cross-validation has folds.
    """
    protocol = get_protocol("default")
    smallest_class = np.bincount(train.target, minlength=2).min()
    if smallest_class < protocol.kfold:
        fault = f"{smallest_class} training pairs of a class, folds need {protocol.kfold}"
        raise UserError(f"SemEval-2013 5(a): {fault}")
    pairs = train + test
    u, v = (encode_texts(model, texts or ()) for texts in (pairs.first, pairs.second))
    train_rows, test_rows = np.split(np.arange(len(pairs)), [len(train)])
    features = design(list(pair_blocks(u, v)))
    result = kfold(features, pairs.target, train_rows, test_rows, 2, protocol, seed)
    return {SEMEVAL_FROZEN: result.acc}


def tuned_accuracy(
    model: OpenedEncoder, folder: Path, *, train: Examples, test: Examples, seed: int, learning_rate: float
) -> Figures:
    """Return the accuracy on ``test`` of a copy of a transformer that is fine-tuned on ``train``."""
    tower = tunable_tower(model, device=pick_device())
    settings: dict[str, Any] = {"epochs": EPOCHS, "learning_rate": learning_rate, "seed": seed}
    head = tune_pairs(tower, draw_all(train), "semeval2013", folder=folder, **settings)
    return {SEMEVAL: round(100 * head.score(tower, test), 2)}


def phrase_pairs(file: Path, held_out: float = 0.0) -> tuple[list[str], list[str], list[float]]:
    """Return the left phrases, the right phrases and the scores of equivalence of PPDB's pairs.

    Pairs of two single words are left out; the others are filtered and balanced as for training. ``held_out``
    is the fraction that ``studies.burt --held-out`` does not train on; 0 takes all pairs.
    """
    lines = list(read_ppdb(file))
    rows = [(line.left, line.right, line.entailment or None) for line in lines]
    training_part, held_out_part = split_phrases(rows, PER_CLASS, held_out)
    part = held_out_part if held_out else training_part
    # Of equal pairs the first line counts.
    score_of_pair = {(line.left, line.right): line.feature("Equivalence") for line in reversed(lines)}
    left_phrases: list[str] = []
    right_phrases: list[str] = []
    gold: list[float] = []
    for left, right in part.pairs:
        score = score_of_pair[left, right]
        if score is not None and (" " in left or " " in right):
            left_phrases.append(left)
            right_phrases.append(right)
            gold.append(score)
    if not gold:
        raise UserError(f"{file}: no (held-out) pair of phrases with PPDB 2.0's feature Equivalence")
    return left_phrases, right_phrases, gold


def with_averages(scores: Mapping[str, float]) -> dict[str, float]:
    """Return scores with their averages; an average is left out if one of its columns is missing."""
    averages = {
        name: fmean(scores[column] for column in columns)
        for name, columns in AVERAGES.items()
        if set(columns) <= scores.keys()
    }
    return {**scores, **averages}
