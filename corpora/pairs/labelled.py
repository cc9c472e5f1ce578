"""Labelled sentence pairs and labelled sentences, as their authors distribute them.

==========================  =======================================================================
``read_nli_jsonl``          SNLI, MultiNLI: ``gold_label``, ``sentence1``, ``sentence2`` per JSON line
``read_pairs_tsv``          ``label``, ``sentence1``, ``sentence2`` columns named by a header
``read_quora``              Quora duplicate questions: ``question1``, ``question2``, ``is_duplicate``
``read_sts_benchmark``      STS-B as published: score and sentences in columns 5 to 7, no header
``read_sst5``               SST-5: ``label text``
``read_ppdb``               PPDB 1.0 and 2.0: fields between ``|||``
==========================  =======================================================================

A malformed row is an error that names file and row, except where the data themselves are known to hold
unusable rows: these are skipped and counted (NLI pairs without a majority label ``-``; Quora rows whose
question is empty or whose columns do not fit; PPDB lines with too few fields).
"""

from __future__ import annotations

import contextlib
import csv
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpora.inputs import Line, read_lines
from corpora.support.errors import UserError


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """Two texts and what is said about them."""

    first: str
    second: str
    label: str
    """As in the file, e.g. ``entailment`` or ``1``."""

    def score(self) -> float:
        """The label as a number (similarity scores)."""
        return float(self.label)


@dataclass(frozen=True, slots=True)
class LabelledText:
    """One text and its class."""

    text: str
    label: str


@dataclass(frozen=True, slots=True)
class Paraphrase:
    """One line of PPDB."""

    syntax: str
    """Left-hand side of the rule, e.g. ``[NN]``."""
    left: str
    right: str
    raw_features: str
    """``name=value`` pairs, unparsed: most uses need none of the thirty."""
    alignment: str
    """Word alignment, e.g. ``0-0 1-1``."""
    entailment: str
    """``Equivalence``, ``ForwardEntailment`` ... ; empty in PPDB 1.0."""

    def features(self) -> dict[str, float]:
        """The features by name; those whose value is no number are left out."""
        parsed = {}
        for pair in self.raw_features.split():
            name, equals, value = pair.rpartition("=")
            if equals:
                with contextlib.suppress(ValueError):
                    parsed[name] = float(value)
        return parsed


def _row_error(path: Path, line: Line, expected: str) -> UserError:
    return UserError(f"{path}:{line.number}: expected {expected}, found {line.text[:80]!r}")


def _count(skipped: Counter[str] | None, what: str) -> None:
    if skipped is not None:
        skipped[what] += 1


def read_nli_jsonl(path: Path, *, skipped: Counter[str] | None = None) -> Iterator[LabelledPair]:
    """SNLI or MultiNLI; pairs without a majority label (``-``) are skipped and counted.

    Args:
        path: e.g. ``snli_1.0_train.jsonl``, possibly compressed.
        skipped: counts what was left out.

    Raises:
        UserError: a line that is no JSON object with these three keys.
    """
    for line in read_lines(path):
        if not line.text.strip():
            continue
        row = _json_row(path, line)
        if row["gold_label"] == "-":
            _count(skipped, "pairs without a majority label")
            continue
        yield LabelledPair(row["sentence1"], row["sentence2"], row["gold_label"])


def _json_row(path: Path, line: Line) -> dict[str, Any]:
    try:
        row = json.loads(line.text)
    except json.JSONDecodeError:
        row = None
    keys = ("gold_label", "sentence1", "sentence2")
    if not isinstance(row, dict) or not all(isinstance(row.get(key), str) for key in keys):
        raise _row_error(path, line, "a JSON object with gold_label, sentence1 and sentence2")
    return row


