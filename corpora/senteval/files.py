"""Read the SentEval task files exactly as the original toolkit does, into typed rows.

    data = read_task("MRPC", Path("data"))    # data/downstream/..., data/probing/...
    data.splits["train"].a[0]                 # tokens of the first sentence of the first pair

Rows keep the files' order, because folds and shuffles index into it; the evaluation sorts later. Which
characters end a line differs per task and is part of the protocol: ``str.splitlines`` also cuts at NEL, form
feed and the Unicode separators, iterating over a text file does not. A sentence is its text ``.split()`` on
white space, never lower-cased; an empty one is ``[]``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from corpora.books import author_rows, books
from corpora.inputs import bad_row, parse_number, readable
from corpora.senteval.structure import Pair, task_pairs, triplets
from corpora.senteval.tasks import (
    BINARY_TASKS,
    PROBING_TASKS,
    PUBLISHED_ROW_COUNTS,
    STRUCTURE_TASKS,
    STS_SUBSETS,
    canonical_task,
    task_paths,
)
from corpora.text import Tokenizer
from runtime.errors import UserError

Tokens = list[str]
Files = dict[str, list[Path]]
BINARY_CLASSES = ("0", "1")
SNLI_CLASSES = ("entailment", "neutral", "contradiction")
_CLASSES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys((*BINARY_TASKS, *STRUCTURE_TASKS), BINARY_CLASSES),
    "SNLI": SNLI_CLASSES,
    "TREC": ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"),
    "MRPC": BINARY_CLASSES,
    "SICKEntailment": ("CONTRADICTION", "NEUTRAL", "ENTAILMENT"),
    "SST2": BINARY_CLASSES,
    "SST5": ("0", "1", "2", "3", "4"),
}
_COLUMNS: Mapping[str, tuple[int, int | None, int, int, int]] = {
    # sentence, second sentence, label or score, columns at least, header lines
    "TREC": (1, None, 0, 2, 0),
    "MRPC": (3, 4, 0, 5, 1),
    "SICKRelatedness": (1, 2, 3, 5, 1),
    "SICKEntailment": (1, 2, 4, 5, 1),
    "STSBenchmark": (5, 6, 4, 7, 0),
    "SST2": (0, None, 1, 2, 0),
    "SST5": (1, None, 0, 2, 0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Rows of one split, sentences or pairs of sentences."""

    a: list[Tokens]
    b: list[Tokens] | None = None
    """Second sentences, where rows are pairs."""
    y: list[int] | list[float]
    """Class ids or scores."""

    def __len__(self) -> int:
        return len(self.a)

    def sentences(self) -> Iterator[Tokens]:
        """Yield every sentence, row by row, and of a pair first ``a``, then ``b``."""
        for row, first in enumerate(self.a):
            yield first
            if self.b is not None:
                yield self.b[row]


Splits = dict[str, Split]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskData:
    """All data of one task."""

    name: str
    """The toolkit's name, e.g. ``"SICKRelatedness"``."""
    splits: Splits
    """``all`` (MR CR SUBJ MPQA), ``train dev test`` (TREC, MRPC: no ``dev``), the subsets of STS12-16, or
    the titles of the books of Neighbours."""
    classes: tuple[str, ...] = ()
    """Names of the class ids; empty where ``y`` is a score."""
    files: Files = field(default_factory=dict)
    """The files each split was read from; ``all`` if one set of files holds every split."""

    def count_notes(self) -> list[str]:
        """Return one line per split whose number of rows differs from the published one."""
        return [
            f"{self.name} {split}: {len(rows):,} rows, published {PUBLISHED_ROW_COUNTS[self.name, split]:,}"
            for split, rows in self.splits.items()
            if len(rows) != PUBLISHED_ROW_COUNTS.get((self.name, split), len(rows))
        ]


