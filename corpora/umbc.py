"""UMBC WebBase (Han et al. 2013): three billion words of English web paragraphs, as distributed.

The archive unpacks into ``webbase_all/``: 408 ``.txt`` files with one paragraph per line and blank
lines between them, and 408 ``.possf2`` files with the same paragraphs as ``word_TAG``. A paragraph is a
document, since the distribution keeps nothing else of its page. Bytes that are not UTF-8 are replaced.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from corpora.documents import Document, Sentence
from corpora.inputs import Line, input_hash, list_files, read_lines, relative_name
from corpora.stream import Counts, StreamCorpus
from corpora.support.errors import UserError
from corpora.text import LineReader, check_format, file_documents, line_sentences, running_sentences
from corpora.tokenize import SpacyTokenizer, make_tokenizer

SOURCE = "https://ebiquity.umbc.edu/resource/html/id/351/UMBC-webbase-corpus"
FOLDER = "webbase_all"


def find_folder(data: Path) -> Path:
    """The folder that holds the files: ``data`` itself, or ``webbase_all`` (or ``umbc``) in it.

    Raises:
        UserError: there is none; the message says where to get the corpus and put it.
    """
    for folder in (data / FOLDER, data / "umbc" / FOLDER, data / "umbc", data):
        if folder.is_dir() and any(
            name.suffixes and {".txt", ".possf2"} & set(name.suffixes) for name in folder.iterdir()
        ):
            return folder
    raise UserError(
        f"UMBC WebBase is not in {data}: get umbc_webbase_corpus.tar.gz (13 GB) from {SOURCE}, "
        f"unpack it there so that {data / FOLDER} holds its files, or name its folder with --data"
    )


def umbc_corpus(
    data: Path,
    *,
    format: str = "running",
    tokenize: str | None = None,
    limit: int | None = None,
) -> StreamCorpus:
    """The paragraphs of UMBC WebBase in sorted order of files.

    Args:
        data: folder with ``webbase_all/``, or that folder.
        format: ``running`` as distributed; ``lines`` for a copy with a sentence per line.
        tokenize: ``spacy`` reads the plain ``.txt`` files, ``space`` the tagged ``.possf2`` files with their
            words and tags; None is ``spacy`` unless there are only tagged files.
        limit: sentences to keep, or None.

    Raises:
        UserError: the corpus or this variant of it is missing, or the format is unknown.
    """
    check_format(format)
    folder = find_folder(data)
    if tokenize is None:
        has_plain = any(".txt" in name.suffixes for name in folder.iterdir())
        tokenize = "spacy" if has_plain else "space"
    tokenizer = make_tokenizer(tokenize, running=format == "running")
    tagged = tokenize == "space"
    files = list_files(folder, (".possf2",) if tagged else (".txt",))
    read: LineReader
    if tagged:
        read = tagged_sentences(SpacyTokenizer() if format == "running" else None)
    else:
        read = running_sentences(tokenizer) if format == "running" else line_sentences(tokenizer)

    def documents(counts: Counts) -> Iterator[Document]:
        for file in files:
            yield from file_documents(relative_name(folder, file), read_lines(file), read, counts)

    about = {"reader": "umbc-1", "format": format, "tokenizer": tokenizer.identity}
    about["variant"] = "word_TAG" if tagged else "plain"
    return StreamCorpus(
        "umbc",
        documents,
        about=about,
        hash_input=lambda: input_hash(folder, files),
        limit=limit,
        path=folder,
    )


def tagged_sentences(splitter: SpacyTokenizer | None) -> LineReader:
    """Read lines of ``word_TAG`` pairs; a pair without ``_`` is a word with the tag ``_``.

    Args:
        splitter: splits a line into sentences; None takes every line as one sentence.
    """

    def read(line: Line) -> Iterator[Sentence]:
        pairs = [pair.rpartition("_") for pair in line.text.split()]
        words = [word or tag for word, _, tag in pairs]
        tags = [tag if word else "_" for word, _, tag in pairs]
        bounds = splitter.sentence_bounds(words) if splitter else [(0, len(words))]
        for start, stop in bounds:
            sentence = tuple(words[start:stop])
            yield Sentence(
                sentence,
                tags=tuple(tags[start:stop]),
                replaced_bytes=line.replaced and any("\ufffd" in word for word in sentence),
                truncated=line.truncated and stop == len(words),
            )

    return read
