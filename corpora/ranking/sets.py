"""Sets of questions and candidate passages, as their authors distribute them.

| set | files |
|---|---|
| WikiQA, TrecQA | ``{train,dev,test}.tsv``, tokenised: question_id, label, question, candidate |
| WikiPassageQA | ``document_passages.json`` {document: {passage: text}}; ``{train,dev,test}.tsv``: QID, Question, DocumentID, RelevantPassages (joined by commas). Candidates are all passages of the document |
| InsuranceQA, version 1 | ``vocabulary``: number, word; ``answers.label.token_idx``: label, numbers; ``question.train.token_idx.label``: numbers, right labels; ``question.{dev,test1}.label.token_idx.pool``: right labels, numbers, labels of the pool |
| Quasar-T | ``questions/{split}_questions.json.gz``, an object a line: uid, question, answer; ``contexts/short/{split}_contexts.json.gz``: uid, contexts [[score, text], ...] |
| SearchQA | ``{train,val,test}/NNNNNN-tag.json`` per question: question, answer, search_results [{snippet, ...}, ...] |

InsuranceQA's training questions have no pool: wrong answers are drawn from all. A right answer outside the pool
counts as missed. In Quasar-T and SearchQA a passage is relevant if it contains the answer's words in order, in
lower case and without punctuation; a passage that occurs twice for a question counts once.
"""  # noqa: E501

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from corpora.inputs import MAX_ROW_BYTES, Row, read_lines, read_rows, read_table
from corpora.text import Tokenizer
from runtime.errors import UserError
from runtime.files import parse_json, read_json

SPLITS = ("train", "dev", "test")
SPACY, CONTAINS = "tokenised by spaCy's rules", "relevant: contains the answer's words in order"
_WORD = re.compile(r"[^\W_]+")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Question:
    """One question with K candidates."""

    id: str
    text: str
    """Its tokens joined by one space."""
    candidates: NDArray[np.int64]
    """Indices into the set's passages, [K], in the file's order."""
    relevant: NDArray[np.bool_]
    """Which candidates are relevant, [K]."""
    missed: int = 0
    """Relevant passages that are not candidates; they count against recall and average precision."""


Splits = dict[str, list[Question]]


@dataclass(frozen=True, eq=False)
class PassageSet:
    """A data set."""

    name: str
    passages: list[str]
    """Distinct passages, tokens joined by one space."""
    splits: Splits
    """``train``, ``dev``, ``test``."""
    files: list[Path]
    """The files it was read from."""
    notes: list[str] = field(default_factory=list)
    """What a reader of the scores must know."""

    def counts(self) -> dict[str, tuple[int, int, int]]:
        """Count questions, candidates and relevant candidates of each split."""
        return {
            name: (len(part), sum(len(q.candidates) for q in part), sum(int(q.relevant.sum()) for q in part))
            for name, part in self.splits.items()
        }


def filtered(data: PassageSet, keep: str) -> PassageSet:
    """Drop the questions that are not used for training and evaluation.

    For dev and test ``keep`` says which are: ``answered`` those with a relevant candidate (the usual WikiQA
    and raw TrecQA), ``mixed`` those with an irrelevant one too (TrecQA "clean"), ``all`` every one. Training
    questions always need both, because a training pair has one of each.

    Raises:
        UserError: a split has no question left.
    """

    def is_kept(q: Question, wanted: str) -> bool:
        answered = bool(q.relevant.any() or q.missed)
        return wanted == "all" or (answered and (wanted == "answered" or not q.relevant.all()))

    splits, notes = {}, list(data.notes)
    for name, questions in data.splits.items():
        wanted = "mixed" if name == "train" else keep
        used = [q for q in questions if is_kept(q, wanted)]
        if not used:
            raise UserError(f"{data.name}: no question of {name} is left with --keep {keep}")
        if left := len(questions) - len(used):
            reason = "a relevant" if wanted == "answered" else "both a relevant and an irrelevant"
            notes.append(f"{name}: {left} of {len(questions)} questions without {reason} candidate left out")
        splits[name] = used
    return replace(data, splits=splits, notes=notes)


def parse_spec(spec: str) -> tuple[str, Path]:
    """Take apart ``FORMAT=FOLDER``, or a folder named after its format.

    Raises:
        UserError: unknown format.
    """
    format_name, _, rest = spec.partition("=")
    folder = Path(rest or spec)
    name = (format_name if rest else folder.name).lower()
    if name not in _READERS:
        raise UserError(f"data set {spec!r}: write FORMAT=FOLDER with a format of {', '.join(_READERS)}")
    return name, folder


