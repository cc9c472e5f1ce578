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
from tyro.conf import Positional

from corpora.support.cli import Command
from corpora.support.config import configuration
from corpora.support.errors import UserError
from parsing.cache.files import Manifest, ShardRow, remedy
from parsing.cache.format import CONST_FALLBACK, DEP_FALLBACK, NODE_FIELDS, Inventories
from parsing.trees.parsers import Int, Int64


@configuration
class VerifyConfig:
    """Options of ``parsing.verify``."""

    cache: Positional[Path]
    """Folder of the tree cache."""


def main(config: VerifyConfig) -> None:
    """Verify and print what was checked."""
    from corpora.support.progress import progress

    manifest = Manifest.read(config.cache)
    total = sum(row.sentences for row in manifest.shards)
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
    from parsing.cache.files import decode_strings

    offsets = arrays["sentence_offsets"].astype(np.int64)
    lengths = np.diff(offsets)
    if offsets[0] != 0 or offsets[-1] != len(arrays["token"]) or len(arrays["flags"]) != len(lengths):
        return 0, "sentence offsets do not fit the tokens"
    if (lengths < 1).any():
        return int(np.argmax(lengths < 1)), "a sentence without a token"
    starts = np.concatenate([[-1], arrays["document_starts"], [len(lengths)]])
    if (np.diff(starts) < 1).any():
        return 0, "document starts do not fit the sentences"
    try:
        types = decode_strings(arrays["type_bytes"], arrays["type_offsets"])
    except UnicodeDecodeError as error:
        return 0, f"a word type is not UTF-8 ({error})"
    if len(set(types)) != len(types):
        return 0, "a word type is listed twice"
    return _outside(arrays, offsets, len(types), inventories) or _tree_defect(arrays, offsets)


def _outside(
    arrays: dict[str, Int], offsets: Int64, types: int, inventories: Inventories
) -> tuple[int, str] | None:
    """The first sentence with an id outside its inventory."""
    labels = len(inventories.labels)
    bounds = {"token": types, "relation": len(inventories.relations), "tag": len(inventories.tags)}
    for field, bound in {**bounds, "leaf_label": labels, "label": labels}.items():
        if field not in arrays:
            continue
        begins = offsets - np.arange(len(offsets)) if field in NODE_FIELDS else offsets
        if len(arrays[field]) != begins[-1]:
            return 0, f"{field}: {len(arrays[field])} values for {begins[-1]} places"
        wrong = (arrays[field] < 0) | (arrays[field] >= bound)
        if wrong.any():
            at = int(np.argmax(wrong))
            return _sentence_at(begins, wrong), f"{field} {arrays[field][at]} is not one of {bound}"
    return None


def _tree_defect(arrays: dict[str, Int], offsets: Int64) -> tuple[int, str] | None:
    """The first sentence with a broken tree, wrong heights, or a fallback flag on another tree."""
    from parsing.trees.arrays import DEFECTS, constituency_heights, dependency_heights

    checks = []
    if "head" in arrays:
        places = np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets))
        found = dependency_heights(arrays["head"].astype(np.int32), offsets)
        checks.append((*found, arrays["dep_height"], offsets, arrays["head"] == places, DEP_FALLBACK))
    if "left" in arrays:
        nodes = offsets - np.arange(len(offsets))
        left, right = arrays["left"].astype(np.int32), arrays["right"].astype(np.int32)
        found = constituency_heights(left, right, offsets)[:2]
        branching = right == np.arange(nodes[-1]) - np.repeat(nodes[:-1], np.diff(nodes)) + 1
        checks.append((*found, arrays["const_height"], nodes, branching, CONST_FALLBACK))
    for heights, defects, stored, begins, is_fallback, flag in checks:
        if defects.any():
            first = int(np.argmax(defects > 0))
            return first, DEFECTS[defects[first]]
        if (heights != stored).any():
            return _sentence_at(begins, heights != stored), DEFECTS[-1]
        other = np.repeat((arrays["flags"] & flag) > 0, np.diff(begins)) & ~is_fallback
        if other.any():
            return _sentence_at(begins, other), "flagged as a fallback, but the tree is another"
    return None


def _sentence_at(begins: Int64, wrong: np.ndarray) -> int:
    """The sentence of the first value that is wrong; ``begins`` [B+1] says where the values of each start."""
    return int(np.searchsorted(begins, np.argmax(wrong), "right")) - 1


cli = Command(
    VerifyConfig,
    main,
    "parsing.verify",
    "Check every hash and invariant of a tree cache.",
)


if __name__ == "__main__":
    sys.exit(cli())
