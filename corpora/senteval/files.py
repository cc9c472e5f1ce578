"""Read the SentEval task files exactly as the original toolkit does, into typed rows.

    data = read_task("MRPC", Path("data"))    # data/downstream/..., data/probing/...
    data.splits["train"].a[0]                 # tokens of the first sentence of the first pair

Rows keep the files' order, because folds and shuffles index into it; the evaluation sorts later. Which
characters end a line differs per task and is part of the protocol: ``str.splitlines`` also cuts at NEL or
form feed, iterating over a text file does not. A sentence is its text ``.split()`` on white space, never
lower-cased; an empty one is ``[]``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from corpora.inputs import readable
from corpora.rows import bad_row
from corpora.senteval.tasks import (
    BINARY_TASKS,
    PROBING_FILES,
    PUBLISHED_ROWS,
    STS_SUBSETS,
    canonical_task,
    task_home,
    task_paths,
)
from corpora.support.errors import UserError

Tokens = list[str]
Files = dict[str, list[Path]]
BINARY_CLASSES = ("0", "1")
TREC_CLASSES = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
SICK_CLASSES = ("CONTRADICTION", "NEUTRAL", "ENTAILMENT")
SST5_CLASSES = ("0", "1", "2", "3", "4")
SNLI_CLASSES = ("entailment", "neutral", "contradiction")


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Rows of one split: ``n`` sentences, or ``n`` pairs."""

    a: list[Tokens]
    """Tokens of the sentence, or of the pair's first sentence."""
    b: list[Tokens] | None = None
    """Tokens of the pair's second sentence; None for single sentences."""
    y: list[int] | list[float]
    """Class ids, or scores (relatedness, similarity)."""

    def __len__(self) -> int:
        return len(self.a)

    def sentences(self) -> Iterator[Tokens]:
        """Every sentence, row by row; of a pair first ``a``, then ``b``."""
        if self.b is None:
            yield from self.a
            return
        for first, second in zip(self.a, self.b, strict=True):
            yield first
            yield second


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskData:
    """All data of one task."""

    name: str
    """The toolkit's name, e.g. ``"SICKRelatedness"``."""
    kind: Literal["single", "pair"]
    """Single sentences, or sentence pairs."""
    splits: dict[str, Split]
    """``all`` (MR CR SUBJ MPQA), ``train dev test`` (TREC, MRPC: no ``dev``), or the subsets of STS12-16."""
    classes: tuple[str, ...] = ()
    """Names of the class ids; empty where ``y`` is a score."""
    files: dict[str, list[Path]] = field(default_factory=dict)
    """The files each split was read from; ``all`` if one set of files holds every split."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Dropped rows per split: STS pairs without a gold score."""

    def count_notes(self) -> list[str]:
        """One line per split whose number of rows differs from the published one."""
        return [
            f"{self.name} {split}: {len(rows):,} rows, published {PUBLISHED_ROWS[self.name][split]:,}"
            for split, rows in self.splits.items()
            if len(rows) != PUBLISHED_ROWS[self.name][split]
        ]


def read_task(name: str, data: Path) -> TaskData:
    """Read one task from a data folder with ``downstream/`` and ``probing/`` (``.txt`` or ``.txt.gz``).

    Args:
        name: a task's name or alias (:func:`corpora.senteval.tasks.canonical_task`).
        data: the folder; a file of the task may be gzip-compressed with ``.gz`` added to its name.

    Raises:
        UserError: unknown task, missing files (the message names all, and their source), or a malformed row.
    """
    name = canonical_task(name)
    wanted = task_paths(name, Path(data))
    missing = [path for paths in wanted.values() for path in paths if not _candidates(path)]
    if missing:
        raise UserError(_missing_files(name, missing))
    files = {split: [find_file(path) for path in paths] for split, paths in wanted.items()}
    if name in PROBING_FILES:
        return _read_probing(name, files)
    if name in BINARY_TASKS:
        return _read_binary(name, files)
    if name in STS_SUBSETS:
        return _read_sts(name, files)
    if name == "SNLI":
        return _read_snli(files)
    return _read_rows(name, files, *_ROW_FORMATS[name])


def has_files(name: str, data: Path) -> bool:
    """Whether all files of a task are in a data folder; ``name`` is the toolkit's."""
    return all(_candidates(path) for paths in task_paths(name, data).values() for path in paths)


def find_file(path: Path) -> Path:
    """``path``, or ``path.gz`` when only that exists.

    Raises:
        UserError: neither exists.
    """
    found = _candidates(path)
    if not found:
        raise UserError(f"{path}: no such file (nor {path.name}.gz); see SentEval's download script")
    return found[0]


