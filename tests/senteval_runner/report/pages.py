"""Pages as long and wide as they get: twelve models on every kind of table and drawing."""

from __future__ import annotations

import numpy as np

from corpora.senteval.tasks import PROBING_FILES, RELATEDNESS_TASKS, STS_SUBSETS
from senteval_runner.protocol.results import TaskResult
from senteval_runner.report import plots
from senteval_runner.report.page import Page, Section
from senteval_runner.report.table import Table
from senteval_runner.report.tables import difference_table, headlines, score_sections

MODELS = (
    *("builtin", "dep-const-laptop", "dep-const-w2v+dep-const-laptop", "random:dep,const@4800"),
    *("random:lstm@4096", "w2v_corpora_50k_300d.txt.gz", "all-MiniLM-L6-v2", "cls:bert-base-uncased"),
    *("seq-const-laptop", "seq-dep-laptop", "bag:random"),
    "runs/models/dep-const-laptop-expanded-glove.840B.300d",
)
CLASSIFIED = ("MR", "CR", "SUBJ", "MPQA", "TREC", "SICKEntailment", "SST5", *PROBING_FILES)


def result(task: str, rng: np.random.Generator) -> TaskResult:
    """A made-up result on 40 rows."""
    gold = rng.random(40)
    if task in STS_SUBSETS:
        predictions = gold + rng.normal(size=40)
        names = ("concatenated.spearman", "all.spearman.mean", "all.pearson.mean")
        metrics = {name: rng.uniform(0.4, 0.9) for name in names}
    elif task in RELATEDNESS_TASKS:
        predictions = gold + rng.normal(size=40)
        metrics = {
            "pearson": rng.uniform(0.4, 0.9),
            "spearman": rng.uniform(0.4, 0.9),
            "mse": rng.uniform(0.2, 0.6),
            "cosine.spearman": rng.uniform(0.4, 0.9),
        }
    else:
        gold = np.ones(40)
        predictions = (rng.random(40) < rng.uniform(0.5, 0.9)).astype(float)
        metrics = {"acc": 100 * float(predictions.mean()), "f1": rng.uniform(50, 90)}
    values = {"predictions": {"test": predictions.tolist()}, "gold": {"test": gold.tolist()}}
    return TaskResult(task=task, metrics=metrics, dim=300, rows={}, **values)


def scores_of_twelve_models() -> Page:
    """What ``senteval_runner.run`` writes for twelve models, two seeds and all kinds of tasks."""
    rng = np.random.default_rng(0)
    tasks = (*CLASSIFIED, "MRPC", *RELATEDNESS_TASKS, *STS_SUBSETS)
    results = {name: [{task: result(task, rng) for task in tasks} for _ in range(2)] for name in MODELS}
    scores = {
        name: [{task: one.metrics for task, one in by.items()} for by in seeds]
        for name, seeds in results.items()
    }
    efforts = {
        name: (256 + 100 * place, None if place % 3 else 0.1 * place) for place, name in enumerate(MODELS)
    }
    points = rng.normal(size=(60, 2))
    plane = plots.scatter(points, [place % 6 for place in range(60)], list("ABCDEF"), caption="PCA")
    heights = {
        (name, task): value for name, (one, _) in headlines(scores).items() for task, value in one.items()
    }
    first = {name: seeds[0] for name, seeds in results.items()}
    long = "A sentence as long as those of newspapers , which no window may turn into a tower of words ."
    rows = [
        [name if not place else "", "good bright" if not place else "", 0.9 - place / 10, long]
        for name in MODELS
        for place in range(3)
    ]
    neighbours = Table(["model", "example", "cosine", "sentence"], rows)
    return Page(
        "SentEval",
        [
            *score_sections(scores, efforts, MODELS[:2], ["Depth"]),
            Section("Per task", [plots.bars(MODELS, tasks, heights)]),
            Section("Differences between models", [difference_table(first)]),
            Section("TREC sentences in the plane", [plane]),
            Section("Nearest neighbours", [neighbours]),
        ],
        "Protocol default, nhid 0, seeds 1,2.",
    )
