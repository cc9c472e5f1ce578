"""What the demo leaves behind: ``results.json`` and one self-contained ``report.html``."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from corpora.support.cli import config_to_json
from corpora.support.files import write_json, write_text
from parsing.training.loop import read_log
from parsing.trees.cache import TreeCache
from parsing.trees.sentences import ParsedSentence, cached_sentences, constituency_svg, dependency_svg
from senteval_runner.demo.retrieval import RetrievalScores
from senteval_runner.report import plots
from senteval_runner.report.page import Figure, Page, Section
from senteval_runner.report.significance import Interval
from senteval_runner.report.table import Column, Score, Table

DRAWN_TREES, DRAWN_TOKENS = 2, range(7, 13)
"""How many sentences are drawn, and of which lengths: a real tree that a page holds."""
LOSS_NOTE = (
    "How surprised each view still is by the neighbours of a sentence among the rest of its batch; lower is "
    "better."
)


def retrieval_table(scores: Mapping[str, RetrievalScores]) -> Table:
    """Recall@1 and MRR of each encoder with their intervals."""

    def shown(interval: Interval | None, scale: float = 100) -> Score | None:
        if interval is None:
            return None
        return Score(scale * interval.mean, interval=(scale * interval.low, scale * interval.high))

    rows = [
        [name, shown(score.recall_at_1), shown(score.mrr, 1), shown(score.behind)]
        for name, score in scores.items()
    ]
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


def write_report(
    config: Any,
    model: Path,
    trees: Path,
    scores: Mapping[str, RetrievalScores],
    seconds: Mapping[str, float],
) -> Path:
    """All figures as JSON; the table, the loss curve and two parse trees on one page without outside files.

    Args:
        config: the demo's options; its ``output`` is the folder.
        model: model folder with its training log.
        trees: tree cache whose sentences are drawn.
        scores: of each encoder.
        seconds: time of each step.

    Returns:
        The page's path.
    """
    retrieval = {name: dataclasses.asdict(score) for name, score in scores.items()}
    taken = {step: round(value, 1) for step, value in seconds.items()}
    found = {"config": config_to_json(config), "retrieval": retrieval, "seconds": taken}
    write_json(config.output / "results.json", found)
    loss: dict[str, list[tuple[float, float]]] = {}
    for line in read_log(model / "log.jsonl"):
        where = {"train": "batches of training sentences", "evaluation": "sentences kept out of training"}
        if line["kind"] in where:
            loss.setdefault(where[line["kind"]], []).append((float(line["step"]), float(line["loss"])))
    curves = plots.curves(loss, x_label="training step", y_label="loss per sentence")
    sections = [
        Section("Neighbour retrieval", [retrieval_table(scores)]),
        Section("Loss", [curves], note=LOSS_NOTE),
        Section("Two of the parsed sentences", list(_trees(trees))),
        Section("Where the time went", [Table(["step", "seconds"], [[*row] for row in taken.items()])]),
    ]
    page = config.output / "report.html"
    write_text(page, Page("From text to sentence vectors: the demo", sections).html())
    return Path(page)


def _trees(folder: Path) -> Iterator[Figure]:
    """The first sentences of a handy length, both trees of each drawn."""
    cache = TreeCache.open(folder)
    fitting = (stored for stored in cached_sentences(cache, 0, len(cache)) if _fits_a_page(stored))
    for stored in itertools.islice(fitting, DRAWN_TREES):
        assert stored.heads and stored.relations and stored.tags and stored.spans is not None
        dependencies = dependency_svg(stored.words, stored.heads, stored.relations, stored.tags)
        yield Figure(dependencies, " ".join(stored.words))
        yield Figure(constituency_svg(stored.words, stored.tags, stored.spans))


def _fits_a_page(stored: ParsedSentence) -> bool:
    """Whether a sentence has no flags, the right length, and only words."""
    wordlike = all(word.replace("-", "").isalpha() for word in stored.words[:-1])
    return not stored.flags and len(stored.words) in DRAWN_TOKENS and wordlike
