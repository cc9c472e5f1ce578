"""Check every hash and invariant of a tree cache.

    python -m parsing.verify runs/trees/pydocs
    python -m parsing.verify runs/trees/pydocs --quick

Input: a folder written by parsing.run. Output: a summary, or one line about the first check that fails,
with its shard and row (exit code 2).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from corpora.support.cli import Command
from corpora.support.config import configuration

if TYPE_CHECKING:
    from parsing.cache.format import Arrays, Inventories, ShardRow
    from parsing.cache.manifest import Manifest
    from parsing.trees.parsers import Int64


@configuration
class VerifyConfig:
    """Options of ``parsing.verify``."""

    cache: Positional[Path]
    """Folder of the tree cache."""
    quick: bool = False
    """Compare files and counts with the manifest, without reading the trees."""


def main(config: VerifyConfig) -> None:
    """Verify and print what was checked."""
    from corpora.support.progress import progress
    from parsing.cache.manifest import Manifest

    manifest = Manifest.read(config.cache)
    sentences = 0
    total = sum(row.sentences for row in manifest.rows.values())
    with progress(total=total, description="verifying") as bar:
        for row in verify_shards(config.cache, manifest, quick=config.quick):
            sentences += row.sentences
            bar.update(row.sentences)
    state = "complete" if manifest.complete else "unfinished (the same parsing.run command finishes it)"
    sound = "every file as written" if config.quick else "all sound"
    print(f"{config.cache}: {len(manifest.rows)} shards, {sentences:,} sentences, {sound}; {state}")
    print(f"content sha256 {manifest.content_sha256()}")


def verify_shards(folder: Path, manifest: Manifest, *, quick: bool = False) -> Iterator[ShardRow]:
    """Check shard after shard, yielding the row of each that is sound.

    Args:
        folder: of the cache.
        manifest: its manifest.
        quick: size, SHA-256 and counts of each file alone.

    Raises:
        UserError: the first defect, with its shard and, where there is one, its row.
    """
    import json

    from corpora.support.errors import UserError
    from parsing.cache.checksums import remedy
    from parsing.cache.format import ShardResult
    from parsing.cache.shard_file import content_sha256, make_header, open_listed, read_shard

    if manifest.complete and sorted(manifest.rows) != list(range(len(manifest.rows))):
        raise UserError(f"{folder / 'manifest.json'}: complete, but does not list every shard")
    for index in sorted(manifest.rows):
        row = manifest.rows[index]
        path = folder / row.file
        open_listed(folder, row).close()
        if quick:
            yield row
            continue
        arrays, header = read_shard(path)
        found = content_sha256(arrays, header)
        if found != row.sha256:
            raise UserError(f"{path}: content hash {found[:12]}, listed {row.sha256[:12]}; {remedy(path)}")
        defect = shard_defect(arrays, manifest.inventories)
        if defect is not None:
            sentence, what = defect
            at = index * manifest.shard_sentences + sentence
            raise UserError(f"{path}: row {sentence} (sentence {at} of the corpus): {what}; {remedy(path)}")
        result = ShardResult(
            index=index,
            arrays=arrays,
            continues=bool(json.loads(header)["continues"]),
            reasons=row.reasons,
        )
        if header != make_header(manifest.identity, manifest.inventories, result):
            raise UserError(f"{path}: belongs to another cache (its identity is not the manifest's)")
        yield row


def shard_defect(arrays: Arrays, inventories: Inventories) -> tuple[int, str] | None:
    """The first row of a shard that breaks an invariant, and what is wrong with it; None if sound."""
    import numpy as np

    from parsing.cache.shard_file import decode_strings

    offsets = arrays["sentence_offsets"].astype(np.int64)
    lengths = np.diff(offsets)
    if offsets[0] != 0 or offsets[-1] != len(arrays["token"]) or len(arrays["flags"]) != len(lengths):
        return 0, "sentence offsets do not fit the tokens"
    if (lengths < 1).any():
        return int(np.argmax(lengths < 1)), "a sentence without a token"
    starts = arrays["document_offsets"]
    if starts[0] != 0 or starts[-1] != len(lengths) or (np.diff(starts) < 1).any():
        return 0, "document offsets do not fit the sentences"
    try:
        types = decode_strings(arrays["type_bytes"], arrays["type_offsets"])
    except UnicodeDecodeError as error:
        return 0, f"a word type is not UTF-8 ({error})"
    if len(set(types)) != len(types):
        return 0, "a word type is listed twice"
    return _outside(arrays, offsets, len(types), inventories) or _tree_defect(arrays, offsets)


def _outside(arrays: Arrays, offsets: Int64, types: int, inventories: Inventories) -> tuple[int, str] | None:
    """The first sentence with an id outside its inventory."""
    import numpy as np

    from parsing.cache.format import NODE_FIELDS

    bounds = {
        "token": types,
        "relation": len(inventories.relations),
        "tag": len(inventories.tags),
        "leaf_label": len(inventories.labels),
        "label": len(inventories.labels),
    }
    for field, bound in bounds.items():
        if field not in arrays:
            continue
        begins = offsets - np.arange(len(offsets)) if field in NODE_FIELDS else offsets
        if len(arrays[field]) != begins[-1]:
            return 0, f"{field}: {len(arrays[field])} values for {begins[-1]} places"
        wrong = (arrays[field] < 0) | (arrays[field] >= bound)
        if wrong.any():
            at = int(np.argmax(wrong))
            sentence = int(np.searchsorted(begins, at, "right")) - 1
            return sentence, f"{field} {arrays[field][at]} is not one of {bound}"
    return None


def _tree_defect(arrays: Arrays, offsets: Int64) -> tuple[int, str] | None:
    """The first sentence with a broken tree, wrong heights, or a fallback flag on another tree."""
    import numpy as np

    from parsing.cache.format import CONST_FALLBACK, DEP_FALLBACK
    from parsing.trees.arrays import DEFECTS, constituency_heights, dependency_heights

    places = np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets))
    nodes = offsets - np.arange(len(offsets))
    checks = []
    if "head" in arrays:
        heights, defects = dependency_heights(arrays["head"].astype(np.int32), offsets)
        chain = arrays["head"] == places
        checks.append((defects, heights, arrays["dep_height"], offsets, chain, DEP_FALLBACK))
    if "left" in arrays:
        left, right = arrays["left"].astype(np.int32), arrays["right"].astype(np.int32)
        heights, defects = constituency_heights(left, right, offsets)
        ranks = np.arange(nodes[-1]) - np.repeat(nodes[:-1], np.diff(nodes))
        branching = right == ranks + 1
        checks.append((defects, heights, arrays["const_height"], nodes, branching, CONST_FALLBACK))
    for defects, heights, stored, begins, is_fallback, flag in checks:
        if defects.any():
            return int(np.argmax(defects > 0)), DEFECTS[defects[np.argmax(defects > 0)]]
        fallback = np.repeat((arrays["flags"] & flag) > 0, np.diff(begins))
        for wrong, what in (
            (heights != stored, DEFECTS[-1]),
            (fallback & ~is_fallback, "flagged as a fallback, but the tree is another"),
        ):
            if wrong.any():
                return int(np.searchsorted(begins, np.argmax(wrong), "right")) - 1, what
    return None


cli = Command(
    VerifyConfig,
    main,
    "parsing.verify",
    "Check every hash and invariant of a tree cache.",
)


if __name__ == "__main__":
    sys.exit(cli())
