"""What the demo leaves behind: ``results.json`` and one self-contained ``report.html``."""

from __future__ import annotations

import dataclasses
import itertools
import platform
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from corpora.support.files import write_json, write_text
from parsing.cache.reader import TreeCache
from parsing.sentences import ParsedSentence, cached_sentences
from parsing.training.loop import read_log
from parsing.trees.draw import constituency_svg, dependency_svg
from senteval_runner.cells import installed
from senteval_runner.demo.retrieval import RetrievalScores
from senteval_runner.report import plots
from senteval_runner.report.page import Figure, Page, Section
from senteval_runner.report.significance import Interval
from senteval_runner.report.table import Cell, Column, Score, Table

DRAWN_TREES = 2
DRAWN_TOKENS = range(7, 13)
"""Lengths of the drawn sentences: long enough for a real tree, short enough for a page."""
STEP = "training step"
LOSS_NOTE = (
    "How surprised each view still is by the neighbours of a sentence among the rest of its batch; lower is "
    "better."
)
FOUND_NOTE = (
    "How often the sentence nearest to a sentence is the one before or after it, among sentences that were "
    "kept out of training; higher is better."
)
LIBRARIES = ("torch", "numpy", "supar", "benepar", "spacy")


def write_results(
    path: Path, config: dict[str, Any], scores: Mapping[str, RetrievalScores], seconds: Mapping[str, float]
) -> None:
    """Every score of the demo with its configuration, versions and times, as JSON."""
    write_json(
        path,
        {
            "config": config,
            "retrieval": {name: dataclasses.asdict(score) for name, score in scores.items()},
            "seconds": {step: round(value, 1) for step, value in seconds.items()},
            "versions": {"python": platform.python_version(), **installed(LIBRARIES)},
        },
    )


def retrieval_table(scores: Mapping[str, RetrievalScores]) -> Table:
    """Recall@1 and MRR of each encoder with their intervals."""
    rows: list[list[Cell]] = []
    for name, score in scores.items():
        mrr = score.mrr
        rows.append(
            [
                name,
                _percent(score.recall_at_1),
                Score(mrr.mean, interval=(mrr.low, mrr.high)),
                _percent(score.behind),
            ]
        )
    first, score = next(iter(scores.items()))
    protocol = (
        f"{score.anchors:,} sentences of packages that training has not seen each rank the other "
        f"{score.candidates} sentences of their block by cosine; right answers are the sentences before "
        "and after. Recall@1 in per cent and mean reciprocal rank; 95 % intervals from resampling documents. "
        f"The last column is how far {first} is ahead in recall@1, anchor by anchor."
    )
    columns = [
        *(Column("encoder"), Column("recall@1, %", digits=1), Column("MRR", digits=3)),
        Column("behind by", digits=1),
    ]
    return Table(columns, rows, notes=[protocol])


def _percent(interval: Interval | None) -> Score | None:
    if interval is None:
        return None
    return Score(100 * interval.mean, interval=(100 * interval.low, 100 * interval.high))


def write_demo_report(
    folder: Path,
    model: Path,
    trees: Path,
    scores: Mapping[str, RetrievalScores],
    seconds: Mapping[str, float],
) -> Path:
    """The table, the loss curve and two drawn parse trees on one page without outside files.

    Args:
        folder: where ``report.html`` goes.
        model: model folder with its training log.
        trees: tree cache whose sentences are drawn.
        scores: of each encoder.
        seconds: time of each step.

    Returns:
        The page's path.
    """
    times = Table(["step", "seconds"], [[step, round(value)] for step, value in seconds.items()])
    sections = [
        Section("Neighbour retrieval", [retrieval_table(scores)]),
        *_curves(model),
        Section("Two of the parsed sentences", list(_trees(trees))),
        Section("Where the time went", [times]),
    ]
    page = Page("From text to sentence vectors: the demo", sections)
    write_text(folder / "report.html", page.html())
    return folder / "report.html"


def _curves(model: Path) -> list[Section]:
    """The training log as curves, named in words."""
    lines = read_log(model / "log.jsonl")
    validation = [line for line in lines if "recall@1" in line]
    loss = {
        where: [(float(line["step"]), float(line["loss"])) for line in logged]
        for where, logged in (
            ("batches of training sentences", [line for line in lines if line["kind"] == "train"]),
            ("sentences kept out of training", validation),
        )
    }
    names = [name for name in (validation[-1] if validation else {}) if "@1" in name]
    retrieval = {
        curve_name(name): [
            (float(line["step"]), 100 * float(line[name])) for line in validation if name in line
        ]
        for name in names
    }
    found = [Section("Loss", [plots.curves(loss, x_label=STEP, y_label="loss per sentence")], note=LOSS_NOTE)]
    if retrieval:
        curves = plots.curves(retrieval, x_label=STEP, y_label="% of sentences")
        found.append(Section("Neighbours found during training", [curves], note=FOUND_NOTE))
    return found


def curve_name(metric: str) -> str:
    """A metric of the training log in words: ``accuracy@1/0-dep,1-const`` is of the views DEP and CONST."""
    if "/" not in metric:
        return "all views side by side, by cosine"
    one, other = (view.split("-", 1)[1].upper() for view in metric.split("/")[1].split(","))
    return f"{one} against {other}, by the score that training uses"


def _trees(folder: Path) -> Iterator[Figure]:
    """The first sentences of a handy length, both trees of each drawn."""
    cache = TreeCache.open(folder)
    fitting = (stored for stored in cached_sentences(cache, 0, len(cache)) if _fits_a_page(stored))
    for stored in itertools.islice(fitting, DRAWN_TREES):
        assert stored.heads and stored.relations and stored.tags and stored.spans is not None
        dependencies = dependency_svg(stored.words, stored.heads, stored.relations, stored.tags)
        constituents = constituency_svg(stored.words, stored.tags, stored.spans)
        yield Figure(dependencies, " ".join(stored.words))
        yield Figure(constituents)


def _fits_a_page(stored: ParsedSentence) -> bool:
    """Whether a sentence has no flags, the right length, and only words."""
    wordlike = all(word.replace("-", "").isalpha() for word in stored.words[:-1])
    return not stored.flags and len(stored.words) in DRAWN_TOKENS and wordlike
