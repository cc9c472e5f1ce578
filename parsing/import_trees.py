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
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from corpora.support.cli import Command
from corpora.support.config import config_to_json, configuration
from corpora.support.errors import UserError
from parsing.cache.files import NAME, SHARD_SENTENCES, Manifest
from parsing.cache.format import DUMMY_NAME, FALLBACK_NAME, Inventories

if TYPE_CHECKING:
    from corpora.documents import Document, Sentence
    from parsing.cache.format import Batch


@configuration
class ImportConfig:
    """Options of ``parsing.import_trees``."""

    output: Path
    """Folder of the new tree cache."""
    conllu: Path | None = None
    """CoNLL-U file with heads and relations."""
    ptb: Path | None = None
    """Bracket file; with --conllu, trees of the same sentences in the same order."""


def main(config: ImportConfig) -> None:
    """Import the files and print what is in the cache."""
    from corpora.support.files import write_json

    manifest = import_trees(config.output, conllu=config.conllu, ptb=config.ptb)
    write_json(config.output / "config.json", config_to_json(config))
    counts = (f"{manifest.total(name):,} {name}" for name in ("sentences", "tokens", "documents", "flagged"))
    print(f"{config.output}: {', '.join(counts)}")
    print(f"content sha256 {manifest.content_sha256()}")


def import_trees(
    output: Path,
    *,
    conllu: Path | None = None,
    ptb: Path | None = None,
    shard_sentences: int = SHARD_SENTENCES,
) -> Manifest:
    """Write the trees of a treebank into the tree cache ``output``.

    Args:
        output: the cache's folder; it must not hold a cache yet.
        conllu: dependency trees.
        ptb: constituency trees; of the same sentences if both are given.
        shard_sentences: sentences per shard.

    Raises:
        UserError: no file given, the files do not fit each other, the heads of a sentence are not a tree, or
            the folder holds a cache already.
    """
    from corpora.inputs import input_hash
    from corpora.support.files import locked, sweep
    from corpora.support.progress import progress
    from parsing.cache.files import write_shard
    from parsing.pipeline.driver import shards_of

    files = {name: path for name, path in (("conllu", conllu), ("ptb", ptb)) if path is not None}
    if not files:
        raise UserError("--conllu or --ptb is needed")
    where = " and ".join(map(str, files.values()))
    names = gold_names(read_gold(conllu, ptb), where)
    hashes = {f"{name}_sha256": input_hash(path, [path]) for name, path in files.items()}
    source = {"name": "gold", "version": "1", **hashes}
    manifest = Manifest(
        identity={
            "corpus": {"name": output.name, "reader": "import-1", **hashes},
            "dependency": None if conllu is None else source,
            "constituency": None if ptb is None else source,
        },
        relations=names.relations if conllu else (),
        labels=names.labels if ptb else (),
        tags=names.tags if ptb else (),
        shard_sentences=shard_sentences,
        complete=True,
    )
    with locked(output), progress(description="importing") as bar:
        sweep(output)
        if (output / NAME).exists():
            raise UserError(f"{output}: holds a tree cache already; use another --output or delete it")
        rows = []
        golds = (sentence for document in read_gold(conllu, ptb) for sentence in document.sentences)
        for shard in shards_of(read_gold(conllu, ptb), shard_sentences):
            size = len(shard.sentences)
            batch = gold_batch(list(itertools.islice(golds, size)), manifest, f"{where}: shard {shard.index}")
            rows.append(write_shard(output, shard.index, batch, shard.document_starts, shard.document_ids))
            bar.update(size)
        manifest = replace(manifest, shards=tuple(rows))
        manifest.write(output)  # only now: an import that is stopped leaves no cache
    return manifest


def read_gold(conllu: Path | None, ptb: Path | None) -> Iterator[Document]:
    """Sentences with heads, trees or both.

    Raises:
        UserError: a sentence without heads, or the files differ.
    """
    from corpora.documents import in_pieces
    from corpora.treebanks import read_brackets, read_conllu

    trees = iter(() if ptb is None else read_brackets(ptb))
    if conllu is None:
        yield from in_pieces("brackets", trees)
        return
    row = 0
    for document in read_conllu(conllu):
        sentences = []
        for sentence in document.sentences:
            row += 1
            if sentence.heads is None:
                raise UserError(f"{conllu}: sentence {row} has no heads")
            tree = next(trees, None)
            if ptb is not None and (tree is None or tree.tokens != sentence.tokens):
                here, there = " ".join(tree.tokens if tree else ())[:60], " ".join(sentence.tokens)[:60]
                raise UserError(f"{ptb}: sentence {row}, {here!r}, is not that of {conllu}, {there!r}")
            sentences.append(sentence if tree is None else replace(sentence, tree=tree.tree))
        yield replace(document, sentences=tuple(sentences))
    if next(trees, None) is not None:
        raise UserError(f"{ptb}: goes on after the {row} sentences of {conllu}")


def gold_names(documents: Iterator[Document], where: str) -> Inventories:
    """Names of relations, labels and tags of a treebank.

    Raises:
        UserError: there are no sentences, or a tree (it is named) is none.
    """
    from parsing.trees.brackets import read_tree

    sentences = itertools.chain.from_iterable(document.sentences for document in documents)
    relations: set[str] = set()
    labels: set[str] = set()
    tags: set[str] = set()
    row = 0
    for row, sentence in enumerate(sentences, 1):
        relations.update(sentence.relations or ())
        if sentence.tree is not None:
            tree = read_tree(sentence.tree, where=f"{where}, tree {row}")
            labels.update(label for _, _, label in tree.spans)
            tags.update(tree.tags)
    if not row:
        raise UserError(f"{where}: no sentences")
    return Inventories(
        relations=(*sorted(relations), FALLBACK_NAME),
        labels=("", *sorted(labels - {""}), DUMMY_NAME),
        tags=(*sorted(tags), FALLBACK_NAME),
    )


def gold_batch(golds: Sequence[Sentence], names: Manifest, where: str) -> Batch:
    """The trees of sentences as arrays.

    Raises:
        UserError: heads that do not form a tree; the message names the sentence.
    """
    from parsing.text_parser import assemble, prepare
    from parsing.trees.brackets import read_tree, to_parse
    from parsing.trees.parsers import DependencyParse

    relations, labels, tags = (
        {name: i for i, name in enumerate(each)} for each in (names.relations, names.labels, names.tags)
    )
    longest = max(len(gold.tokens) for gold in golds)  # gold trees of any length are kept
    sentences, flags, usable = prepare([gold.tokens for gold in golds], None, longest)
    arcs = {
        i: DependencyParse(
            heads=np.array(golds[i].heads, np.int32),
            relations=np.array([relations[name] for name in golds[i].relations or ()], np.int32),
        )
        for i in usable
        if relations
    }
    spans = {i: to_parse(read_tree(golds[i].tree or "", where=where), labels, tags) for i in usable if labels}
    faults: list[str] = []
    inventories = names.inventories
    batch = assemble(
        sentences, flags, inventories, arcs if relations else None, spans if labels else None, faults.append
    )
    if faults:
        raise UserError(f"{where}: {faults[0]}")
    return batch


cli = Command(
    ImportConfig,
    main,
    "parsing.import_trees",
    "Put the trees of CoNLL-U and bracket files into a tree cache.",
)


if __name__ == "__main__":
    sys.exit(cli())