def _candidates(path: Path) -> list[Path]:
    return [one for one in (path, path.with_name(path.name + ".gz")) if one.is_file()]


def _missing_files(name: str, missing: list[Path]) -> str:
    """One line: which files of a task are missing, and where to get them."""
    folders = list(dict.fromkeys(path.parent for path in missing))
    places = "; ".join(
        f"{folder} lacks {', '.join(path.name for path in missing if path.parent == folder)}"
        for folder in folders
    )
    return f"{name}: no such file: {places} (nor with .gz); get them by {task_home(name)}"


def _read_text(path: Path, encoding: str) -> str:
    with readable(path) as stream:
        raw = stream.read()
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        row = raw.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}:{row}: not {encoding} (byte 0x{raw[error.start]:02x})") from None


def _split_lines(path: Path, encoding: str = "utf-8") -> list[str]:
    """Lines as ``read().splitlines()`` gives them: also cut at NEL, FF, VT, the Unicode separators."""
    return _read_text(path, encoding).splitlines()


def _iterate_lines(path: Path, encoding: str = "utf-8") -> list[str]:
    """Lines as iterating over a text file gives them: cut at LF, CR LF and CR alone."""
    lines = _read_text(path, encoding).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _columns(path: Path, row: int, line: str, at_least: int) -> list[str]:
    columns = line.strip().split("\t")
    if len(columns) < at_least:
        raise bad_row(path, row, f"{at_least} tab-separated columns", line)
    return columns


def _class_id(path: Path, row: int, value: str, classes: tuple[str, ...]) -> int:
    if value not in classes:
        raise bad_row(path, row, f"a label among {' '.join(classes)}", value)
    return classes.index(value)


def _score(path: Path, row: int, value: str) -> float:
    try:
        score = float(value)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise bad_row(path, row, "a number", value)
    return score


def _read_binary(name: str, files: Files) -> TaskData:
    """MR, CR, SUBJ, MPQA: a file per class, class 1 first; blank lines are rows."""
    classes = [[line.split() for line in _split_lines(path, "latin-1")] for path in files["all"]]
    split = Split(a=classes[0] + classes[1], y=[1] * len(classes[0]) + [0] * len(classes[1]))
    return TaskData(name=name, kind="single", splits={"all": split}, classes=BINARY_CLASSES, files=files)


Row = tuple[Tokens, Tokens | None, int | float]
RowParser = Callable[[Path, int, str], Row]


def _read_rows(
    name: str, files: Files, parse: RowParser, classes: tuple[str, ...] = (), header: bool = False
) -> TaskData:
    """A file per split, a row per line; TREC is Latin-1, the others UTF-8."""
    splits = {}
    for split, (path,) in files.items():
        lines = _iterate_lines(path, "latin-1" if name == "TREC" else "utf-8")
        rows = [parse(path, row, line) for row, line in enumerate(lines, start=1) if row > header]
        splits[split] = Split(
            a=[row[0] for row in rows],
            b=[row[1] or [] for row in rows] if name in _PAIR_TASKS else None,
            y=[row[2] for row in rows],
        )
    kind: Literal["single", "pair"] = "pair" if name in _PAIR_TASKS else "single"
    return TaskData(name=name, kind=kind, splits=splits, classes=classes, files=files)


def _trec_row(path: Path, row: int, line: str) -> Row:
    """``NUM:dist How far is it ...``: coarse label, fine label dropped up to the first space."""
    coarse, colon, rest = line.strip().partition(":")
    _fine, space, text = rest.partition(" ")
    if not colon or not space:
        raise bad_row(path, row, "COARSE:fine question", line)
    return text.split(), None, _class_id(path, row, coarse, TREC_CLASSES)


def _mrpc_row(path: Path, row: int, line: str) -> Row:
    columns = _columns(path, row, line, 5)
    return columns[3].split(), columns[4].split(), _class_id(path, row, columns[0], BINARY_CLASSES)


def _sick_relatedness_row(path: Path, row: int, line: str) -> Row:
    columns = _columns(path, row, line, 5)
    return columns[1].split(), columns[2].split(), _score(path, row, columns[3])


def _sick_entailment_row(path: Path, row: int, line: str) -> Row:
    columns = _columns(path, row, line, 5)
    return columns[1].split(), columns[2].split(), _class_id(path, row, columns[4], SICK_CLASSES)


def _sts_benchmark_row(path: Path, row: int, line: str) -> Row:
    columns = _columns(path, row, line, 7)
    return columns[5].split(), columns[6].split(), _score(path, row, columns[4])


def _sst2_row(path: Path, row: int, line: str) -> Row:
    columns = _columns(path, row, line, 2)
    return columns[0].split(), None, _class_id(path, row, columns[1], BINARY_CLASSES)


