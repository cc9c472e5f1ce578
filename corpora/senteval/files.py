"""Read the SentEval task files exactly as the original toolkit does, into typed rows.

    data = read_task("MRPC", Path("data"))    # data/downstream/..., data/probing/...
    data.splits["train"].a[0]                 # tokens of the first sentence of the first pair

Rows keep the files' order, because folds and shuffles index into it; the evaluation sorts later. Which
characters end a line differs per task and is part of the protocol: ``str.splitlines`` also cuts at NEL or
form feed, iterating over a text file does not. A sentence is its text ``.split()`` on white space, never
lower-cased; an empty one is ``[]``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from corpora.books import books
from corpora.books.authors import author_rows
from corpora.inputs import bad_row, number_of, readable
from corpora.senteval.structure import (
    Pair,
    read_captions,
    read_hans,
    read_minimal,
    read_opposites,
    read_paws,
    read_semantoneg,
    triplets,
)
from corpora.senteval.tasks import (
    BINARY_TASKS,
    BOOK_TASKS,
    PROBING_FILES,
    PUBLISHED_ROWS,
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
        """Yield every sentence, row by row; of a pair first ``a``, then ``b``."""
        for row, first in enumerate(self.a):
            yield first
            if self.b is not None:
                yield self.b[row]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskData:
    """All data of one task."""

    name: str
    """The toolkit's name, e.g. ``"SICKRelatedness"``."""
    kind: Literal["single", "pair"]
    """Single sentences, or sentence pairs."""
    splits: dict[str, Split]
    """``all`` (MR CR SUBJ MPQA), ``train dev test`` (TREC, MRPC: no ``dev``), the subsets of STS12-16, or
    the titles of the books of Neighbours."""
    classes: tuple[str, ...] = ()
    """Names of the class ids; empty where ``y`` is a score."""
    files: Files = field(default_factory=dict)
    """The files each split was read from; ``all`` if one set of files holds every split."""

    def count_notes(self) -> list[str]:
        """One line per split whose number of rows differs from the published one."""
        return [
            f"{self.name} {split}: {len(rows):,} rows, published {PUBLISHED_ROWS[self.name][split]:,}"
            for split, rows in self.splits.items()
            if self.name in PUBLISHED_ROWS and len(rows) != PUBLISHED_ROWS[self.name][split]
        ]


def read_task(name: str, data: Path) -> TaskData:
    """Read one task from a data folder with ``downstream/`` and ``probing/`` (``.txt`` or ``.txt.gz``).

    A file may be gzip-compressed, with ``.gz`` added to its name.

    Raises:
        UserError: unknown task, missing files (the message names all, and their source), or a malformed row.
    """
    name = canonical_task(name)
    files = find_files(name, data)
    if name in PROBING_FILES:
        return _read_probing(name, files)
    if name in BOOK_TASKS:
        return _read_authors() if name == "Authors" else _read_neighbours()
    if name in STRUCTURE_TASKS:
        return _read_structure(name, files)
    if name in BINARY_TASKS:
        return _read_binary(name, files)
    if name in STS_SUBSETS:
        return _read_sts(name, files)
    return _read_snli(files) if name == "SNLI" else _read_rows(name, files)


def find_files(name: str, data: Path) -> Files:
    """The files of a task by split, each as named or with ``.gz``; ``name`` is the toolkit's.

    Raises:
        UserError: some are missing; the message names all of them, and their source.
    """
    wanted = task_paths(name, Path(data))
    files, missing = Files(), []
    for split, paths in wanted.items():
        files[split] = []
        for path in paths:
            packed = path.with_name(path.name + ".gz")
            here = next((one for one in (path, packed) if one.is_file()), None)
            files[split].append(here or path)
            missing += [] if here else [path]
    if missing:
        where = "data/probing" if name in PROBING_FILES else "data/downstream/get_transfer_data.bash"
        home = f"{where} of github.com/facebookresearch/SentEval"
        if name in STRUCTURE_TASKS:
            home = "what docs/structure.md says"
        names = ", ".join(str(path).removeprefix(f"{data}/") for path in missing)
        raise UserError(f"{name}: no such file in {data}: {names} (nor with .gz); get them by {home}")
    return files


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


