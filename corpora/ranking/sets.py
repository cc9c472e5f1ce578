"""Read sets of questions and candidate passages, as their authors distribute them.

- WikiQA, TrecQA: ``{train,dev,test}.tsv``, tokenised: question_id, label, question, candidate.
- WikiPassageQA: ``document_passages.json`` {document: {passage: text}}; ``{train,dev,test}.tsv``: QID,
  Question, DocumentID, RelevantPassages (joined by commas). Candidates are all passages of the document.
- InsuranceQA, version 1: ``vocabulary``: number, word; ``answers.label.token_idx``: label, numbers;
  ``question.train.token_idx.label``: numbers, right labels; ``question.{dev,test1}.label.token_idx.pool``:
  right labels, numbers, labels of the pool. Training questions have no pool: wrong answers are drawn from
  all. A right answer outside the pool counts as missed.
- Quasar-T: ``questions/{split}_questions.json.gz``, an object a line: uid, question, answer;
  ``contexts/short/{split}_contexts.json.gz``: uid, contexts [[score, text], ...].
- SearchQA: ``{train,val,test}/NNNNNN-tag.json`` per question: question, answer, search_results
  [{snippet, ...}, ...].

Each set is read into :class:`Question` objects. In Quasar-T and SearchQA a passage is relevant if it contains
the words of the answer in order, in lower case and without punctuation, and a passage that occurs twice for a
question counts once. In the other sets each copy counts, and all copies of a relevant passage are relevant.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corpora.inputs import read_lines
from corpora.tables import MAX_ROW_BYTES, TableRow, read_rows, read_table
from corpora.text import Tokenizer
from runtime.errors import UserError
from runtime.files import parse_json, read_json

SPLITS = ("train", "dev", "test")
SPACY_NOTE, ANSWER_NOTE = "tokenised by spaCy's rules", "relevant: contains the answer's words in order"
_WORD = re.compile(r"[^\W_]+")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Question:
    """One question with K candidates, in the file's order."""

    id: str
    text: str
    """Its tokens, joined by one space."""
    candidates: NDArray[np.int64]
    """Indices into the set's passages, [K]."""
    relevant: NDArray[np.bool_]
    """Whether each candidate answers the question, [K]."""
    missed_count: int = 0
    """Number of relevant passages that are not candidates; they lower recall and average precision."""


@dataclass(frozen=True, eq=False)
class PassageSet:
    """A data set of passages and questions."""

    folder: Path
    passages: list[str]
    """Distinct passages, their tokens joined by one space."""
    splits: dict[str, list[Question]]
    """Questions of train, dev and test."""
    files: list[Path]
    notes: list[str] = field(default_factory=list)
    """Remarks that are printed with the scores."""

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.folder.absolute().name  # absolute, so that "." has a name


def filter_questions(data: PassageSet, keep: str) -> PassageSet:
    """Return the set with the questions that are used for training and evaluation.

    In dev and test, ``keep="answered"`` keeps questions with a relevant candidate (the usual WikiQA and raw
    TrecQA), ``mixed`` those with a relevant and an irrelevant one (TrecQA "clean"), and ``all`` keeps all.
    Training questions need both, because a training pair has one of each. Raises UserError if a split has no
    question left.
    """
    splits = {}
    notes = list(data.notes)
    for name, questions in data.splits.items():
        rule = "mixed" if name == "train" else keep
        kept_questions = questions
        if rule != "all":
            kept_questions = [q for q in kept_questions if q.missed_count or q.relevant.any()]
        if rule == "mixed":
            kept_questions = [q for q in kept_questions if not q.relevant.all()]
        if not kept_questions:
            raise UserError(f"{data.name}: no question of {name} is left with --keep {keep}")
        if count := len(questions) - len(kept_questions):
            reason = "a relevant" if rule == "answered" else "both a relevant and an irrelevant"
            notes.append(f"{name}: {count} of {len(questions)} questions without {reason} candidate left out")
        splits[name] = kept_questions
    return replace(data, splits=splits, notes=notes)


def read_set(spec: str) -> PassageSet:
    """Read the set in ``FORMAT=FOLDER``, or in a folder named like its format.

    Raises UserError if the format is unknown or a file is malformed.
    """
    format_name, _, folder_name = spec.partition("=")
    folder = Path(folder_name or spec)
    format_of_set = _FORMATS.get((format_name if folder_name else folder.name).lower())
    if format_of_set is None:
        raise UserError(f"data set {spec!r}: write FORMAT=FOLDER with a format of {', '.join(_FORMATS)}")
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder")
    source = _Source(folder, Tokenizer(format_of_set.tokenize, running=False))
    format_of_set.read(source)
    return PassageSet(folder, list(source.rows), source.splits, source.files, [*format_of_set.notes])


