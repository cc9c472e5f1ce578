"""Read FAQ sets, score every method on them (UNI Table 8, Figure 6), and train encoders (UNI section 6).

``faq.tsv`` has the columns ``doc_id``, ``question`` and ``answer``, a row per entry. ``queries-train.tsv``
and ``queries-test.tsv`` have ``query_id`` and ``query``. ``qrels.tsv`` (or ``.gz``) has ``query_id``,
``doc_id`` and ``relevance``; an entry is relevant if it is above 0. Further columns are ignored. All
trainings have the same training and test queries, so deviations are over the seeds of training alone. In a
folder with one ``queries.tsv`` all queries are test queries, and nothing is trained.

An encoder scores an entry for a query by the cosine of their vectors (docs/papers/uni.md).

Legend of dimension suffixes: Q queries, N entries, D embedding size, K entries that are paired with a query.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpora.ranking.lexical import Bm25, Scores, Tfidf
from corpora.ranking.queries import LEXICAL, ranks_of
from corpora.tables import parse_number, read_table
from corpora.text import Tokenizer
from multiview.names.opened import OpenedEncoder
from runtime.device import pick_device
from runtime.errors import UserError
from runtime.files import json_digest
from runtime.vectors import divide_by_norms
from senteval_runner.evaluation_trees import open_model
from senteval_runner.report import plots
from senteval_runner.report.page import Column, Page, Section, Table, TableCell
from senteval_runner.towers.transformer import Tower
from studies.faq.config import FaqConfig, Sampling
from studies.finetune.examples import Draw, Examples, rng
from studies.finetune.training import in_batches, tunable_tower, tune_pairs
from studies.runner import Cell, Figures, StudyRun, read_published, score_table

COLUMNS = (
    Column("Acc.", digits=1, best="high"),
    Column("Std.", digits=1),
    Column("MRR", digits=3, best="high"),
)
"""The columns of UNI's Table 8, without that of the method."""
SUFFIXES = {None: "", "retrieved": " + FAQ", "random": " + FAQ, random negatives"}
"""What follows the name of a model in tables, by the way in which wrong entries were chosen.

None is a model that was not trained.
"""
SOURCE = "published (UNI, Table 8), on the authors' own set, which is not at hand"
QUERIES_SHOWN = 150
WRONG_ENTRIES = 4
"""Number of wrong entries per query; all queries have fewer if one has."""
DROPOUT = 0.1
"""Probability in every dropout layer, as in UNI's multi-task training."""
MAX_LENGTH = 128
"""Word pieces to which texts are cut."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FaqSet:
    """A set of queries and entries; texts are tokens by spaCy's rules, joined by spaces."""

    name: str
    queries: list[str]
    questions: list[str]
    answers: list[str]
    relevant_QN: NDArray[np.bool_]
    """Which entries answer which query; each query has at least one."""
    train: NDArray[np.int64]
    """Indices of the training queries."""
    test: NDArray[np.int64]
    """Indices of the test queries."""

    @property
    def digest(self) -> str:
        """A digest of all that is in the set."""
        indices = [np.flatnonzero(self.relevant_QN).tolist(), self.train.tolist()]
        return json_digest([self.queries, self.questions, self.answers, *indices], 20)

    def measure(self, scores_QN: Scores) -> dict[str, float]:
        """Return ``accuracy`` (Success@1) and ``mrr`` of scores of the test queries.

        Entries with equal scores are ranked in the order of the file.
        """
        ranks = []
        for scores_N, is_relevant_N in zip(scores_QN, self.relevant_QN[self.test], strict=True):
            ranks.append(ranks_of(scores_N, np.flatnonzero(is_relevant_N)).min())
        rank_Q = np.array(ranks)
        return {"accuracy": float((rank_Q == 1).mean()), "mrr": float((1 / rank_Q).mean())}


@cache
def embed_set(data: FaqSet, encode: OpenedEncoder) -> dict[str, NDArray[np.floating]]:
    """Return the unit vectors of a set by name: ``query`` [Q, D], ``question`` and ``answer`` [N, D]."""
    texts = {"query": data.queries, "question": data.questions, "answer": data.answers}
    return {
        name: divide_by_norms(encode.encode([text.split() for text in group]))
        for name, group in texts.items()
    }


