"""Make the page of the demo: scores, curves of training, trees, nearest sentences, cosines of structure."""

import itertools
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpora.books import books
from corpora.senteval.files import read_task
from corpora.senteval.structure import FILLINGS
from corpora.senteval.tasks import TASKS
from multiview.judge import Judge
from multiview.model import MultiViewEncoder
from multiview.model_config import BUILTIN
from parsing.trees.cache import TreeCache
from parsing.trees.drawings import constituency_svg, dependency_svg
from parsing.trees.sentences import ParsedSentence, cached_sentences
from runtime.files import read_json
from runtime.training_loop import read_log
from runtime.vectors import divide_by_norms
from senteval_runner.demo import MODEL, NEW_MODEL, SCORES, TREES, VECTORS
from senteval_runner.evaluation_trees import EvaluationTrees, open_model
from senteval_runner.protocol.config import TaskResult
from senteval_runner.report import plots
from senteval_runner.report.page import Column, Figure, Page, Score, Section, Table, TableCell
from senteval_runner.result_store import stored_results

TEXTS: dict[str, str] = tomllib.loads(Path(__file__).with_name("texts.toml").read_text(encoding="utf-8"))
DRAWING_COUNT, DRAWING_TOKENS = 2, range(7, 11)
"""How many sentences are drawn, and how many tokens they have, so that they fit on a telephone's screen."""
PLOT_WIDTH = 5.5
"""Inches of a plot, so that two are side by side on a page, and one can be read on a telephone."""
QUERY_COUNT = 5
"""Number of sentences whose nearest sentences are shown."""
EXAMPLES = (
    "The lawyer praised the doctor.",
    "The doctor was praised by the lawyer.",
    "The doctor praised the lawyer.",
)
"""A sentence, its passive, and a sentence of the same words with another meaning."""
PAIRS = (
    (EXAMPLES[0], EXAMPLES[1]),
    (EXAMPLES[0], EXAMPLES[2]),
    ("How do I enable 2FA?", "How do I disable 2FA?"),
    ("The film is good.", "The film is not bad."),
)
"""The pairs of sentences on which the page shows the judge."""
TRAINED, NEW = "trained", "new views from nothing"
WORDS, RANDOM = "average of words", "random words"
ROWS = (TRAINED, BUILTIN, NEW, WORDS, RANDOM)
"""Rows of the tables, from the top."""
CURVES = {
    "recall@1": "by cosine of the meaning",
    "recall@1/words": "by cosine, mean of the words",
}
"""Titles of the curves, by the name of their values in the log of training."""


def demo_page(output: Path, times: Sequence[tuple[str, str, str]]) -> Page:
    """Return the page, made from the files that the commands have written below ``output``.

    ``times`` are the title, the seconds and the command of each step.
    """
    trees, model, new_model = output / TREES, output / MODEL, output / NEW_MODEL
    scores = output / SCORES
    report = read_json(scores / "results.json")
    names = {str(model): TRAINED, str(new_model): NEW, BUILTIN: BUILTIN}
    names |= {f"bag:{new_model}": WORDS, "bag:random": RANDOM}
    models = {names[record["spec"]]: record for record in report["models"].values()}
    tasks = list(dict.fromkeys(result["task"] for result in report["results"]))  # in the command's order
    results = {}
    for row in ROWS:
        if row in models:
            stored = stored_results(scores, f"{models[row]['key']}-")
            results[row] = {task: stored[task] for task in tasks if task in stored}
    specs = {"before": BUILTIN, "after": str(model)}
    builtin = MultiViewEncoder.load(BUILTIN)
    pairs: list[Table | str] = [
        TEXTS["pairs"],
        _cosines_of_examples(MultiViewEncoder.load(model), builtin),
        _judged(builtin),
    ]
    sections = [
        Section("Who did what to whom: builtin and the judge, without training", pairs),
        Section("Two of the parsed sentences", list(_drawn_trees(trees))),
        Section("An experiment: what training on little text gains", list(_scores(tasks, results))),
        Section("How training went", list(_training(model))),
        Section(
            "Nearest sentences before and after training", [_nearest(specs, trees.parent, output / VECTORS)]
        ),
        Section("Where the time went", [Table(["step", "seconds", "command"], times)]),
        Section("Go on with your own text", [TEXTS["your_text"], Figure(TEXTS["commands"])]),
    ]
    return Page("From text to sentence vectors", sections, TEXTS["introduction"])


