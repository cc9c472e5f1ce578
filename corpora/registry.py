"""Open a corpus by its name (``books``, ``umbc``), or a file or folder as a corpus.

    corpus = open_corpus("books", limit="10k")
    for document in corpus:
        ...

==============  ==========  =============  ==========================================================
spec            --format    --tokenize     what it is
==============  ==========  =============  ==========================================================
books           lines       spacy          parts of English books, in the package
umbc            running     spacy          UMBC WebBase, ``word_TAG`` files with ``space``
*.conllu, *.ptb gold        gold           treebanks, files or a folder of one kind; words are fixed
file, folder    lines       spacy          UTF-8 text, also by gzip, xz, bzip2
==============  ==========  =============  ==========================================================

UMBC WebBase (Han et al. 2013) is three billion words of English web paragraphs. The archive unpacks into
``webbase_all/``: 408 ``.txt`` files with one paragraph per line and blank lines between them, and 408
``.possf2`` files with the same paragraphs as ``word_TAG``. A paragraph is a document, because the
distribution does not say which paragraphs are of one page. Bytes that are not UTF-8 are replaced.
"""

import os
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

from corpora.inputs import ReadMeter, list_files, relative_name, stem
from corpora.text import Corpus, Document, corpus_of_files, split_document, text_corpus
from runtime.errors import UserError, did_you_mean

CORPUS_NAMES = ("books", "umbc")
UMBC_SOURCE = "https://ebiquity.umbc.edu/resource/html/id/351/UMBC-webbase-corpus"
UMBC_FOLDER = "webbase_all"
TREEBANKS = {
    **dict.fromkeys((".conllu", ".conll"), "conllu"),
    **dict.fromkeys((".ptb", ".mrg", ".clean", ".brackets"), "ptb"),
}
"""The formats of treebanks by the suffix of the file."""


def open_corpus(
    spec: str | Path,
    *,
    format: str | None = None,
    tokenize: str | None = None,
    limit: int | str | None = None,
    data: Path | None = None,
    split: str | None = None,
) -> Corpus:
    """Open a corpus: ``books``, ``umbc``, or a file or folder; ``./umbc`` is a folder of that name.

    Args:
        spec: the name or path.
        format: ``lines`` or ``running``; None is the default of the corpus, which its ``identity`` has.
        tokenize: ``spacy`` or ``space``; None is the default of the corpus.
        limit: the number of sentences to keep, as a number, ``"1.5k"`` or ``"40M"``; None keeps all.
        data: the folder of ``umbc``; None is the environment variable MULTIVIEW_DATA, else ``data``.
        split: ``train``, ``heldout`` or ``all`` of ``books``; None is ``train``.

    Raises UserError if there is no such corpus, or if an option does not fit it.
    """
    name = str(spec)
    sentence_limit = parse_limit(limit)
    if split is not None and name != "books":
        raise UserError(f"--split {split}: only books is split; {name} is read whole")
    if name == "books":
        from corpora.books import books_corpus

        if format not in (None, "lines"):
            raise UserError(f"--format {format}: books has a sentence per line")
        return books_corpus(split=split or "train", tokenize=tokenize or "spacy", limit=sentence_limit)
    if name == "umbc":
        folder = data if data is not None else Path(os.environ.get("MULTIVIEW_DATA") or "data")
        return umbc_corpus(folder, format=format or "running", tokenize=tokenize, limit=sentence_limit)
    if not (name and Path(spec).exists()):
        suggestion = did_you_mean(Path(spec).name, CORPUS_NAMES)
        raise UserError(
            f"{name or repr(name)}: no such corpus, file or folder; "
            f"{suggestion}named ones are {', '.join(CORPUS_NAMES)}"
        )
    return _open_path(Path(spec), format, tokenize, sentence_limit)


def _open_path(path: Path, format: str | None, tokenize: str | None, limit: int | None) -> Corpus:
    """Open a file or folder of text, or a treebank with its annotation."""
    from corpora.brackets import read_brackets
    from corpora.treebanks import read_conllu

    files = list_files(path)
    kinds = {TREEBANKS.get(Path(stem(file)).suffix.lower(), "text") for file in files}
    if kinds == {"text"}:
        return text_corpus(path, format=format or "lines", tokenize=tokenize or "spacy", limit=limit)
    if len(kinds) > 1:
        raise UserError(f"{path}: holds a treebank beside files of another kind; give one file or kind")
    if (format, tokenize) != (None, None):
        raise UserError(f"{path}: is a treebank, whose words are given; leave out --format and --tokenize")
    (kind,) = kinds

    def documents_of(file: Path, meter: ReadMeter) -> Iterator[Document]:
        name = relative_name(path, file)
        if kind == "conllu":
            return read_conllu(file, name=name, meter=meter)
        return split_document(f"{name}#0", read_brackets(file, meter=meter))

    settings = {"reader": f"{kind}-1", "format": kind, "tokenizer": "gold"}
    return corpus_of_files(path, files, documents_of, settings, limit)


def parse_limit(text: str | int | None) -> int | None:
    """Return a number of sentences: 40,000,000 for ``"40M"``, 1,500 for ``"1.5k"``, None for None."""
    if text is None:
        return None
    match = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)([km]?)", str(text).lower())
    number = Decimal(match[1]) * {"": 1, "k": 10**3, "m": 10**6}[match[2]] if match else Decimal(0)
    if number < 1 or number != int(number):
        raise UserError(f"--limit {text}: expected a number of sentences such as 5000, 1.5k or 40M")
    return int(number)


def umbc_corpus(data: Path, *, format: str, tokenize: str | None, limit: int | None) -> Corpus:
    """Return the paragraphs of UMBC WebBase, in sorted order of files.

    Args:
        data: the folder that holds ``webbase_all/`` or ``umbc/``, or the files themselves.
        format: ``running`` for the files as distributed, ``lines`` for a copy with a sentence per line.
        tokenize: ``spacy`` reads the plain ``.txt`` files, and ``space`` the words of the tagged ``.possf2``
            files; None is ``spacy``, or ``space`` if there are only tagged files.
        limit: the number of sentences to keep; None keeps all.

    Raises UserError if there are no such files.
    """
    for folder in (data / UMBC_FOLDER, data / "umbc" / UMBC_FOLDER, data / "umbc", data):
        files = folder.iterdir() if folder.is_dir() else ()
        suffixes = {suffix for file in files for suffix in file.suffixes}
        if ".txt" in suffixes or ".possf2" in suffixes:
            break
    else:
        raise UserError(
            f"UMBC WebBase is not in {data}: get umbc_webbase_corpus.tar.gz (13 GB) from {UMBC_SOURCE}, "
            f"unpack it there so that {data / UMBC_FOLDER} holds its files, or name its folder with --data"
        )
    tokenize = tokenize or ("spacy" if ".txt" in suffixes else "space")
    is_tagged = tokenize == "space"
    return text_corpus(
        folder,
        format=format,
        tokenize=tokenize,
        limit=limit,
        name="umbc",
        suffix=".possf2" if is_tagged else ".txt",
        clean=remove_tags if is_tagged else str,
        settings={"variant": "word_TAG" if is_tagged else "plain"},
    )


def remove_tags(text: str) -> str:
    """Return the words of ``word_TAG`` pairs; a pair without ``_`` is a word."""
    pairs = (pair.rpartition("_") for pair in text.split())
    return " ".join(word or tag for word, _, tag in pairs)
