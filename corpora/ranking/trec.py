"""TREC-style collections (Cranfield): documents, queries, judgements.

| file | columns |
|---|---|
| ``docs.tsv[.gz]`` | doc_id, title, text (either may be empty) |
| ``queries.tsv[.gz]`` | query_id, query |
| ``qrels.tsv[.gz]`` | query_id, doc_id, relevance: relevant above 0 |
| or ``qrels.txt`` | four columns without header, separated by blanks: query, iteration, document, relevance |

A passage is the title and the text, or only the text if it begins with the title. The queries are split
60 / 20 / 20 at random; candidates are the whole collection, or the top N by BM25 (:func:`cut`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from corpora.ranking.lexical import Bm25
from corpora.ranking.questions import Passages, PassageSet, Question, split
from corpora.rows import read_judgements, read_mapping, read_table, relevant_pairs
from corpora.support.errors import UserError
from corpora.tokenize import SpacyTokenizer

TRAIN_FRACTION = 0.6
DEV_FRACTION = 0.5
"""Fraction of the queries that are not training queries."""


def split_questions(questions: Sequence[Question], seed: int) -> tuple[dict[str, list[Question]], str]:
    """A random split into train, dev and test (60 / 20 / 20), each in file order, and a note about it."""
    if len(questions) < 5:
        raise UserError(f"{len(questions)} questions are too few to split into train, dev and test")
    train, rest = split(len(questions), TRAIN_FRACTION, seed)
    dev, test = (rest[part] for part in split(len(rest), DEV_FRACTION, seed))
    parts = {"train": train, "dev": dev, "test": test}
    note = f"questions split 60 / 20 / 20 at random with seed {seed}"
    return {name: [questions[i] for i in rows] for name, rows in parts.items()}, note


def _existing(folder: Path, names: Sequence[str]) -> Path:
    for name in names:
        if (folder / name).exists():
            return folder / name
    raise UserError(f"{folder}: no {' or '.join(names)}")


def read_trec(folder: Path, name: str, seed: int) -> PassageSet:
    """Read a collection.

    Raises:
        UserError: a file is missing or malformed; a judgement of an unknown query or document.
    """
    docs = _existing(folder, ("docs.tsv", "docs.tsv.gz"))
    asked = _existing(folder, ("queries.tsv", "queries.tsv.gz"))
    judged = _existing(folder, ("qrels.tsv", "qrels.tsv.gz", "qrels.txt"))
    passages = Passages(SpacyTokenizer())
    place: dict[str, int] = {}
    rows: list[int] = []
    columns = ("doc_id", "title", "text")
    for row in read_table(docs, columns, may_be_empty=("title", "text"), unique=True):
        doc, title, text = row.cells
        place[doc] = len(rows)
        rows.append(passages.row(text if text.startswith(title) else f"{title} {text}"))
    queries = read_mapping(asked, "query_id", "query")
    relevant = {query: np.zeros(len(rows), dtype=bool) for query in queries}
    for query, doc in relevant_pairs(read_judgements(judged), queries, place):
        relevant[query][place[doc]] = True
    everything = np.array(rows, dtype=np.int64)
    questions = [
        Question(query, passages.text(text), everything, relevant[query]) for query, text in queries.items()
    ]
    splits, note = split_questions(questions, seed)
    notes = [note, f"candidates: the whole collection of {len(rows):,}", "tokenised by spaCy's rules"]
    return PassageSet(name, passages.texts, splits, [docs, asked, judged], notes, is_collection=True)


def cut(data: PassageSet, depth: int) -> PassageSet:
    """Reduce a collection's candidates to the top ``depth`` by BM25, best first (ties by position).

    Relevant passages that BM25 does not find count as missed in dev and test. In training they are added,
    because they are the positives.
    """
    index = Bm25(data.passages)
    splits: dict[str, list[Question]] = {}
    for name, questions in data.splits.items():
        splits[name] = []
        for q in questions:
            scores = index.scores(q.text)[q.candidates]
            chosen = np.argsort(-scores, kind="stable")[:depth]
            lost = np.setdiff1d(np.flatnonzero(q.relevant), chosen)
            kept = np.concatenate([chosen, lost]) if name == "train" else chosen
            missed = 0 if name == "train" else len(lost)
            splits[name].append(
                replace(q, candidates=q.candidates[kept], relevant=q.relevant[kept], missed=missed)
            )
    notes = [note for note in data.notes if not note.startswith("candidates:")]
    notes.append(f"candidates: the first {depth} by BM25; relevant passages it lacks count as missed")
    return replace(data, name=f"{data.name}@{depth}", splits=splits, notes=notes, is_collection=False)
