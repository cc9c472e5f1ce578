"""Read the SentEval task files exactly as the original toolkit does, into typed rows.

    data = read_task("MRPC", Path("data"))    # data/downstream/..., data/probing/...
    data.splits["train"].a[0]                 # tokens of the first sentence of the first pair

Row order is the files' order (folds and shuffles index into it); the evaluation sorts later.
Which characters end a line differs per task and is part of the protocol: ``str.splitlines`` cuts
at NEL or form feed too, iteration over a text file does not. A sentence is its text ``.split()``
on white space, never lower-cased; an empty one is ``[]``.
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from corpora.senteval_tasks import (
    BINARY_TASKS,
    PROBING_FILES,
    PUBLISHED_ROWS,
    STS_SUBSETS,
    canonical_task,
    downstream_folder,
    probing_folder,
)
from corpora.support.errors import UserError

Tokens = list[str]
TREC_CLASSES = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
SICK_CLASSES = ("CONTRADICTION", "NEUTRAL", "ENTAILMENT")
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
        """Every sentence, row by row; both of a pair in turn."""
        if self.b is None:
            yield from self.a
            return
        for first, second in zip(self.a, self.b, strict=True):
            yield first
            yield second


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskData:
    """One task, read whole."""

    name: str
    """The toolkit's name, e.g. ``"SICKRelatedness"``."""
    kind: Literal["single", "pair"]
    """Single sentences, or sentence pairs."""
    splits: dict[str, Split]
    """``all`` (MR CR SUBJ MPQA), ``train dev test`` (TREC, MRPC: no ``dev``), or the subsets of STS12-16."""
    classes: tuple[str, ...] = ()
    """Names of the class ids; empty where ``y`` is a score."""
    files: dict[str, list[Path]] = field(default_factory=dict)
    """The files each split was read from."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Rows left out per split: STS pairs without a gold score."""

    def count_notes(self) -> list[str]:
        """One line per split whose number of rows is not the published one; empty when all agree."""
        return [
            f"{self.name} {split}: {len(rows):,} rows, published {PUBLISHED_ROWS[self.name][split]:,}"
            for split, rows in self.splits.items()
            if len(rows) != PUBLISHED_ROWS[self.name][split]
        ]


def read_task(name: str, data: Path) -> TaskData:
    """Read one task from a data folder with ``downstream/`` and ``probing/`` (``.txt`` or ``.txt.gz``).

    Args:
        name: a task's name or alias (:func:`corpora.senteval_tasks.canonical_task`).
        data: the folder; a file of the task may be gzip-compressed with ``.gz`` added to its name.

    Raises:
        UserError: unknown task, missing file, or a row with wrong columns; it names file and row.
    """
    name = canonical_task(name)
    data = Path(data)
    if name in PROBING_FILES:
        return _read_probing(name, probing_folder(data))
    downstream = downstream_folder(data)
    if name in BINARY_TASKS:
        return _read_binary(name, downstream)
    if name in STS_SUBSETS:
        return _read_sts(name, downstream)
    return _READERS[name](downstream)


def find_file(path: Path) -> Path:
    """``path``, or ``path.gz`` when only that exists.

    Raises:
        UserError: neither exists.
    """
    for candidate in (path, path.with_name(path.name + ".gz")):
        if candidate.is_file():
            return candidate
    raise UserError(f"{path}: no such file (nor {path.name}.gz); see SentEval's download script")


def _read_text(path: Path, encoding: str) -> str:
    try:
        raw = path.read_bytes()
        if path.suffix == ".gz":
            raw = gzip.decompress(raw)
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        row = raw.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}:{row}: not {encoding} (byte 0x{raw[error.start]:02x})") from None
    except (OSError, EOFError) as error:
        raise UserError(f"{path}: cannot be read ({error})") from None


def _split_lines(path: Path, encoding: str = "utf-8") -> list[str]:
    """Lines as ``read().splitlines()`` gives them: also cut at NEL, FF, VT, the Unicode separators."""
    return _read_text(path, encoding).splitlines()


def _iterate_lines(path: Path, encoding: str = "utf-8") -> list[str]:
    """Lines as iterating over a text file gives them: cut at LF, CR LF and CR alone."""
    lines = _read_text(path, encoding).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _bad_row(path: Path, row: int, expected: str, line: str) -> UserError:
    return UserError(f"{path}:{row}: expected {expected}, found {line[:80]!r}")


def _columns(path: Path, row: int, line: str, at_least: int) -> list[str]:
    columns = line.strip().split("\t")
    if len(columns) < at_least:
        raise _bad_row(path, row, f"{at_least} tab-separated columns", line)
    return columns