def _hits(result: TaskResult) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return for each item 100 if it was answered right, else 0, [N], and the number of its group, [N].

    Items of different groups are independent. The groups of Neighbours are books, those of Binding frames;
    in Authors each sentence is a group.
    """
    is_right = [np.equal(gold, result.predictions[split]) for split, gold in result.gold.items()]
    hits_N = 100.0 * np.concatenate(is_right)
    scorer = TASKS[result.task].scorer
    if scorer == "neighbours":
        return hits_N, np.repeat(np.arange(len(is_right)), list(map(len, is_right)))
    return hits_N, np.arange(len(hits_N)) // (FILLINGS if scorer == "binding" else 1)


def _scores(
    tasks: Sequence[str], results: Mapping[str, Mapping[str, TaskResult]]
) -> Iterator[Table | Figure | str]:
    """Yield bars and tables of the scores of every model, and of the differences to the trained model.

    ``results`` are by name of the model (:data:`ROWS`) and task.
    """
    hits = {}
    scores = {}
    for name, results_of_model in results.items():
        for task, result in results_of_model.items():
            hits_N, group_N = _hits(result)
            hits[name, task] = hits_N, group_N
            scores[name, task] = Score.over_groups(hits_N, group_N)
    yield TEXTS["tasks"]
    yield TEXTS["before_training"]
    for task in tasks:  # each plot has a scale of its own, so that its bars can be told apart
        caption = f"{task}, per cent right, with 95 % intervals"
        yield plots.bars(list(results), [task], scores, caption=caption, inches=PLOT_WIDTH)
    rows: list[list[TableCell]] = [[name, *(scores.get((name, task)) for task in tasks)] for name in results]
    columns = [Column(task, digits=1, best="high") for task in tasks]
    yield Table(["model", *columns], rows, "Per cent right [95 % interval]")
    leads: dict[str, dict[str, Score]] = {name: {} for name in results if name != TRAINED}
    for name, task in itertools.product(leads, tasks):
        if (TRAINED, task) in hits and (name, task) in hits:
            hits_N, group_N = hits[TRAINED, task]
            leads[name][task] = Score.over_groups(hits_N - hits[name, task][0], group_N)
    rows = [[name, *map(scores_by_task.get, tasks)] for name, scores_by_task in leads.items()]
    columns = [Column(task, digits=1) for task in tasks]
    yield Table(["over", *columns], rows, "How far the trained model is ahead, item by item")
    yield _conclusion(leads[BUILTIN])


def _conclusion(leads: Mapping[str, Score]) -> str:
    """Return the sentence that names the tasks in which training gained more than the interval.

    ``leads`` are the differences of the trained model to builtin by task. If there is no such task, the text
    says what to do in place of training.
    """
    tasks = [task for task, score in leads.items() if score.interval and score.interval[0] > 0]
    if tasks:
        return f"Training is ahead of builtin, its start, beyond the intervals, in {', '.join(tasks)}."
    return TEXTS["no_gain"]


def _training(model: Path) -> Iterator[Figure | Table]:
    """Yield curves of loss and recall over the steps of training, and the verdict of the model's card."""
    rows = [row for row in read_log(model / "log.jsonl") if row["kind"] == "evaluation"]
    loss = {"validation loss": [(row["step"], row["loss"]) for row in rows]}
    caption = "Validation loss; step 0 is builtin"
    yield plots.curves(loss, y_label="loss per sentence", caption=caption, inches=PLOT_WIDTH)
    recalls = {}
    for name, title in CURVES.items():
        recalls[title] = [(row["step"], 100 * row[name]) for row in rows if name in row]
    caption = "Neighbours found on the validation set, per cent; step 0 is builtin"
    yield plots.curves(recalls, y_label="per cent", caption=caption, inches=PLOT_WIDTH)
    card = (model / "README.md").read_text(encoding="utf-8")
    lines = re.findall("^- (gained|neighbours|beside|kept|no gain|next): (.*)", card, re.MULTILINE)
    yield Table(["", "verdict, also in the model's card"], lines)


