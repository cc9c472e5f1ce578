"""A frozen teacher: a matrix of sentence vectors in the order of a tree cache.

Any sentence encoder can be one: a cache's sentences are encoded once (:func:`store_part`), and training reads
rows. A folder holds parts of ``PART`` rows, float16 of unit length, each with a record of its
size and SHA-256, and ``teacher.json``, which names the encoder and the sentences and is written last. Parsed
again, by other parsers, the same sentences have the same teacher.

Legend of dimension suffixes: n rows, K size of the teacher's vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from corpora.support.errors import UserError
from corpora.support.files import check_file, file_record, read_record, write_array, write_record
from parsing.cache.reader import TreeCache

PART = 8192
RECORD = "teacher.json"


@dataclass(frozen=True)
class TeacherMatrix:
    """The vectors of all sentences of a cache, memory-mapped."""

    folder: Path
    sentences: int
    dim: int
    """K."""
    encoder: str
    """Name of the teacher."""

    @classmethod
    def open(cls, folder: Path, cache: TreeCache) -> Self:
        """Open the vectors of a cache's sentences.

        Raises:
            UserError: the folder is not complete, damaged, or of another cache.
        """
        if not (folder / RECORD).is_file():
            raise UserError(f"--teacher.vectors {folder}: no {RECORD} here, or it is not complete")
        record = read_record(folder / RECORD)
        if record["text"] != cache.sentences_sha256():
            raise UserError(f"--teacher.vectors {folder}: made of other sentences than {cache.folder} has")
        matrix = cls(folder, int(record["sentences"]), int(record["dim"]), str(record["encoder"]))
        for start in range(0, matrix.sentences, PART):
            check_part(folder, start)
        return matrix

    @cached_property
    def _parts(self) -> list[NDArray[np.float16]]:
        return [
            np.load(part_path(self.folder, start), mmap_mode="r") for start in range(0, self.sentences, PART)
        ]

    def rows(self, sentence: NDArray[np.int64]) -> Tensor:
        """Vectors float16 [n, K] of sentences by their numbers [n]."""
        out_nK = np.empty((len(sentence), self.dim), dtype=np.float16)
        part, within = np.divmod(sentence, PART)
        for number in np.unique(part):
            here = part == number
            out_nK[here] = self._parts[number][within[here]]
        return torch.from_numpy(out_nK)


def part_path(folder: Path, start: int) -> Path:
    """The file of the rows from ``start`` on."""
    return folder / f"part-{start // PART:06d}.npy"


def check_part(folder: Path, start: int) -> None:
    """Compare a part with its record.

    Raises:
        UserError: it is missing or damaged.
    """
    path = part_path(folder, start)
    check_file(path, **read_record(path.with_suffix(".json")))


def has_part(folder: Path, start: int) -> bool:
    """Whether a part is there, whole."""
    try:
        check_part(folder, start)
    except UserError:
        return False
    return True


def store_part(folder: Path, start: int, vectors_nK: NDArray[np.float32]) -> None:
    """Write vectors [n, K] of the sentences from ``start`` on, scaled to unit length."""
    path = part_path(folder, start)
    lengths_n1 = np.linalg.norm(vectors_nK, axis=1, keepdims=True)
    path.with_suffix(".json").unlink(missing_ok=True)
    write_array(path, (vectors_nK / np.maximum(lengths_n1, 1e-12)).astype(np.float16))
    write_record(path.with_suffix(".json"), file_record(path))
