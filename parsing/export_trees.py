"""Trees of a cache as CoNLL-U and Penn Treebank brackets.

    python -m parsing.export_trees runs/trees/pydocs --conllu pydocs.conllu --ptb pydocs.ptb

Input: a folder written by parsing.run or parsing.import_trees. Output: the files named; line i of the
brackets is sentence i of the CoNLL-U. An empty word is written ``_``, because neither format can hold it.
Fallback trees are written as they are (relations and tags ``_``) unless ``--skip-flagged``. With
``--consistent 1`` only sentences are written whose two trees tell the same story: a treebank to learn from.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from corpora.support.cli import Command
from corpora.support.config import Fraction, configuration

if TYPE_CHECKING:
    from corpora.documents import Document
    from parsing.cache.reader import TreeCache
    from parsing.sentences import ParsedSentence


@configuration
class ExportConfig:
    """Options of ``parsing.export_trees``."""

    cache: Positional[Path]
    """Folder of the tree cache."""
    conllu: Path | None = None
    """CoNLL-U file to write (tags in XPOS)."""
    ptb: Path | None = None
    """Bracket file to write, one tree per line."""
    skip_flagged: bool = False
    """Leave out sentences with any flag."""
    consistent: Fraction = 0.0
    """Leave out sentences in which fewer than this fraction of the constituents hang together by exactly one
    word in the dependency tree; where two parsers disagree, one of them is wrong."""


def main(config: ExportConfig) -> None:
    """Write the requested files."""
    from corpora.support.errors import UserError
    from corpora.treebanks import write_brackets, write_conllu
    from parsing.cache.reader import TreeCache

    cache = TreeCache.open(config.cache, allow_partial=True)
    if config.conllu is None and config.ptb is None:
        raise UserError("--conllu or --ptb is needed")
    for path, view in ((config.conllu, "dep"), (config.ptb, "const")):
        if path is not None and not cache.has(view):
            raise UserError(f"{config.cache}: has no {view} trees to write into {path}")
    if config.consistent and not (cache.has("dep") and cache.has("const")):
        raise UserError(f"{config.cache}: --consistent compares two trees, and it has one")
    if config.conllu is not None:
        write_conllu(config.conllu, documents(cache, config))
        print(f"{config.conllu}: written")
    if config.ptb is not None:
        write_brackets(config.ptb, (s for d in documents(cache, config) for s in d.sentences))
        print(f"{config.ptb}: written")


def documents(cache: TreeCache, config: ExportConfig) -> Iterator[Document]:
    """The cache's documents with their trees as annotation, long ones in pieces."""
    from corpora.stream import in_pieces
    from parsing.sentences import cached_sentences

    def is_kept(sentence: ParsedSentence) -> bool:
        if config.skip_flagged and sentence.flags:
            return False
        return not config.consistent or consistency(sentence) >= config.consistent

    starts = cache.documents().tolist()
    for name, start, stop in zip(cache.document_ids(), starts[:-1], starts[1:], strict=True):
        sentences = cached_sentences(cache, start, stop)
        yield from in_pieces(name, (s.annotation() for s in sentences if is_kept(s)))


def consistency(sentence: ParsedSentence) -> float:
    """The fraction of constituents of more than one word of which exactly one word has its head outside.

    1 for a sentence without such constituents; it must have both trees.
    """
    assert sentence.heads is not None and sentence.spans is not None
    outside = [
        sum(not start < head <= end for head in sentence.heads[start:end])
        for start, end, _ in sentence.spans
        if end - start > 1
    ]
    return outside.count(1) / len(outside) if outside else 1.0


cli = Command(
    ExportConfig,
    main,
    "parsing.export_trees",
    "Write the trees of a cache as CoNLL-U and brackets.",
)


if __name__ == "__main__":
    sys.exit(cli())
