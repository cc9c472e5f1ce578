"""Pre-trained word vectors: GloVe, word2vec and fastText text, word2vec binary.

Vectors are converted once into ``<name>.vectors/`` in a cache folder: ``vectors.npy`` (float32 [W, E]),
``words.txt`` and ``source.json`` (what they were made from, such as size and time of the original file, and
the SHA-256 of the copy, which is checked whenever it is opened). The vectors are memory-mapped, so no process
holds the 2.4 GB of 2,000,000 x 300 numbers. Other sources of vectors are in :mod:`multiview.words.sources`.

Legend of dimension suffixes: W words, E vector size.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from corpora.inputs import readable, stem
from corpora.support.errors import UserError
from corpora.support.files import (
    atomic_path,
    check_file,
    file_record,
    locked,
    read_record,
    sweep,
    write_array,
    write_record,
)
from corpora.support.progress import progress
from multiview.words.vocabulary import writable

Float = NDArray[np.float32]
CACHE = Path("runs/vectors")
"""Where converted vectors are kept."""
DEFAULT_WORDS = 2_000_000
COPY = ("vectors.npy", "words.txt")
FASTTEXT = (793712314).to_bytes(4, "little")
"""How fastText's own binary models begin."""
MOST_DIMENSIONS = 65_536
"""A header or first line that asks for more is not believed."""
MOST_WORD_BYTES = 65_536
"""A binary word that goes on for longer is not one."""


@dataclass(frozen=True)
class WordVectors:
    """Words and their vectors in the order of the file, which is usually by falling frequency."""

    words: list[str]
    vectors: Float
    """float32 [W, E], memory-mapped, read-only."""
    about: str = ""
    """What they are, for a model card."""

    @property
    def dim(self) -> int:
        """Vector size E."""
        return int(self.vectors.shape[1])


@dataclass(frozen=True)
class Source:
    """Where word vectors come from, and how to make them."""

    spec: str
    """As the user gave it."""
    name: str
    """Of the converted folder."""
    record: Mapping[str, object]
    """Values of JSON that tell, without making the vectors, whether they would be the same again."""
    about: str
    """What the vectors are, for a model card."""
    read: Callable[[], Iterable[tuple[str, Float]]]
    """Makes the words and their vectors [E], most frequent first."""


def load_word_vectors(path: Path, cache: Path = CACHE, limit: int = DEFAULT_WORDS) -> WordVectors:
    """Open a file of word vectors, converting it into ``cache`` the first time.

    Args:
        path: GloVe, word2vec or fastText text, or word2vec binary (``.bin``); ``.gz``, ``.xz``, ``.zst`` too.
        cache: folder for the converted copy.
        limit: words to read at most, from the top.

    Raises:
        UserError: the file is missing, or a line (it is named) is not a word and E numbers.
    """
    return converted(of_file(Path(path), limit), cache)


def of_file(path: Path, limit: int) -> Source:
    """The vectors of a file.

    Args:
        path: see :func:`load_word_vectors`.
        limit: words to read at most, from the top.

    Raises:
        UserError: no such file.
    """
    read = _read_binary if stem(path).endswith(".bin") else _read_text
    return Source(
        str(path),
        named_by_place(path),
        _stamp_record(path, limit),
        f"the vectors of `{path.name}`",
        lambda: itertools.islice(read(path), limit),
    )


def named_by_place(path: Path) -> str:
    """A name for the vectors of a file or folder: two of the same name differ in where they lie."""
    return f"{path.name}-{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}"


def converted(source: Source, cache: Path) -> WordVectors:
    """Open the vectors of a source, making them the first time; a killed or damaged copy is made again.

    Args:
        source: where they come from.
        cache: folder of the converted folders.
    """
    folder = Path(cache) / f"{source.name}.vectors"
    if not _intact(folder, source.record):
        with locked(folder, option="folder for it", wait=True):
            if not _intact(folder, source.record):  # another run may just have made it
                sweep(folder)
                # Removed first: if the conversion is killed, the folder must not look complete.
                (folder / "source.json").unlink(missing_ok=True)
                _convert(source, folder)
                files = {name: file_record(folder / name) for name in COPY}
                write_record(folder / "source.json", {**source.record, "files": files})
    text = (folder / "words.txt").read_bytes().decode("utf-8")
    vectors: Float = np.load(folder / "vectors.npy", mmap_mode="r")
    return WordVectors(text.split("\n")[:-1], vectors, source.about)