def _sst5_row(path: Path, row: int, line: str) -> Row:
    label, space, text = line.strip().partition(" ")
    if not space:
        raise bad_row(path, row, "label, space, text", line)
    return text.split(), None, _class_id(path, row, label, SST5_CLASSES)


_PAIR_TASKS = ("MRPC", "SICKRelatedness", "SICKEntailment", "STSBenchmark")
_ROW_FORMATS: dict[str, tuple[RowParser, tuple[str, ...], bool]] = {  # parser, classes, header line
    "TREC": (_trec_row, TREC_CLASSES, False),
    "MRPC": (_mrpc_row, BINARY_CLASSES, True),
    "SICKRelatedness": (_sick_relatedness_row, (), True),
    "SICKEntailment": (_sick_entailment_row, SICK_CLASSES, True),
    "STSBenchmark": (_sts_benchmark_row, (), False),
    "SST2": (_sst2_row, BINARY_CLASSES, False),
    "SST5": (_sst5_row, SST5_CLASSES, False),
}


def _same_rows(first: Path, rows: int, second: Path, others: int) -> None:
    if rows != others:
        raise UserError(f"{second}: {others:,} rows, but {first} has {rows:,}; they must correspond")


def _read_sts(name: str, files: Files) -> TaskData:
    """STS12-16: per subset ``STS.input.X.txt`` (two columns) beside ``STS.gs.X.txt`` (a score or nothing)."""
    splits, dropped = {}, {}
    for subset, (inputs, golds) in files.items():
        lines, scores = _split_lines(inputs), _split_lines(golds)
        _same_rows(inputs, len(lines), golds, len(scores))
        pairs = []
        for row, line in enumerate(lines, start=1):
            columns = line.split("\t")
            if len(columns) != 2:
                raise bad_row(inputs, row, "2 tab-separated columns", line)
            pairs.append((columns[0].split(), columns[1].split()))
        kept = [row for row, score in enumerate(scores) if score != ""]
        splits[subset] = Split(
            a=[pairs[row][0] for row in kept],
            b=[pairs[row][1] for row in kept],
            y=[_score(golds, row + 1, scores[row]) for row in kept],
        )
        dropped[subset] = len(scores) - len(kept)
    return TaskData(name=name, kind="pair", splits=splits, files=files, dropped=dropped)


def _read_snli(files: Files) -> TaskData:
    """SNLI: three parallel files per split, as SentEval's download script writes them.

    The toolkit sorts SNLI rows by the label's *name*, ``classes[y]``, not by its id.
    """
    splits = {}
    for split, paths in files.items():
        # The toolkit splits the re-encoded bytes: at ASCII white space only, unlike every other task.
        a, b = (
            [[token.decode() for token in line.encode().split()] for line in _split_lines(path, "latin-1")]
            for path in paths[:2]
        )
        labels = _split_lines(paths[2])
        _same_rows(paths[0], len(a), paths[1], len(b))
        _same_rows(paths[0], len(a), paths[2], len(labels))
        y = [_class_id(paths[2], row, label.strip(), SNLI_CLASSES) for row, label in enumerate(labels, 1)]
        splits[split] = Split(a=a, b=b, y=y)
    return TaskData(name="SNLI", kind="pair", splits=splits, classes=SNLI_CLASSES, files=files)


def _read_probing(name: str, files: Files) -> TaskData:
    """``tr|va|te <TAB> label <TAB> ... <TAB> sentence``; class ids: the train rows' labels, sorted."""
    (path,) = files["all"]
    names = {"tr": "train", "va": "dev", "te": "test"}
    sentences: dict[str, list[Tokens]] = {split: [] for split in names.values()}
    labels: dict[str, list[tuple[int, str]]] = {split: [] for split in names.values()}
    for row, line in enumerate(_iterate_lines(path), start=1):
        columns = line.rstrip().split("\t")
        if len(columns) < 3 or columns[0] not in names:
            raise bad_row(path, row, "tr|va|te, label, sentence separated by tabs", line)
        split = names[columns[0]]
        sentences[split].append(columns[-1].split())
        labels[split].append((row, columns[1]))
    classes = tuple(sorted({label for _, label in labels["train"]}))
    ids = {label: number for number, label in enumerate(classes)}
    for split in ("dev", "test"):
        for row, label in labels[split]:
            if label not in ids:
                raise bad_row(path, row, "a label that occurs in the train rows", label)
    splits = {
        split: Split(a=sentences[split], y=[ids[label] for _, label in labels[split]]) for split in sentences
    }
    return TaskData(
        name=name, kind="single", splits=splits, classes=classes, files={split: [path] for split in splits}
    )