def read_set(spec: str) -> PassageSet:
    """Read the data set that a name gives (:func:`parse_spec`).

    Raises:
        UserError: unknown format, missing or malformed files.
    """
    kind, folder = parse_spec(spec)
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder")
    read, tokenize, notes = _READERS[kind]
    passages = _Passages(tokenize)
    files: list[Path] = []
    splits = read(folder, passages, files)
    texts = list(passages.rows)
    return PassageSet(folder.absolute().name, texts, splits, files, [*notes])  # "." has a name too


class _Passages:
    """Distinct passages in order of first appearance, and questions about them."""

    def __init__(self, tokenize: str) -> None:
        self.tokenizer = Tokenizer(tokenize, running=False)
        self.rows: dict[str, int] = {}

    def text(self, raw: str) -> str:
        """Join the tokens of a text by one space; "." is a text without tokens."""
        return " ".join(self.tokenizer.line(raw)) or "."

    def row(self, raw: str) -> int:
        """Find the index of a passage, which is added if it is new."""
        return self.rows.setdefault(self.text(raw), len(self.rows))

    def question(self, name: str, text: str, judged: Iterable[tuple[int, bool]]) -> Question:
        """Make a question from its candidates' rows and labels."""
        rows_K2 = np.array(list(judged), dtype=np.int64).reshape(-1, 2)
        return Question(name, self.text(text), rows_K2[:, 0], rows_K2[:, 1].astype(bool))

    def searched(self, name: str, text: str, answer: str, texts: Sequence[str]) -> Question:
        """Make a question with the distinct ``texts`` as candidates, relevant if they contain the answer."""
        return self.question(name, text, {self.row(one): contains(one, answer) for one in texts}.items())


def contains(passage: str, answer: str) -> bool:
    """Tell whether a passage has the answer's words in order; an answer without words never matches."""
    words, text = (f" {' '.join(_WORD.findall(one.lower()))} " for one in (answer, passage))
    return bool(words.strip()) and words in text


def _answers(folder: Path, passages: _Passages, files: list[Path]) -> Splits:
    """Read WikiQA or TrecQA: questions in order of first appearance, candidates in the file's order."""
    files += [folder / f"{split}.tsv" for split in SPLITS]
    splits = {}
    for split, path in zip(SPLITS, files, strict=True):
        texts: dict[str, str] = {}
        judged: dict[str, list[tuple[int, bool]]] = {}
        for row in read_table(path, ("question_id", "question", "candidate", "label")):
            name, text, candidate, label = row.cells
            if label not in ("0", "1"):
                raise UserError(f"{row.where}: label {label!r} is neither 0 nor 1")
            if texts.setdefault(name, text) != text:
                raise UserError(f"{row.where}: question {name!r} has another text than before")
            judged.setdefault(name, []).append((passages.row(candidate), label == "1"))
        splits[split] = [passages.question(name, text, judged[name]) for name, text in texts.items()]
    return splits


def _wikipassageqa(folder: Path, passages: _Passages, files: list[Path]) -> Splits:
    path = folder / "document_passages.json"
    documents = read_json(path)
    if not isinstance(documents, dict) or not all(isinstance(d, dict) and d for d in documents.values()):
        raise UserError(f"{path}: expected {{document: {{passage: text}}}}, every document with a passage")
    rows = {name: {key: passages.row(str(text)) for key, text in d.items()} for name, d in documents.items()}
    files += [path, *(folder / f"{split}.tsv" for split in SPLITS)]
    splits: Splits = {}
    columns = ("QID", "Question", "DocumentID", "RelevantPassages")
    for split in SPLITS:
        splits[split] = []
        for row in read_table(folder / f"{split}.tsv", columns):
            qid, text, document, answers = row.cells
            if document not in rows:
                raise UserError(f"{row.where}: no document {document!r} in {path.name}")
            keys, wanted = rows[document], {answer.strip() for answer in answers.split(",")}
            unknown = sorted(wanted - keys.keys())
            if unknown:
                raise UserError(f"{row.where}: document {document} has no passage {unknown[0]!r}")
            judged = [(place, key in wanted) for key, place in keys.items()]
            splits[split].append(passages.question(qid, text, judged))
    return splits


