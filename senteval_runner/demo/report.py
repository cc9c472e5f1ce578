"""What the demo leaves behind: ``results.json`` and one self-contained ``report.html``."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from corpora.support.files import write_json, write_text
from senteval_runner.cells import installed
from senteval_runner.demo.retrieval import RetrievalScores
from senteval_runner.report import html

DRAWN_TREES = 2
DRAWN_TOKENS = range(7, 13)
"""Sentences of so many tokens are drawn: long enough to be trees, short enough for a page."""
LIBRARIES = ("torch", "numpy", "supar", "benepar", "spacy")


def write_results(
    path: Path, config: dict[str, Any], scores: Mapping[str, RetrievalScores], seconds: Mapping[str, float]
) -> None:
    """Every figure of the demo with its configuration, versions and times, as JSON."""
    write_json(
        path,
        {
            "config": config,
            "retrieval": {name: dataclasses.asdict(score) for name, score in scores.items()},
            "seconds": {step: round(value, 1) for step, value in seconds.items()},
            "versions": {"python": platform.python_version(), **installed(LIBRARIES)},
        },
    )


def write_demo_report(
    folder: Path,
    model: Path,
    trees: Path,
    scores: Mapping[str, RetrievalScores],
    rows: list[list[str]],
    seconds: Mapping[str, float],
) -> Path:
    """The table, the loss curve and two drawn parse trees on one page without outside files.

    Args:
        folder: where ``report.html`` goes.
        model: model folder with its training log.
        trees: tree cache whose sentences are drawn.
        scores: of each encoder, for the protocol's figures.
        rows: cells of the table, one row per encoder.
        seconds: time of each step.

    Returns:
        The page's path.
    """
    from parsing.trees.draw import STYLE

    score = next(iter(scores.values()))
    protocol = (
        f"{score.anchors:,} sentences of packages that training has not seen each rank the other "
        f"{score.candidates} sentences of their block by cosine; right answers are the sentences before "
        "and after. Recall@1 in per cent and mean reciprocal rank; 95 % intervals from resampling documents."
    )
    parts = [
        html.section(
            "Neighbour retrieval", html.table(["encoder", "recall@1, %", "MRR"], rows), note=protocol
        ),
        *_curves(model),
        *_trees(trees),
        html.section(
            "Where the time went",
            html.table(["step", "seconds"], [[step, round(value)] for step, value in seconds.items()]),
        ),
    ]
    write_text(
        folder / "report.html", html.page("From text to sentence vectors: the demo", parts, style=STYLE)
    )
    return folder / "report.html"


def _curves(model: Path) -> list[html.Html]:
    from multiview.training.log import read_log

    lines = read_log(model / "log.jsonl")
    loss = {
        kind: [(float(line["step"]), float(line["loss"])) for line in lines if line["kind"] == kind]
        for kind in ("train", "validation")
    }
    validation = [line for line in lines if line["kind"] == "validation"]
    names = [name for name in (validation[-1] if validation else {}) if "@1" in name]
    retrieval = {
        name: [(float(line["step"]), 100 * float(line[name])) for line in validation if name in line]
        for name in names
    }
    parts = [html.section("Loss per anchor", html.curve(loss, y_label="loss"))]
    if retrieval:
        title = "Neighbour retrieval during training, % (sentences held out from the training packages)"
        parts.append(html.section(title, html.curve(retrieval, y_label="recall@1, %")))
    return parts


def _trees(folder: Path) -> list[html.Html]:
    from parsing.cache.reader import TreeCache
    from parsing.cache.sentences import stored_sentences
    from parsing.trees.draw import constituency_svg, dependency_svg

    cache = TreeCache.open(folder)
    drawn: list[html.Html] = []
    for stored in stored_sentences(cache, 0, len(cache)):
        if len(drawn) == DRAWN_TREES:
            break
        wordlike = all(word.replace("-", "").isalpha() for word in stored.words[:-1])
        if stored.flags or len(stored.words) not in DRAWN_TOKENS or not wordlike:
            continue
        assert stored.heads and stored.relations and stored.tags and stored.spans is not None
        dependencies = dependency_svg(stored.words, stored.heads, stored.relations, stored.tags)
        constituents = constituency_svg(stored.words, stored.tags, stored.spans)
        drawn.append(
            html.section(
                f"Parsed: {' '.join(stored.words)}", html.Html(dependencies), html.Html(constituents)
            )
        )
    return drawn
