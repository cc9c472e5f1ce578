"""Read pairs of sentences to learn from, by the column names of sentence-transformers' data sets.

==================================  =================================================================
``anchor positive [negative …]``    two sentences that belong together, and some that do not belong to the
                                    first; a column whose name begins with ``negative`` may be empty
``sentence1 sentence2 score``       two sentences and how alike they are, any number, more is more alike;
                                    the column may also be called ``label``
==================================  =================================================================

``query`` or ``question`` stands for ``anchor`` as well, and ``relevant`` or ``answer`` for ``positive``; a
file has one of them. The format is that of the file's suffix: CSV (``.csv``, quoted as usual), JSON Lines
(``.jsonl``, an object a line), else TSV, whose first line names the columns; a cell in quotes loses them.
Other columns are ignored, and compressed files are unpacked. A row that cannot be used raises a UserError
with file and line.
"""

import csv
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corpora.characters import normalise_text
from corpora.inputs import input_hash, stem
from corpora.tables import bad_row, check_header, parse_number, text_lines
from runtime.errors import UserError
from runtime.files import json_digest, parse_json

COLUMNS = "anchor, positive and perhaps negative, negative_2 …; or sentence1, sentence2 and score or label"
_ANCHORS, _POSITIVES = ("anchor", "query", "question"), ("positive", "relevant", "answer")
_GRADES = ("score", "label")
_Cells = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Example:
    """One row: an anchor, its positive and its negatives; or two sentences with a grade."""

    sentences: tuple[str, ...]
    grade: float | None = None
    """How alike the two sentences are; None if the first two sentences belong together."""


@dataclass(frozen=True)
class PairSet:
    """The examples of some files, either all with a grade or all without."""

    examples: list[Example]
    names: list[str] = field(default_factory=list)
    """The names of the files, for messages and the model card."""
    sha256: str = ""

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def is_graded(self) -> bool:
        """Whether the pairs have grades; otherwise they are sentences that belong together."""
        return self.examples[0].grade is not None

    @property
    def grades(self) -> set[float | None]:
        """The distinct grades."""
        return {example.grade for example in self.examples}

    def sentences(self) -> list[str]:
        """Return the distinct sentences in order of first appearance."""
        return list(dict.fromkeys(text for example in self.examples for text in example.sentences))

    def split(self, share: float, seed: int = 0) -> tuple["PairSet", "PairSet"]:
        """Return training and held-out pairs, about ``share`` of all, which have no sentence in common.

        Rows that share a sentence, directly or through other rows, are not separated. Raises UserError if the
        rows that stay together leave too few to hold out.
        """
        group_of_text = connected_groups(example.sentences for example in self.examples)
        rows_of_group: dict[int, list[int]] = {}
        for row, example in enumerate(self.examples):
            rows_of_group.setdefault(group_of_text[text_key(example.sentences[0])], []).append(row)
        wanted, held_out = max(1, round(share * len(self))), set[int]()
        for group in random.Random(seed).sample(sorted(rows_of_group), len(rows_of_group)):
            if len(held_out) + len(rows_of_group[group]) <= wanted:
                held_out.update(rows_of_group[group])
        if len(held_out) < wanted / 2 or len(held_out) == len(self):
            largest = max(map(len, rows_of_group.values()))
            raise UserError(
                f"{', '.join(self.names)}: {largest:,} of {len(self):,} rows hang together by shared "
                "sentences, so that none can be held out; give --validation FILE"
            )
        parts = [[e for row, e in enumerate(self.examples) if (row in held_out) == held] for held in (0, 1)]
        return PairSet(parts[0], self.names, self.sha256), PairSet(parts[1], self.names, self.sha256)

    def without(self, other: "PairSet") -> "PairSet":
        """Return the pairs that share no sentence with another set. Raises UserError if there are none."""
        theirs = set(map(text_key, other.sentences()))
        remaining = [each for each in self.examples if theirs.isdisjoint(map(text_key, each.sentences))]
        if not remaining:
            raise UserError(f"{', '.join(self.names)}: every row has a sentence of {', '.join(other.names)}")
        return PairSet(remaining, self.names, self.sha256)


def text_key(text: str) -> str:
    """Return the key that copies of a sentence share: without case, white space and typographic forms."""
    return " ".join(normalise_text(text).split()).casefold()


def connected_groups(rows: Iterable[Sequence[str]]) -> dict[str, int]:
    """Return the group of each sentence by its :func:`text_key`; rows that share a sentence are one group."""
    parent: dict[str, str] = {}

    def root(text: str) -> str:
        while parent.setdefault(text, text) != text:
            parent[text] = parent[parent[text]]
            text = parent[text]
        return text

    for texts in rows:
        first, *others = map(text_key, texts)
        for other in others:
            parent[root(other)] = root(first)
    roots = {text: root(text) for text in list(parent)}
    number = {text: index for index, text in enumerate(dict.fromkeys(roots.values()))}
    return {text: number[top] for text, top in roots.items()}