@dataclass
class _Source:
    """The folder of a set, and the files, distinct passages and questions read from it so far."""

    folder: Path
    tokenizer: Tokenizer
    files: list[Path] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    """The row of each passage, in order of first appearance."""
    splits: dict[str, list[Question]] = field(default_factory=lambda: {split: [] for split in SPLITS})

    def file(self, name: str) -> Path:
        """Return the path of a file, and add it to ``files``."""
        self.files.append(self.folder / name)
        return self.files[-1]

    def text(self, raw: str) -> str:
        """Return the tokens of a text joined by one space, or "." if it has none."""
        return " ".join(self.tokenizer.tokenize(raw)) or "."

    def row(self, raw: str) -> int:
        """Return the row of a passage, which is added if it is new."""
        return self.rows.setdefault(self.text(raw), len(self.rows))

    def add(self, split: str, name: str, text: str, right: Sequence[int], candidates: ArrayLike) -> None:
        """Add a question.

        Args:
            split: its split.
            name: its identifier.
            text: its text.
            right: the rows of the passages that answer it.
            candidates: the rows of its candidates.
        """
        rows_K = np.asarray(candidates, np.int64)
        right_rows = np.unique(np.asarray(right, np.int64))
        missed_count = len(np.setdiff1d(right_rows, rows_K))
        is_right = np.isin(rows_K, right_rows)
        self.splits[split].append(Question(name, self.text(text), rows_K, is_right, missed_count))

    def add_by_answer(
        self, split: str, name: str, record: Mapping[str, str], passages: Sequence[str]
    ) -> None:
        """Add the question of a record with candidates, which are relevant if they contain its answer."""
        is_right = {self.row(passage): contains_words(passage, record["answer"]) for passage in passages}
        self.add(split, name, record["question"], [row for row in is_right if is_right[row]], [*is_right])


def contains_words(passage: str, answer: str) -> bool:
    """Tell whether a passage has the answer's words in order; an answer without words never matches."""
    answer_words = " ".join(_WORD.findall(answer.lower()))
    passage_words = " ".join(_WORD.findall(passage.lower()))
    return bool(answer_words) and f" {answer_words} " in f" {passage_words} "


def _look_up(row: TableRow, names: Sequence[str], table: Mapping[str, T], kind: str) -> list[T]:
    """Return the values of names in a table. Raises UserError if the table does not have a name."""
    for name in names:
        if name not in table:
            raise UserError(f"{row.where}: {kind} {name!r} is not listed")
    return [table[name] for name in names]


def _require(where: object, value: Any, types: Mapping[str, type]) -> dict[str, Any]:
    """Return a JSON value. Raises UserError if it is no object with values of these types."""
    for key, kind in types.items():
        if not isinstance(value, dict) or not isinstance(value.get(key), kind):
            raise UserError(f"{where}: expected an object whose {key!r} is a {kind.__name__}")
    record: dict[str, Any] = value
    return record


