"""Read labelled and scored pairs of sentences, phrases and words, as their authors distribute them.

===================  ==================================================================================
``read_nli``         SNLI, MultiNLI ``.jsonl``, or a table with columns ``label sentence1 sentence2``
``read_binary``      Quora duplicate questions as published, or such a table with labels 0 and 1
``read_phrases``     PPDB 1.0 and 2.0 as published, or a ``.tsv`` with columns ``word1 word2``
``read_ppdb``        the lines of PPDB with their features
===================  ==================================================================================

A malformed row raises a UserError with file and line. Rows of published files that are known to be unusable
are skipped: NLI pairs without a majority label (``-``), Quora rows with an empty question or the wrong number
of columns, and PPDB lines with too few fields.

Sets of words with human similarity scores are found by their published file names anywhere below a folder:

- SimLex-999: ``SimLex-999.txt`` (header; word1 word2 POS score) or ``EN-SIMLEX-999.txt``
- WS-353 sim and rel: ``wordsim_{similarity,relatedness}_goldstandard.txt`` or ``EN-WS-353-{SIM,REL}.txt``
- MEN: ``MEN_dataset_natural_form_full`` or ``EN-MEN-TR-3k.txt``
- RW: ``rw.txt`` or ``EN-RW-STANFORD.txt``
- SimVerb: ``SimVerb-3500.txt`` (word1 word2 POS score) or ``EN-SimVerb-3500.txt``
- SCWS: its ``ratings.txt`` (id word1 POS word2 POS context context score ...)

Unless stated otherwise the columns are word1 word2 score, separated by tabs or spaces.

SemEval-2013 task 5(a), whether a two-word phrase is the meaning of a word (Korkontzelos et al. 2013), is four
files of positive and negative pairs, a word, a tab and a phrase per line:
``en.{train,test}Set.{positive,negative}Instances-v2``. They may be anywhere below the folder, whatever
follows ``Instances``. That reader was tested on hand-made files only.
"""

import contextlib
import csv
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from corpora.inputs import read_lines, stem
from corpora.tables import bad_row, parse_number, read_rows, read_table
from runtime.errors import UserError
from runtime.files import parse_json

NLI_LABELS = ("entailment", "neutral", "contradiction")
_ENTAILING = ("Equivalence", "ForwardEntailment", "ReverseEntailment")
RELATIONS = (*_ENTAILING, "Independent", "Exclusion", "OtherRelated")
"""The relations that PPDB 2.0 annotates."""
_NLI_KEYS = ("gold_label", "sentence1", "sentence2")
_QUORA_COLUMNS = ("question1", "question2", "is_duplicate")
_SENTENCE_COLUMNS = ("sentence1", "sentence2")
_PLAIN_ROW, _ROW_WITH_TAG, _SCWS_ROW = (0, 1, 2), (0, 1, 3), (1, 3, 7)
"""The columns of the two words and of the score."""
_FILES: Final[dict[str, dict[str, tuple[int, int, int]]]] = {
    "SimLex-999": {"SimLex-999.txt": _ROW_WITH_TAG, "EN-SIMLEX-999.txt": _PLAIN_ROW},
    "WS-353-sim": {"wordsim_similarity_goldstandard.txt": _PLAIN_ROW, "EN-WS-353-SIM.txt": _PLAIN_ROW},
    "WS-353-rel": {"wordsim_relatedness_goldstandard.txt": _PLAIN_ROW, "EN-WS-353-REL.txt": _PLAIN_ROW},
    "MEN": {"MEN_dataset_natural_form_full": _PLAIN_ROW, "EN-MEN-TR-3k.txt": _PLAIN_ROW},
    "SCWS": {"ratings.txt": _SCWS_ROW},
    "RW": {"rw.txt": _PLAIN_ROW, "EN-RW-STANFORD.txt": _PLAIN_ROW},
    "SimVerb-3500": {"SimVerb-3500.txt": _ROW_WITH_TAG, "EN-SimVerb-3500.txt": _PLAIN_ROW},
}
SETS: Final = tuple(_FILES)
"""The names of the sets, in the order of BURT's table of words."""
SEMEVAL = "SemEval-2013 task 5 (cs.york.ac.uk/semeval-2013/task5), subtask a, English"


@dataclass(frozen=True, slots=True)
class Paraphrase:
    """One line of PPDB."""

    left: str
    right: str
    raw_features: str
    """``name=value`` pairs as a string, because most readers need none of the thirty."""
    entailment: str
    """One of :data:`RELATIONS`; empty in PPDB 1.0."""

    def feature(self, name: str) -> float | None:
        """Return the numeric value of a feature, or None if it is missing."""
        for pair in self.raw_features.split():
            if pair.startswith(name + "="):
                return parse_number(pair.removeprefix(name + "="))
        return None


def read_nli(path: Path, skip_counts: Counter[str] | None = None) -> Iterator[tuple[str, str, str]]:
    """Yield (premise, hypothesis, label) from ``snli_1.0_train.jsonl`` and the like, or from a table.

    Published pairs without a majority label are skipped, and counted by reason in ``skip_counts``.
    """
    skip_counts = Counter() if skip_counts is None else skip_counts
    if not stem(path).endswith(".jsonl"):
        for row in read_table(path, (*_SENTENCE_COLUMNS, "label"), may_be_empty=_SENTENCE_COLUMNS):
            yield row.cells[0], row.cells[1], row.cells[2]
        return
    for line in read_lines(path):
        value = None
        with contextlib.suppress(UserError):
            value = parse_json(line.text, where=path)
        if not isinstance(value, dict) or not all(isinstance(value.get(key), str) for key in _NLI_KEYS):
            raise bad_row(path, line.number, f"a JSON object with {', '.join(_NLI_KEYS)}", line.text)
        label, first, second = (value[key] for key in _NLI_KEYS)
        if label == "-":
            skip_counts["pairs without a majority label"] += 1
        else:
            yield first, second, label


