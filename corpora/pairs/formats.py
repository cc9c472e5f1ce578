"""Pair files as plain tuples; file name and header tell the format (:mod:`corpora.pairs.labelled`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from corpora.inputs import read_lines, stem
from corpora.pairs.labelled import LabelledPair, read_nli_jsonl, read_pairs_tsv, read_ppdb, read_quora
from corpora.support.errors import UserError

NLI_LABELS = ("entailment", "neutral", "contradiction")
ENTAILMENTS = (
    "Equivalence",
    "ForwardEntailment",
    "ReverseEntailment",
    "Independent",
    "Exclusion",
    "OtherRelated",
)
"""The relations PPDB 2.0 annotates."""


def read_nli(path: Path, skipped: Counter[str] | None = None) -> Iterator[tuple[str, str, str]]:
    """(premise, hypothesis, label): SNLI/MultiNLI ``.jsonl``, else a table of label, sentence1, sentence2.

    Raises:
        UserError: a row is malformed (file and row are named).
    """
    published = stem(path).endswith(".jsonl")
    pairs = read_nli_jsonl(path, skipped=skipped) if published else read_pairs_tsv(path)
    for pair in pairs:
        yield pair.first, pair.second, pair.label


def read_binary(path: Path, skipped: Counter[str] | None = None) -> Iterator[tuple[str, str, int]]:
    """(text, text, 1 for a paraphrase or 0): Quora as published, else a table of label, sentence1, sentence2.

    Raises:
        UserError: a row is malformed or has another label (the value is named).
    """
    pairs: Iterator[LabelledPair]
    header = next(read_lines(path), None)
    if header is not None and "is_duplicate" in header.text:
        pairs = read_quora(path, skipped=skipped)
    else:
        pairs = read_pairs_tsv(path)
    for pair in pairs:
        if pair.label not in ("0", "1"):
            raise UserError(f"{path}: expected label 0 or 1, found {pair.label!r} ({pair.first[:60]!r})")
        yield pair.first, pair.second, int(pair.label)


def read_phrases(path: Path, skipped: Counter[str] | None = None) -> Iterator[tuple[str, str, str | None]]:
    """(phrase, phrase, relation or None): PPDB as published; a ``.tsv`` has columns word1 and word2 instead.

    Raises:
        UserError: a row is malformed or has an unknown relation (the value is named).
    """
    if stem(path).endswith(".tsv"):
        for pair in read_pairs_tsv(path, first="word1", second="word2", label="word1"):
            yield pair.first, pair.second, None
        return
    for row in read_ppdb(path, skipped=skipped):
        if row.entailment and row.entailment not in ENTAILMENTS:
            raise UserError(
                f"{path}: relation {row.entailment!r} of {row.left!r} and {row.right!r} "
                f"is none of {', '.join(ENTAILMENTS)}"
            )
        yield row.left, row.right, row.entailment or None