def read_task(name: str, data: Path) -> TaskData:
    """Read one task from a data folder with ``downstream/`` and ``probing/``.

    A file may be gzip-compressed, with ``.gz`` added to its name. An unknown task, missing files (the message
    names all of them, and their source) and malformed rows are refused.
    """
    name = canonical_task(name)
    files = find_files(name, data)
    classes = _CLASSES.get(name, ())
    splits: Splits = {}
    if name in PROBING_TASKS:
        splits, classes = _read_probing(*files["train"])  # one file has all splits
    elif name == "Authors":  # the test part is of other books
        for split, part in (("train", "train"), ("test", "heldout")):
            rows, labels, classes = author_rows(part)
            splits[split] = Split(a=rows, y=labels)
    elif name == "Neighbours":  # the held-out books, each a split; y is the place in the book
        tokenizer = Tokenizer("spacy", running=False)
        for book in books("heldout"):
            rows = [list(tokenizer.line(text)) for text in book.sentences]
            splits[book.title] = Split(a=rows, y=list(range(len(rows))))
    elif name in STRUCTURE_TASKS:
        splits = _read_structure(name, files)
    elif name in BINARY_TASKS:
        splits = {"all": _read_binary(*files["all"])}
    elif name in STS_SUBSETS:
        splits = {subset: _read_sts(*paths) for subset, paths in files.items()}
    elif name == "SNLI":
        splits = {split: _read_snli(*paths) for split, paths in files.items()}
    else:
        splits = {split: _read_rows(name, *paths) for split, paths in files.items()}
    return TaskData(name=name, splits=splits, classes=classes, files=files)


def find_files(name: str, data: Path) -> Files:
    """Return the files of a task by split, each as named or with ``.gz``; ``name`` is the toolkit's."""
    files = Files()
    missing_files = []
    for split, paths in task_paths(name, Path(data)).items():
        files[split] = []
        for path in paths:
            compressed_path = path.with_name(path.name + ".gz")
            if not path.is_file() and not compressed_path.is_file():
                missing_files.append(str(path).removeprefix(f"{data}/"))
            files[split].append(path if path.is_file() else compressed_path)
    if missing_files:
        source = "data/downstream/get_transfer_data.bash of github.com/facebookresearch/SentEval"
        if name in PROBING_TASKS:
            source = "data/probing of github.com/facebookresearch/SentEval"
        elif name in STRUCTURE_TASKS:
            source = "what docs/structure.md says"
        names = ", ".join(dict.fromkeys(missing_files))
        raise UserError(f"{name}: no such file in {data}: {names} (nor with .gz); get them by {source}")
    return files


def _read_text(path: Path, encoding: str = "utf-8") -> str:
    with readable(path) as stream:
        raw = stream.read()
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        row = raw.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}:{row}: not {encoding} (byte 0x{raw[error.start]:02x})") from None


