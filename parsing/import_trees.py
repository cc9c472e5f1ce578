"""Writes the gold trees of treebank files into a tree cache.

    python -m parsing.import_trees --conllu train.conllu --ptb train.ptb --output runs/trees/gold

Input: CoNLL-U (dependency heads), Penn Treebank brackets (constituents), or both of the same sentences
in the same order. Output: a tree cache like parsing.run's. Documents are those of the CoNLL-U file;
brackets alone are one document.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from corpora.brackets import bracket_form, read_brackets
from corpora.inputs import input_hash
from corpora.text import Document, Sentence, split_document
from corpora.treebanks import read_conllu
from parsing.names import MANIFEST
from parsing.trees.batch import DUMMY_NAME, FALLBACK_NAME, Batch, DependencyParse, ids_of
from parsing.trees.cache import SHARD_SENTENCES, Manifest, write_shard
from runtime.cli import Command, configuration
from runtime.errors import UserError
from runtime.files import lock_folder, path_of


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
    """Import the treebank and print a summary of the cache."""
    manifest = import_trees(config.output, conllu=config.conllu, ptb=config.ptb)
    print(config.output, manifest.describe(config.output), sep="\n")


def import_trees(output: Path, *, conllu: Path | None = None, ptb: Path | None = None) -> Manifest:
    """Write a treebank into the new tree cache ``output``. Raises UserError if a file cannot be used."""
    from parsing.pipeline.driver import cut_into_shards

    output = path_of(output, "import_trees: output")
    conllu, ptb = (None if each is None else path_of(each, "import_trees") for each in (conllu, ptb))
    path = conllu or ptb
    if path is None:
        raise UserError("--conllu or --ptb is needed")
    manifest = treebank_manifest(output.name, conllu, ptb)
    with lock_folder(output):
        if (output / MANIFEST).exists():
            raise UserError(f"{output}: holds a tree cache already; use another --output or delete it")
        rows = []
        for shard in cut_into_shards(gold_documents(conllu, ptb), SHARD_SENTENCES):
            batch = gold_batch(shard.sentences, manifest, path)
            rows.append(write_shard(output, shard.index, batch, shard.document_starts, shard.document_ids))
        if not rows:
            raise UserError(f"{path}: no sentences")
        manifest = replace(manifest, shards=tuple(rows))
        manifest.write(output)  # only now, so that an import that is stopped leaves no cache
    return manifest


def treebank_manifest(name: str, conllu: Path | None, ptb: Path | None) -> Manifest:
    """Return the manifest of a treebank's cache, without shards."""
    from parsing.trees.arrays import labels_and_tags  # here: it compiles

    files = {"conllu_sha256": conllu, "ptb_sha256": ptb}
    hashes = {key: input_hash(path, [path]) for key, path in files.items() if path is not None}
    parser = {"name": "gold", "version": "1", **hashes}
    sentences = (sentence for document in gold_documents(conllu, ptb) for sentence in document.sentences)
    relations = {name for sentence in sentences for name in sentence.relations or ()} - {FALLBACK_NAME}
    labels, tags = labels_and_tags(read_brackets(ptb)) if ptb else ([], [])
    return Manifest(
        identity={
            "corpus": {"name": name, "reader": "import-1", **hashes},
            "dependency": parser if conllu else None,
            "constituency": parser if ptb else None,
        },
        relations=(*sorted(relations), FALLBACK_NAME) if conllu else (),
        labels=(*labels, DUMMY_NAME) if ptb else (),
        tags=(*(tag for tag in tags if tag != FALLBACK_NAME), FALLBACK_NAME) if ptb else (),
        shard_sentences=SHARD_SENTENCES,
        complete=True,
    )


def gold_documents(conllu: Path | None, ptb: Path | None) -> Iterator[Document]:
    """Yield the documents of a treebank, with heads, constituents or both.

    If a word has a form that brackets cannot hold, for example with a blank, the form of the CoNLL-U is kept.
    Raises UserError if heads are missing or if the files have different sentences.
    """
    trees = iter(() if ptb is None else _checked_brackets(ptb))
    if conllu is None:
        yield from split_document("brackets", trees)
        return
    row = 0
    for document in read_conllu(conllu):
        sentences = []
        for sentence in document.sentences:
            row += 1
            if sentence.heads is None:
                raise UserError(f"{conllu}: sentence {row} has no heads")
            tree = next(trees, None) if ptb else sentence
            if tree is None or [*map(bracket_form, tree.tokens)] != [*map(bracket_form, sentence.tokens)]:
                words = " ".join(sentence.tokens)[:60]
                raise UserError(f"{ptb}: sentence {row} is not {words!r} of {conllu}")
            sentences.append(replace(sentence, tags=tree.tags, spans=tree.spans))
        yield replace(document, sentences=tuple(sentences))
    if next(trees, None) is not None:
        raise UserError(f"{ptb}: goes on after the {row} sentences of {conllu}")


def _checked_brackets(path: Path) -> Iterator[Sentence]:
    """Yield the trees of a file. Raises UserError if a tree has a phrase that a cache cannot hold."""
    for row, tree in enumerate(read_brackets(path), start=1):
        for index, (first, end, label) in enumerate(tree.spans or ()):
            if index and not label and end == first + 1:
                word = tree.tokens[first][:40]
                fault = f"a phrase without a label over the one word {word!r}, which a cache cannot hold"
                raise UserError(f"{path}: sentence {row}: {fault}; give it one")
            if label == DUMMY_NAME:
                raise UserError(f"{path}: sentence {row}: the label {label} is this program's own; rename it")
        yield tree


def gold_batch(sentences: Sequence[Sentence], names: Manifest, path: Path) -> Batch:
    """Return the trees of sentences as arrays. Raises UserError if the heads of one are not a tree."""
    from parsing.trees.arrays import to_parse
    from parsing.trees.parses import batch_of_parses

    relations, labels, tags = map(ids_of, (names.relations, names.labels, names.tags))
    arcs = spans = None
    if relations:
        arcs = {}
        for i, sentence in enumerate(sentences):
            ids = np.array([relations[name] for name in sentence.relations or ()], np.int32)
            arcs[i] = DependencyParse(np.array(sentence.heads, np.int32), ids)
    if labels:
        spans = {i: to_parse(sentence, labels, tags, unlabelled=True) for i, sentence in enumerate(sentences)}
    faults: list[str] = []
    flags = np.zeros(len(sentences), np.uint8)  # gold trees are kept whatever their length and their words
    batch = batch_of_parses([s.tokens for s in sentences], flags, names, arcs, spans, faults.append)
    if faults:
        raise UserError(f"{path}: {faults[0]}")
    return batch


DESCRIPTION = "Put the trees of CoNLL-U and bracket files into a tree cache."
cli = Command(ImportConfig, main, "parsing.import_trees", DESCRIPTION)


if __name__ == "__main__":
    sys.exit(cli())
