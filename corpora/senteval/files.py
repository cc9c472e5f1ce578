"""Read the SentEval task files exactly as the original toolkit does, into typed rows.

    data = read_task("MRPC", Path("data"))    # data/downstream/..., data/probing/...
    data.splits["train"].a[0]                 # tokens of the first sentence of the first pair

Rows are in the order of the files; the evaluation sorts them, because folds and shuffles depend on the order.
The characters that end a line differ between tasks, as in the toolkit: ``str.splitlines`` also cuts at NEL,
form feed and the Unicode separators, and iteration over a text file does not. A sentence is its text split at
white space, with its capitals; an empty sentence is ``[]``.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from corpora.books import author_rows, books
from corpora.inputs import open_text
from corpora.ranking.queries import read_queries
from corpora.senteval.structure import PAIR_READERS, Pair, task_pairs, triplets
from corpora.senteval.tasks import TASKS, Task, canonical_task
from corpora.tables import bad_row, parse_number
from corpora.text import Tokenizer
from runtime.errors import UserError
from runtime.files import path_of

Tokens = list[str]
Files = dict[str, list[Path]]
Classes = tuple[str, ...]
ORIGINS = {
    "downstream": "data/downstream/get_transfer_data.bash of github.com/facebookresearch/SentEval",
    "queries.tsv": "writing one of your own, with the columns query and relevant",
    "probing": "data/probing of github.com/facebookresearch/SentEval",
}
"""The sources of the files of each folder."""
_COLUMNS: Mapping[str, tuple[int, int | None, int, int, int]] = {
    # sentence, second sentence, label or score, columns at least, header lines
    "trec": (1, None, 0, 2, 0),
    "mrpc": (3, 4, 0, 5, 1),
    "sick-relatedness": (1, 2, 3, 5, 1),
    "sick-entailment": (1, 2, 4, 5, 1),
    "sts-b": (5, 6, 4, 7, 0),
    "sst2": (0, None, 1, 2, 0),
    "sst5": (1, None, 0, 2, 0),
}
"""The columns of formats that have one row per line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The rows of one split, which are sentences or pairs of sentences."""

    a: list[Tokens]
    b: list[Tokens] | None = None
    """The second sentences, if rows are pairs."""
    y: list[int] | list[float]
    """Class ids or scores."""

    def __len__(self) -> int:
        return len(self.a)

    def sentences(self) -> Iterator[Tokens]:
        """Yield the sentences of all rows: for each pair first ``a``, then ``b``."""
        for row, first in enumerate(self.a):
            yield first
            if self.b is not None:
                yield self.b[row]


Splits = dict[str, Split]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskData:
    """All data of one task."""

    task: Task
    splits: Splits
    """``all`` (MR CR SUBJ MPQA), ``train dev test`` (TREC, MRPC: no ``dev``), the subsets of STS12-16, or
    the titles of the books of Neighbours."""
    classes: tuple[str, ...] = ()
    """The names of the class ids; empty if ``y`` are scores."""
    files: Files = field(default_factory=dict)
    """The files of each split; the key is ``all`` if the same files hold all splits."""

    @property
    def name(self) -> str:
        """The name of the task."""
        return self.task.name

    def count_notes(self) -> list[str]:
        """Return one line per split whose number of rows differs from the published one."""
        return [
            f"{self.name} {split}: {len(rows):,} rows, published {self.task.published_rows[split]:,}"
            for split, rows in self.splits.items()
            if len(rows) != self.task.published_rows.get(split, len(rows))
        ]


def read_task(name: str, data: Path | str) -> TaskData:
    """Read one task from a data folder with ``downstream/`` and ``probing/``.

    A file may be compressed by gzip, with ``.gz`` added to its name. Raises UserError if the task is unknown,
    if files are missing (the message names all of them and their source), or if a row is malformed.
    """
    task = TASKS[canonical_task(name)]
    files = find_files(task, path_of(data, "read_task: data"))
    splits, classes = READERS[task.reader](task, files)
    return TaskData(task=task, splits=splits, classes=classes or task.classes, files=files)


def find_files(task: Task, data: Path) -> Files:
    """Return the files of a task by split, as named or with ``.gz``. Raises UserError if they are missing."""
    files = Files()
    missing_files = []
    for split, paths in task.paths(Path(data)).items():
        files[split] = []
        for path in paths:
            compressed_path = path.with_name(path.name + ".gz")
            if not path.is_file() and not compressed_path.is_file():
                missing_files.append(str(path).removeprefix(f"{data}/"))
            files[split].append(path if path.is_file() else compressed_path)
    if missing_files:
        folders = [Path(file).parts for paths in task.files.values() for file in paths]
        origins = dict.fromkeys(ORIGINS.get(folder, "what docs/structure.md says") for folder, *_ in folders)
        names = ", ".join(dict.fromkeys(missing_files))
        raise UserError(
            f"{task.name}: no such file in {data}: {names} (nor with .gz); get them by {', '.join(origins)}"
        )
    return files


def _read_text(path: Path, encoding: str = "utf-8") -> str:
    """Return the text of a file. Raises UserError if a byte is not in the encoding, with its line."""
    with open_text(path) as stream:
        raw = stream.read()
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError as error:
        row = raw.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}:{row}: not {encoding} (byte 0x{raw[error.start]:02x})") from None


def _iterate_lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Yield numbered lines, which end at LF, CR LF or CR as in iteration over a text file."""
    lines = _read_text(path, encoding).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    yield from enumerate(lines[:-1] if lines[-1] == "" else lines, start=1)


