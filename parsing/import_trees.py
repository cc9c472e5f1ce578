"""Trees from treebank files straight into a tree cache, without a parser.

    python -m parsing.import_trees --conllu train.conllu --ptb train.ptb --output runs/trees/gold

Input: CoNLL-U (dependency heads), Penn Treebank brackets (constituents), or both of the same sentences
in the same order. Output: a tree cache like parsing.run's. Documents are those of the CoNLL-U file;
brackets alone are one document.
"""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from corpora.support.cli import Command
from corpora.support.config import config_to_json, configuration

if TYPE_CHECKING:
    from corpora.documents import Document, Sentence
    from parsing.cache.format import Arrays, ShardResult
    from parsing.cache.manifest import Manifest
    from parsing.pipeline.split import ShardSpec
    from parsing.trees.brackets import SpanTree

NO_DOCUMENT = "brackets"


@configuration
class ImportConfig:
    """Options of ``parsing.import_trees``."""

    output: Path
    """Folder of the new tree cache."""
    conllu: Path | None = None
    """CoNLL-U file with heads and relations."""
    ptb: Path | None = None
    """Bracket file; with --conllu, trees of the same sentences in the same order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Treebank:
    """The files of one import: their sentences, and the names of relations, labels and tags."""

    documents: Callable[[], Iterator[Document]]
    where: str
    """The files, as errors name them."""
    relations: tuple[str, ...] | None
    labels: tuple[str, ...] | None
    tags: tuple[str, ...]
    identity: dict[str, str]


def main(config: ImportConfig) -> None:
    """Import the files and print what is in the cache."""
    from corpora.support.files import write_json

    manifest = import_trees(config.output, conllu=config.conllu, ptb=config.ptb)
    write_json(config.output / "config.json", config_to_json(config))
    rows = manifest.rows.values()
    print(
        f"{config.output}: {sum(row.sentences for row in rows):,} sentences, "
        f"{sum(row.tokens for row in rows):,} tokens, {sum(row.documents for row in rows):,} documents, "
        f"{sum(row.flagged for row in rows):,} flagged"
    )
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
    from corpora.support.errors import UserError
    from corpora.support.files import locked, sweep
    from corpora.support.progress import progress
    from parsing.cache import manifest as manifests
    from parsing.cache.format import DUMMY_NAME, FALLBACK_NAME, SHARD_SENTENCES, Inventories
    from parsing.cache.shard_file import write_shard
    from parsing.pipeline.driver import shard_specs

    treebank = open_treebank(conllu, ptb)
    source = {"name": "gold", "version": "1", **treebank.identity}
    manifest = manifests.Manifest(
        identity={
            "corpus": {"name": output.name, "reader": "import-1", **treebank.identity},
            "dependency": source if treebank.relations is not None else None,
            "constituency": source if treebank.labels is not None else None,
        },
        inventories=Inventories(
            relations=() if treebank.relations is None else (*treebank.relations, FALLBACK_NAME),
            labels=() if treebank.labels is None else (*treebank.labels, DUMMY_NAME),
            tags=() if treebank.labels is None else (*treebank.tags, FALLBACK_NAME),
        ),
        shard_sentences=shard_sentences or SHARD_SENTENCES,
    )
    with locked(output), progress(description="importing") as bar:
        sweep(output)
        if (output / manifests.NAME).exists():
            raise UserError(f"{output}: holds a tree cache already; use another --output or delete it")
        waiting: list[Sentence] = []

        def remembered() -> Iterator[Document]:
            for document in treebank.documents():
                waiting.extend(document.sentences)
                yield document

        for spec in shard_specs(remembered(), manifest.shard_sentences):
            golds, waiting[:] = waiting[: len(spec.sentences)], waiting[len(spec.sentences) :]
            result = gold_shard(spec, golds, treebank, first=spec.index * manifest.shard_sentences)
            manifest.rows[spec.index] = write_shard(
                output, result, identity=manifest.identity, inventories=manifest.inventories
            )
            bar.update(len(golds))
        manifest.complete = True
        manifest.write(output)  # only now: an import that is stopped leaves no cache
    return manifest


def open_treebank(conllu: Path | None, ptb: Path | None) -> Treebank:
    """Read the files once for their names and hashes.

    Raises:
        UserError: no file is given, one is empty, or they do not fit each other.
    """
    from corpora.inputs import input_hash
    from corpora.support.errors import UserError
    from parsing.trees.brackets import labels_and_tags

    files = {name: path for name, path in (("conllu", conllu), ("ptb", ptb)) if path is not None}
    if not files:
        raise UserError("--conllu or --ptb is needed")
    where = " and ".join(str(path) for path in files.values())

    def documents() -> Iterator[Document]:
        return _documents(conllu, ptb)

    relations: set[str] = set()
    tags: set[str] = set()
    labels: set[str] = set()
    count = 0
    for document in documents():
        for sentence in document.sentences:
            relations.update(sentence.relations or ())
            if ptb is not None:
                tree = _span_tree(sentence, f"{ptb}, tree {count + 1}")
                some_labels, some_tags = labels_and_tags([tree])
                labels.update(some_labels)
                tags.update(some_tags)
            count += 1
    if not count:
        raise UserError(f"{where}: no sentences")
    return Treebank(
        documents=documents,
        where=where,
        relations=tuple(sorted(relations)) if conllu is not None else None,
        labels=("", *sorted(labels - {""})) if ptb is not None else None,
        tags=tuple(sorted(tags)),
        identity={f"{name}_sha256": input_hash(path, [path]) for name, path in files.items()},
    )


def gold_shard(spec: ShardSpec, golds: Sequence[Sentence], treebank: Treebank, first: int) -> ShardResult:
    """The trees of ``golds`` as the arrays of a shard that starts at sentence ``first``.

    Raises:
        UserError: heads that do not form a tree; the message names the sentence.
    """
    import numpy as np

    from corpora.support.errors import UserError
    from parsing.cache.format import CONST_FALLBACK, DEP_FALLBACK, offsets_of
    from parsing.pipeline.parse_shard import constituency_arrays, dependency_arrays, prepare
    from parsing.pipeline.split import assemble
    from parsing.trees.brackets import to_parse
    from parsing.trees.parsers import DependencyParse

    reasons: Counter[str] = Counter()
    longest = max(len(tokens) for tokens in spec.sentences)
    sentences, flags, usable = prepare(spec, longest, reasons)  # gold trees of any length are kept
    offsets = offsets_of([len(tokens) for tokens in sentences])
    trees: Arrays = {}
    if treebank.relations is not None:
        ids = {name: i for i, name in enumerate(treebank.relations)}
        arcs = [
            DependencyParse(
                heads=np.array(golds[i].heads, np.int32),
                relations=np.array([ids[name] for name in golds[i].relations or ()], np.int32),
            )
            for i in usable
        ]
        by_id = zip(usable.tolist(), arcs, strict=True)
        trees |= dependency_arrays(sentences, offsets, by_id, treebank.relations, flags, reasons)
    if treebank.labels is not None:
        label_ids = {name: i for i, name in enumerate(treebank.labels)}
        tag_ids = {name: i for i, name in enumerate(treebank.tags)}
        spans = [to_parse(_span_tree(golds[i], treebank.where), label_ids, tag_ids) for i in usable]
        names = treebank.labels, treebank.tags
        trees |= constituency_arrays(
            sentences, offsets, zip(usable.tolist(), spans, strict=True), *names, flags, reasons
        )
    faulty = usable[(flags[usable] & (DEP_FALLBACK | CONST_FALLBACK)) > 0]
    if len(faulty):
        words = " ".join(golds[faulty[0]].tokens)[:60]
        raise UserError(
            f"{treebank.where}: sentence {first + int(faulty[0]) + 1} ({words!r}): its heads are no tree "
            "with one root"
        )
    return assemble(spec, sentences, offsets, flags, trees, dict(reasons))


def _documents(conllu: Path | None, ptb: Path | None) -> Iterator[Document]:
    """Sentences with heads, trees or both.

    Raises:
        UserError: a sentence without heads, or the files differ.
    """
    from dataclasses import replace

    from corpora.stream import in_pieces
    from corpora.support.errors import UserError
    from corpora.treebanks import read_brackets, read_conllu

    if conllu is None:
        assert ptb is not None
        yield from in_pieces(NO_DOCUMENT, read_brackets(ptb))
        return
    trees = read_brackets(ptb) if ptb is not None else itertools.repeat(None)
    row = 0
    for document in read_conllu(conllu):
        sentences = []
        for sentence in document.sentences:
            row += 1
            if sentence.heads is None:
                raise UserError(f"{conllu}: sentence {row} has no heads")
            tree = next(trees, None)
            if ptb is not None:
                if tree is None:
                    raise UserError(f"{ptb}: ends before sentence {row} of {conllu}")
                if tree.tokens != sentence.tokens:
                    at = _first_difference(tree.tokens, sentence.tokens)
                    raise UserError(f"{ptb}: sentence {row} is not that of {conllu}: {at}")
                sentence = replace(sentence, tree=tree.tree)
            sentences.append(sentence)
        yield replace(document, sentences=tuple(sentences))
    if ptb is not None and next(trees, None) is not None:
        raise UserError(f"{ptb}: goes on after the {row} sentences of {conllu}")


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