def _insuranceqa(folder: Path, passages: _Passages, files: list[Path]) -> Splits:
    files += [
        folder / "vocabulary",
        folder / "answers.label.token_idx",
        folder / "question.train.token_idx.label",
        *(folder / f"question.{part}.label.token_idx.pool" for part in ("dev", "test1")),
    ]
    vocabulary = {row.cells[0]: row.cells[1] for row in read_rows(files[0], 2, may_be_empty=True)}
    answers: dict[str, int] = {}
    for row in read_rows(files[1], 2, may_be_empty=True):
        answers[row.cells[0]] = passages.row(" ".join(_known(row, row.cells[1], vocabulary, "word")))
    everything = np.arange(len(passages.rows))
    splits: Splits = {}
    for split, path in zip(SPLITS, files[2:], strict=True):
        splits[split] = []
        for row in read_rows(path, 2 if split == "train" else 3, may_be_empty=True):
            candidates = everything
            if split == "train":
                numbers, labels = row.cells
            else:
                labels, numbers, pool = row.cells
                candidates = np.array(_known(row, pool, answers, "answer"), dtype=np.int64)
            right = np.unique(_known(row, labels, answers, "answer"))
            name, text = f"{split}{len(splits[split])}", " ".join(_known(row, numbers, vocabulary, "word"))
            missed = len(np.setdiff1d(right, candidates))
            question, relevant = passages.text(text), np.isin(candidates, right)
            splits[split].append(Question(name, question, candidates, relevant, missed))
    return splits


def _known(row: Row, names: str, known: Mapping[str, T], what: str) -> list[T]:
    """Look up each of the names in a cell."""
    unknown = [name for name in names.split() if name not in known]
    if unknown:
        raise UserError(f"{row.where}: {what} {unknown[0]!r} is not listed")
    return [known[name] for name in names.split()]


def _objects(path: Path, types: Mapping[str, type]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Read the object of each line, with its file and line."""
    for line in read_lines(path, MAX_ROW_BYTES):
        where = f"{path}:{line.number}"
        yield where, _require(where, parse_json(line.text, where=where), types)


def _require(where: str, value: Any, types: Mapping[str, type]) -> dict[str, Any]:
    """Return ``value`` if it is an object that has these keys, with values of these types."""
    for key, kind in types.items():
        if not isinstance(value, dict) or not isinstance(value.get(key), kind):
            raise UserError(f"{where}: expected an object whose {key!r} is a {kind.__name__}")
    checked: dict[str, Any] = value
    return checked


def _quasar(folder: Path, passages: _Passages, files: list[Path]) -> Splits:
    """Read Quasar-T; questions without contexts have no candidate."""
    splits = {}
    for split in SPLITS:
        questions_file = folder / "questions" / f"{split}_questions.json.gz"
        contexts_file = folder / "contexts" / "short" / f"{split}_contexts.json.gz"
        files += [questions_file, contexts_file]
        keys = {"uid": str, "question": str, "answer": str}
        questions = {value["uid"]: value for _, value in _objects(questions_file, keys)}
        contexts: dict[str, list[str]] = {}
        for where, value in _objects(contexts_file, {"uid": str, "contexts": list}):
            if value["uid"] not in questions:
                raise UserError(f"{where}: no question {value['uid']!r} in {questions_file.name}")
            if not all(isinstance(context, list) and len(context) == 2 for context in value["contexts"]):
                raise UserError(f"{where}: contexts are not pairs of score and text")
            contexts[value["uid"]] = [str(text) for _, text in value["contexts"]]
        splits[split] = [
            passages.searched(uid, value["question"], value["answer"], contexts.get(uid, []))
            for uid, value in questions.items()
        ]
    return splits


def _searchqa(folder: Path, passages: _Passages, files: list[Path]) -> Splits:
    splits: Splits = {}
    keys = {"question": str, "answer": str, "search_results": list}
    for split in SPLITS:
        place = folder / ("val" if split == "dev" else split)
        paths = sorted(place.glob("*.json"))
        if not paths:
            raise UserError(f"{place}: no files NNNNNN-tag.json")
        files += paths
        splits[split] = []
        for path in paths:
            value = _require(str(path), read_json(path), keys)
            results = [_require(str(path), one, {"snippet": object}) for one in value["search_results"]]
            snippets = [str(result["snippet"]) for result in results if result["snippet"]]
            # The questions have quotation marks around them and links within.
            text = re.sub(r"<[^>]+>", "", value["question"]).strip("'\"")
            splits[split].append(passages.searched(path.stem, text, value["answer"], snippets))
    return splits


Reader = Callable[[Path, _Passages, list[Path]], Splits]
"""Reads a folder's questions by split; grows the passages and the list of files."""
_INSURANCE_NOTES = ("test is test1", "wrong answers in training come from all answers")
_READERS: Mapping[str, tuple[Reader, str, tuple[str, ...]]] = {  # reader, tokenizer, notes
    "wikiqa": (_answers, "space", ()),
    "trecqa": (_answers, "space", ()),
    "wikipassageqa": (_wikipassageqa, "spacy", ("candidates: all passages of the document", SPACY)),
    "insuranceqa": (_insuranceqa, "space", _INSURANCE_NOTES),
    "quasar-t": (_quasar, "spacy", (CONTAINS, SPACY)),
    "searchqa": (_searchqa, "spacy", (CONTAINS, SPACY)),
}