def read_faq(folder: Path) -> FaqSet:
    """Read the set of a folder; queries without a relevant entry are dropped.

    Raises UserError if a file is bad (:func:`corpora.tables.read_table`), a query or an entry is unknown, a
    query is in both splits, or no query of a split has an answer.
    """
    rows = list(read_table(folder / "faq.tsv", ("doc_id", "question", "answer"), unique=True))
    files = {split: folder / f"queries-{split}.tsv" for split in ("train", "test")}
    if (folder / "queries.tsv").exists():
        files = {"test": folder / "queries.tsv"}
    queries_of_split = {
        split: {row.cells[0]: row.cells[1] for row in read_table(path, ("query_id", "query"), unique=True)}
        for split, path in files.items()
    }
    train, test = queries_of_split.get("train", {}), queries_of_split["test"]
    if shared := sorted(train.keys() & test.keys()):
        raise UserError(f"{files['test']}: query {shared[0]!r} is in {files['train'].name} too")
    queries = {query: index for index, query in enumerate([*train, *test])}
    entries = {row.cells[0]: index for index, row in enumerate(rows)}
    path = folder / "qrels.tsv"
    path = path if path.exists() else folder / "qrels.tsv.gz"
    relevant_QN = read_relevance(path, queries, entries)
    rows_with_answer = np.flatnonzero(relevant_QN.any(axis=1))
    is_train = rows_with_answer < len(train)
    for split, is_in_split in (("train", is_train), ("test", ~is_train)):
        if split in files and not is_in_split.any():
            raise UserError(f"{path}: no query of {files[split].name} has a relevant entry")
    texts = [*train.values(), *test.values()]
    tokenizer = Tokenizer("spacy", running=False)

    def tokens(text: str) -> str:
        return " ".join(tokenizer.tokenize(text))

    return FaqSet(
        name=folder.absolute().name,  # "." has a name too
        queries=[tokens(texts[row]) for row in rows_with_answer],
        questions=[tokens(row.cells[1]) for row in rows],
        answers=[tokens(row.cells[2]) for row in rows],
        relevant_QN=relevant_QN[rows_with_answer],
        train=np.flatnonzero(is_train),
        test=np.flatnonzero(~is_train),
    )


def read_relevance(path: Path, queries: Mapping[str, int], entries: Mapping[str, int]) -> NDArray[np.bool_]:
    """Return which entries answer which queries, [Q, N]; ``queries`` and ``entries`` map ids to indices."""
    relevant_QN = np.zeros((len(queries), len(entries)), dtype=bool)
    for row in read_table(path, ("query_id", "doc_id", "relevance")):
        query, entry, grade = row.cells
        for kind, name, names in (("query", query, queries), ("entry", entry, entries)):
            if name not in names:
                raise UserError(f"{row.where}: unknown {kind} {name!r}")
        if (value := parse_number(grade)) is None or value % 1:
            raise UserError(f"{row.where}: relevance {grade!r} is not a whole number")
        relevant_QN[queries[query], entries[entry]] |= value > 0
    return relevant_QN


def labelled_pairs(
    queries: Sequence[str],
    entries: Sequence[str],
    relevant_QN: NDArray[np.bool_],
    guide_QN: Scores | None,
    seed: int,
) -> Draw:
    """Return a function that pairs each query with a right entry (class 1) and wrong entries (class 0).

    Args:
        queries: the training queries.
        entries: the texts of the entries.
        relevant_QN: which entries are right for which query.
        guide_QN: scores by which the wrong entries of a query are chosen, the highest first; with None they
            are random, and new in every pass.
        seed: of random choices.
    """
    per_query = 1 + min(WRONG_ENTRIES, int((~relevant_QN).sum(axis=1).min()))
    first = [query for query in queries for _ in range(per_query)]
    target = np.tile(np.arange(per_query) == 0, len(queries)).astype(np.int64)

    def draw(pass_index: int) -> Examples:
        generator = rng(seed, "faq", pass_index)
        right_Q = np.argmax(np.where(relevant_QN, generator.random(relevant_QN.shape), -1), axis=1)
        cost_QN = generator.random(relevant_QN.shape) if guide_QN is None else -guide_QN
        order_QN = np.argsort(np.where(relevant_QN, np.inf, cost_QN), axis=1, kind="stable")
        wrong_QK = order_QN[:, : per_query - 1]
        entry_QK = np.column_stack([right_Q, wrong_QK])
        return Examples(first, [entries[entry] for entry in entry_QK.ravel()], target)

    return draw


def cosines(tower: Tower, queries: Sequence[str], entries: Sequence[str]) -> Scores:
    """Return the cosines of queries and entries, float32 [Q, N]; each distinct text is encoded once."""
    texts = sorted({*queries, *entries})
    index_of_text = {text: index for index, text in enumerate(texts)}
    lengths = [len(text) for text in texts]
    vectors = divide_by_norms(in_batches(lengths, lambda rows: tower.embed([texts[row] for row in rows])))
    query_QD = vectors[[index_of_text[text] for text in queries]]
    entry_ND = vectors[[index_of_text[text] for text in entries]]
    scores_QN: Scores = query_QD @ entry_ND.T
    return scores_QN