def _read_label(path: Path, row: int, text: str, classes: tuple[str, ...]) -> int | float:
    """Return the id of a class, or without ``classes`` a score. Raises UserError if the text is neither."""
    if classes:
        if text not in classes:
            raise bad_row(path, row, f"a label among {' '.join(classes)}", text)
        return classes.index(text)
    if (score := parse_number(text)) is not None:
        return score
    raise bad_row(path, row, "a number", text)


def _read_binary(task: Task, positive: Path, negative: Path) -> Split:
    """Read MR, CR, SUBJ, MPQA: a file per class, class 1 first; blank lines are rows."""
    positive_rows, negative_rows = (
        [line.split() for line in _read_text(path, "latin-1").splitlines()] for path in (positive, negative)
    )
    labels = [1] * len(positive_rows) + [0] * len(negative_rows)
    return Split(a=positive_rows + negative_rows, y=labels)


def _read_rows(task: Task, path: Path) -> Split:
    """Read the formats with one row per line: TREC (``NUM:dist How far ...``) in Latin-1, others in UTF-8."""
    a, b, y, count, header_lines = _COLUMNS[task.reader]
    rows = []
    labels = []
    for row, line in _iterate_lines(path, "latin-1" if task.reader == "trec" else "utf-8"):
        if row <= header_lines:
            continue
        if task.reader == "trec":
            coarse_class, _, fine_class_and_text = line.strip().partition(":")
            cells = [coarse_class, *fine_class_and_text.split(" ", 1)[1:]]
        elif task.reader == "sst5":
            cells = line.strip().split(" ", 1)
        else:
            cells = line.strip().split("\t")
        if len(cells) < count:
            parts = "tab-separated columns" if "\t" in line or b else "parts, a label and a sentence"
            raise bad_row(path, row, f"{count} {parts}", line)
        rows.append(cells)
        labels.append(_read_label(path, row, cells[y], task.classes))
    return Split(
        a=[cells[a].split() for cells in rows],
        b=None if b is None else [cells[b].split() for cells in rows],
        y=labels,
    )


def _check_same_length(file: Path, rows: int, other_file: Path, other_rows: int) -> None:
    """Raise UserError if two files that correspond row by row have different numbers of rows."""
    if rows != other_rows:
        raise UserError(f"{other_file}: {other_rows:,} rows, but {file} has {rows:,}; they must correspond")


def _read_sts(task: Task, inputs: Path, golds: Path) -> Split:
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


def _read_snli(task: Task, first: Path, second: Path, gold: Path) -> Split:
    """Read three parallel files, as SentEval's download script writes them.

    The toolkit sorts SNLI rows by the label's *name*, ``classes[y]``, not by its id.
    """
    # Here the toolkit splits bytes, at ASCII white space only. In all other tasks it splits text.
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
    y = [_read_label(gold, row, label, task.classes) for row, label in enumerate(labels, start=1)]
    return Split(a=a, b=b, y=y)


def _read_probing(task: Task, files: Files) -> tuple[Splits, Classes]:
    """Read ``tr|va|te <TAB> label <TAB> ... <TAB> sentence``; classes are the train rows' labels, sorted."""
    [path] = files["train"]  # the file has all splits
    lines = {row: line.rstrip().split("\t") for row, line in _iterate_lines(path)}
    classes = tuple(sorted({cells[1] for cells in lines.values() if cells[0] == "tr" and len(cells) > 2}))
    ids = {label: number for number, label in enumerate(classes)}
    splits = {"tr": Split(a=[], y=[]), "va": Split(a=[], y=[]), "te": Split(a=[], y=[])}
    for row, cells in lines.items():
        if len(cells) < 3 or cells[0] not in splits:
            raise bad_row(path, row, "tr|va|te, label, sentence separated by tabs", "\t".join(cells))
        if cells[1] not in ids:
            raise bad_row(path, row, "a label that occurs in the train rows", "\t".join(cells))
        splits[cells[0]].a.append(cells[-1].split())
        splits[cells[0]].y.append(ids[cells[1]])
    return dict(zip(("train", "dev", "test"), splits.values(), strict=True)), classes