def _class_id(path: Path, row: int, value: str, classes: tuple[str, ...]) -> int:
    if value not in classes:
        raise _bad_row(path, row, f"a label among {' '.join(classes)}", value)
    return classes.index(value)


def _score(path: Path, row: int, value: str) -> float:
    try:
        score = float(value)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise _bad_row(path, row, "a number", value)
    return score


def _read_binary(name: str, downstream: Path) -> TaskData:
    """MR, CR, SUBJ, MPQA: a file per class, class 1 first; blank lines are rows."""
    folder, positive, negative = BINARY_TASKS[name]
    files = [find_file(downstream / folder / file) for file in (positive, negative)]
    classes = [[line.split() for line in _split_lines(path, "latin-1")] for path in files]
    split = Split(a=classes[0] + classes[1], y=[1] * len(classes[0]) + [0] * len(classes[1]))
    return TaskData(name=name, kind="single", splits={"all": split}, classes=("0", "1"), files={"all": files})


Row = tuple[Tokens, Tokens | None, int | float]
RowParser = Callable[[Path, int, str], Row]


def _read_rows(
    name: str,
    files: dict[str, Path],
    parse: RowParser,
    *,
    classes: tuple[str, ...] = (),
    header: bool = False,
    encoding: str = "utf-8",
) -> TaskData:
    """Read a file per split, a row per line."""
    files = {split: find_file(path) for split, path in files.items()}
    splits = {}
    for split, path in files.items():
        lines = _iterate_lines(path, encoding)
        numbered: Iterable[tuple[int, str]] = enumerate(lines, start=1)
        rows = [parse(path, row, line) for row, line in numbered if row > header]
        pairs = bool(rows) and rows[0][1] is not None
        splits[split] = Split(
            a=[row[0] for row in rows],
            b=[row[1] or [] for row in rows] if pairs else None,
            y=[row[2] for row in rows],  # type: ignore[arg-type]
        )
    kind: Literal["single", "pair"] = "pair" if any(s.b is not None for s in splits.values()) else "single"
    return TaskData(
        name=name,
        kind=kind,
        splits=splits,
        classes=classes,
        files={split: [path] for split, path in files.items()},
    )


def _trec_row(path: Path, row: int, line: str) -> Row:
    """``NUM:dist How far is it ...``: coarse label, fine label dropped up to the first space."""
    coarse, colon, rest = line.strip().partition(":")
    _fine, space, text = rest.partition(" ")
    if not colon or not space:
        raise _bad_row(path, row, "COARSE:fine question", line)
    return text.split(), None, _class_id(path, row, coarse, TREC_CLASSES)


def _mrpc_row(path: Path, row: int, line: str) -> Row:
    columns = _columns(path, row, line, 5)
    return columns[3].split(), columns[4].split(), _class_id(path, row, columns[0], ("0", "1"))


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
    return columns[0].split(), None, _class_id(path, row, columns[1], ("0", "1"))


def _sst5_row(path: Path, row: int, line: str) -> Row:
    label, space, text = line.strip().partition(" ")
    if not space:
        raise _bad_row(path, row, "label, space, text", line)
    return text.split(), None, _class_id(path, row, label, ("0", "1", "2", "3", "4"))


def _read_trec(downstream: Path) -> TaskData:
    folder = downstream / "TREC"
    files = {"train": folder / "train_5500.label", "test": folder / "TREC_10.label"}
    return _read_rows("TREC", files, _trec_row, classes=TREC_CLASSES, encoding="latin-1")


def _read_mrpc(downstream: Path) -> TaskData:
    files = {split: downstream / "MRPC" / f"msr_paraphrase_{split}.txt" for split in ("train", "test")}
    return _read_rows("MRPC", files, _mrpc_row, classes=("0", "1"), header=True)


def _sick_files(downstream: Path) -> dict[str, Path]:
    names = {"train": "train", "dev": "trial", "test": "test_annotated"}
    return {split: downstream / "SICK" / f"SICK_{name}.txt" for split, name in names.items()}


def _read_sick_relatedness(downstream: Path) -> TaskData:
    return _read_rows("SICKRelatedness", _sick_files(downstream), _sick_relatedness_row, header=True)


def _read_sick_entailment(downstream: Path) -> TaskData:
    return _read_rows(
        "SICKEntailment", _sick_files(downstream), _sick_entailment_row, classes=SICK_CLASSES, header=True
    )


def _read_sts_benchmark(downstream: Path) -> TaskData:
    folder = downstream / "STS" / "STSBenchmark"
    files = {split: folder / f"sts-{split}.csv" for split in ("train", "dev", "test")}
    return _read_rows("STSBenchmark", files, _sts_benchmark_row)


