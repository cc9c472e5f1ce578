"""FAQ sets: a table of questions and answers, labelled queries, and how rankings of the table are measured.

``faq.tsv`` has the columns ``doc_id``, ``question``, ``answer``; ``queries-train.tsv`` and
``queries-test.tsv`` have ``query_id``, ``query``; ``qrels.tsv`` (or ``.gz``) has ``query_id``, ``doc_id``,
``relevance`` (relevant if above 0). Further columns are ignored.

Legend: Q queries, N entries, D embedding size.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpora.inputs import number_of, read_table
from corpora.ranking.lexical import Scores
from multiview.names.opened import OpenedEncoder
from runtime.errors import UserError
from runtime.files import json_digest
from senteval_runner.protocol.features import unit


@dataclass(frozen=True, kw_only=True, eq=False)
class Data:
    """A set; the tokens of its texts are joined by one space."""

    name: str
    queries: list[str]
    questions: list[str]
    answers: list[str]
    relevant_QN: NDArray[np.bool_]
    """Which entries answer which query; each has one."""
    train: NDArray[np.int64]
    """Rows of the training queries."""
    test: NDArray[np.int64]

    @property
    def digest(self) -> str:
        """Digest everything in the set."""
        rows = [np.flatnonzero(self.relevant_QN).tolist(), self.train.tolist()]
        return json_digest([self.queries, self.questions, self.answers, *rows], 20)

    def measure(self, scores_QN: Scores) -> dict[str, float]:
        """Measure a ranking of test queries: ``accuracy`` (Success@1) and ``mrr``; ties keep the order."""
        order_QN = np.argsort(-scores_QN, axis=1, kind="stable")
        rank_Q = np.take_along_axis(self.relevant_QN[self.test], order_QN, axis=1).argmax(axis=1)
        return {"accuracy": float((rank_Q == 0).mean()), "mrr": float((1 / (rank_Q + 1)).mean())}


@cache
def embedded(data: Data, encode: OpenedEncoder) -> dict[str, NDArray[np.floating]]:
    """Encode ``query`` [Q, D], ``question`` and ``answer`` [N, D] as unit vectors, once."""
    texts = {"query": data.queries, "question": data.questions, "answer": data.answers}
    return {name: unit(encode([text.split() for text in group])) for name, group in texts.items()}


def read_faq(folder: Path) -> Data:
    """Read a folder with these files. Queries without a relevant entry are dropped.

    Raises:
        UserError: see :func:`corpora.inputs.read_table`; or an unknown query or entry, a query in both parts,
            or a part without a query that has an answer.
    """
    rows = list(read_table(folder / "faq.tsv", ("doc_id", "question", "answer"), unique=True))
    parts = {part: folder / f"queries-{part}.tsv" for part in ("train", "test")}
    train, test = (
        {row.cells[0]: row.cells[1] for row in read_table(path, ("query_id", "query"), unique=True)}
        for path in parts.values()
    )
    if both := sorted(train.keys() & test.keys()):
        raise UserError(f"{parts['test']}: query {both[0]!r} is in {parts['train'].name} too")
    texts = [*train.values(), *test.values()]
    queries = {query: place for place, query in enumerate([*train, *test])}
    entries = {row.cells[0]: place for place, row in enumerate(rows)}
    path = folder / "qrels.tsv"
    path = path if path.exists() else folder / "qrels.tsv.gz"
    relevant_QN = np.zeros((len(queries), len(entries)), dtype=bool)
    for row in read_table(path, ("query_id", "doc_id", "relevance")):
        query, entry, grade = row.cells
        for kind, name, names in (("query", query, queries), ("entry", entry, entries)):
            if name not in names:
                raise UserError(f"{row.where}: unknown {kind} {name!r}")
        if (value := number_of(grade)) is None or value % 1:
            raise UserError(f"{row.where}: relevance {grade!r} is not a whole number")
        relevant_QN[queries[query], entries[entry]] |= value > 0
    answered = np.flatnonzero(relevant_QN.any(axis=1))
    is_train = answered < len(train)
    for file, those in zip(parts.values(), (is_train, ~is_train), strict=True):
        if not those.any():
            raise UserError(f"{path}: no query of {file.name} has a relevant entry")
    return Data(
        name=folder.absolute().name,  # "." has a name too
        queries=[" ".join(texts[place].split()) for place in answered],
        questions=[" ".join(row.cells[1].split()) for row in rows],
        answers=[" ".join(row.cells[2].split()) for row in rows],
        relevant_QN=relevant_QN[answered],
        train=np.flatnonzero(is_train),
        test=np.flatnonzero(~is_train),
    )