def _stamp_record(path: Path, limit: int) -> dict[str, int]:
    """Tells whether a file of word vectors has changed, without reading it.

    Raises:
        UserError: no such file.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file; it wants GloVe, word2vec or fastText vectors")
    stat = path.stat()
    return {"bytes": stat.st_size, "modified_ns": stat.st_mtime_ns, "limit": limit}


def _intact(folder: Path, source: Mapping[str, object]) -> bool:
    """Whether the folder holds an undamaged copy of this source."""
    try:
        record = read_record(folder / "source.json")
        if record != {**source, "files": record.get("files")}:
            return False
        for name in COPY:
            check_file(folder / name, **record["files"][name])
    except (UserError, KeyError, TypeError):  # none yet, or damaged: made again
        return False
    return True


def _convert(source: Source, folder: Path) -> None:
    """Write words and vectors into ``folder``, one vector at a time."""
    words: list[str] = []
    seen: set[str] = set()
    pairs = iter(source.read())
    first = list(itertools.islice(pairs, 1))  # a source that works before its first word shows that itself
    with atomic_path(folder / "vectors.npy") as temporary, contextlib.ExitStack() as stack:
        out: IO[bytes] = stack.enter_context(open(temporary, "wb"))
        bar = stack.enter_context(progress(unit="word", description=source.name))
        dim = 0
        for word, vector in itertools.chain(first, pairs):
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
            raise UserError(f"{source.spec}: holds no word vectors")
        out.seek(0)
        _write_header(out, len(words), dim)
    with atomic_path(folder / "words.txt") as temporary:
        temporary.write_text("".join(word + "\n" for word in words), encoding="utf-8")


def _write_header(out: IO[bytes], words: int, dim: int) -> None:
    """A ``.npy`` header of fixed length, so that it can be rewritten when the number of words is known."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({words:>12d}, {dim}), }}"
    padded = header.ljust(117) + "\n"
    out.write(b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded.encode("latin-1"))


def _read_text(path: Path) -> Iterator[tuple[str, Float]]:
    """Words and vectors [E], one per line; a first line of two integers is word2vec's header.

    GloVe 840B has words with spaces in them, so the last E fields are taken as the numbers.
    """
    with readable(path) as stream:
        first = stream.readline()
        fields = first.split()
        lines: Iterator[bytes] = iter(stream)
        first_number, announced = 2, None
        if len(fields) == 2 and all(field.isdigit() for field in fields):
            announced, dim = _header(path, fields)
        else:
            dim = _trailing_numbers(fields)
            lines, first_number = itertools.chain([first], stream), 1
        if not 1 <= dim <= MOST_DIMENSIONS:
            raise UserError(f"{path}, line 1: {first[:40]!r} is not a word and its numbers")
        rows = 0
        for number, line in enumerate(lines, start=first_number):
            parts = line.rstrip().rsplit(b" ", dim)
            try:
                vector = np.array(parts[1:], dtype=np.float32)
            except ValueError:
                vector = np.empty(0, dtype=np.float32)
            if len(parts) != dim + 1 or len(vector) != dim or not np.isfinite(vector).all():
                raise UserError(f"{path}, line {number}: {line[:40]!r} is not a word and {dim} numbers")
            rows += 1
            yield parts[0].decode("utf-8", "replace"), vector
        if announced not in (None, rows):
            raise UserError(f"{path}: its first line says {announced} words, it has {rows}; is it cut off?")


def _header(path: Path, fields: list[bytes]) -> tuple[int, int]:
    """Words and dimensions of word2vec's first line.

    Raises:
        UserError: a number that no file of vectors has.
    """
    if any(len(field) > 18 for field in fields) or not 1 <= int(fields[1]) <= MOST_DIMENSIONS:
        shown = b" ".join(fields)[:60].decode("ascii", "replace")
        raise UserError(f"{path}, line 1: {shown!r} is not a number of words and a dimension")
    return int(fields[0]), int(fields[1])


def _trailing_numbers(fields: list[bytes]) -> int:
    """The number of fields at the end of a GloVe line that are numbers; the first never counts."""
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
        first = stream.readline()
        if first.startswith(FASTTEXT):
            raise UserError(f"{path}: a fastText model; give the .vec file of the same vectors")
        header = first.split()
        if len(header) != 2 or not all(field.isdigit() for field in header):
            raise UserError(f"{path}: does not start with word2vec's 'words dim' line")
        count, dim = _header(path, header)
        for row in range(count):
            word = bytearray()
            while (byte := stream.read(1)) not in (b" ", b""):
                word += byte
                if len(word) > MOST_WORD_BYTES:
                    raise UserError(f"{path}, word {row + 1} of {count}: longer than {MOST_WORD_BYTES} bytes")
            values = stream.read(4 * dim)
            if len(values) != 4 * dim:
                raise UserError(f"{path}, word {row + 1} of {count}: the file ends in the middle of a vector")
            vector = np.frombuffer(values, dtype="<f4")
            if not np.isfinite(vector).all():
                raise UserError(f"{path}, word {row + 1} of {count}: a number that is not finite")
            yield word.decode("utf-8", "replace").lstrip("\n"), vector
        if stream.read(2).strip():
            raise UserError(f"{path}: goes on after the {count} words that its first line says")


def save_vectors(path: Path, vectors: Float) -> None:
    """Put vectors into a model folder: a hard link to their converted file where one is possible.

    Args:
        path: of the file; one that holds these vectors already is left alone.
        vectors: float32 [W, E].
    """
    source = getattr(vectors, "filename", None)
    if source and path.exists() and _stamp(path) == _stamp(Path(source)):
        return
    with atomic_path(path) as temporary:
        temporary.unlink()
        try:
            os.link(source or "", temporary)
        except OSError:  # another file system, or not mapped from a file
            if source:
                shutil.copy2(source, temporary)
            else:
                write_array(temporary, np.asarray(vectors))


def _stamp(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns
