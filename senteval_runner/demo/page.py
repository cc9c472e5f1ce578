"""The demo's page: what training gained, how it went, trees, neighbours, and what structure tells apart."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpora.books import books
from corpora.senteval.files import TaskData, read_task
from multiview.folder.files import BUILTIN
from multiview.model import MultiViewEncoder
from parsing.trees.cache import TreeCache
from parsing.trees.drawings import constituency_svg, dependency_svg
from parsing.trees.sentences import ParsedSentence, cached_sentences
from runtime.cli import config_from_json
from runtime.files import read_json, read_record, write_text
from runtime.training_loop import read_log
from senteval_runner.demo.steps import TASKS, DemoConfig, commands
from senteval_runner.protocol.config import TaskResult
from senteval_runner.protocol.features import unit
from senteval_runner.report import plots
from senteval_runner.report.page import Cell, Column, Figure, Page, Score, Section, Table
from senteval_runner.vectors import EvaluationTrees, open_model

DRAWN, DRAWN_TOKENS = 2, range(7, 11)
"""How many sentences are drawn, and of how many words: a telephone's screen holds them."""
WIDTH = 5.5
"""Inches of a plot: two stand side by side, and on a telephone one can be read."""
ASKED = 5
"""Sentences whose nearest neighbours are shown."""
FRAME = 20
"""Triplets of Binding that are fillings of one frame."""
PAIR = (
    "The lawyer praised the doctor.",
    "The doctor was praised by the lawyer.",
    "The doctor praised the lawyer.",
)
"""A sentence, the same said otherwise, and the same words that say something else."""
TRAINED, START, WORDS, RANDOM = "trained", "before training", "average of its words", "random words"
ROWS = (TRAINED, START, WORDS, RANDOM, BUILTIN)
"""Of the tables, from the top."""
CURVES = {
    "accuracy@1": "across views, as trained",
    "recall@1": "by cosine, the views",
    "recall@1/both": "by cosine, views beside words",
    "recall@1/words": "by cosine, mean of the words",
}
"""Names of the curves, by their names in the log."""
Results = Mapping[str, Mapping[str, TaskResult]]
"""By model and task."""


def write_report(config: DemoConfig, seconds: Mapping[str, float]) -> Path:
    """Write ``report.html`` from the files of the three commands; return its path.

    Args:
        config: the demo's options.
        seconds: time of each step.
    """
    about = {
        _row(config, model["spec"]): model
        for model in read_json(config.scores / "results.json")["models"].values()
    }
    specs = {row: about[row]["spec"] for row in ROWS if row in about}
    results = {row: _results(config.scores, about[row]["key"]) for row in specs}
    sections = [
        Section("What training gained", list(_scores(results))),
        Section("How training went", list(_training(config.model))),
        Section("Two of the parsed sentences", list(_drawn_trees(config.trees))),
        Section("Nearest sentences before and after training", [_nearest(config, specs)]),
        Section("What structure tells apart", [_told_apart(config)]),
        Section("Where the time went", [_times(config, seconds)]),
        Section("Go on with your own text", list(_next_steps())),
    ]
    introduction = (
        "28,000 sentences of books by ten authors were parsed. A dependency view and a constituency view "
        "learned to find the sentences that stand next to each other. Both were then scored on 20 other "
        "books by the same authors."
    )
    page = config.output / "report.html"
    write_text(page, Page("From text to sentence vectors", sections, introduction).html())
    return page


def _row(config: DemoConfig, spec: str) -> str:
    """What a model is called on the page."""
    model = str(config.model)
    rows = {model: TRAINED, f"bag:{model}": WORDS, "bag:random": RANDOM}
    return START if spec.startswith("start:") else rows.get(spec, spec)


def _results(folder: Path, key: str) -> dict[str, TaskResult]:
    """The finished tasks of a model by name, in the order in which they were asked for."""
    cells = {path.stem: path for path in folder.glob(f"parts/{key}-*/*/*.json")}
    return {
        task: config_from_json(TaskResult, read_record(cells[task]), where=cells[task])
        for task in TASKS.split(",")
        if task in cells
    }


