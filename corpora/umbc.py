"""UMBC WebBase (Han et al. 2013): three billion words of English web paragraphs, as distributed.

The archive unpacks into ``webbase_all/``: 408 ``.txt`` files with one paragraph per line and blank
lines between them, and 408 ``.possf2`` files with the same paragraphs as ``word_TAG``. A paragraph is a
document, since the distribution keeps nothing else of its page. Bytes that are not UTF-8 are replaced.
"""

from __future__ import annotations

from pathlib import Path

from corpora.documents import StreamCorpus
from corpora.support.errors import UserError
from corpora.text import text_corpus

SOURCE = "https://ebiquity.umbc.edu/resource/html/id/351/UMBC-webbase-corpus"
FOLDER = "webbase_all"


def find_folder(data: Path) -> Path:
    """The folder that holds the files: ``data`` itself, or ``webbase_all`` (or ``umbc``) in it.

    Raises:
        UserError: there is none; the message says where to get the corpus and put it.
    """
    for folder in (data / FOLDER, data / "umbc" / FOLDER, data / "umbc", data):
        if folder.is_dir() and any({".txt", ".possf2"} & set(name.suffixes) for name in folder.iterdir()):
            return folder
    raise UserError(
        f"UMBC WebBase is not in {data}: get umbc_webbase_corpus.tar.gz (13 GB) from {SOURCE}, "
        f"unpack it there so that {data / FOLDER} holds its files, or name its folder with --data"
    )


def umbc_corpus(
    data: Path, *, format: str = "running", tokenize: str | None = None, limit: int | None = None
) -> StreamCorpus:
    """The paragraphs of UMBC WebBase in sorted order of files.

    Args:
        data: folder with ``webbase_all/``, or that folder.
        format: ``running`` as distributed; ``lines`` for a copy with a sentence per line.
        tokenize: ``spacy`` reads the plain ``.txt`` files, ``space`` the words of the tagged ``.possf2``
            files; None is ``spacy`` unless there are only tagged files.
        limit: sentences to keep, or None.

    Raises:
        UserError: the corpus or this variant of it is missing, or the format is unknown.
    """
    folder = find_folder(data)
    if tokenize is None:
        has_plain = any(".txt" in name.suffixes for name in folder.iterdir())
        tokenize = "spacy" if has_plain else "space"
    tagged = tokenize == "space"
    return text_corpus(
        folder,
        format=format,
        tokenize=tokenize,
        limit=limit,
        name="umbc",
        suffix=".possf2" if tagged else ".txt",
        clean=untagged if tagged else str,
        about={"variant": "word_TAG" if tagged else "plain"},
    )


def untagged(text: str) -> str:
    """The words of ``word_TAG`` pairs; a pair without ``_`` is a word."""
    pairs = (pair.rpartition("_") for pair in text.split())
    return " ".join(word or tag for word, _, tag in pairs)