def _read_authors(task: Task, files: Files) -> tuple[Splits, Classes]:
    """Read sentences of the books in the package; those of the test split are from other books."""
    splits: Splits = {}
    classes: Classes = ()
    for split, book_split in (("train", "train"), ("test", "heldout")):
        rows, labels, classes = author_rows(book_split)
        splits[split] = Split(a=rows, y=labels)
    return splits, classes


def _read_neighbours(task: Task, files: Files) -> tuple[Splits, Classes]:
    """Read the held-out books, each as a split; ``y`` is the number of the sentence in its book."""
    tokenizer = Tokenizer("spacy", running=False)
    splits: Splits = {}
    for book in books("heldout"):
        rows = [list(tokenizer.tokenize(text)) for text in book.sentences]
        splits[book.title] = Split(a=rows, y=list(range(len(rows))))
    return splits, ()


def _read_structure(task: Task, files: Files) -> tuple[Splits, Classes]:
    """Read the pairs of a task of structure; the label is 1 if the sentences mean the same."""
    pairs: dict[str, list[Pair]] = {}
    for split, paths in files.items():
        pairs[split] = [pair for path in paths for pair in task_pairs(task.name, path)]
        # In Opposites a split has pairs of one kind only.
        if len({pair.is_same for pair in pairs[split]}) < (1 if task.reader == "opposites" else 2):
            raise UserError(f"{paths[0]}: no pairs for {task.name} that say the same, or none that do not")
    return _splits_of_pairs(pairs), ()


def _read_binding(task: Task, files: Files) -> tuple[Splits, Classes]:
    """Make two pairs of each triplet of Binding; the splits are the kinds of triplets."""
    pairs: dict[str, list[Pair]] = {}
    for triplet in triplets("test"):
        pairs.setdefault(triplet.kind, []).extend(triplet.pairs())
    return _splits_of_pairs(pairs), ()


def _splits_of_pairs(pairs: Mapping[str, list[Pair]]) -> Splits:
    """Return pairs as splits of tokenised sentences, with the label 1 for pairs that mean the same."""
    tokenizer = Tokenizer("spacy", running=False)
    return {
        split: Split(
            a=[list(tokenizer.tokenize(pair.first)) for pair in pairs_of_split],
            b=[list(tokenizer.tokenize(pair.second)) for pair in pairs_of_split],
            y=[int(pair.is_same) for pair in pairs_of_split],
        )
        for split, pairs_of_split in pairs.items()
    }


def _read_queries(task: Task, files: Files) -> tuple[Splits, Classes]:
    """Read a file of queries as the splits ``queries`` and ``collection``.

    ``y`` of a sentence of the collection is the query to which it is relevant, or -1. A sentence that is
    relevant to several queries has a row for each.
    """
    (path,) = files["all"]
    data = read_queries(path)
    tokenizer = Tokenizer("spacy", running=False)
    rows = [(index, query) for query, indices in enumerate(data.relevant) for index in indices.tolist()]
    relevant_indices = {index for index, _ in rows}
    rows += [(index, -1) for index in range(len(data.texts)) if index not in relevant_indices]
    tokens = [list(tokenizer.tokenize(text)) for text in data.texts]
    queries = [list(tokenizer.tokenize(text)) for text in data.queries]
    return {
        "queries": Split(a=queries, y=list(range(len(queries)))),
        "collection": Split(a=[tokens[index] for index, _ in rows], y=[query for _, query in rows]),
    }, ()


Reader = Callable[[Task, Files], tuple[Splits, Classes]]
"""Returns the splits of a task, and the names of its classes if they are in the files."""


def by_split(read: Callable[..., Split]) -> Reader:
    """Return a reader that calls ``read`` for each split, with the task and the files of the split."""
    return lambda task, files: ({split: read(task, *paths) for split, paths in files.items()}, ())


READERS: dict[str, Reader] = {
    "binary": by_split(_read_binary),
    **dict.fromkeys(_COLUMNS, by_split(_read_rows)),
    "sts": by_split(_read_sts),
    "snli": by_split(_read_snli),
    "probing": _read_probing,
    "authors": _read_authors,
    "neighbours": _read_neighbours,
    "binding": _read_binding,
    "queries": _read_queries,
    **dict.fromkeys(PAIR_READERS, _read_structure),
}
"""The readers, by the name of the format in ``tasks.tsv``."""
