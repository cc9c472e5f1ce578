"""Reads the sentences that a command encodes, and writes their vectors to disk."""

from __future__ import annotations

import sys
from bisect import bisect
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpora.characters import normalise_text
from corpora.inputs import read_lines
from corpora.text import Tokenizer
from runtime.errors import UserError
from runtime.files import json_digest
from runtime.large_arrays import PIECE, check_room, write_rows
from runtime.process import peak_memory

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from multiview.names.opened import OpenedEncoder
    from parsing.trees.cache import TreeCache


class SentenceInput:
    """The sentences of a text file, of standard input (``-``) or of a tree cache.

    Each line of a text that is not blank is a sentence. With ``split`` each line is split into its sentences,
    and :meth:`line` returns the line of a sentence. Raises UserError if a text has no sentences.
    """

    def __init__(self, path: Path, *, split: bool = False) -> None:
        self.texts: list[str] | None = None
        self.trees: TreeCache | None = None
        self._ends: Sequence[int] = ()
        if path.is_dir():
            from parsing.trees.cache import TreeCache

            self.trees = TreeCache.open(path)
        else:
            self.texts = list(sentences_of(path))
            if split:
                by_line = [*map(Tokenizer("spacy").split_sentences, self.texts)]
                self.texts, self._ends = [*chain(*by_line)], [*accumulate(map(len, by_line))]
            if not self.texts:
                raise UserError(f"{path}: empty")

    @property
    def sha256(self) -> str:
        """A digest of the sentences."""
        if self.trees is not None:
            return str(self.trees.identity["content_sha256"])
        return json_digest(self.texts, 64)

    def __len__(self) -> int:
        return len(self.texts if self.texts is not None else self.trees or ())

    def text(self, row: int) -> str:
        """Return one sentence."""
        if self.trees is not None:
            return " ".join(next(self.trees.read(row, row + 1, ("token",)).words()))
        return (self.texts or [])[row]

    def line(self, row: int) -> int:
        """Return the number of a sentence's line, from 0; blank lines are not counted."""
        return bisect(self._ends, row) if self._ends else row

    def write_vectors(
        self,
        path: Path,
        encoder: OpenedEncoder,
        identity: Mapping[str, Any],
        *,
        trees: TreeCache | None = None,
        normalize: bool = False,
    ) -> int:
        """Write the vectors of all sentences, float32 [n, D], and return how many sentences were encoded.

        Sentences that an interrupted call has encoded are not encoded again. If there are many sentences, the
        needed disk and memory are printed first.

        Args:
            path: The ``.npy`` file.
            encoder: Encodes the sentences.
            identity: JSON values that decide the vectors; only a call with equal values is continued.
            trees: A tree cache; sentences in it are not parsed again.
            normalize: Whether every vector is scaled to length 1.

        Raises UserError if the disk is too full.
        """
        is_many = len(self) > PIECE

        def encode(first: int, stop: int) -> NDArray[np.float32]:
            options: dict[str, Any] = {
                "normalize": normalize,
                "show_progress_bar": False if is_many else None,
            }
            if self.trees is not None:
                return encoder.encode(None, trees=_CacheSlice(self.trees, first, stop), **options)
            return encoder.encode((self.texts or [])[first:stop], trees=trees, **options)

        if is_many:
            row_bytes = encode(0, 1).nbytes
            size, memory = len(self) * row_bytes, peak_memory() + 3 * PIECE * row_bytes
            print(
                f"{len(self):,} vectors of {row_bytes // 4:,} numbers: {size / 1e9:.1f} GB of disk, about "
                f"{memory / 1e9:.1f} GB of memory; the same command goes on where a stopped one was",
                file=sys.stderr,
            )
            check_room(path, size)
        return write_rows(path, identity, len(self), encode)


class _CacheSlice:
    """A range of sentences of a tree cache, which an encoder reads as if it were a whole cache."""

    def __init__(self, trees: TreeCache, first: int, stop: int) -> None:
        self.trees, self.first, self.stop = trees, first, stop

    def __getattr__(self, name: str) -> Any:
        return getattr(self.trees, name)

    def __len__(self) -> int:
        return self.stop - self.first

    def read(self, first: int, stop: int, *options: Any) -> Any:
        return self.trees.read(self.first + first, self.first + stop, *options)

    def words(self) -> Iterator[list[str]]:
        return self.trees.words([(self.first, self.stop)])


def sentences_of(path: Path) -> Iterator[str]:
    """Yield the lines of a file that are not blank. Raises UserError if one is not UTF-8 or is too long."""
    for line in read_lines(path, stream=True):
        if line.has_replacements or line.is_truncated:
            raise UserError(f"{path}, line {line.number}: not UTF-8, or longer than 256 KiB")
        if normalise_text(line.text).strip():
            yield line.text