def _iterate_lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Numbered lines as iterating over a text file gives them: cut at LF, CR LF and CR alone."""
    lines = _read_text(path, encoding).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    yield from enumerate(lines[:-1] if lines[-1] == "" else lines, start=1)


def _value(path: Path, row: int, text: str, classes: tuple[str, ...]) -> int | float:
    """A class id, or without classes a score."""
    if classes:
        if text not in classes:
            raise bad_row(path, row, f"a label among {' '.join(classes)}", text)
        return classes.index(text)
    if (score := number_of(text)) is not None:
        return score
    raise bad_row(path, row, "a number", text)


def _read_binary(name: str, files: Files) -> TaskData:
    """MR, CR, SUBJ, MPQA: a file per class, class 1 first; blank lines are rows."""
    one, zero = ([line.split() for line in _split_lines(path, "latin-1")] for path in files["all"])
    split = Split(a=one + zero, y=[1] * len(one) + [0] * len(zero))
    return TaskData(name=name, kind="single", splits={"all": split}, classes=BINARY_CLASSES, files=files)


def _cells(name: str, line: str) -> list[str]:
    """Return the columns of a line; of TREC's ``NUM:dist How far ...`` the coarse label and the text."""
    if name == "TREC":
        coarse, _, rest = line.partition(":")
        return [coarse, *rest.split(" ", 1)[1:]]
    return line.split(" ", 1) if name == "SST5" else line.split("\t")


def _read_rows(name: str, files: Files) -> TaskData:
    """A file per split, a row per line; TREC is Latin-1, the others UTF-8."""
    a, b, y, count, header = _COLUMNS[name]
    classes, splits = _CLASSES.get(name, ()), {}
    for split, (path,) in files.items():
        rows = []
        for row, line in _iterate_lines(path, "latin-1" if name == "TREC" else "utf-8"):
            cells = _cells(name, line.strip())
            if row > header and len(cells) < count:
                what = "tab-separated columns" if "\t" in line or b else "parts, a label and a sentence"
                raise bad_row(path, row, f"{count} {what}", line)
            if row > header:
                rows.append((cells, _value(path, row, cells[y], classes)))
        splits[split] = Split(
            a=[cells[a].split() for cells, _ in rows],
            b=None if b is None else [cells[b].split() for cells, _ in rows],
            y=[value for _, value in rows],
        )
    kind: Literal["single", "pair"] = "single" if b is None else "pair"
    return TaskData(name=name, kind=kind, splits=splits, classes=classes, files=files)


def _same_rows(first: Path, rows: int, second: Path, others: int) -> None:
    if rows != others:
        raise UserError(f"{second}: {others:,} rows, but {first} has {rows:,}; they must correspond")


def _read_sts(name: str, files: Files) -> TaskData:
    """STS12-16: per subset ``STS.input.X.txt`` (two columns) beside ``STS.gs.X.txt`` (a score or nothing)."""
    splits = {}
    for subset, (inputs, golds) in files.items():
        lines, scores = _split_lines(inputs), _split_lines(golds)
        _same_rows(inputs, len(lines), golds, len(scores))
        pairs = [line.split("\t") for line in lines]
        for row, (line, pair) in enumerate(zip(lines, pairs, strict=True), start=1):
            if len(pair) != 2:
                raise bad_row(inputs, row, "2 tab-separated columns", line)
        scored = [row for row, score in enumerate(scores) if score != ""]
        splits[subset] = Split(
            a=[pairs[row][0].split() for row in scored],
            b=[pairs[row][1].split() for row in scored],
            y=[_value(golds, row + 1, scores[row], ()) for row in scored],
        )
    return TaskData(name=name, kind="pair", splits=splits, files=files)