def _read_sst2(downstream: Path) -> TaskData:
    folder = downstream / "SST" / "binary"
    files = {split: folder / f"sentiment-{split}" for split in ("train", "dev", "test")}
    return _read_rows("SST2", files, _sst2_row, classes=("0", "1"))


def _read_sst5(downstream: Path) -> TaskData:
    folder = downstream / "SST" / "fine"
    files = {split: folder / f"sentiment-{split}" for split in ("train", "dev", "test")}
    return _read_rows("SST5", files, _sst5_row, classes=("0", "1", "2", "3", "4"))


def _same_rows(first: Path, rows: int, second: Path, others: int) -> None:
    if rows != others:
        raise UserError(f"{second}: {others:,} rows, but {first} has {rows:,}; they must correspond")


def _read_sts(name: str, downstream: Path) -> TaskData:
    """STS12-16: per subset ``STS.input.X.txt`` (two columns) beside ``STS.gs.X.txt`` (a score or nothing)."""
    folder = downstream / "STS" / f"{name}-en-test"
    splits, files, dropped = {}, {}, {}
    for subset in STS_SUBSETS[name]:
        inputs, golds = (find_file(folder / f"STS.{part}.{subset}.txt") for part in ("input", "gs"))
        lines, scores = _split_lines(inputs), _split_lines(golds)
        _same_rows(inputs, len(lines), golds, len(scores))
        pairs = []
        for row, line in enumerate(lines, start=1):
            columns = line.split("\t")
            if len(columns) != 2:
                raise _bad_row(inputs, row, "2 tab-separated columns", line)
            pairs.append((columns[0].split(), columns[1].split()))
        kept = [row for row, score in enumerate(scores) if score != ""]
        splits[subset] = Split(
            a=[pairs[row][0] for row in kept],
            b=[pairs[row][1] for row in kept],
            y=[_score(golds, row + 1, scores[row]) for row in kept],
        )
        files[subset] = [inputs, golds]
        dropped[subset] = len(scores) - len(kept)
    return TaskData(name=name, kind="pair", splits=splits, files=files, dropped=dropped)


def _read_snli(downstream: Path) -> TaskData:
    """SNLI: three parallel files per split, as SentEval's download script writes them.

    The toolkit sorts SNLI rows by the label's *name*, ``classes[y]``, not by its id.
    """
    splits, files = {}, {}
    for split in ("train", "dev", "test"):
        paths = [find_file(downstream / "SNLI" / f"{part}.{split}") for part in ("s1", "s2", "labels")]
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
        files[split] = paths
    return TaskData(name="SNLI", kind="pair", splits=splits, classes=SNLI_CLASSES, files=files)


def _read_probing(name: str, folder: Path) -> TaskData:
    """``tr|va|te <TAB> label <TAB> ... <TAB> sentence``; class ids: the train rows' labels, sorted."""
    path = find_file(folder / f"{PROBING_FILES[name]}.txt")
    names = {"tr": "train", "va": "dev", "te": "test"}
    sentences: dict[str, list[Tokens]] = {split: [] for split in names.values()}
    labels: dict[str, list[tuple[int, str]]] = {split: [] for split in names.values()}
    for row, line in enumerate(_iterate_lines(path), start=1):
        columns = line.rstrip().split("\t")
        if len(columns) < 3 or columns[0] not in names:
            raise _bad_row(path, row, "tr|va|te, label, sentence separated by tabs", line)
        split = names[columns[0]]
        sentences[split].append(columns[-1].split())
        labels[split].append((row, columns[1]))
    classes = tuple(sorted({label for _, label in labels["train"]}))
    ids = {label: number for number, label in enumerate(classes)}
    for split in ("dev", "test"):
        for row, label in labels[split]:
            if label not in ids:
                raise _bad_row(path, row, "a label that occurs in the train rows", label)
    splits = {
        split: Split(a=sentences[split], y=[ids[label] for _, label in labels[split]]) for split in sentences
    }
    return TaskData(
        name=name, kind="single", splits=splits, classes=classes, files={split: [path] for split in splits}
    )


_READERS: dict[str, Callable[[Path], TaskData]] = {
    "TREC": _read_trec,
    "MRPC": _read_mrpc,
    "SICKRelatedness": _read_sick_relatedness,
    "SICKEntailment": _read_sick_entailment,
    "STSBenchmark": _read_sts_benchmark,
    "SST2": _read_sst2,
    "SST5": _read_sst5,
    "SNLI": _read_snli,
}
