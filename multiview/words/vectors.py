"""Pre-trained word vectors: GloVe text, word2vec text and word2vec binary, read once, then mapped.

A file is converted once into ``<name>.vectors/`` under a cache folder: ``vectors.npy`` (float32 [W, E],
mapped into memory afterwards: 2,000,000 x 300 is 2.4 GB that no process has to hold), ``words.txt`` and
``source.json`` (size, time and limit of the file it came from). Also here: the vocabulary expansion of
Skip-Thought (Kiros et al. 2015, section 2.2), a least-squares map from pre-trained vectors to a trained
table.

Legend of dimension suffixes: W words, E vector size, K known words, M size of the trained table's rows.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from corpora.inputs import readable, stem
from corpora.support.errors import UserError
from corpora.support.files import atomic_path, read_json, write_json
from corpora.support.progress import progress
from multiview.words.vocabulary import writable

Float = NDArray[np.float32]
DEFAULT_WORDS = 2_000_000


@dataclass(frozen=True)
class WordVectors:
    """Words and their vectors, in the file's order (by falling frequency in all usual files)."""

    words: list[str]
    vectors: Float
    """float32 [W, E], mapped read-only."""

    @property
    def dim(self) -> int:
        """Vector size E."""
        return int(self.vectors.shape[1])


def load_word_vectors(path: Path, cache: Path, limit: int = DEFAULT_WORDS) -> WordVectors:
    """Map a file of word vectors, converting it into ``cache`` the first time.

    Args:
        path: GloVe or word2vec text, or word2vec binary (``.bin``); also ``.gz``, ``.xz``, ``.zst``.
        cache: folder for the converted copy, e.g. ``runs/vectors``.
        limit: words to read at most, from the top.

    Raises:
        UserError: the file is missing or a line is not a word and E numbers; file and line are named.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path}: no such file; --vectors wants GloVe or word2vec vectors")
    stat = path.stat()
    source = {"bytes": stat.st_size, "modified_ns": stat.st_mtime_ns, "limit": limit}
    tag = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]
    folder = Path(cache) / f"{path.name}-{tag}.vectors"
    if not (folder / "source.json").exists() or read_json(folder / "source.json") != source:
        # Killed in between, the folder must not pass for what it was before.
        (folder / "source.json").unlink(missing_ok=True)
        _convert(path, folder, limit)
        write_json(folder / "source.json", source)
    return open_word_vectors(folder)


def open_word_vectors(folder: Path) -> WordVectors:
    """Map a folder with ``words.txt`` and ``vectors.npy``."""
    text = (folder / "words.txt").read_bytes().decode("utf-8")
    return WordVectors(text.split("\n")[:-1], np.load(folder / "vectors.npy", mmap_mode="r"))


def _convert(path: Path, folder: Path, limit: int) -> None:
    """Copy words and vectors into ``folder``, holding only one chunk in memory."""
    read = _read_binary if stem(path).endswith(".bin") else _read_text
    words: list[str] = []
    seen: set[str] = set()
    with atomic_path(folder / "vectors.npy") as temporary, contextlib.ExitStack() as stack:
        out: IO[bytes] = stack.enter_context(open(temporary, "wb"))
        bar = stack.enter_context(progress(unit="word", description=path.name))
        dim = 0
        for word, vector in itertools.islice(read(path), limit):
            if not words:
                dim = len(vector)
                _write_header(out, 0, dim)
            bar.update(1)
            if not writable(word) or word in seen:
                continue  # a second vector for a word would never be looked up
            seen.add(word)
            words.append(word)
            out.write(vector.astype("<f4").tobytes())
        if not words:
            raise UserError(f"{path}: holds no word vectors")
        out.seek(0)
        _write_header(out, len(words), dim)
    with atomic_path(folder / "words.txt") as temporary:
        temporary.write_text("".join(word + "\n" for word in words), encoding="utf-8")


def _write_header(out: IO[bytes], words: int, dim: int) -> None:
    """A ``.npy`` header whose length does not depend on the number of words, to be rewritten at the end."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({words:>12d}, {dim}), }}"
    padded = header.ljust(117) + "\n"
    out.write(b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded.encode("latin-1"))