def _read_snli(files: Files) -> TaskData:
    """SNLI: three parallel files per split, as SentEval's download script writes them.

    The toolkit sorts SNLI rows by the label's *name*, ``classes[y]``, not by its id.
    """
    splits = {}
    for split, (first, second, gold) in files.items():
        # The toolkit splits the re-encoded bytes: at ASCII white space only, unlike every other task.
        a, b = (
            [[token.decode() for token in line.encode().split()] for line in _split_lines(path, "latin-1")]
            for path in (first, second)
        )
        labels = [label.strip() for label in _split_lines(gold)]
        _same_rows(first, len(a), second, len(b))
        _same_rows(first, len(a), gold, len(labels))
        y = [_value(gold, row, label, SNLI_CLASSES) for row, label in enumerate(labels, 1)]
        splits[split] = Split(a=a, b=b, y=y)
    return TaskData(name="SNLI", kind="pair", splits=splits, classes=SNLI_CLASSES, files=files)


def _read_probing(name: str, files: Files) -> TaskData:
    """``tr|va|te <TAB> label <TAB> ... <TAB> sentence``; class ids: the train rows' labels, sorted."""
    (path,) = files["all"]
    rows: dict[str, list[tuple[int, list[str]]]] = {"tr": [], "va": [], "te": []}
    for row, line in _iterate_lines(path):
        columns = line.rstrip().split("\t")
        if len(columns) < 3 or columns[0] not in rows:
            raise bad_row(path, row, "tr|va|te, label, sentence separated by tabs", line)
        rows[columns[0]].append((row, columns))
    classes = tuple(sorted({columns[1] for _, columns in rows["tr"]}))
    ids = {label: number for number, label in enumerate(classes)}
    splits = {}
    for split, part in zip(("train", "dev", "test"), rows.values(), strict=True):
        for row, columns in part:
            if columns[1] not in ids:
                raise bad_row(path, row, "a label that occurs in the train rows", "\t".join(columns))
        y = [ids[columns[1]] for _, columns in part]
        splits[split] = Split(a=[columns[-1].split() for _, columns in part], y=y)
    files = {split: [path] for split in splits}
    return TaskData(name=name, kind="single", splits=splits, classes=classes, files=files)


def _read_authors() -> TaskData:
    """Sentences of books by ten authors; the test part is of other books."""
    splits: dict[str, Split] = {}
    authors: list[str] = []
    for split, part in (("train", "train"), ("test", "heldout")):
        rows, labels, authors = author_rows(part)
        splits[split] = Split(a=rows, y=labels)
    return TaskData(name="Authors", kind="single", splits=splits, classes=tuple(authors))


def _read_neighbours() -> TaskData:
    """The held-out books, each a split, their sentences in running order; y is the place in the book."""
    words = Tokenizer("spacy", running=False)
    splits = {
        book.title: Split(
            a=[list(words.line(text)) for text in book.sentences], y=[*range(len(book.sentences))]
        )
        for book in books("heldout")
    }
    return TaskData(name="Neighbours", kind="single", splits=splits)


_READERS = {
    "HANS": read_hans,
    "PAWS": read_paws,
    "MinimalPairs": read_minimal,
    "SemAntoNeg": read_semantoneg,
    "SugarCrepe++": read_captions,
    "Opposites": read_opposites,
}


def _read_structure(name: str, files: Files) -> TaskData:
    """Pairs of the same words, 1 where they mean the same; of Binding two rows a triplet, split by kind."""
    if name == "Binding":
        pairs: dict[str, list[Pair]] = {}
        for t in triplets("test"):
            pairs.setdefault(t.kind, []).extend([(True, t.anchor, t.same), (False, t.anchor, t.other)])
    else:
        read = _READERS[name]
        pairs = {split: [pair for path in paths for pair in read(path)] for split, paths in files.items()}
        for split, part in pairs.items():
            if len({same for same, _, _ in part}) < (1 if name == "Opposites" else 2):
                raise UserError(
                    f"{files[split][0]}: no pairs for {name} that say the same, or none that do not"
                )
    words = Tokenizer("spacy", running=False)
    splits = {
        split: Split(
            a=[list(words.line(a)) for _, a, _ in part],
            b=[list(words.line(b)) for _, _, b in part],
            y=[int(same) for same, _, _ in part],
        )
        for split, part in pairs.items()
    }
    return TaskData(name=name, kind="pair", splits=splits, classes=BINARY_CLASSES, files=files)