def _drawn_trees(folder: Path) -> Iterator[Figure]:
    """Yield both trees of a few sentences: of the first one in each book that can be drawn."""
    cache = TreeCache.open(folder)
    drawing_count = 0
    for first, stop in itertools.pairwise(map(int, cache.documents())):
        sentence = next(filter(_can_be_drawn, cached_sentences(cache, first, stop)), None)
        if sentence is None:
            continue
        assert sentence.heads and sentence.relations and sentence.tags and sentence.spans is not None
        arcs = dependency_svg(sentence.words, sentence.heads, sentence.relations, sentence.tags)
        yield Figure(arcs, " ".join(sentence.words))
        yield Figure(constituency_svg(sentence.words, sentence.tags, sentence.spans))
        drawing_count += 1
        if drawing_count == DRAWING_COUNT:
            return


def _can_be_drawn(sentence: ParsedSentence) -> bool:
    """Tell whether a sentence is short, was parsed, and consists of plain words and a full stop."""
    *words, last_word = sentence.words
    has_plain_words = last_word == "." and all(word.isalpha() for word in words)
    return has_plain_words and not sentence.flags and len(sentence.words) in DRAWING_TOKENS


def _nearest(specs: Mapping[str, str], trees: Path, cache: Path) -> Table:
    """Return the table of the nearest sentences of five held-out sentences, before and after training.

    ``specs`` are the names of the models, by ``before`` and ``after``. Scoring has stored their embeddings in
    ``cache``. Each dimension is centred and scaled to unit variance, as in the task Neighbours.
    """
    task = read_task("Neighbours", trees)
    texts = [text for book in books("heldout") for text in book.sentences]
    tokens = [words for split in task.splits.values() for words in split.a]
    candidates = [n for n, text in enumerate(texts) if 45 < len(text) < 90 and text[-1] == "."]
    queries = [candidates[n * len(candidates) // QUERY_COUNT] for n in range(QUERY_COUNT)]
    rows: list[list[TableCell]] = [[texts[query]] for query in queries]
    for spec in specs.values():
        encoder = open_model(spec, cache=cache, trees=EvaluationTrees(folder=trees, tasks=[task]))
        vectors_ND = encoder.encode(tokens)
        deviation_D = np.maximum(vectors_ND.std(axis=0), 1e-8)
        unit_ND = divide_by_norms((vectors_ND - vectors_ND.mean(axis=0)) / deviation_D)
        for row, query in zip(rows, queries, strict=True):
            cosine_N = unit_ND @ unit_ND[query]
            cosine_N[query] = -1
            row.append(texts[int(cosine_N.argmax())])
    note = "Among the 5,928 sentences of the held-out books, by cosine of numbers at one scale."
    return Table(["sentence", *(f"nearest {when} training" for when in specs)], rows, notes=[note])


def _judged(builtin: MultiViewEncoder) -> Table:
    """Return the table of the judge's probabilities for :data:`PAIRS`, with its reasons."""
    judgements = Judge.load(source=builtin).pairs(PAIRS)
    rows: list[list[TableCell]] = [
        [*pair, judgement.probability, "; ".join(map(str, judgement.reasons))]
        for pair, judgement in zip(PAIRS, judgements, strict=True)
    ]
    columns: list[Column | str] = ["sentence", "another", Column("both say the same", digits=2), "why"]
    return Table(columns, rows, "The judge of pairs")


def _cosines_of_examples(trained: MultiViewEncoder, builtin: MultiViewEncoder) -> Table:
    """Return the table of cosines of a sentence with its passive, and with its words exchanged."""
    encoders = {
        TRAINED: trained.with_options(structure=0),
        "builtin without structure": builtin.with_options(structure=0),
        "builtin": builtin,
    }
    rows: list[list[TableCell]] = []
    for name, encoder in encoders.items():
        sentence, passive, exchanged = divide_by_norms(encoder.encode(EXAMPLES, show_progress_bar=False))
        rows.append([name, float(sentence @ passive), float(sentence @ exchanged)])
    columns = (
        f"cosine with “{EXAMPLES[0]}”",
        Column(f"“{EXAMPLES[1]}” (means the same)", digits=3),
        Column(f"“{EXAMPLES[2]}” (does not)", digits=3),
    )
    return Table(columns, rows)