def _hits(result: TaskResult) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Whether each item is right, in per cent [N], and the group [N] of items that are not independent.

    Sentences of a book and fillings of a frame are groups; of Authors each sentence stands for itself.
    """
    hits, groups, known = [], [], 0
    for split, gold in result.gold.items():
        right_N = 100.0 * np.equal(gold, result.predictions[split])
        group_N = np.zeros(len(right_N), np.int64)
        if result.task != "Neighbours":
            group_N = np.arange(len(right_N)) // (FRAME if result.task == "Binding" else 1)
        hits.append(right_N)
        groups.append(known + group_N)
        known += int(group_N.max()) + 1
    return np.concatenate(hits), np.concatenate(groups)


def _scores(results: Results) -> Iterator[Table | Figure | str]:
    """Bars and tables of every model's scores, and how far the trained one is ahead."""
    tasks = list(next(iter(results.values())))
    hits = {(name, task): _hits(result) for name, by in results.items() for task, result in by.items()}
    scores = {key: Score.over_groups(*found) for key, found in hits.items()}
    yield plots.bars(
        list(results), tasks, scores, caption="Per cent right, with 95 % intervals", inches=WIDTH
    )
    columns = [Column(task, digits=1, best="high") for task in tasks]
    rows: list[list[Cell]] = [[name, *(scores.get((name, task)) for task in tasks)] for name in results]
    yield Table(["model", *columns], rows, "Per cent right [95 % interval]")
    ahead = {
        name: [_ahead(hits.get((TRAINED, task)), hits.get((name, task))) for task in tasks]
        for name in results
        if name != TRAINED
    }
    signed = [Column(task, digits=1) for task in tasks]
    differences: list[list[Cell]] = [[name, *cells] for name, cells in ahead.items()]
    yield Table(["over", *signed], differences, "How far the trained model is ahead, item by item")
    yield _conclusion(tasks, ahead[START])
    yield (
        "Authors: which of ten authors wrote a sentence, names and numerals masked, by SentEval's logistic "
        "regression; the test books are not among those it learns from. Neighbours: of the about 300 "
        "sentences of a held-out book, is the nearest one the sentence before or after? Binding: of two "
        "sentences with the same words, is the one nearer that means the same? Intervals resample sentences, "
        "books and frames."
    )
    yield (
        "Before training, the model has the same form: the mean of the words too, where that stands beside "
        "the views. The words are those of builtin, the encoder in the package. Both they and builtin were "
        "trained on far more text, these books among it."
    )


def _conclusion(tasks: Sequence[str], over_start: Sequence[Score | None]) -> str:
    """Where training gained beyond the intervals and, if nowhere, what helps instead."""
    scores = zip(tasks, over_start, strict=True)
    won = [task for task, score in scores if score and score.interval and score.interval[0] > 0]
    if won:
        return f"Training is ahead of its start, beyond the intervals, in {', '.join(won)}."
    return (
        "So on so little text training does not pay beyond its start. What does: more text (commands are "
        "below) and, for who did what to whom, the structure in builtin, which needs no training."
    )


def _ahead(one: tuple[Any, Any] | None, other: tuple[Any, Any] | None) -> Score | None:
    """The difference of two models on the same items, with its interval."""
    return None if one is None or other is None else Score.over_groups(one[0] - other[0], one[1])


def _training(model: Path) -> Iterator[Figure | Table]:
    """Curves over the steps, the untrained model at their left end, and the verdict of the model's card."""
    rows = [row for row in read_log(model / "log.jsonl") if row["kind"] == "evaluation"]
    loss = {"validation loss": [(row["step"], row["loss"]) for row in rows]}
    yield plots.curves(
        loss, y_label="loss per sentence", caption="Validation loss; step 0 is untrained", inches=WIDTH
    )
    shares = {
        said: [(row["step"], 100 * row[name]) for row in rows if name in row] for name, said in CURVES.items()
    }
    caption = "Neighbours found on the validation set, per cent; step 0 is untrained"
    yield plots.curves(shares, y_label="per cent", caption=caption, inches=WIDTH)
    card = (model / "README.md").read_text(encoding="utf-8")
    lines = re.findall("^- (gained|neighbours|beside|kept|no gain|next): (.*)", card, re.MULTILINE)
    yield Table(["", "verdict, also in the model's card"], [list(line) for line in lines])


