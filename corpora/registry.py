"""One way to open a corpus: ``pydocs``, ``umbc``, a file or a folder.

    corpus = open_corpus("pydocs", limit="10k")
    for document in corpus:
        ...

==============  ==========  =============  ==========================================================
spec            --format    --tokenize     what it is
==============  ==========  =============  ==========================================================
pydocs          running     spacy          documentation that is on every machine (the default)
umbc            running     spacy          UMBC WebBase, ``word_TAG`` files with ``space``
*.conllu, *.ptb gold        gold           treebanks, files or a folder of one kind; words are fixed
file, folder    lines       spacy          UTF-8 text, also ``.gz``, ``.xz``
==============  ==========  =============  ==========================================================
"""

from __future__ import annotations

import os
from pathlib import Path

from corpora.documents import StreamCorpus, parse_limit
from corpora.support.errors import UserError, did_you_mean

NAMED = ("pydocs", "umbc")
DATA_VARIABLE = "MULTIVIEW_DATA"


def open_corpus(
    spec: str | Path,
    *,
    format: str | None = None,
    tokenize: str | None = None,
    limit: int | str | None = None,
    data: Path | None = None,
    split: str | None = None,
) -> StreamCorpus:
    """Open a corpus by name or path.

    Args:
        spec: ``pydocs``, ``umbc``, or a file or folder; write ``./umbc`` for a folder of that name.
        format: ``lines`` or ``running``; None is the corpus's default.
        tokenize: ``spacy`` or ``space``; None is the corpus's default.
        limit: sentences to keep: a number, ``"1.5k"``, ``"40M"`` or None for all.
        data: folder of ``umbc``; by default that of the environment variable MULTIVIEW_DATA, else ``data``.
        split: ``train``, ``heldout`` or ``all`` of ``pydocs``; None is ``train``.

    Returns:
        A corpus; its ``identity`` states the defaults that were used.

    Raises:
        UserError: unknown corpus, or an option it does not support.
    """
    from corpora.pydocs import pydocs_corpus
    from corpora.text import text_corpus
    from corpora.treebanks import treebank_corpus, treebank_kind
    from corpora.umbc import umbc_corpus

    count, name, path = parse_limit(limit), str(spec), Path(spec)
    if split is not None and name != "pydocs":
        raise UserError(f"--split {split}: only pydocs is split; {name} is read whole")

    def refuse(option: str, given: str | None, always: str) -> None:
        if given not in (None, always):
            raise UserError(f"--{option} {given}: {name} is always {always}")

    if name == "pydocs":
        refuse("format", format, "running")
        return pydocs_corpus(split=split or "train", tokenize=tokenize or "spacy", limit=count)
    if name == "umbc":
        return umbc_corpus(data_folder(data), format=format or "running", tokenize=tokenize, limit=count)
    if not path.exists():
        beside = [one.name for one in path.parent.iterdir()] if path.parent.is_dir() else []
        near = did_you_mean(path.name, [*beside, *NAMED])
        raise UserError(f"{path}: no such corpus, file or folder; {near}named ones are {', '.join(NAMED)}")
    kind = treebank_kind(path)
    if kind is not None:
        refuse("format", format, kind)
        refuse("tokenize", tokenize, "gold")
        return treebank_corpus(path, kind, limit=count)
    return text_corpus(path, format=format or "lines", tokenize=tokenize or "spacy", limit=count)


def data_folder(data: Path | None) -> Path:
    """Where named corpora lie: the folder given, else that of MULTIVIEW_DATA, else ``data``."""
    return Path(data) if data is not None else Path(os.environ.get(DATA_VARIABLE) or "data")
