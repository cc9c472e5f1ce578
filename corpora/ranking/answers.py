"""Answer sentence and passage selection: WikiQA, TrecQA, WikiPassageQA.

| set | files |
|---|---|
| WikiQA as published | ``WikiQA-{train,dev,test}.tsv``: QuestionID, Question, DocumentID, DocumentTitle, SentenceID, Sentence, Label |
| WikiQA, TrecQA tokenised | ``{train,dev,test}.tsv``: question_id, label, question, candidate |
| TrecQA as published | ``TRAIN.xml`` (else ``TRAIN-ALL.xml``), ``DEV.xml``, ``TEST.xml``: Jacana's pseudo-XML |
| WikiPassageQA | ``document_passages.json`` {document: {passage: text}}; ``{train,dev,test}.tsv``: QID, Question, DocumentID, DocumentName, RelevantPassages (numbers joined by commas) |

In WikiPassageQA a question's candidates are all passages of its document.
"""  # noqa: E501

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from corpora.inputs import read_lines
from corpora.ranking.questions import SPLITS, Passages, PassageSet, Question, question
from corpora.rows import read_table
from corpora.support.errors import UserError
from corpora.support.files import read_json
from corpora.tokenize import SpaceTokenizer, SpacyTokenizer

Row = tuple[str, str, str, str, str]
"""File and line (for messages), question id, question, candidate, label."""
TOKENISED = ("question_id", "question", "candidate", "label")
PUBLISHED = ("QuestionID", "Question", "Sentence", "Label")
_QAPAIRS = re.compile(r"<QApairs id='([^']+)'>")


def group_rows(rows: Iterable[Row], passages: Passages) -> list[Question]:
    """Questions in order of first appearance, candidates in the file's order.

    Raises:
        UserError: a label is neither 0 nor 1, or one id has two texts.
    """
    texts: dict[str, str] = {}
    found: dict[str, tuple[list[int], list[bool]]] = {}
    for where, name, text, candidate, label in rows:
        if label not in ("0", "1"):
            raise UserError(f"{where}: label {label!r} is neither 0 nor 1")
        if texts.setdefault(name, text) != text:
            raise UserError(f"{where}: question {name!r} has another text than before")
        candidates, labels = found.setdefault(name, ([], []))
        candidates.append(passages.row(candidate))
        labels.append(label == "1")
    return [question(name, passages.text(texts[name]), *found[name]) for name in texts]


def tsv_rows(path: Path, columns: tuple[str, str, str, str]) -> Iterator[Row]:
    """Rows of a table; ``columns`` names question id, question, candidate and label."""
    for row in read_table(path, columns):
        name, text, candidate, label = row.cells
        yield row.where, name, text, candidate, label


def jacana_rows(path: Path) -> Iterator[Row]:
    """Rows of Jacana's pseudo-XML: the first line after a tag holds the tokens, separated by tabs.

    The other lines of an element (tags, heads, entities) are ignored. A repeated id means another
    question: it becomes ``id#2``.

    Raises:
        UserError: a candidate before any question, or no candidate at all.
    """
    name, text, tag = "", "", ""
    seen: dict[str, int] = {}
    empty = True
    for line in read_lines(path):
        stripped = line.text.strip()
        opened = _QAPAIRS.match(stripped)
        if opened:
            number = seen[opened.group(1)] = seen.get(opened.group(1), 0) + 1
            name, text = opened.group(1) + (f"#{number}" if number > 1 else ""), ""
        elif stripped in ("<question>", "<positive>", "<negative>"):
            tag = stripped
        elif tag and stripped:
            if tag == "<question>":
                text = " ".join(stripped.split())
            elif not name or not text:
                raise UserError(f"{path}:{line.number}: a candidate before its question")
            else:
                empty = False
                where, label = f"{path}:{line.number}", str(int(tag == "<positive>"))
                yield where, name, text, " ".join(stripped.split()), label
            tag = ""
    if empty:
        raise UserError(f"{path}: holds no candidates between <positive> or <negative> tags")


def read_answers(folder: Path, name: str) -> PassageSet:
    """WikiQA or TrecQA in any of the forms of the module's table.

    Raises:
        UserError: the folder has none of these forms, or a file is malformed.
    """
    notes = []
    if (folder / "train.tsv").exists():
        files = [folder / f"{split}.tsv" for split in SPLITS]
        passages = Passages(SpaceTokenizer())
        rows = [tsv_rows(path, TOKENISED) for path in files]
    elif (folder / "WikiQA-train.tsv").exists():
        files = [folder / f"WikiQA-{split}.tsv" for split in SPLITS]
        passages = Passages(SpacyTokenizer())
        rows = [tsv_rows(path, PUBLISHED) for path in files]
        notes.append("tokenised by spaCy's rules")
    elif (folder / "DEV.xml").exists():
        train = folder / "TRAIN.xml"
        files = [
            train if train.exists() else folder / "TRAIN-ALL.xml",
            folder / "DEV.xml",
            folder / "TEST.xml",
        ]
        passages = Passages(SpaceTokenizer())
        rows = [jacana_rows(path) for path in files]
        notes.append(f"trained on {files[0].name}")
    else:
        raise UserError(f"{folder}: holds neither train.tsv, WikiQA-train.tsv nor DEV.xml")
    splits = {split: group_rows(each, passages) for split, each in zip(SPLITS, rows, strict=True)}
    return PassageSet(name, passages.texts, splits, files, notes)


def read_wikipassageqa(folder: Path, name: str) -> PassageSet:
    """WikiPassageQA as published.

    Raises:
        UserError: a file is missing or malformed, or a question names an unknown document or passage.
    """
    path = folder / "document_passages.json"
    documents = read_json(path)
    if not isinstance(documents, dict) or not all(isinstance(d, dict) and d for d in documents.values()):
        raise UserError(f"{path}: expected {{document: {{passage: text}}}}, every document with a passage")
    passages = Passages(SpacyTokenizer())
    rows = {name: {key: passages.row(str(text)) for key, text in d.items()} for name, d in documents.items()}
    splits: dict[str, list[Question]] = {}
    columns = ("QID", "Question", "DocumentID", "RelevantPassages")
    for split in SPLITS:
        table = folder / f"{split}.tsv"
        splits[split] = []
        for row in read_table(table, columns):
            qid, text, document, answers = row.cells
            if document not in rows:
                raise UserError(f"{row.where}: no document {document!r} in {path.name}")
            wanted = {answer.strip() for answer in answers.split(",")}
            unknown = sorted(wanted - rows[document].keys())
            if unknown:
                raise UserError(f"{row.where}: document {document} has no passage {unknown[0]!r}")
            keys = rows[document]
            relevant = [key in wanted for key in keys]
            splits[split].append(question(qid, passages.text(text), list(keys.values()), relevant))
    files = [path, *(folder / f"{split}.tsv" for split in SPLITS)]
    notes = ["candidates: all passages of the question's document", "tokenised by spaCy's rules"]
    return PassageSet(name, passages.texts, splits, files, notes)
