"""Check every hash and invariant of a tree cache.

    python -m parsing.verify runs/trees/pydocs

Input: a folder written by parsing.run. Output: a summary, or one line about the first check that fails,
with its shard and row (exit code 2).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tyro.conf import Positional

from corpora.support.cli import Command, configuration
from corpora.support.errors import UserError
from parsing.trees.batch import NODE_FIELDS, Batch
from parsing.trees.cache import TreeCache


@configuration
class VerifyConfig:
    """Options of ``parsing.verify``."""

    cache: Positional[Path]
    """Folder of the tree cache."""


def main(config: VerifyConfig) -> None:
    """Verify and print what was checked."""
    from corpora.support.progress import progress

    cache = TreeCache.open(config.cache, allow_partial=True)
    with progress(total=len(cache), description="verifying") as bar:
        for count in verify(cache):
            bar.update(count)
    state = "complete" if cache.manifest.complete else "unfinished (the same parsing.run command finishes it)"
    print(f"{config.cache}: {len(cache.rows)} shards, {len(cache):,} sentences, all sound; {state}")
    print(f"content sha256 {cache.manifest.content_sha256()}")


def verify(cache: TreeCache) -> Iterator[int]:
    """Check shard after shard, yielding the number of sentences of each that is sound.

    Raises:
        UserError: the first defect, with its shard and, where there is one, its row.
    """
    if cache.manifest.complete and len(cache.rows) < len(cache.manifest.shards):
        raise UserError(f"{cache.folder / 'manifest.json'}: complete, but does not list every shard")
    documents = cache.documents()
    if len(cache.document_ids()) != len(documents) - 1 or (np.diff(documents) < 1).any():
        raise UserError(f"{cache.folder}: document starts do not fit the sentences")
    start = 0
    for row in cache.rows:
        path = cache.folder / row.file
        batch = cache.read(start, start + row.sentences)
        if (len(batch), len(batch.token)) != (row.sentences, row.tokens):
            raise UserError(f"{path}: its counts are not those of manifest.json")
        for begins, wrong, what in _checks(batch, cache):
            if wrong.any():
                at = int(np.searchsorted(begins, np.argmax(wrong), "right")) - 1
                raise UserError(f"{path}: row {at} (sentence {start + at} of the corpus): {what}")
        start += row.sentences
        yield row.sentences


def _checks(batch: Batch, cache: TreeCache) -> Iterator[tuple[Any, Any, str]]:
    """Where the values of each sentence start [B+1], which values are wrong, and what is wrong then."""
    from parsing.trees.arrays import DEFECTS, constituency_heights, dependency_heights

    offsets, rows = batch.sentence_offsets, np.arange(len(batch) + 1)
    yield rows, np.diff(offsets) < 1, "a sentence without a token"
    labels = len(cache.labels)
    bounds = {"token": len(batch.types or ()), "relation": len(cache.relations), "tag": len(cache.tags)}
    bounds |= {"leaf_label": labels, "label": labels}
    for field in batch.fields:
        begins, values = batch.node_offsets if field in NODE_FIELDS else offsets, getattr(batch, field)
        yield rows, np.array([len(values) != begins[-1]]), f"{field}: not one value for each place"
        if field in bounds:
            wrong = (values < 0) | (values >= bounds[field])
            yield begins, wrong, f"{field}: an id that is not one of {bounds[field]}"
    trees = []
    if "head" in batch.fields:
        trees.append((*dependency_heights(batch.head, offsets), batch.dep_height, offsets))
    if "left" in batch.fields:
        found = constituency_heights(batch.left, batch.right, offsets)[:2]
        trees.append((*found, batch.const_height, batch.node_offsets))
    for heights, defects, stored, begins in trees:
        for number, defect in enumerate(DEFECTS[1:], 1):
            yield rows, defects == number, defect
        yield begins, heights != stored, "a height is not one more than its highest child's"


cli = Command(VerifyConfig, main, "parsing.verify", "Check every hash and invariant of a tree cache.")


if __name__ == "__main__":
    sys.exit(cli())
