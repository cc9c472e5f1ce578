"""Writes the trees of a cache as CoNLL-U and Penn Treebank brackets.

    python -m parsing.export_trees runs/trees/books --conllu books.conllu --ptb books.ptb

Input: a folder written by parsing.run or parsing.import_trees. Output: the files named; line i of the
brackets is sentence i of the CoNLL-U. An empty word is written ``_``, because neither format can hold it.
For an imported treebank, the command prints which annotation a cache does not keep (:data:`NOT_KEPT`). Words
of fallback trees have the relation and the tag ``_``. With ``--validate``, trees with labels of Universal
Dependencies are changed until UD's ``validate.py`` accepts them at levels 1 to 3 (:mod:`corpora.universal`),
the number of changed words is printed, and the spaces between words are guessed by English typography.
"""

from __future__ import annotations

import operator
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from unicodedata import normalize

from tyro.conf import Positional

from corpora.brackets import write_brackets
from corpora.text import Document, Sentence, split_document
from corpora.treebanks import write_conllu
from corpora.universal import mend_tree
from runtime.cli import Command, configuration
from runtime.errors import UserError
from runtime.files import output_file

if TYPE_CHECKING:
    from parsing.trees.cache import TreeCache


NOT_KEPT = {
    "conllu": "comments, multiword ranges, empty nodes, lemmas, UPOS, features, DEPS, MISC; XPOS of it alone",
    "ptb": "function tags, traces, and the name of the wrapper around a sentence, here TOP",
}
"""The annotation of an imported file that a cache does not keep, by format."""


@configuration
class ExportConfig:
    """Options of ``parsing.export_trees``."""

    cache: Positional[Path]
    """Folder of the tree cache."""
    conllu: Path | None = None
    """CoNLL-U file to write (UPOS is made of tag and relation)."""
    ptb: Path | None = None
    """Bracket file to write, one tree per line."""
    validate: bool = False
    """Mend arcs and relations of the CoNLL-U that UD's validator would refuse; guess where no space was."""


def main(config: ExportConfig) -> None:
    """Write the requested files."""
    from parsing.trees.cache import TreeCache

    cache = TreeCache.open(config.cache, allow_partial=True)
    if config.conllu is None and config.ptb is None:
        raise UserError("--conllu or --ptb is needed")
    if config.validate and config.conllu is None:
        raise UserError("--validate mends CoNLL-U alone; give --conllu too")
    outputs: set[Path] = set()
    for path, view in ((config.conllu, "dep"), (config.ptb, "const")):
        if path is None:
            continue
        if not cache.has(view):
            raise UserError(f"{config.cache}: has no {view} trees to write into {path}")
        output = output_file(path).resolve()
        if output in outputs or cache.folder.resolve() in output.parents:
            raise UserError(f"{path}: is the other output too, or lies in the cache; give another name")
        outputs.add(output)
    if config.conllu is not None:
        counts: Counter[str] = Counter()
        documents = cached_documents(cache)
        if config.validate:
            documents = valid_documents(documents, counts)
        write_conllu(config.conllu, documents, guess_spaces=config.validate)
        print(f"{config.conllu}: written{_what_is_lost(cache, 'conllu')}")
        if config.validate:
            print(f"  {counts['changed']:,} of {counts['words']:,} words changed by --validate")
    if config.ptb is not None:
        write_brackets(config.ptb, (s for d in cached_documents(cache) for s in d.sentences))
        print(f"{config.ptb}: written{_what_is_lost(cache, 'ptb')}")


def _what_is_lost(cache: TreeCache, kind: str) -> str:
    """Return the end of a message that names the annotation that an import did not keep, or ""."""
    is_imported = f"{kind}_sha256" in (cache.identity.get("corpus") or {})
    return f"; the import did not keep {NOT_KEPT[kind]}" if is_imported else ""


def valid_documents(documents: Iterable[Document], counts: Counter[str]) -> Iterator[Document]:
    """Yield documents changed for UD's validator; add up ``words`` and ``changed`` words in ``counts``."""
    for document in documents:
        sentences = tuple(map(mend_tree, document.sentences))
        for old, new in zip(document.sentences, sentences, strict=True):
            counts["changed"] += sum(map(operator.ne, _conllu_words(old), _conllu_words(new)))
            counts["words"] += len(old.tokens)
        yield replace(document, id=normalize("NFC", document.id), sentences=sentences)


def _conllu_words(sentence: Sentence) -> Iterator[tuple[str, int, str]]:
    return zip(sentence.tokens, sentence.heads or (), sentence.relations or (), strict=True)


def cached_documents(cache: TreeCache) -> Iterator[Document]:
    """Yield the documents of a cache with their trees as annotation; long documents come in pieces."""
    from parsing.trees.sentences import cached_sentences

    starts = cache.documents().tolist()
    for name, first, stop in zip(cache.document_ids(), starts[:-1], starts[1:], strict=True):
        yield from split_document(name, (s.annotation() for s in cached_sentences(cache, first, stop)))


DESCRIPTION = "Write the trees of a cache as CoNLL-U and brackets."
cli = Command(ExportConfig, main, "parsing.export_trees", DESCRIPTION)


if __name__ == "__main__":
    sys.exit(cli())