def evaluate(config: FaqConfig, run: StudyRun) -> Page:
    """Score every method on every set, and return the report.

    Raises UserError if two sets have the same name.
    """
    sets: dict[str, FaqSet] = {}
    for data in map(read_faq, dict.fromkeys(config.sets)):
        if data.name in sets:
            raise UserError(f"two sets have one name ({data.name}); rename a folder")
        sets[data.name] = data
    models = run.open_all({spec: partial(open_model, spec) for spec in config.models})
    rows: dict[str, dict[tuple[str, Sampling | None], list[Figures]]] = {name: {} for name in sets}
    for (name, method, sampling, _), figures in run.compute(faq_cells(config, sets, models)).items():
        rows[name].setdefault((method, sampling), []).append(figures)
    paper_rows = read_published(Path(__file__).with_name("published.csv")) if config.preset else {}
    sections = []
    for name, data in sets.items():
        note = f"{len(data.questions)} entries, {len(data.queries)} queries. Std. is over the seeds."
        sections.append(Section(name, [table_8(rows[name], paper_rows)], note=note))
    for (name, data), (model, encoder) in product(sets.items(), models.items()):
        if (model, None) in rows[name]:
            count = min(QUERIES_SHOWN, len(data.queries))
            answers = np.flatnonzero(data.relevant_QN[:count].any(axis=0))
            vectors = embed_set(data, encoder)
            vectors_ND = np.concatenate([vectors["query"][:count], vectors["answer"][answers]])
            classes = [0] * count + [1] * len(answers)
            plane = plots.scatter(vectors_ND, classes, ["query", "answer"], by="tsne")
            sections.append(Section(f"{name}: queries and answers by {model}", [plane]))
    return Page("FAQ retrieval", sections, f"Seeds of what is trained: {config.runs}.")


def faq_cells(
    config: FaqConfig, sets: Mapping[str, FaqSet], models: Mapping[str, OpenedEncoder]
) -> dict[tuple[str, str, Sampling | None, int], Cell]:
    """Return the cells by set, method, choice of wrong entries (None: nothing is trained) and seed."""

    def measure_tuned(
        data: FaqSet, model: OpenedEncoder, guide: OpenedEncoder | None, seed: int, folder: Path
    ) -> Figures:
        """Return the scores of a copy of a transformer that is trained on pairs.

        ``guide`` scores the entries from which wrong ones are chosen. A state in ``folder`` is resumed.
        """
        guide_QN = None if guide is None else similarities(data, guide)[data.train]
        train = [data.queries[index] for index in data.train]
        test = [data.queries[index] for index in data.test]
        draw = labelled_pairs(train, data.questions, data.relevant_QN[data.train], guide_QN, seed)
        device = pick_device(config.device)
        tower = tunable_tower(model, max_length=MAX_LENGTH, dropout=DROPOUT, device=device)
        training: dict[str, Any] = {"epochs": config.epochs, "learning_rate": config.learning_rate}
        tune_pairs(tower, draw, "faq", folder=folder, seed=seed, **training)
        return data.measure(cosines(tower, test, data.questions))

    retriever = None
    options: list[Any] = [config.epochs, config.learning_rate]
    if config.retriever and "retrieved" in config.sampling:
        retriever = models.get(config.retriever) or open_model(config.retriever)
        options += [retriever.identity()]
    cells: dict[tuple[str, str, Sampling | None, int], Cell] = {}
    for name, data in sets.items():
        for method in [*LEXICAL, *models]:
            identity = models[method].identity() if method in models else [method]
            compute = partial(measure_frozen, data, LEXICAL.get(method) or models[method])
            cell = Cell(name=f"{name}: {method}", identity=[data.digest, *identity], compute=compute)
            cells[name, method, None, 0] = cell
        trainings = product(config.sampling, models.items(), range(config.runs if len(data.train) else 0))
        for sampling, (model, encoder), seed in trainings:
            guide = (retriever or encoder) if sampling == "retrieved" else None
            cells[name, model, sampling, seed] = Cell(
                name=f"{name}: {model}, {sampling} negatives, seed {seed}",
                identity=[data.digest, *encoder.identity(), sampling, seed, *options],
                compute=partial(measure_tuned, data, encoder, guide, seed),
            )
    return cells


def similarities(data: FaqSet, encoder: OpenedEncoder) -> Scores:
    """Return the cosines of all queries and entries, [Q, N]."""
    vectors = embed_set(data, encoder)
    scores_QN: Scores = vectors["query"] @ vectors["question"].T
    return scores_QN


def measure_frozen(data: FaqSet, method: type[Bm25] | type[Tfidf] | OpenedEncoder, folder: Path) -> Figures:
    """Return the scores of an encoder that is not trained, or of a lexical method."""
    if isinstance(method, OpenedEncoder):
        return data.measure(similarities(data, method)[data.test])
    index = method(data.questions)
    return data.measure(np.array([index.scores(data.queries[row]) for row in data.test]))


def table_8(
    rows: Mapping[tuple[str, Sampling | None], Sequence[Figures]],
    paper_rows: Mapping[str, Mapping[str, float]],
) -> Table:
    """Return the table of methods, those that are not trained first, with the paper's rows below.

    ``rows`` are the figures of each seed by method and choice of wrong entries. Std. is the standard
    deviation of the population (ddof 0).
    """
    cells: dict[str, dict[str, TableCell]] = {}
    for (method, sampling), seeds in sorted(rows.items(), key=lambda row: row[0][1] is not None):
        accuracies = np.array([figures["accuracy"] for figures in seeds])
        cells[method + SUFFIXES[sampling]] = {
            "Acc.": 100 * float(accuracies.mean()),
            "Std.": None if sampling is None else 100 * float(accuracies.std()),
            "MRR": float(np.mean([figures["mrr"] for figures in seeds])),
        }
    return score_table(["Method"], COLUMNS, cells, paper_rows, quoted_source=SOURCE)
