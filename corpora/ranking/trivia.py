"""Open-domain trivia: Quasar-T and SearchQA. A passage is relevant if it contains the answer's words in order.

| set | files |
|---|---|
| Quasar-T | ``{split}_questions.json[.gz]``, one object a line: uid, question, answer; ``{split}_contexts.json[.gz]``: uid, contexts [[score, text], ...]; in one folder, or below ``questions/`` and ``contexts/short/`` (else ``contexts/long/``) |
| SearchQA | ``NNNNNN-tag.json`` per question: question, answer, search_results [{snippet, ...}, ...]; or the crawler's ``NNNNNN-tag.tsv`` (title, URL, snippet, links) with ``JEOPARDY_QUESTIONS1.json`` beside them, whose entry NNNNNN has question and answer; in ``train/``, ``dev/`` or ``val/``, ``test/``, or all in one folder, which is then split by seed |

Words are compared in lower case, without punctuation. A passage that occurs twice for a question counts once.
"""  # noqa: E501

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from corpora.inputs import read_lines
from corpora.ranking.questions import SPLITS, Passages, PassageSet, Question, question
from corpora.ranking.trec import split_questions
from corpora.rows import MAX_ROW_BYTES, read_rows
from corpora.support.errors import UserError
from corpora.support.files import parse_json, read_json
from corpora.tokenize import SpacyTokenizer

JEOPARDY = "JEOPARDY_QUESTIONS1.json"
_WORD = re.compile(r"[^\W_]+")
LABELS = "relevant: contains the answer's words in order (lower case, no punctuation)"


def normalised(text: str) -> str:
    """Lower-cased words with a single blank before, between and after them."""
    return f" {' '.join(_WORD.findall(text.lower()))} "


def contains(passage: str, answer: str) -> bool:
    """Whether the passage has the answer's words in order; an answer without words never matches."""
    words = normalised(answer)
    return bool(words.strip()) and words in normalised(passage)


def labelled(name: str, text: str, answer: str, texts: Sequence[str], passages: Passages) -> Question:
    """A question whose candidates are the distinct ``texts``."""
    rows: dict[int, bool] = {}
    for candidate in texts:
        rows.setdefault(passages.row(candidate), contains(candidate, answer))
    return question(name, passages.text(text), list(rows), list(rows.values()))


def _objects(path: Path, keys: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(file and line, object) of each line."""
    for line in read_lines(path, MAX_ROW_BYTES):
        where = f"{path}:{line.number}"
        value = parse_json(line.text, where=where)
        _require(where, value, keys)
        yield where, value


def _require(where: str, value: Any, keys: Sequence[str]) -> None:
    missing = [key for key in keys if not isinstance(value, dict) or key not in value]
    if missing:
        raise UserError(f"{where}: no key {missing[0]!r}")


def _list(where: str, value: dict[str, Any], key: str) -> list[Any]:
    if not isinstance(value[key], list):
        raise UserError(f"{where}: {key} is no list")
    found: list[Any] = value[key]
    return found


def _quasar_file(folder: Path, split: str, kind: str) -> Path:
    below = ["", "questions"] if kind == "questions" else ["", "contexts/short", "contexts/long"]
    for place in below:
        for ending in (".json.gz", ".json"):
            path = folder / place / f"{split}_{kind}{ending}"
            if path.exists():
                return path
    raise UserError(f"{folder}: no {split}_{kind}.json.gz, here or in {below[1]}/")


def read_quasar(folder: Path, name: str) -> PassageSet:
    """Quasar-T as published; questions without contexts have no candidate.

    Raises:
        UserError: a file is missing or malformed, or contexts belong to no question.
    """
    passages = Passages(SpacyTokenizer())
    splits: dict[str, list[Question]] = {}
    files = []
    for split in SPLITS:
        asked, found = (_quasar_file(folder, split, kind) for kind in ("questions", "contexts"))
        files += [asked, found]
        questions = {
            str(value["uid"]): (str(value["question"]), str(value["answer"]))
            for _, value in _objects(asked, ("uid", "question", "answer"))
        }
        contexts: dict[str, list[str]] = {}
        for where, value in _objects(found, ("uid", "contexts")):
            if str(value["uid"]) not in questions:
                raise UserError(f"{where}: no question {value['uid']!r} in {asked.name}")
            if not all(isinstance(c, list) and len(c) == 2 for c in _list(where, value, "contexts")):
                raise UserError(f"{where}: contexts are not pairs of score and text")
            contexts[str(value["uid"])] = [str(text) for _, text in value["contexts"]]
        splits[split] = [
            labelled(uid, text, answer, contexts.get(uid, []), passages)
            for uid, (text, answer) in questions.items()
        ]
    notes = [LABELS, f"contexts: {files[1].parent.name}"]
    return PassageSet(name, passages.texts, splits, files, notes)


def _search_question(path: Path, jeopardy: list[dict[str, Any]], passages: Passages) -> Question:
    """One file of SearchQA."""
    if path.suffix == ".json":
        value = read_json(path)
        _require(str(path), value, ("question", "answer", "search_results"))
        results = _list(str(path), value, "search_results")
        for result in results:
            _require(str(path), result, ("snippet",))
        snippets = [str(result["snippet"]) for result in results if result["snippet"]]
    else:
        number = path.name.split("-")[0]
        if not number.isdecimal() or int(number) >= len(jeopardy):
            raise UserError(f"{path}: {JEOPARDY} has no entry {number!r}")
        value = jeopardy[int(number)]
        _require(f"{JEOPARDY}, entry {number}", value, ("question", "answer"))
        found = (row.cells[2] for row in read_rows(path, 4, may_be_empty=True))
        snippets = [snippet for snippet in found if snippet]
    # The Jeopardy file has quotation marks around questions and links within.
    text = re.sub(r"<[^>]+>", "", str(value["question"])).strip("'\"")
    return labelled(path.stem, text, str(value["answer"]), snippets, passages)


def read_searchqa(folder: Path, name: str, seed: int) -> PassageSet:
    """SearchQA as crawled, one file a question.

    Raises:
        UserError: no files, or a malformed one.
    """
    path = folder / JEOPARDY
    jeopardy = read_json(path) if path.exists() else []
    if not isinstance(jeopardy, list):
        raise UserError(f"{path}: expected a list of questions")
    passages = Passages(SpacyTokenizer())
    dev = "dev" if (folder / "dev").is_dir() else "val"
    parts = {"train": folder / "train", "dev": folder / dev, "test": folder / "test"}
    is_split = all(part.is_dir() for part in parts.values())
    groups = parts if is_split else {"all": folder}
    files: list[Path] = [path] if path.exists() else []
    read: dict[str, list[Question]] = {}
    for split, place in groups.items():
        found = sorted(f for f in place.glob("*") if f.suffix in (".json", ".tsv") and f != path)
        if not found:
            raise UserError(f"{place}: no files NNNNNN-tag.json or .tsv")
        read[split] = [_search_question(file, jeopardy, passages) for file in found]
        files += found
    notes = [LABELS]
    if not is_split:
        read, note = split_questions(read["all"], seed)
        notes.append(note)
    return PassageSet(name, passages.texts, read, files, notes)
