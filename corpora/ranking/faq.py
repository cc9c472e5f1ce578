"""FAQ sets: a table of questions and answers, and labelled queries.

``faq.tsv`` has the columns ``doc_id``, ``question``, ``answer``; ``queries.tsv`` has ``query_id``, ``query``;
``qrels.tsv`` (or ``.gz``) has ``query_id``, ``doc_id``, ``relevance`` (relevant if above 0). A set that fixes
which queries train and which test has ``queries-train.tsv`` and ``queries-test.tsv`` instead of
``queries.tsv``. Further columns are ignored. A chat needs only the first file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from corpora.rows import read_judgements, read_mapping, read_table, relevant_pairs
from corpora.support.errors import UserError


@dataclass(frozen=True, slots=True)
class Entry:
    """One question with its answer."""

    doc_id: str
    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class FaqSet:
    """A table and its labelled queries."""

    name: str
    entries: list[Entry]
    queries: dict[str, str]
    """Text by query id."""
    relevant: dict[str, frozenset[str]]
    """Ids of the entries that answer a query, by query id; never empty."""
    train: frozenset[str] | None
    """Ids of the training queries; None if the set does not fix them."""


def read_entries(path: Path) -> list[Entry]:
    """The table.

    Raises:
        UserError: see :func:`corpora.rows.read_table`.
    """
    return [Entry(*row.cells) for row in read_table(path, ("doc_id", "question", "answer"), unique=True)]


def read_faq(folder: Path) -> FaqSet:
    """Read a folder with these files. Queries without a relevant entry are dropped.

    Raises:
        UserError: see :func:`corpora.rows.read_table`; or an unknown query or entry, a query in both parts,
            or a part without a query that has an answer.
    """
    entries = read_entries(folder / "faq.tsv")
    known = {entry.doc_id for entry in entries}
    queries, train = _read_queries(folder)
    path = folder / "qrels.tsv"
    path = path if path.exists() else folder / "qrels.tsv.gz"
    relevant: dict[str, set[str]] = {}
    for query, doc in relevant_pairs(read_judgements(path), queries, known, "entry"):
        relevant.setdefault(query, set()).add(doc)
    served = {query: text for query, text in queries.items() if query in relevant}
    if not served:
        raise UserError(f"{path}: no query has a relevant entry")
    if train is not None:
        train &= served.keys()
        if not train or len(train) == len(served):
            raise UserError(f"{path}: no {'test' if train else 'training'} query has a relevant entry")
    name = folder.absolute().name  # "." has a name too
    return FaqSet(name, entries, served, {query: frozenset(relevant[query]) for query in served}, train)


def _read_queries(folder: Path) -> tuple[dict[str, str], frozenset[str] | None]:
    """Text by id, and the ids of the training queries if the folder has the two parts."""
    parts = [folder / f"queries-{part}.tsv" for part in ("train", "test")]
    if not any(path.exists() for path in parts):
        return read_mapping(folder / "queries.tsv", "query_id", "query"), None
    train, test = (read_mapping(path, "query_id", "query") for path in parts)
    both = sorted(train.keys() & test.keys())
    if both:
        raise UserError(f"{parts[1]}: query {both[0]!r} is in {parts[0].name} too")
    return train | test, frozenset(train)
