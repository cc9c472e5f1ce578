"""Trees of a cache as CoNLL-U and Penn Treebank brackets.

    python -m parsing.export_trees runs/trees/books --conllu books.conllu --ptb books.ptb

Input: a folder written by parsing.run or parsing.import_trees. Output: the files named; line i of the
brackets is sentence i of the CoNLL-U. An empty word is written ``_``, because neither format can hold it.
Words of fallback trees have the relation ``dep`` (tags ``_``). What UD's ``validate.py`` would refuse at its
first three levels is mended in the file, for labels of Universal Dependencies (:mod:`corpora.universal`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from corpora.support.cli import Command, configuration

if TYPE_CHECKING:
    from corpora.text import Document
    from parsing.trees.cache import TreeCache


@configuration
class ExportConfig:
    """Options of ``parsing.export_trees``."""

    cache: Positional[Path]
    """Folder of the tree cache."""
    conllu: Path | None = None
    """CoNLL-U file to write (UPOS is made of tag and relation)."""
    ptb: Path | None = None
    """Bracket file to write, one tree per line."""


def main(config: ExportConfig) -> None:
    """Write the requested files."""
    from corpora.support.errors import UserError
    from corpora.treebanks import write_brackets, write_conllu
    from parsing.trees.cache import TreeCache

    cache = TreeCache.open(config.cache, allow_partial=True)
    if config.conllu is None and config.ptb is None:
        raise UserError("--conllu or --ptb is needed")
    for path, view in ((config.conllu, "dep"), (config.ptb, "const")):
        if path is not None and not cache.has(view):
            raise UserError(f"{config.cache}: has no {view} trees to write into {path}")
    if config.conllu is not None:
        write_conllu(config.conllu, documents(cache))
        print(f"{config.conllu}: written")
    if config.ptb is not None:
        write_brackets(config.ptb, (s for d in documents(cache) for s in d.sentences))
        print(f"{config.ptb}: written")


def documents(cache: TreeCache) -> Iterator[Document]:
    """The cache's documents with their trees as annotation, long ones in pieces."""
    from corpora.text import in_pieces
    from parsing.trees.sentences import cached_sentences

    starts = cache.documents().tolist()
    for name, start, stop in zip(cache.document_ids(), starts[:-1], starts[1:], strict=True):
        yield from in_pieces(name, (s.annotation() for s in cached_sentences(cache, start, stop)))


cli = Command(
    ExportConfig, main, "parsing.export_trees", "Write the trees of a cache as CoNLL-U and brackets."
)


if __name__ == "__main__":
    sys.exit(cli())
