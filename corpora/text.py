"""Plain text: UTF-8 files, compressed or not, one at a time or a folder of them.

``lines``: every line is one sentence; one or more blank lines (only white space) end the document.
``running``: every line is running text, which is split into sentences; no sentence crosses a line. The
format is never guessed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from corpora.documents import Document, Sentence
from corpora.inputs import Line, corpus_name, input_hash, list_files, read_lines, relative_name
from corpora.stream import Counts, StreamCorpus, in_pieces
from corpora.support.errors import UserError
from corpora.tokenize import Tokenizer, make_tokenizer

LineReader = Callable[[Line], Iterator[Sentence]]


def text_corpus(
    path: Path,
    *,
    format: str = "lines",
    tokenize: str = "spacy",
    limit: int | None = None,
) -> StreamCorpus:
    """The text file, or the files of a folder in sorted order, as a corpus.

    Args:
        path: a file or a folder.
        format: ``lines`` or ``running``.
        tokenize: ``spacy`` or ``space``.
        limit: sentences to keep, or None.

    Raises:
        UserError: no files, or an unknown format or tokenizer.
    """
    check_format(format)
    files = list_files(path)
    tokenizer = make_tokenizer(tokenize, running=format == "running")
    read = line_sentences(tokenizer) if format == "lines" else running_sentences(tokenizer)

    def documents(counts: Counts) -> Iterator[Document]:
        for file in files:
            yield from file_documents(relative_name(path, file), read_lines(file), read, counts)

    return StreamCorpus(
        corpus_name(path),
        documents,
        about={"reader": "text-1", "format": format, "tokenizer": tokenizer.identity},
        hash_input=lambda: input_hash(path, files),
        limit=limit,
        path=path,
    )


def check_format(format: str) -> None:
    """Reject an unknown text format.

    Raises:
        UserError: neither ``lines`` nor ``running``.
    """
    if format not in ("lines", "running"):
        raise UserError(f"--format {format}: must be lines or running")


def file_documents(name: str, lines: Iterable[Line], read: LineReader, counts: Counts) -> Iterator[Document]:
    """Documents between the blank lines of one file, named ``name#0``, ``name#1`` ..."""
    number = 0
    for is_blank, block in itertools.groupby(lines, key=_is_blank):
        if is_blank:
            counts.other["blank lines"] += sum(1 for _ in block)
            continue
        yield from in_pieces(f"{name}#{number}", itertools.chain.from_iterable(map(read, block)))
        number += 1


def _is_blank(line: Line) -> bool:
    return not line.text or line.text.isspace()


def line_sentences(tokenizer: Tokenizer) -> LineReader:
    """Read every line as one sentence."""

    def read(line: Line) -> Iterator[Sentence]:
        yield Sentence(tokenizer.line(line.text), replaced_bytes=line.replaced, truncated=line.truncated)

    return read


def running_sentences(tokenizer: Tokenizer) -> LineReader:
    """Read every line as running text; only sentences with replaced or cut text carry the line's marks."""

    def read(line: Line) -> Iterator[Sentence]:
        sentences = tokenizer.sentences(line.text)
        for number, tokens in enumerate(sentences, start=1):
            yield Sentence(
                tokens,
                replaced_bytes=line.replaced and any("\ufffd" in token for token in tokens),
                truncated=line.truncated and number == len(sentences),
            )

    return read