def _read_text(path: Path) -> Iterator[tuple[str, Float]]:
    """Word and vector per line; a first line of two integers is word2vec's header.

    GloVe 840B holds words with spaces in them, so the numbers are the last E fields.
    """
    with readable(path) as stream:
        first = stream.readline()
        fields = first.split()
        lines: Iterator[bytes] = iter(stream)
        first_number = 2
        if len(fields) == 2 and all(field.isdigit() for field in fields):
            dim = int(fields[1])
        else:
            dim = _trailing_numbers(fields)
            lines, first_number = itertools.chain([first], stream), 1
        if dim < 1:
            raise UserError(f"{path}, line 1: {first[:40]!r} is not a word and its numbers")
        for number, line in enumerate(lines, start=first_number):
            parts = line.rstrip().rsplit(b" ", dim)
            try:
                vector = np.array(parts[1:], dtype=np.float32)
            except ValueError:
                vector = np.empty(0, dtype=np.float32)
            if len(parts) != dim + 1 or len(vector) != dim or not np.isfinite(vector).all():
                raise UserError(f"{path}, line {number}: {line[:40]!r} is not a word and {dim} numbers")
            yield parts[0].decode("utf-8", "replace"), vector


def _trailing_numbers(fields: list[bytes]) -> int:
    """How many fields at the end of a GloVe line are numbers, at most all but the first."""
    count = 0
    for field in reversed(fields[1:]):
        try:
            float(field)
        except ValueError:
            break
        count += 1
    return count


def _read_binary(path: Path) -> Iterator[tuple[str, Float]]:
    """word2vec's binary layout: a line ``words dim``, then per word ``word SPACE float32[dim]``."""
    with readable(path) as stream:
        header = stream.readline().split()
        if len(header) != 2 or not all(field.isdigit() for field in header):
            raise UserError(f"{path}: does not start with word2vec's 'words dim' line")
        count, dim = map(int, header)
        for row in range(count):
            word = bytearray()
            while (byte := stream.read(1)) not in (b" ", b""):
                word += byte
            values = stream.read(4 * dim)
            if len(values) != 4 * dim:
                raise UserError(f"{path}, word {row + 1} of {count}: the file ends in the middle of a vector")
            yield word.decode("utf-8", "replace").lstrip("\n"), np.frombuffer(values, dtype="<f4")


def least_squares_map(source_KE: Float, target_KM: Float) -> Float:
    """W [E, M] = argmin ‖source W − target‖² (un-regularised, as in Skip-Thought)."""
    solution, *_ = np.linalg.lstsq(source_KE.astype(np.float64), target_KM.astype(np.float64), rcond=None)
    return solution.astype(np.float32)


def expand_table(
    known: dict[str, int], table_RM: Float, vectors: WordVectors, limit: int
) -> tuple[list[str], Float]:
    """Vectors in a trained table's space for words it does not hold.

    Args:
        known: table row per word.
        table_RM: trained table, float32 [R, M].
        vectors: pre-trained vectors that cover some of the known words and the new ones.
        limit: new words to add at most, from the top of ``vectors``.

    Returns:
        New words and their rows float32 [new, M].

    Raises:
        UserError: fewer shared words than dimensions: the map would be arbitrary.
    """
    shared = [(index, known[word]) for index, word in enumerate(vectors.words) if word in known]
    if len(shared) < vectors.dim:
        raise UserError(
            f"vocabulary expansion needs {vectors.dim} words in common, the vectors share {len(shared)} with "
            "the model; use vectors of the same language and case"
        )
    source, target = np.array(shared).T
    map_EM = least_squares_map(vectors.vectors[source], table_RM[target])
    new = [index for index, word in enumerate(vectors.words) if word not in known][:limit]
    return [vectors.words[index] for index in new], np.asarray(vectors.vectors[new] @ map_EM)
