"""Checks all hashes and all arrays of a tree cache.

    python -m parsing.verify runs/trees/books

Input: a folder written by parsing.run. Output: a summary, or one line about the first check that fails,
with its shard and row (exit code 2).
"""

import sys
from pathlib import Path

from tyro.conf import Positional

from parsing.trees.cache import TreeCache
from runtime.cli import Command, configuration
from runtime.errors import UserError


@configuration
class VerifyConfig:
    """Options of ``parsing.verify``."""

    cache: Positional[Path]
    """Folder of the tree cache."""


def main(config: VerifyConfig) -> None:
    """Check each shard by opening it, and print a summary."""
    from runtime.progress import progress

    cache = TreeCache.open(config.cache, allow_partial=True)
    complete = cache.manifest.complete
    if complete and len(cache.rows) < len(cache.manifest.shards):
        raise UserError(f"{cache.folder / 'manifest.json'}: complete, but does not list every shard")
    with progress(total=len(cache), description="verifying") as bar:
        for row, _ in zip(cache.rows, cache.files(), strict=True):
            bar.update(row.sentences)
    state = "complete" if complete else "unfinished (the same parsing.run command finishes it)"
    print(
        f"{config.cache}: {len(cache):,} sentences, all sound; {state}",
        cache.manifest.describe(cache.folder),
        sep="\n",
    )


cli = Command(VerifyConfig, main, "parsing.verify", "Check every hash and invariant of a tree cache.")


if __name__ == "__main__":
    sys.exit(cli())
