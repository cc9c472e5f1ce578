"""Make the demo's page: what training gained, how it went, trees, neighbours, what structure tells apart."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpora.books import books
from corpora.senteval.files import read_task
from corpora.senteval.structure import FILLINGS
from multiview.folder.files import BUILTIN
from multiview.model import MultiViewEncoder
from parsing.trees.cache import TreeCache
from parsing.trees.drawings import constituency_svg, dependency_svg
from parsing.trees.sentences import ParsedSentence, cached_sentences
from runtime.files import read_json
from runtime.training_loop import read_log
from senteval_runner.protocol.config import TaskResult
from senteval_runner.protocol.features import unit
from senteval_runner.report import plots
from senteval_runner.report.page import Column, Figure, Page, Score, Section, Table, TableCell
from senteval_runner.scoring import stored_results
from senteval_runner.vectors import EvaluationTrees, open_model

DRAWN, DRAWN_TOKENS = 2, range(7, 11)
"""How many sentences are drawn, and of how many words: a telephone's screen holds them."""
WIDTH = 5.5
"""Inches of a plot: two stand side by side, and on a telephone one can be read."""
ASKED = 5
"""Sentences whose nearest neighbours are shown."""
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


def demo_page(
    trees: Path, model: Path, scores: Path, vectors: Path, times: Sequence[tuple[str, str, str]]
) -> Page:
    """Make the page from the files of the commands, and the title, seconds and command of each."""
    written = read_json(scores / "results.json")
    names = {str(model): TRAINED, f"bag:{model}": WORDS, "bag:random": RANDOM, BUILTIN: BUILTIN}
    about = {names.get(model["spec"], START): model for model in written["models"].values()}
    rows = [row for row in ROWS if row in about]
    stored = {row: stored_results(scores, f"{about[row]['key']}-") for row in rows}
    tasks = dict.fromkeys(result["task"] for result in written["results"])  # as they were asked for
    results = {row: {task: stored[row][task] for task in tasks if task in stored[row]} for row in rows}
    builtin = MultiViewEncoder.load(BUILTIN)
    sections = [
        Section("What training gained", list(_scores(list(tasks), results))),
        Section("How training went", list(_training(model))),
        Section("Two of the parsed sentences", list(_drawn_trees(trees))),
        Section(
            "Nearest sentences before and after training",
            [_nearest({"before": about[START]["spec"], "after": str(model)}, trees.parent, vectors)],
        ),
        Section("What structure tells apart", [_told_apart(MultiViewEncoder.load(model), builtin)]),
        Section("Where the time went", [Table(["step", "seconds", "command"], times)]),
        Section("Go on with your own text", NEXT_STEPS),
    ]
    introduction = (
        "28,000 sentences of books by ten authors were parsed. A dependency view and a constituency view "
        "learned to find the sentences that stand next to each other. Both were then scored on 20 other "
        "books by the same authors."
    )
    return Page("From text to sentence vectors", sections, introduction)


def _hits(result: TaskResult) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Tell whether each item is right, in per cent [N], and the group [N] of items that are not independent.

    Sentences of a book and fillings of a frame are groups; of Authors each sentence stands for itself.
    """
    right_N = 100.0 * np.concatenate([np.equal(result.gold[s], result.predictions[s]) for s in result.gold])
    if result.task == "Neighbours":
        return right_N, np.repeat(np.arange(len(result.gold)), [len(book) for book in result.gold.values()])
    return right_N, np.arange(len(right_N)) // (FILLINGS if result.task == "Binding" else 1)


def _scores(
    tasks: Sequence[str], results: Mapping[str, Mapping[str, TaskResult]]
) -> Iterator[Table | Figure | str]:
    """Give bars and tables of every model's scores by task, and how far the trained one is ahead."""
    hits = {
        (name, task): _hits(result) for name, by_task in results.items() for task, result in by_task.items()
    }
    scores = {key: Score.over_groups(*groups) for key, groups in hits.items()}
    caption = "Per cent right, with 95 % intervals"
    yield plots.bars(list(results), tasks, scores, caption=caption, inches=WIDTH)
    rows: list[list[TableCell]] = [[name, *(scores.get((name, task)) for task in tasks)] for name in results]
    columns = [Column(task, digits=1, best="high") for task in tasks]
    yield Table(["model", *columns], rows, "Per cent right [95 % interval]")
    ahead: dict[str, dict[str, Score]] = {name: {} for name in results if name != TRAINED}
    for name, task in itertools.product(ahead, tasks):
        if (TRAINED, task) in hits and (name, task) in hits:
            right_N, group_N = hits[TRAINED, task]
            ahead[name][task] = Score.over_groups(right_N - hits[name, task][0], group_N)
    differences: list[list[TableCell]] = [[name, *map(over.get, tasks)] for name, over in ahead.items()]
    signed = [Column(task, digits=1) for task in tasks]
    yield Table(["over", *signed], differences, "How far the trained model is ahead, item by item")
    yield _conclusion(ahead[START])
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