def _objects(path: Path, types: Mapping[str, type]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the position (file and line) of each line, and its JSON object."""
    for line in read_lines(path, MAX_ROW_BYTES):
        where = f"{path}:{line.number}"
        yield where, _require(where, parse_json(line.text, where=where), types)


def _labelled_candidates(source: _Source) -> None:
    """Read WikiQA or TrecQA: questions in order of first appearance, candidates in the file's order."""
    for split in SPLITS:
        rows_of_question: dict[str, list[TableRow]] = {}
        for row in read_table(source.file(f"{split}.tsv"), ("question_id", "question", "candidate", "label")):
            name, text, _, label = row.cells
            if label not in ("0", "1"):
                raise UserError(f"{row.where}: label {label!r} is neither 0 nor 1")
            rows = rows_of_question.setdefault(name, [])
            rows.append(row)
            if text != rows[0].cells[1]:
                raise UserError(f"{row.where}: question {name!r} has another text than before")
        for name, rows in rows_of_question.items():
            candidates = [source.row(row.cells[2]) for row in rows]
            right = [passage for passage, row in zip(candidates, rows, strict=True) if row.cells[3] == "1"]
            source.add(split, name, rows[0].cells[1], right, candidates)


def _wikipassageqa(source: _Source) -> None:
    path = source.file("document_passages.json")
    documents = read_json(path)
    if not isinstance(documents, dict) or not all(isinstance(d, dict) and d for d in documents.values()):
        raise UserError(f"{path}: expected {{document: {{passage: text}}}}, every document with a passage")
    rows = {name: {key: source.row(str(text)) for key, text in d.items()} for name, d in documents.items()}
    for split in SPLITS:
        columns = ("QID", "Question", "DocumentID", "RelevantPassages")
        for row in read_table(source.file(f"{split}.tsv"), columns):
            name, text, document, answers = row.cells
            [passages] = _look_up(row, [document], rows, "document")
            right = _look_up(row, re.split(r"\s*,\s*", answers), passages, f"document {document}: passage")
            source.add(split, name, text, right, [*passages.values()])


def _insuranceqa(source: _Source) -> None:
    rows = read_rows(source.file("vocabulary"), 2, may_be_empty=True)
    vocabulary = {row.cells[0]: row.cells[1] for row in rows}

    def words(row: TableRow, numbers: str) -> str:
        return " ".join(_look_up(row, numbers.split(), vocabulary, "word"))

    rows = read_rows(source.file("answers.label.token_idx"), 2, may_be_empty=True)
    answers = {row.cells[0]: source.row(words(row, row.cells[1])) for row in rows}
    all_answers = np.arange(len(source.rows))
    path = source.file("question.train.token_idx.label")
    for row_number, row in enumerate(read_rows(path, 2, may_be_empty=True)):
        numbers, labels = row.cells
        right = _look_up(row, labels.split(), answers, "answer")
        source.add("train", f"train{row_number}", words(row, numbers), right, all_answers)
    for split, name in (("dev", "dev"), ("test", "test1")):
        path = source.file(f"question.{name}.label.token_idx.pool")
        for row_number, row in enumerate(read_rows(path, 3, may_be_empty=True)):
            labels, numbers, pool = row.cells
            right, candidates = (_look_up(row, side.split(), answers, "answer") for side in (labels, pool))
            source.add(split, f"{split}{row_number}", words(row, numbers), right, candidates)


def _quasar(source: _Source) -> None:
    """Read Quasar-T; questions without contexts have no candidate."""
    for split in SPLITS:
        file = source.file(f"questions/{split}_questions.json.gz")
        objects = _objects(file, {"uid": str, "question": str, "answer": str})
        questions = {record["uid"]: record for _, record in objects}
        passages: dict[str, list[str]] = {name: [] for name in questions}
        context_file = source.file(f"contexts/short/{split}_contexts.json.gz")
        for where, record in _objects(context_file, {"uid": str, "contexts": list}):
            if record["uid"] not in questions:
                raise UserError(f"{where}: no question {record['uid']!r} in {file.name}")
            if not all(isinstance(context, list) and len(context) == 2 for context in record["contexts"]):
                raise UserError(f"{where}: contexts are not pairs of score and text")
            passages[record["uid"]] = [str(text) for _, text in record["contexts"]]
        for name, record in questions.items():
            source.add_by_answer(split, name, record, passages[name])


def _searchqa(source: _Source) -> None:
    types = {"question": str, "answer": str, "search_results": list}
    for split, name in zip(SPLITS, ("train", "val", "test"), strict=True):
        paths = sorted((source.folder / name).glob("*.json"))
        if not paths:
            raise UserError(f"{source.folder / name}: no files NNNNNN-tag.json")
        source.files += paths
        for path in paths:
            record = _require(path, read_json(path), types)
            results = [_require(path, result, {"snippet": object}) for result in record["search_results"]]
            snippets = [str(result["snippet"]) for result in results if result["snippet"]]
            # The questions have quotation marks around them and links within.
            record["question"] = re.sub(r"<[^>]+>", "", record["question"]).strip("'\"")
            source.add_by_answer(split, path.stem, record, snippets)


@dataclass(frozen=True)
class _Format:
    read: Callable[[_Source], None]
    tokenize: str
    notes: Collection[str] = ()


_DOCUMENT_NOTES = ("candidates: all passages of the document", SPACY_NOTE)
_INSURANCE_NOTES = ("test is test1", "wrong answers in training come from all answers")
_FORMATS = {
    "wikiqa": _Format(_labelled_candidates, "space"),
    "trecqa": _Format(_labelled_candidates, "space"),
    "wikipassageqa": _Format(_wikipassageqa, "spacy", _DOCUMENT_NOTES),
    "insuranceqa": _Format(_insuranceqa, "space", _INSURANCE_NOTES),
    "quasar-t": _Format(_quasar, "spacy", (ANSWER_NOTE, SPACY_NOTE)),
    "searchqa": _Format(_searchqa, "spacy", (ANSWER_NOTE, SPACY_NOTE)),
}