def read_training_pairs(files: Sequence[Path], *, may_repeat: bool = False) -> PairSet:
    """Read files of pairs, all of one form; with ``may_repeat`` anchor and positive may be equal."""
    examples: list[Example] = []
    for path in files:
        before = len(examples)
        for line, cells in _rows(path):
            examples.append(_example(path, line, cells))
            first, second, *_ = examples[-1].sentences
            if first == second and examples[-1].grade is None and not may_repeat:
                raise bad_row(path, line, "two different sentences", first)
            if (examples[-1].grade is None) != (examples[0].grade is None):
                fault = f"has other columns than the first row of {files[0]}"
                raise UserError(f"{path}:{line}: {fault}; all need one form ({COLUMNS})")
        if len(examples) == before:
            raise UserError(f"{path}: holds no rows")
    pairs = PairSet(examples, list(map(str, files)), json_digest([input_hash(p, [p]) for p in files], 64))
    if pairs.is_graded and len(pairs.grades) < 2:
        raise UserError(
            f"{', '.join(pairs.names)}: every row has the grade {examples[0].grade:g}; at least two differ"
        )
    return pairs


def _rows(path: Path) -> Iterator[tuple[int, _Cells]]:
    """Yield the line number of each row, and its cells by column."""
    suffix = Path(stem(path)).suffix.lower()
    if suffix in (".jsonl", ".ndjson"):
        for line in text_lines(path):
            value = parse_json(line.text, where=f"{path}:{line.number}")
            if not isinstance(value, dict):
                raise bad_row(path, line.number, "a JSON object", line.text)
            yield line.number, value
        return
    lines = (line.text + "\n" for line in text_lines(path, blank=True))
    is_csv = suffix == ".csv"
    table = csv.reader(lines, strict=True)
    if not is_csv:
        table = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    header: list[str] = []
    try:
        for row in table:
            cells = [cell.strip() if is_csv else unquote(cell.strip()) for cell in row]
            if not header:
                header = cells
                check_header(path, table.line_num, header)
            elif any(cells):
                if len(cells) != len(header):
                    raise bad_row(
                        path, table.line_num, f"{len(header)} cells as in the header", "\t".join(row)
                    )
                yield table.line_num, dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise UserError(f"{path}:{table.line_num}: cannot be read as CSV ({error})") from None


def unquote(cell: str) -> str:
    """Return a cell of a TSV without the quotes around it; if it had them, doubled quotes become single."""
    if len(cell) > 1 and cell[0] == cell[-1] == '"' and '"' not in cell[1:-1].replace('""', ""):
        return cell[1:-1].replace('""', '"').strip()
    return cell


def _example(path: Path, line: int, cells: _Cells) -> Example:
    """Return the example of a row, given its cells by column. Raises UserError if columns do not fit."""
    anchors, positives, grades = (
        [name for name in names if name in cells] for names in (_ANCHORS, _POSITIVES, _GRADES)
    )
    is_pair, is_graded = (
        bool(anchors and positives),
        bool({"sentence1", "sentence2"} <= cells.keys() and grades),
    )
    columns = f"{path}:{line}: columns {', '.join(map(str, cells)) or 'none'}"
    if not (is_pair or is_graded):
        raise UserError(f"{columns}; needs {COLUMNS}")
    if is_pair + is_graded > 1 or (len(anchors) + len(positives) > 2 if is_pair else len(grades) > 1):
        raise UserError(f"{columns}: some mean the same; leave one form ({COLUMNS})")
    if is_pair:
        negatives = [name for name in cells if name.startswith("negative") and cells[name] not in ("", None)]
        names = (anchors[0], positives[0], *negatives)
        return Example(tuple(_text(path, line, cells, name) for name in names))
    value = cells[grades[0]]
    grade = parse_number(str(value)) if isinstance(value, int | float | str) else None
    if grade is None:
        raise bad_row(path, line, f"a number in column {grades[0]}", str(value))
    return Example((_text(path, line, cells, "sentence1"), _text(path, line, cells, "sentence2")), grade)


def _text(path: Path, line: int, cells: _Cells, name: str) -> str:
    """Return the sentence of a column. Raises UserError if the cell is not one."""
    value = cells[name]
    if not isinstance(value, str) or not normalise_text(value).strip():
        raise bad_row(path, line, f"a sentence in column {name}", str(value))
    return value.strip()