def _conclusion(over_start: Mapping[str, Score]) -> str:
    """Say where training gained beyond the intervals and, if nowhere, what helps instead."""
    won = [task for task, score in over_start.items() if score.interval and score.interval[0] > 0]
    if won:
        return f"Training is ahead of its start, beyond the intervals, in {', '.join(won)}."
    return (
        "So on so little text training does not pay beyond its start. What does: more text (commands are "
        "below) and, for who did what to whom, the structure in builtin, which needs no training."
    )


def _training(model: Path) -> Iterator[Figure | Table]:
    """Give curves over the steps, the untrained model at their left, and the verdict of the model's card."""
    rows = [row for row in read_log(model / "log.jsonl") if row["kind"] == "evaluation"]
    loss = {"validation loss": [(row["step"], row["loss"]) for row in rows]}
    caption = "Validation loss; step 0 is untrained"
    yield plots.curves(loss, y_label="loss per sentence", caption=caption, inches=WIDTH)
    shares = {
        title: [(row["step"], 100 * row[name]) for row in rows if name in row]
        for name, title in CURVES.items()
    }
    caption = "Neighbours found on the validation set, per cent; step 0 is untrained"
    yield plots.curves(shares, y_label="per cent", caption=caption, inches=WIDTH)
    card = (model / "README.md").read_text(encoding="utf-8")
    lines = re.findall("^- (gained|neighbours|beside|kept|no gain|next): (.*)", card, re.MULTILINE)
    yield Table(["", "verdict, also in the model's card"], lines)


def _drawn_trees(folder: Path) -> Iterator[Figure]:
    """Draw both trees of the first sentences of a handy length, one sentence a book."""
    cache = TreeCache.open(folder)
    spans = itertools.pairwise(map(int, cache.documents()))
    handy = (next(filter(_is_handy, cached_sentences(cache, *span)), None) for span in spans)
    for stored in itertools.islice(filter(None, handy), DRAWN):
        assert stored.heads and stored.relations and stored.tags and stored.spans is not None
        arcs = dependency_svg(stored.words, stored.heads, stored.relations, stored.tags)
        yield Figure(arcs, " ".join(stored.words))
        yield Figure(constituency_svg(stored.words, stored.tags, stored.spans))


def _is_handy(stored: ParsedSentence) -> bool:
    """Tell whether a sentence is whole, of plain words, and short enough to be drawn."""
    *words, last = stored.words
    plain = last == "." and all(word.isalpha() for word in words)
    return plain and not stored.flags and len(stored.words) in DRAWN_TOKENS


def _nearest(specs: Mapping[str, str], trees: Path, stored: Path) -> Table:
    """Find the nearest sentence of five sentences of held-out books, by the model before and after training.

    Vectors are those that scoring has left in ``stored``, their numbers at one scale.
    """
    task = read_task("Neighbours", trees)
    texts = [text for book in books("heldout") for text in book.sentences]
    tokens = [words for part in task.splits.values() for words in part.a]
    fitting = [n for n, text in enumerate(texts) if 45 < len(text) < 90 and text[-1] == "."]
    queries = [fitting[n * len(fitting) // ASKED] for n in range(ASKED)]
    rows: list[list[TableCell]] = [[texts[place]] for place in queries]
    for spec in specs.values():
        rows_ND = open_model(spec, cache=stored, trees=EvaluationTrees(folder=trees, tasks=[task]))(tokens)
        unit_ND = unit((rows_ND - rows_ND.mean(axis=0)) / np.maximum(rows_ND.std(axis=0), 1e-8))
        for row, place in zip(rows, queries, strict=True):
            cosine_N = unit_ND @ unit_ND[place]
            cosine_N[place] = -1
            row.append(texts[int(cosine_N.argmax())])
    note = "Among the 5,928 sentences of the held-out books, by cosine of numbers at one scale."
    return Table(["sentence", *(f"nearest {when} training" for when in specs)], rows, notes=[note])


def _told_apart(trained: MultiViewEncoder, builtin: MultiViewEncoder) -> Table:
    """Compare a sentence with its passive and with the same words exchanged, by cosine."""
    encoders = (
        (TRAINED, trained, 0.0),
        ("builtin without structure", builtin, 0.0),
        ("builtin", builtin, None),
    )
    rows: list[list[TableCell]] = []
    for name, encoder, share in encoders:
        vectors = unit(encoder.encode(PAIR, show_progress_bar=False, structure=share))
        rows.append([name, *(float(vectors[0] @ vectors[n]) for n in (1, 2))])
    columns = [f"“{PAIR[1]}” (means the same)", f"“{PAIR[2]}” (does not)"]
    return Table(["cosine with “" + PAIR[0] + "”", *(Column(text, digits=3) for text in columns)], rows)


NEXT_STEPS = (
    "One sentence per line and a blank line between documents. docs/tutorial.md goes through each step.",
    Figure(
        '<pre style="white-space:pre-wrap;overflow-wrap:anywhere">'
        "python -m parsing.run corpus.txt\n"
        "python -m multiview.train --views dep,const\n"
        "python -m senteval_runner.run runs/models/dep-const-laptop --data SENTEVAL_DATA\n"
        "python -m multiview.search runs/models/dep-const-laptop runs/trees/corpus "
        "&quot;What does it cost?&quot;</pre>"
    ),
)
"""The commands for one's own text."""
