"""FAQ sets: a table of questions and answers, and labelled queries.

``faq.tsv`` has the columns ``doc_id``, ``question``, ``answer``; ``queries.tsv`` has ``query_id``, ``query``;
``qrels.tsv`` (or ``.gz``) has ``query_id``, ``doc_id``, ``relevance`` (relevant if above 0). Further
columns are ignored. A chat needs only the first file.
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


def read_entries(path: Path) -> list[Entry]:
    """The table.

    Raises:
        UserError: see :func:`corpora.rows.read_table`.
    """
    return [Entry(*row.cells) for row in read_table(path, ("doc_id", "question", "answer"), unique=True)]


def read_faq(folder: Path) -> FaqSet:
    """Read a folder with the three files. Queries without a relevant entry are dropped.

    Raises:
        UserError: see :func:`corpora.rows.read_table`; or an unknown query or entry.
    """
    entries = read_entries(folder / "faq.tsv")
    known = {entry.doc_id for entry in entries}
    queries = read_mapping(folder / "queries.tsv", "query_id", "query")
    path = folder / "qrels.tsv"
    path = path if path.exists() else folder / "qrels.tsv.gz"
    relevant: dict[str, set[str]] = {}
    for query, doc in relevant_pairs(read_judgements(path), queries, known, "entry"):
        relevant.setdefault(query, set()).add(doc)
    served = {query: text for query, text in queries.items() if query in relevant}
    if not served:
        raise UserError(f"{path}: no query has a relevant entry")
    name = folder.absolute().name  # "." has a name too
    return FaqSet(name, entries, served, {query: frozenset(relevant[query]) for query in served})