def read_pairs_tsv(
    path: Path, *, first: str = "sentence1", second: str = "sentence2", label: str = "label"
) -> Iterator[LabelledPair]:
    """Tab-separated columns named by a header line; other columns are ignored, quotes are text.

    Args:
        path: the file, possibly compressed.
        first: header of the first sentence.
        second: header of the second sentence.
        label: header of the label.

    Raises:
        UserError: a column is not in the header, or a row has another number of columns.
    """
    lines = (line for line in read_lines(path) if line.text.strip())
    header = next(lines, None)
    if header is None:
        raise UserError(f"{path}: empty; expected a header line")
    names = header.text.split("\t")
    for name in (first, second, label):
        if name not in names:
            raise UserError(f"{path}:1: no column {name!r} (columns: {', '.join(names)})")
    positions = [names.index(name) for name in (first, second, label)]
    for line in lines:
        columns = line.text.split("\t")
        if len(columns) != len(names):
            raise _row_error(path, line, f"{len(names)} tab-separated columns")
        yield LabelledPair(*(columns[position] for position in positions))


def read_quora(path: Path, *, skipped: Counter[str] | None = None) -> Iterator[LabelledPair]:
    """Quora duplicate questions: label ``1`` for duplicates; quoted fields may hold line breaks.

    Rows that hold an empty question or other than six columns are skipped and counted: the published
    file has both.

    Raises:
        UserError: the columns are not named as in the published file, or a row cannot be read: a quote
            that is never closed, a bare carriage return.
    """
    rows = _quoted_rows(path)
    names = next(rows, [])
    wanted = ("question1", "question2", "is_duplicate")
    if not set(wanted) <= set(names):
        raise UserError(f"{path}:1: expected the columns {', '.join(wanted)}, found {names}")
    positions = [names.index(name) for name in wanted]
    for row in rows:
        if len(row) != len(names) or row[positions[2]] not in ("0", "1"):
            _count(skipped, "rows with other columns")
            continue
        pair = LabelledPair(*(row[position].strip() for position in positions))
        if pair.first and pair.second:
            yield pair
        else:
            _count(skipped, "rows with an empty question")


def _quoted_rows(path: Path) -> Iterator[list[str]]:
    rows = csv.reader((line.text + "\n" for line in read_lines(path)), delimiter="\t")
    try:
        yield from rows
    except csv.Error as error:
        raise UserError(
            f"{path}:{rows.line_num}: cannot be read as tab-separated columns ({error})"
        ) from None


def read_sts_benchmark(path: Path) -> Iterator[LabelledPair]:
    """STS-B as published (``sts-train.csv``, ``.tsv``): tabs, no header, no quoting, score in column 5.

    Columns beyond the seventh (sources, in the published train and dev files) are ignored.

    Raises:
        UserError: fewer than seven columns, or a score that is no number from 0 to 5.
    """
    for line in read_lines(path):
        columns = line.text.split("\t")
        if len(columns) < 7:
            raise _row_error(path, line, "7 tab-separated columns")
        try:
            valid = 0 <= float(columns[4]) <= 5
        except ValueError:
            valid = False
        if not valid:
            raise _row_error(path, line, "a score from 0 to 5 in column 5")
        yield LabelledPair(columns[5].strip(), columns[6].strip(), columns[4])


def read_sst5(path: Path) -> Iterator[LabelledText]:
    """SST-5: a label from 0 to 4, a space, the text.

    Raises:
        UserError: a row without label or text.
    """
    for line in read_lines(path):
        label, _, text = line.text.strip().partition(" ")
        if label not in {"0", "1", "2", "3", "4"} or not text:
            raise _row_error(path, line, "a label from 0 to 4, a space, text")
        yield LabelledText(text, label)


def read_ppdb(path: Path, *, skipped: Counter[str] | None = None) -> Iterator[Paraphrase]:
    """PPDB: ``LHS ||| a ||| b ||| features ||| alignment [||| entailment]``; 2.0 has the last field.

    Lines with fewer than five fields or an empty side are skipped and counted.

    Raises:
        UserError: no line of the file has the fields.
    """
    found = False
    for line in read_lines(path):
        fields = [field.strip() for field in line.text.split("|||")]
        if len(fields) < 5 or not fields[1] or not fields[2]:
            _count(skipped, "lines without the fields of PPDB")
            continue
        found = True
        syntax, left, right, features, alignment, *rest = fields
        yield Paraphrase(syntax, left, right, features, alignment, rest[0] if rest else "")
    if not found:
        raise UserError(
            f"{path}: no line of PPDB (LHS ||| a ||| b ||| features ||| alignment ||| entailment)"
        )
