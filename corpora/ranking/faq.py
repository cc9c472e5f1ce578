"""FAQ sets: a table of questions and answers, and labelled queries.

``faq.tsv`` has the columns ``doc_id``, ``question``, ``answer``; ``queries.tsv`` has ``query_id``, ``query``;
``qrels.tsv`` (or ``.gz``) has ``query_id``, ``doc_id``, ``relevance`` (relevant if above 0). A set that fixes
which queries train and which test has ``queries-train.tsv`` and ``queries-test.tsv`` instead of
``queries.tsv``. Further columns are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from corpora.rows import read_mapping, read_table
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


def read_faq(folder: Path) -> FaqSet:
    """Read a folder with these files. Queries without a relevant entry are dropped.

    Raises:
        UserError: see :func:`corpora.rows.read_table`; or an unknown query or entry, a query in both parts,
            or a part without a query that has an answer.
    """
    columns = ("doc_id", "question", "answer")
    entries = [Entry(*row.cells) for row in read_table(folder / "faq.tsv", columns, unique=True)]
    known = {entry.doc_id for entry in entries}
    parts = [folder / f"queries-{part}.tsv" for part in ("train", "test")]
    is_split = any(path.exists() for path in parts)
    files = parts if is_split else [folder / "queries.tsv"]
    tables = [read_mapping(path, "query_id", "query") for path in files]
    queries = {query: text for table in tables for query, text in table.items()}
    if len(queries) < sum(map(len, tables)):
        both = sorted(tables[0].keys() & tables[1].keys())
        raise UserError(f"{parts[1]}: query {both[0]!r} is in {parts[0].name} too")
    path = folder / "qrels.tsv"
    path = path if path.exists() else folder / "qrels.tsv.gz"
    relevant: dict[str, set[str]] = {}
    for row in read_table(path, ("query_id", "doc_id", "relevance")):
        query, entry, grade = row.cells
        if query not in queries or entry not in known:
            unknown = f"query {query!r}" if query not in queries else f"entry {entry!r}"
            raise UserError(f"{row.where}: unknown {unknown}")
        if not grade.removeprefix("-").isdecimal():
            raise UserError(f"{row.where}: relevance {grade!r} is not a whole number")
        if int(grade) > 0:
            relevant.setdefault(query, set()).add(entry)
    for file, table in zip(files, tables, strict=True):
        if not table.keys() & relevant.keys():
            raise UserError(f"{path}: no query of {file.name} has a relevant entry")
    served = {query: text for query, text in queries.items() if query in relevant}
    train = frozenset(tables[0].keys() & served.keys()) if is_split else None
    found = {query: frozenset(relevant[query]) for query in served}
    return FaqSet(folder.absolute().name, entries, served, found, train)  # "." has a name too