def _iterate_lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Yield numbered lines as iteration over a text file does: they end at LF, CR LF and CR alone."""
    lines = _read_text(path, encoding).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    yield from enumerate(lines[:-1] if lines[-1] == "" else lines, start=1)


def _read_label(path: Path, row: int, text: str, classes: tuple[str, ...]) -> int | float:
    """Return the id of a class or, without ``classes``, a score."""
    if classes:
        if text not in classes:
            raise bad_row(path, row, f"a label among {' '.join(classes)}", text)
        return classes.index(text)
    if (score := parse_number(text)) is not None:
        return score
    raise bad_row(path, row, "a number", text)


def _read_binary(positive: Path, negative: Path) -> Split:
    """Read MR, CR, SUBJ, MPQA: a file per class, class 1 first; blank lines are rows."""
    positive_rows, negative_rows = (
        [line.split() for line in _read_text(path, "latin-1").splitlines()] for path in (positive, negative)
    )
    labels = [1] * len(positive_rows) + [0] * len(negative_rows)
    return Split(a=positive_rows + negative_rows, y=labels)


def _read_rows(name: str, path: Path) -> Split:
    """Read a row per line; TREC (``NUM:dist How far ...``) is in Latin-1, the others are in UTF-8."""
    a, b, y, count, header_lines = _COLUMNS[name]
    rows = []
    labels = []
    for row, line in _iterate_lines(path, "latin-1" if name == "TREC" else "utf-8"):
        if row <= header_lines:
            continue
        if name == "TREC":
            coarse_class, _, fine_class_and_text = line.strip().partition(":")
            cells = [coarse_class, *fine_class_and_text.split(" ", 1)[1:]]
        elif name == "SST5":
            cells = line.strip().split(" ", 1)
        else:
            cells = line.strip().split("\t")
        if len(cells) < count:
            parts = "tab-separated columns" if "\t" in line or b else "parts, a label and a sentence"
            raise bad_row(path, row, f"{count} {parts}", line)
        rows.append(cells)
        labels.append(_read_label(path, row, cells[y], _CLASSES.get(name, ())))
    return Split(
        a=[cells[a].split() for cells in rows],
        b=None if b is None else [cells[b].split() for cells in rows],
        y=labels,
    )


def _check_same_length(file: Path, rows: int, other_file: Path, other_rows: int) -> None:
    if rows != other_rows:
        raise UserError(f"{other_file}: {other_rows:,} rows, but {file} has {rows:,}; they must correspond")


def _read_sts(inputs: Path, golds: Path) -> Split:
    """Read a subset of STS12-16: ``STS.input.X.txt`` (two columns), ``STS.gs.X.txt`` (a score or nothing)."""
    lines, scores = _read_text(inputs).splitlines(), _read_text(golds).splitlines()
    _check_same_length(inputs, len(lines), golds, len(scores))
    pairs = [line.split("\t") for line in lines]
    for row, (line, pair) in enumerate(zip(lines, pairs, strict=True), start=1):
        if len(pair) != 2:
            raise bad_row(inputs, row, "2 tab-separated columns", line)
    rows_with_score = [row for row, score in enumerate(scores) if score != ""]
    return Split(
        a=[pairs[row][0].split() for row in rows_with_score],
        b=[pairs[row][1].split() for row in rows_with_score],
        y=[_read_label(golds, row + 1, scores[row], ()) for row in rows_with_score],
    )


def _read_snli(first: Path, second: Path, gold: Path) -> Split:
    """Read three parallel files, as SentEval's download script writes them.

    The toolkit sorts SNLI rows by the label's *name*, ``classes[y]``, not by its id.
    """
    # The toolkit splits the re-encoded bytes: at ASCII white space only, unlike every other task.
    a, b = (
        [
            [token.decode() for token in line.encode().split()]
            for line in _read_text(path, "latin-1").splitlines()
        ]
        for path in (first, second)
    )
    labels = [label.strip() for label in _read_text(gold).splitlines()]
    _check_same_length(first, len(a), second, len(b))
    _check_same_length(first, len(a), gold, len(labels))
    y = [_read_label(gold, row, label, SNLI_CLASSES) for row, label in enumerate(labels, start=1)]
    return Split(a=a, b=b, y=y)


def _read_probing(path: Path) -> tuple[Splits, tuple[str, ...]]:
    """Read ``tr|va|te <TAB> label <TAB> ... <TAB> sentence``; classes are the train rows' labels, sorted."""
    lines = {row: line.rstrip().split("\t") for row, line in _iterate_lines(path)}
    classes = tuple(sorted({cells[1] for cells in lines.values() if cells[0] == "tr" and len(cells) > 2}))
    ids = {label: number for number, label in enumerate(classes)}
    parts = {"tr": Split(a=[], y=[]), "va": Split(a=[], y=[]), "te": Split(a=[], y=[])}
    for row, cells in lines.items():
        if len(cells) < 3 or cells[0] not in parts:
            raise bad_row(path, row, "tr|va|te, label, sentence separated by tabs", "\t".join(cells))
        if cells[1] not in ids:
            raise bad_row(path, row, "a label that occurs in the train rows", "\t".join(cells))
        parts[cells[0]].a.append(cells[-1].split())
        parts[cells[0]].y.append(ids[cells[1]])
    return dict(zip(("train", "dev", "test"), parts.values(), strict=True)), classes


def _read_structure(name: str, files: Files) -> Splits:
    """Read pairs of sentences with the same words; the label is 1 if they mean the same.

    Binding has two pairs a triplet, and its splits are the kinds of triplets.
    """
    pairs: dict[str, list[Pair]] = {}
    if name == "Binding":
        for triplet in triplets("test"):
            pairs.setdefault(triplet.kind, []).extend(triplet.pairs())
    for split, paths in files.items():
        pairs[split] = [pair for path in paths for pair in task_pairs(name, path)]
        if len({pair.is_same for pair in pairs[split]}) < (1 if name == "Opposites" else 2):
            raise UserError(f"{paths[0]}: no pairs for {name} that say the same, or none that do not")
    tokenizer = Tokenizer("spacy", running=False)
    return {
        split: Split(
            a=[list(tokenizer.line(pair.first)) for pair in part],
            b=[list(tokenizer.line(pair.second)) for pair in part],
            y=[int(pair.is_same) for pair in part],
        )
        for split, part in pairs.items()
    }