def read_binary(path: Path) -> Iterator[tuple[str, str, int]]:
    """Yield two texts, and 1 for a paraphrase or 0, from Quora's file as published, or from a table."""
    header = next(read_lines(path), None)
    if header is None or "is_duplicate" not in header.text:
        for row in read_table(path, (*_SENTENCE_COLUMNS, "label"), may_be_empty=_SENTENCE_COLUMNS):
            first, second, label = row.cells
            if label not in ("0", "1"):
                raise bad_row(path, row.line, "label 0 or 1", label)
            yield first, second, int(label)
        return
    # Quoted fields may hold line breaks, and some rows are unusable.
    rows = csv.DictReader((line.text + "\n" for line in read_lines(path)), delimiter="\t")
    try:
        if not set(_QUORA_COLUMNS) <= set(rows.fieldnames or ()):
            raise UserError(f"{path}:1: expected the columns {', '.join(_QUORA_COLUMNS)}")
        for cells in rows:
            first, second, label = ((cells[name] or "").strip() for name in _QUORA_COLUMNS)
            is_complete = None not in cells and None not in cells.values()  # as many cells as columns
            if is_complete and first and second and label in ("0", "1"):
                yield first, second, int(label)
    except csv.Error as error:  # a quote that is never closed, a bare carriage return
        where = f"{path}:{rows.reader.line_num}"
        raise UserError(f"{where}: cannot be read as tab-separated columns ({error})") from None


def read_phrases(path: Path) -> Iterator[tuple[str, str, str | None]]:
    """Yield (phrase, phrase, relation) from PPDB, or (phrase, phrase, None) from a ``.tsv``."""
    if stem(path).endswith(".tsv"):
        columns = ("word1", "word2")
        for row in read_table(path, columns, may_be_empty=columns):
            yield row.cells[0], row.cells[1], None
        return
    for pair in read_ppdb(path):
        if pair.entailment and pair.entailment not in RELATIONS:
            relation = f"{pair.entailment!r} of {pair.left!r} and {pair.right!r}"
            raise UserError(f"{path}: relation {relation} is none of {', '.join(RELATIONS)}")
        yield pair.left, pair.right, pair.entailment or None


def read_ppdb(path: Path) -> Iterator[Paraphrase]:
    """Yield the lines ``LHS ||| a ||| b ||| features ||| alignment [||| entailment]``, the last in PPDB 2.0.

    Lines with fewer than five fields or with an empty phrase are skipped. Raises UserError if there are no
    other lines.
    """
    has_pairs = False
    for line in read_lines(path):
        fields = [field.strip() for field in line.text.split("|||")]
        if len(fields) < 5 or not fields[1] or not fields[2]:
            continue
        has_pairs = True
        yield Paraphrase(fields[1], fields[2], fields[3], fields[5] if len(fields) > 5 else "")
    if not has_pairs:
        raise UserError(f"{path}: no line of PPDB (LHS ||| a ||| b ||| features ||| alignment ...)")


@dataclass(frozen=True, slots=True)
class ScoredPairs:
    """Pairs of words or phrases with gold scores, higher for more similar ones."""

    name: str
    left: tuple[str, ...]
    right: tuple[str, ...]
    score: tuple[float, ...]
    file: Path


def find_set(name: str, folder: Path) -> ScoredPairs | None:
    """Return the set ``name`` from a file anywhere below ``folder``, or None if there is no such file."""
    for file, (left, right, score) in _FILES[name].items():
        for path in _find_below(folder, file):
            rows = list(read_rows(path, score + 1, has_more=True, may_be_empty=True))
            if file == "SimLex-999.txt":  # the only one with a header line
                del rows[:1]
            if not rows:
                raise UserError(f"{path}: no pairs")
            return ScoredPairs(
                name,
                left=tuple(row.cells[left] for row in rows),
                right=tuple(row.cells[right] for row in rows),
                score=tuple(row.number(score) for row in rows),
                file=path,
            )
    return None


def read_semeval2013_5a(folder: Path, split: str) -> tuple[list[str], list[str], list[int]]:
    """Return the words, the phrases and the labels of a split; 1 means that word and phrase mean the same."""
    words: list[str] = []
    phrases: list[str] = []
    labels: list[int] = []
    for kind, label in (("positive", 1), ("negative", 0)):
        name = f"en.{split}Set.{kind}Instances"
        path = next(_find_below(folder, f"{name}*"), None)
        if path is None:
            raise UserError(f"{folder}: no file {name}-v2 below it; get it from {SEMEVAL}")
        for row in read_rows(path, 2):
            words.append(row.cells[0])
            phrases.append(row.cells[1])
            labels.append(label)
        if label not in labels:
            raise UserError(f"{path}: holds no pairs")
    return words, phrases, labels


def _find_below(folder: Path, name: str) -> Iterator[Path]:
    """Yield the files of a name or pattern below a folder, sorted. Raises UserError if that is missing."""
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder")
    yield from sorted(folder.rglob(name))
