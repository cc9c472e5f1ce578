"""Every sentence of the SentEval tasks in a data folder, already tokenised, as one corpus.

Parsed once, it serves every later evaluation: trees are looked up by a sentence's tokens, so each distinct
sentence appears only where it occurs first (371,629 rows are 284,948 distinct sentences). A document is
one split of one task. An empty sentence is one empty token.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path

from corpora.documents import Document, Sentence, StreamCorpus, in_pieces
from corpora.inputs import input_hash
from corpora.senteval.files import Split, find_files, read_task
from corpora.senteval.tasks import TASK_NAMES
from corpora.support.errors import UserError


def senteval_corpus(
    data: Path, *, tasks: tuple[str, ...] = TASK_NAMES, limit: int | None = None
) -> StreamCorpus:
    """The sentences of every task whose files exist, in the order of :data:`TASK_NAMES`.

    Args:
        data: folder with ``downstream/`` and ``probing/``.
        tasks: which tasks to look for.
        limit: sentences to keep, or None.

    Raises:
        UserError: no task has its files in the folder.
    """
    present = {}
    for name in tasks:
        with contextlib.suppress(UserError):  # missing tasks are skipped; `about` names those present
            present[name] = find_files(name, data)
    if not present:
        raise UserError(f"{data}: no SentEval task found; expected downstream/ and probing/ in this folder")

    def documents() -> Iterator[Document]:
        seen: set[bytes] = set()
        for name in present:
            for split, rows in read_task(name, data).splits.items():
                yield from in_pieces(f"{name}/{split}", _fresh(rows, seen))

    files = sorted({file for splits in present.values() for paths in splits.values() for file in paths})
    return StreamCorpus(
        "senteval",
        documents,
        about={"reader": "senteval-1", "format": "lines", "tokenizer": "space", "tasks": " ".join(present)},
        hash_input=lambda: input_hash(data, files),
        limit=limit,
    )


def _fresh(rows: Split, seen: set[bytes]) -> Iterator[Sentence]:
    """The sentences not seen before; hashes of 16 bytes keep ``seen`` small."""
    for tokens in rows.sentences():
        key = hashlib.blake2b(" ".join(tokens).encode(), digest_size=16).digest()
        if key not in seen:
            seen.add(key)
            yield Sentence(tuple(tokens) or ("",))
