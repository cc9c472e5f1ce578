"""Treebanks: CoNLL-U (dependencies) and Penn Treebank brackets (constituents), read and written.

CoNLL-U: the words are the syntactic ones (ids 1, 2, 3 ...). Ranges of multiword tokens (``1-2``) and empty
nodes (``8.1``) are skipped. ``# newdoc`` starts a document; a file without it is one document.
Brackets: a tree fills one line or several. Blank lines do not end a document, because published files put
them between pretty-printed trees.

What does not fit, or is no UTF-8, is refused with its file and line.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from corpora.inputs import Line, text_lines
from corpora.text import Document, Sentence, in_pieces
from corpora.universal import universal_tags
from runtime.errors import UserError
from runtime.files import atomic_path, output_file

_ESCAPES = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
_ESCAPES |= {r"\/": "/", r"\*": "*"}
_ESCAPED = re.compile("|".join(map(re.escape, _ESCAPES)))
_NUMBER = re.compile("[0-9]{1,18}")  # int() refuses thousands of digits
LINE_BREAK = re.compile("[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]")
BRACKET_PARTS = re.compile(r"[()]|[^\s()]+")
TRACE = "-NONE-"
"""Tag of a trace, a leaf without a word."""
TagColumn = Literal["xpos", "upos"]
_BEFORE = re.compile(r"[(\[{$£€#“‘«/]|``?")
"""Words that no space follows."""
_AFTER = re.compile(r"[,.;:!?%)\]}…’”»/]+|n['’]t|['’](s|re|ve|ll|d|m|t|')?|[nt]a", re.IGNORECASE)
"""Words that no space precedes."""


# CoNLL-U


def read_conllu(path: Path, *, tags: TagColumn = "xpos", name: str | None = None) -> Iterator[Document]:
    """Yield the documents of a CoNLL-U file, in order.

    ``tags`` is the column that becomes ``Sentence.tags``; a ``_`` in XPOS is filled from UPOS. Nameless
    documents have ``name``, by default the file's, in their ids.
    """
    numbered = _numbered_sentences(path, tags)
    for (number, identifier), group in itertools.groupby(numbered, key=lambda one: one[:2]):
        yield from in_pieces(
            identifier or f"{name or path.name}#{number}", (sentence for _, _, sentence in group)
        )


def _numbered_sentences(path: Path, tags: TagColumn) -> Iterator[tuple[int, str, Sentence]]:
    """Yield each sentence with its document's number and given id (or "")."""
    number, identifier, inside = 0, "", False
    lines = text_lines(path, blank=True)
    for is_blank, block in itertools.groupby(lines, key=lambda line: not line.text.strip()):
        rows = []
        for line in () if is_blank else block:
            key, _, value = line.text.removeprefix("#").partition("=")
            if not line.text.startswith("#"):
                rows.append(line)
            elif key.split() in (["newdoc"], ["newdoc", "id"]):
                number += inside  # a document without sentences does not count
                identifier, inside = value.strip(), False
        if rows:
            inside = True
            yield number, identifier, _conllu_sentence(path, rows, tags)


def _conllu_sentence(path: Path, rows: list[Line], tags: TagColumn) -> Sentence:
    words: list[tuple[Line, list[str]]] = []
    for line in rows:
        columns = line.text.split("\t")
        if len(columns) != 10:
            raise UserError(f"{path}:{line.number}: {len(columns)} columns, CoNLL-U has 10")
        if "-" in columns[0] or "." in columns[0]:
            continue
        words.append((line, columns))
        if not columns[1]:
            raise UserError(f"{path}:{line.number}: an empty word; CoNLL-U writes _")
        if columns[0] != str(len(words)):
            raise UserError(f"{path}:{line.number}: word id {columns[0][:40]!r}, expected {len(words)}")
    if not words:
        raise UserError(f"{path}:{rows[0].number}: a sentence without words")
    tokens = tuple(columns[1] for _, columns in words)
    of_words = tuple(c[3] if tags == "upos" or c[4] == "_" else c[4] for _, c in words)
    if all(columns[6] == "_" for _, columns in words):
        return Sentence(tokens, tags=of_words)
    heads = []
    for position, (line, columns) in enumerate(words, start=1):
        heads.append(int(columns[6]) if _NUMBER.fullmatch(columns[6]) else -1)
        if not 0 <= heads[-1] <= len(words) or heads[-1] == position:
            expected = f"expected 0 to {len(words)} but not {position}"
            raise UserError(f"{path}:{line.number}: head {columns[6][:40]!r}, {expected}")
    return Sentence(tokens, of_words, tuple(heads), tuple(columns[7] for _, columns in words))


def write_conllu(path: Path, documents: Iterable[Document]) -> None:
    """Write documents as CoNLL-U, see :func:`conllu_lines`."""
    with atomic_path(output_file(path)) as temporary, open(temporary, "w", encoding="utf-8") as stream:
        stream.writelines(conllu_lines(documents))


