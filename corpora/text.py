"""Plain text: UTF-8 files, compressed or not, one at a time or a folder of them.

``lines``: every line is one sentence; one or more blank lines (only white space) end the document.
``running``: every line is running text, which is split into sentences; no sentence crosses a line. The
format is never guessed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from corpora.documents import Document, Sentence, StreamCorpus, in_pieces
from corpora.inputs import Line, input_hash, list_files, read_lines, relative_name
from corpora.support.errors import UserError
from corpora.tokenize import Tokenizer


def text_corpus(
    path: Path,
    *,
    format: str = "lines",
    tokenize: str = "spacy",
    limit: int | None = None,
    name: str = "",
    suffix: str = "",
    clean: Callable[[str], str] = str,
    about: Mapping[str, str] = {},
) -> StreamCorpus:
    """The text file, or the files of a folder in sorted order, as a corpus.

    Args:
        path: a file or a folder.
        format: ``lines`` or ``running``.
        tokenize: ``spacy`` or ``space``.
        limit: sentences to keep, or None.
        name: of the corpus; by default the file's name without suffixes.
        suffix: of the files to read in a folder; empty reads all.
        clean: applied to every line before it is split into words.
        about: what else decides the content.

    Raises:
        UserError: no files, or an unknown format or tokenizer.
    """
    if format not in ("lines", "running"):
        raise UserError(f"--format {format}: must be lines or running")
    files = list_files(path, suffix)
    tokenizer = Tokenizer(tokenize, running=format == "running")

    def documents() -> Iterator[Document]:
        for file in files:
            number = itertools.count()
            for is_blank, lines in itertools.groupby(
                read_lines(file), key=lambda line: not line.text.strip()
            ):
                if not is_blank:
                    sentences = line_sentences(lines, tokenizer, clean, running=format == "running")
                    yield from in_pieces(f"{relative_name(path, file)}#{next(number)}", sentences)

    return StreamCorpus(
        name or path.resolve().name.split(".")[0] or "text",
        documents,
        about={"reader": "text-1", "format": format, "tokenizer": tokenizer.identity, **about},
        hash_input=lambda: input_hash(path, files),
        limit=limit,
        path=path,
    )


def line_sentences(
    lines: Iterable[Line], tokenizer: Tokenizer, clean: Callable[[str], str] = str, *, running: bool
) -> Iterator[Sentence]:
    """The sentences of lines; in running text only those with replaced or cut words carry its marks."""
    for line in lines:
        if not running:
            tokens = tokenizer.line(clean(line.text))
            yield Sentence(tokens, replaced_bytes=line.replaced, truncated=line.truncated)
            continue
        sentences = tokenizer.sentences(clean(line.text))
        for number, tokens in enumerate(sentences, start=1):
            yield Sentence(
                tokens,
                replaced_bytes=line.replaced and any("\ufffd" in token for token in tokens),
                truncated=line.truncated and number == len(sentences),
            )
