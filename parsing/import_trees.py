"""Trees from treebank files straight into a tree cache, without a parser.

    python -m parsing.import_trees --conllu train.conllu --ptb train.ptb --output runs/trees/gold

Input: CoNLL-U (dependency heads), Penn Treebank brackets (constituents), or both of the same sentences
in the same order. Output: a tree cache like parsing.run's. Documents are those of the CoNLL-U file;
brackets alone are one document.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from corpora.support.cli import Command
from corpora.support.config import config_to_json, configuration
from corpora.support.errors import UserError

if TYPE_CHECKING:
    from corpora.documents import Document, Sentence
    from parsing.cache.format import Batch, Inventories
    from parsing.cache.manifest import Manifest
    from parsing.trees.brackets import SpanTree


@configuration
class ImportConfig:
    """Options of ``parsing.import_trees``."""

    output: Path
    """Folder of the new tree cache."""
    conllu: Path | None = None
    """CoNLL-U file with heads and relations."""
    ptb: Path | None = None
    """Bracket file; with --conllu, trees of the same sentences in the same order."""


@dataclass(frozen=True, slots=True)
class Treebank:
    """The files of one import, read anew at every pass; a file is not read if it is None."""

    conllu: Path | None
    ptb: Path | None

    def __str__(self) -> str:
        return " and ".join(str(path) for path in (self.conllu, self.ptb) if path is not None)

    def documents(self) -> Iterator[Document]:
        """Sentences with heads, trees or both.

        Raises:
            UserError: a sentence without heads, or the files differ.
        """
        from corpora.stream import in_pieces
        from corpora.treebanks import read_brackets, read_conllu

        conllu, ptb = self.conllu, self.ptb
        trees = None if ptb is None else iter(read_brackets(ptb))
        if conllu is None:
            yield from in_pieces("brackets", trees or ())
            return
        row = 0
        for document in read_conllu(conllu):
            sentences = []
            for sentence in document.sentences:
                row += 1
                if sentence.heads is None:
                    raise UserError(f"{conllu}: sentence {row} has no heads")
                if trees is not None:
                    tree = next(trees, None)
                    if tree is None:
                        raise UserError(f"{ptb}: ends before sentence {row} of {conllu}")
                    if tree.tokens != sentence.tokens:
                        at = _first_difference(tree.tokens, sentence.tokens)
                        raise UserError(f"{ptb}: sentence {row} is not that of {conllu}: {at}")
                    sentence = replace(sentence, tree=tree.tree)
                sentences.append(sentence)
            yield replace(document, sentences=tuple(sentences))
        if trees is not None and next(trees, None) is not None:
            raise UserError(f"{ptb}: goes on after the {row} sentences of {conllu}")

    def inventories(self) -> Inventories:
        """Names of relations, labels and tags.

        Raises:
            UserError: the files have no sentences; what :meth:`documents` raises.
        """
        from parsing.cache.format import DUMMY_NAME, FALLBACK_NAME, Inventories
        from parsing.trees.brackets import labels_and_tags

        relations: set[str] = set()
        sentences = (sentence for document in self.documents() for sentence in document.sentences)
        count = 0

        def trees() -> Iterator[SpanTree]:
            nonlocal count
            for count, sentence in enumerate(sentences, 1):
                relations.update(sentence.relations or ())
                if sentence.tree is not None:
                    yield _span_tree(sentence, f"{self.ptb}, tree {count}")

        labels, tags = labels_and_tags(trees())
        if not count:
            raise UserError(f"{self}: no sentences")
        return Inventories(
            relations=() if self.conllu is None else (*sorted(relations), FALLBACK_NAME),
            labels=() if self.ptb is None else (*labels, DUMMY_NAME),
            tags=() if self.ptb is None else (*tags, FALLBACK_NAME),
        )


def main(config: ImportConfig) -> None:
    """Import the files and print what is in the cache."""
    from corpora.support.files import write_json

    manifest = import_trees(config.output, conllu=config.conllu, ptb=config.ptb)
    write_json(config.output / "config.json", config_to_json(config))
    counts = (
        f"{sum(getattr(row, name) for row in manifest.shards):,} {name}"
        for name in ("sentences", "tokens", "documents", "flagged")
    )
    print(f"{config.output}: {', '.join(counts)}")
    print(f"content sha256 {manifest.content_sha256()}")


def import_trees(
    output: Path, *, conllu: Path | None = None, ptb: Path | None = None, shard_sentences: int | None = None
) -> Manifest:
    """Write the trees of a treebank into the tree cache ``output``.

    Args:
        output: the cache's folder; it must not hold a cache yet.
        conllu: dependency trees.
        ptb: constituency trees; of the same sentences if both are given.
        shard_sentences: sentences per shard, default as in parsing.run.

    Raises:
        UserError: no file given, the files do not fit each other, the heads of a sentence are not a tree, or
            the folder holds a cache already.
    """
    from corpora.inputs import input_hash
    from corpora.support.files import locked, sweep
    from corpora.support.progress import progress
    from parsing.cache.manifest import NAME, SHARD_SENTENCES, Manifest
    from parsing.cache.shard import write_shard
    from parsing.pipeline.driver import shards_of

    treebank = Treebank(conllu, ptb)
    files = {name: path for name, path in (("conllu", conllu), ("ptb", ptb)) if path is not None}
    if not files:
        raise UserError("--conllu or --ptb is needed")
    inventories = treebank.inventories()
    hashes = {f"{name}_sha256": input_hash(path, [path]) for name, path in files.items()}
    source = {"name": "gold", "version": "1", **hashes}
    manifest = Manifest(
        identity={
            "corpus": {"name": output.name, "reader": "import-1", **hashes},
            "dependency": None if conllu is None else source,
            "constituency": None if ptb is None else source,
        },
        relations=inventories.relations,
        labels=inventories.labels,
        tags=inventories.tags,
        shard_sentences=shard_sentences or SHARD_SENTENCES,
        complete=True,
    )
    with locked(output), progress(description="importing") as bar:
        sweep(output)
        if (output / NAME).exists():
            raise UserError(f"{output}: holds a tree cache already; use another --output or delete it")
        rows = []
        golds = (sentence for document in treebank.documents() for sentence in document.sentences)
        for shard in shards_of(treebank.documents(), manifest.shard_sentences):
            size = len(shard.sentences)
            first = shard.index * manifest.shard_sentences
            batch = gold_batch(list(itertools.islice(golds, size)), inventories, treebank, first)
            rows.append(write_shard(output, shard.index, batch, shard.document_starts, shard.document_ids))
            bar.update(size)
        manifest = replace(manifest, shards=tuple(rows))
        manifest.write(output)  # only now: an import that is stopped leaves no cache
    return manifest


def gold_batch(golds: Sequence[Sentence], inventories: Inventories, treebank: Treebank, first: int) -> Batch:
    """The trees of ``golds``, which start at sentence ``first``, as arrays.

    Raises:
        UserError: heads that do not form a tree; the message names the sentence.
    """
    from parsing.text_parser import assemble, prepare
    from parsing.trees.brackets import to_parse
    from parsing.trees.parsers import DependencyParse

    relations, labels, tags = (
        {name: i for i, name in enumerate(names)}
        for names in (inventories.relations, inventories.labels, inventories.tags)
    )
    longest = max(len(gold.tokens) for gold in golds)  # gold trees of any length are kept
    sentences, flags, usable = prepare([gold.tokens for gold in golds], None, longest)
    arcs = spans = None
    if treebank.conllu is not None:
        arcs = {
            i: DependencyParse(
                heads=np.array(golds[i].heads, np.int32),
                relations=np.array([relations[name] for name in golds[i].relations or ()], np.int32),
            )
            for i in usable
        }
    if treebank.ptb is not None:
        spans = {i: to_parse(_span_tree(golds[i], str(treebank)), labels, tags) for i in usable}
    faults: list[str] = []
    before = flags.copy()
    batch = assemble(sentences, flags, inventories, arcs, spans, faults)
    if faults:
        faulty = next(i for i in usable if flags[i] != before[i])
        words = " ".join(golds[faulty].tokens)[:60]
        raise UserError(
            f"{treebank}: sentence {first + faulty + 1} ({words!r}): its heads are no tree with one root"
        )
    return batch


def _first_difference(one: Sequence[str], other: Sequence[str]) -> str:
    for i, (a, b) in enumerate(itertools.zip_longest(one, other), start=1):
        if a != b:
            return f"word {i} is {a!r}, there {b!r}"
    return "no difference"


def _span_tree(sentence: Sentence, where: str) -> SpanTree:
    from parsing.trees.brackets import read_tree

    assert sentence.tree is not None
    return read_tree(sentence.tree, where=where)


cli = Command(
    ImportConfig,
    main,
    "parsing.import_trees",
    "Put the trees of CoNLL-U and bracket files into a tree cache.",
)


if __name__ == "__main__":
    sys.exit(cli())