def _drawn_trees(folder: Path) -> Iterator[Figure]:
    """Both trees of the first sentences of a handy length, one sentence a book."""
    cache = TreeCache.open(folder)
    offsets = np.asarray(cache.documents())
    drawn = 0
    for start, stop in itertools.pairwise(offsets):
        stored = next(filter(_is_handy, cached_sentences(cache, int(start), int(stop))), None)
        if stored is None or drawn == DRAWN:
            continue
        drawn += 1
        assert stored.heads and stored.relations and stored.tags and stored.spans is not None
        arcs = dependency_svg(stored.words, stored.heads, stored.relations, stored.tags)
        yield Figure(arcs, " ".join(stored.words))
        yield Figure(constituency_svg(stored.words, stored.tags, stored.spans))


def _is_handy(stored: ParsedSentence) -> bool:
    """Whether a sentence is whole, of plain words, and short enough to be drawn."""
    *words, last = stored.words
    plain = last == "." and all(word.isalpha() for word in words)
    return plain and not stored.flags and len(stored.words) in DRAWN_TOKENS


def _vectors(config: DemoConfig, spec: str, task: TaskData) -> NDArray[np.float32]:
    """Vectors of all sentences of a task at one scale, read from the store that scoring has left: [N, D]."""
    trees = EvaluationTrees(folder=config.trees.parent, tasks=[task])
    encoder = open_model(spec, cache=config.output / "vectors", trees=trees)
    rows_ND = encoder([tokens for part in task.splits.values() for tokens in part.a])
    return unit((rows_ND - rows_ND.mean(axis=0)) / np.maximum(rows_ND.std(axis=0), 1e-8))


def _nearest(config: DemoConfig, specs: Mapping[str, str]) -> Table:
    """The nearest sentence of five sentences of held-out books, by the model before and after training."""
    task = read_task("Neighbours", config.output)
    texts = [text for book in books("heldout") for text in book.sentences]
    chosen = {"before": specs[START], "after": specs[TRAINED]}
    vectors = {when: _vectors(config, spec, task) for when, spec in chosen.items()}
    fitting = [n for n, text in enumerate(texts) if 45 < len(text) < 90 and text[-1] == "."]
    asked = [fitting[n * len(fitting) // ASKED] for n in range(ASKED)]
    rows: list[list[Cell]] = []
    for place in asked:
        nearest = []
        for rows_ND in vectors.values():
            cosine_N = rows_ND @ rows_ND[place]
            cosine_N[place] = -1
            nearest.append(texts[int(cosine_N.argmax())])
        rows.append([texts[place], *nearest])
    note = "Among the 5,928 sentences of the held-out books, by cosine of numbers at one scale."
    return Table(["sentence", *(f"nearest {when} training" for when in vectors)], rows, notes=[note])


def _told_apart(config: DemoConfig) -> Table:
    """Cosines of a sentence with its passive and with the same words exchanged."""
    builtin = MultiViewEncoder.load(BUILTIN)
    encoders = {
        TRAINED: (MultiViewEncoder.load(config.model), 0.0),
        "builtin without structure": (builtin, 0.0),
        "builtin": (builtin, None),
    }
    rows: list[list[Cell]] = []
    for name, (encoder, share) in encoders.items():
        vectors = unit(encoder.encode(PAIR, show_progress_bar=False, structure=share))
        same, other = (float(vectors[0] @ vectors[n]) for n in (1, 2))
        rows.append([name, same, other])
    columns = [f"“{PAIR[1]}” (means the same)", f"“{PAIR[2]}” (does not)"]
    return Table(["cosine with “" + PAIR[0] + "”", *(Column(text, digits=3) for text in columns)], rows)


def _times(config: DemoConfig, seconds: Mapping[str, float]) -> Table:
    """The seconds of each command, and what was typed."""
    rows: list[list[Cell]] = [
        [title, f"{seconds.get(title, 0):.0f}", f"python -m {' '.join(words)}"]
        for title, words in commands(config).items()
    ]
    return Table(["step", "seconds", "command"], rows)


def _next_steps() -> Sequence[Figure | str]:
    """The commands for one's own text."""
    lines = [
        "python -m parsing.run corpus.txt",
        "python -m multiview.train --views dep,const",
        "python -m senteval_runner.run runs/models/dep-const-laptop --data SENTEVAL_DATA",
        'python -m multiview.search runs/models/dep-const-laptop runs/trees/corpus "What does it cost?"',
    ]
    block = '<pre style="white-space:pre-wrap;overflow-wrap:anywhere">{}</pre>'
    return (
        "One sentence per line and a blank line between documents. docs/tutorial.md goes through each step.",
        Figure(block.format(escape("\n".join(lines)))),
    )