def conllu_lines(documents: Iterable[Document]) -> Iterator[str]:
    """Yield the lines of CoNLL-U: tags in XPOS and, mapped, in UPOS; missing annotation is ``_``.

    A corpus of words does not say where spaces were: ``# text`` and ``SpaceAfter`` follow English print.
    Words that CoNLL-U cannot hold (empty, or with a tab or line break) are refused.
    """
    row = 0
    for document in documents:
        for place, sentence in enumerate(document.sentences):
            row += 1
            if place == 0 and not document.continued:
                # The id may be the name of a file, which may hold line breaks.
                yield f"# newdoc id = {LINE_BREAK.sub(' ', document.id)}\n"
            words, unknown = sentence.tokens, ("_",) * len(sentence.tokens)
            tags, heads = sentence.tags or unknown, sentence.heads or unknown
            relations = sentence.relations or unknown
            close = _close(words, tags, relations)
            text = "".join(word + " " * (not joined) for word, joined in zip(words, close, strict=True))
            yield f"# sent_id = {row}\n# text = {text.rstrip()}\n"
            columns = (words, universal_tags(words, tags, relations), tags, heads, relations, close)
            for number, (word, upos, xpos, head, relation, joined) in enumerate(
                zip(*columns, strict=True), 1
            ):
                if not word or re.search(r"[\t\r\n]", word):
                    raise UserError(f"word {word!r} cannot be written as CoNLL-U")
                space = "SpaceAfter=No" if joined else "_"
                yield f"{number}\t{word}\t_\t{upos}\t{xpos}\t_\t{head}\t{relation}\t_\t{space}\n"
            yield "\n"


def _close(words: Sequence[str], tags: Sequence[str], relations: Sequence[str]) -> list[bool]:
    """Tell of each word whether no space follows; straight quotes open and close in turn."""
    quotes = itertools.cycle("(,")
    like = [
        next(quotes) if word == '"' else "/" if tag == "HYPH" else word
        for word, tag in zip(words, tags, strict=True)
    ]
    return [
        bool(_BEFORE.fullmatch(here) or _AFTER.fullmatch(there)) and relation != "goeswith"
        for here, there, relation in zip(like, [*like[1:], " "], [*relations[1:], ""], strict=True)
    ]


# Penn Treebank brackets


def unescape(word: str) -> str:
    r"""Undo :func:`escape`: ``-LRB-`` becomes ``(``, ``\/`` becomes ``/``, also inside a word."""
    return _ESCAPED.sub(lambda match: _ESCAPES[match.group()], word)


def escape(word: str) -> str:
    r"""Write ``(``, ``)``, ``/``, ``*`` as the Penn Treebank does: ``-LRB-``, ``-RRB-``, ``\/``, ``\*``."""
    return re.sub("[/*]", r"\\\g<0>", word.replace("(", "-LRB-").replace(")", "-RRB-"))


def read_brackets(path: Path) -> Iterator[Sentence]:
    """Yield the trees of a file, each on one line or several; ``Sentence.tree`` is always one line.

    Words are unescaped and traces (``-NONE-``) dropped; the tree keeps them as they are.
    """
    depth, first = 0, 0
    parts: list[str] = []
    for line in text_lines(path):
        for part in BRACKET_PARTS.findall(line.text):
            if not depth:
                if part != "(":
                    raise UserError(f"{path}:{line.number}: expected '(', found {part[:40]!r}")
                parts, first = [], line.number
            parts.append(part)
            depth += (part == "(") - (part == ")")
            if not depth:
                yield _bracket_sentence(f"{path}:{first}", parts)
    if depth:
        raise UserError(f"{path}:{first}: this tree's brackets are never closed")


def _bracket_sentence(where: str, parts: list[str]) -> Sentence:
    """Return the sentence of one tree; leaves are ``( TAG word )``, all other brackets are phrases."""
    leaves = [
        (tag, unescape(word))
        for opening, tag, word, closing in zip(parts, parts[1:], parts[2:], parts[3:], strict=False)
        if (opening, closing) == ("(", ")") and tag not in "()" and word not in "()" and tag != TRACE
    ]
    if not leaves:
        raise UserError(f"{where}: a tree without words")
    tags, words = zip(*leaves, strict=True)
    text = " ".join(parts).replace("( ", "(").replace(" )", ")")
    return Sentence(words, tags=tags, tree=text)


def write_brackets(path: Path, sentences: Iterable[Sentence]) -> None:
    """Write one tree per line; a sentence without a tree is refused."""
    with atomic_path(output_file(path)) as temporary, open(temporary, "w", encoding="utf-8") as stream:
        for row, sentence in enumerate(sentences, start=1):
            if sentence.tree is None:
                raise UserError(f"sentence {row} ({' '.join(sentence.tokens)[:40]!r}) has no tree")
            stream.write(sentence.tree + "\n")
