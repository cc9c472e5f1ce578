"""Check every hash and invariant of a tree cache.

    python -m parsing.verify runs/trees/pydocs

Input: a folder written by parsing.run. Output: a summary, or one line about the first check that fails,
with its shard and row (exit code 2).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tyro.conf import Positional

from corpora.support.cli import Command
from corpora.support.config import configuration
from corpora.support.errors import UserError
from parsing.cache.files import Manifest, ShardRow, remedy
from parsing.cache.format import CONST_FALLBACK, DEP_FALLBACK, NODE_FIELDS, Inventories
from parsing.trees.parsers import Int, Int64

Bools = NDArray[np.bool_]


@configuration
class VerifyConfig:
    """Options of ``parsing.verify``."""

    cache: Positional[Path]
    """Folder of the tree cache."""


def main(config: VerifyConfig) -> None:
    """Verify and print what was checked."""
    from corpora.support.progress import progress

    manifest = Manifest.read(config.cache)
    total = manifest.total("sentences")
    with progress(total=total, description="verifying") as bar:
        for row in verify_shards(config.cache, manifest):
            bar.update(row.sentences)
    state = "complete" if manifest.complete else "unfinished (the same parsing.run command finishes it)"
    print(f"{config.cache}: {len(manifest.shards)} shards, {total:,} sentences, all sound; {state}")
    print(f"content sha256 {manifest.content_sha256()}")


def verify_shards(folder: Path, manifest: Manifest) -> Iterator[ShardRow]:
    """Check shard after shard, yielding the row of each that is sound.

    Raises:
        UserError: the first defect, with its shard and, where there is one, its row.
    """
    from parsing.cache.files import check_shard, read_arrays

    if manifest.complete and len(manifest.prefix()) < len(manifest.shards):
        raise UserError(f"{folder / 'manifest.json'}: complete, but does not list every shard")
    for row in manifest.shards:
        path = folder / row.file
        check_shard(path, row)
        arrays = read_arrays(path)
        counts = (len(arrays["flags"]), len(arrays["token"]), len(arrays["document_starts"]))
        if counts != (row.sentences, row.tokens, row.documents):
            raise UserError(f"{path}: its counts are not those of manifest.json; {remedy(folder)}")
        defect = shard_defect(arrays, manifest.inventories)
        if defect is not None:
            sentence, what = defect
            at = row.index * manifest.shard_sentences + sentence
            raise UserError(f"{path}: row {sentence} (sentence {at} of the corpus): {what}; {remedy(folder)}")
        yield row


def shard_defect(arrays: dict[str, Int], inventories: Inventories) -> tuple[int, str] | None:
    """The first row of a shard that breaks an invariant, and what is wrong with it; None if sound."""
    for begins, wrong, what in _checks(arrays, inventories):
        if wrong.any():
            return int(np.searchsorted(begins, np.argmax(wrong), "right")) - 1, what
    return None


def _checks(arrays: dict[str, Int], inventories: Inventories) -> Iterator[tuple[Int64, Bools, str]]:
    """Where the values of each sentence start [B+1], which values are wrong, and what is wrong then."""
    from parsing.cache.files import decode_strings
    from parsing.trees.arrays import DEFECTS, constituency_heights, dependency_heights

    offsets = arrays["sentence_offsets"].astype(np.int64)
    lengths, rows, nodes = np.diff(offsets), np.arange(len(offsets)), offsets - np.arange(len(offsets))
    starts = np.concatenate([[-1], arrays["document_starts"], [len(lengths)]])
    fit = offsets[0] == 0 and offsets[-1] == len(arrays["token"]) and len(arrays["flags"]) == len(lengths)
    yield rows, np.array([not fit]), "sentence offsets do not fit the tokens"
    yield rows, lengths < 1, "a sentence without a token"
    yield rows, np.diff(starts) < 1, "document starts do not fit the sentences"
    try:
        types = len(decode_strings(arrays["type_bytes"], arrays["type_offsets"]))
    except UnicodeDecodeError as error:
        yield rows, np.array([True]), f"a word type is not UTF-8 ({error})"
        return
    labels = len(inventories.labels)
    bounds = {"token": types, "relation": len(inventories.relations), "tag": len(inventories.tags)}
    for field, bound in {**bounds, "leaf_label": labels, "label": labels}.items():
        if field in arrays:
            begins, values = nodes if field in NODE_FIELDS else offsets, arrays[field]
            yield rows, np.array([len(values) != begins[-1]]), f"{field}: not one value for each place"
            yield begins, (values < 0) | (values >= bound), f"{field}: an id that is not one of {bound}"
    trees = []
    if "head" in arrays:
        found = dependency_heights(arrays["head"].astype(np.int32), offsets)
        chain = arrays["head"] == np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
        trees.append((*found, arrays["dep_height"], offsets, chain, DEP_FALLBACK))
    if "left" in arrays:
        left, right = arrays["left"].astype(np.int32), arrays["right"].astype(np.int32)
        found = constituency_heights(left, right, offsets)[:2]
        branching = right == np.arange(nodes[-1]) - np.repeat(nodes[:-1], lengths - 1) + 1
        trees.append((*found, arrays["const_height"], nodes, branching, CONST_FALLBACK))
    for heights, defects, stored, begins, is_fallback, flag in trees:
        for number, defect in enumerate(DEFECTS[1:], 1):
            yield rows, defects == number, defect
        yield begins, heights != stored, "a height is not one more than its highest child's"
        fallback = np.repeat((arrays["flags"] & flag) > 0, np.diff(begins))
        yield begins, fallback & ~is_fallback, "flagged as a fallback, but the tree is another"


cli = Command(
    VerifyConfig,
    main,
    "parsing.verify",
    "Check every hash and invariant of a tree cache.",
)


if __name__ == "__main__":
    sys.exit(cli())
