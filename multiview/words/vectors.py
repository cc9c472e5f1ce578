"""Pre-trained word vectors: GloVe, word2vec and fastText text, word2vec binary.

Vectors are converted once into ``<name>.vectors/`` in a cache folder: ``vectors.npy`` (float32 [W, E]),
``words.txt`` and ``source.json`` (what they were made from, such as size and time of the original file, and
the SHA-256 of the copy, which is checked whenever it is opened). The vectors are memory-mapped, so no process
holds the 2.4 GB of 2,000,000 x 300 numbers. :mod:`multiview.words.sources` makes vectors in other ways.

Legend of dimension suffixes: W words, E vector size.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from corpora.inputs import readable, stem
from corpora.support.errors import MissingExtraError, UserError
from corpora.support.files import (
    atomic_path,
    check_file,
    file_record,
    locked,
    read_record,
    sweep,
    write_array,
    write_record,
    write_text,
)
from corpora.support.progress import progress
from multiview.words.vocabulary import read_words, writable

Float = NDArray[np.float32]
CACHE = Path("runs/vectors")
"""Where converted vectors are kept."""
DEFAULT_WORDS = 2_000_000
"""Words read from the top of a file, as in the paper (section 3.2)."""
COPY = ("vectors.npy", "words.txt")
MOST = 65_536
"""Dimensions that a header is believed to ask for."""


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


def load_word_vectors(path: Path | str, cache: Path = CACHE, limit: int = DEFAULT_WORDS) -> WordVectors:
    """Open word vectors, converting them into ``cache`` the first time.

    Args:
        path: GloVe, word2vec or fastText text, or word2vec binary (``.bin``); ``.gz``, ``.xz`` too.
        cache: folder for the converted copy.
        limit: words to read at most, from the top.

    Raises:
        UserError: the file is missing, or a line (it is named) is not a word and E numbers.
    """
    return converted(given_source(path, limit), cache)


def given_source(spec: Path | str, limit: int = DEFAULT_WORDS) -> Source:
    """What a file of vectors is; it is not read yet.

    Args:
        spec: see :func:`load_word_vectors`.
        limit: words to read at most, from the top.

    Raises:
        UserError: no such file.
    """
    path = Path(spec)
    if not path.is_file():
        raise UserError(f"{path}: no such file; it wants GloVe, word2vec or fastText vectors")
    stat = path.stat()
    record = {"bytes": stat.st_size, "modified_ns": stat.st_mtime_ns, "limit": limit}
    read = _read_binary if stem(path).endswith(".bin") else _read_text
    # Two of the same name differ in where they lie.
    name = f"{path.name}-{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}"
    about = f"the vectors of `{path.name}`"
    return Source(str(path), name, record, about, lambda: itertools.islice(read(path), limit))


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
    vectors: Float = np.load(folder / "vectors.npy", mmap_mode="r")
    return WordVectors(read_words(folder / "words.txt"), vectors, source.about)


def _intact(folder: Path, source: Mapping[str, object]) -> bool:
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
    words: dict[str, None] = {}
    pairs = iter(source.read())
    first = list(itertools.islice(pairs, 1))  # a source that works before its first word shows that itself
    if not first:
        raise UserError(f"{source.spec}: holds no word vectors")
    header: dict[str, Any] = {"descr": "<f4", "fortran_order": False, "shape": (0, len(first[0][1]))}
    with atomic_path(folder / "vectors.npy") as temporary, open(temporary, "wb") as out:
        npy.write_array_header_1_0(out, header)
        start = out.tell()
        with progress(unit="word", description=source.name) as bar:
            for word, vector in itertools.chain(first, pairs):
                bar.update(1)
                if not np.isfinite(vector).all():
                    raise UserError(f"{source.spec}: the vector of {word[:40]!r} is not finite")
                if writable(word) and word not in words:  # a second vector would never be looked up
                    words[word] = None
                    out.write(vector.astype("<f4").tobytes())
        if not words:
            raise UserError(f"{source.spec}: holds no word vectors")
        out.seek(0)
        npy.write_array_header_1_0(out, {**header, "shape": (len(words), header["shape"][1])})
        assert out.tell() == start, "numpy leaves room for the number of rows"
    write_text(folder / "words.txt", "".join(word + "\n" for word in words))


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
            announced, dim = (int(field[:18]) for field in fields)
        else:
            dim = _trailing_numbers(fields)
            lines, first_number = itertools.chain([first], stream), 1
        if not 1 <= dim <= MOST:
            raise UserError(f"{path}, line 1: {first[:40]!r} is not a word and its numbers")
        rows = 0
        for number, line in enumerate(lines, start=first_number):
            parts = line.rstrip().rsplit(b" ", dim)
            try:
                vector = np.array(parts[1:], dtype=np.float32)
            except ValueError:
                vector = np.empty(0, dtype=np.float32)
            if len(vector) != dim:
                raise UserError(f"{path}, line {number}: {line[:40]!r} is not a word and {dim} numbers")
            rows += 1
            yield parts[0].decode("utf-8", "replace"), vector
        if announced not in (None, rows):
            raise UserError(f"{path}: its first line says {announced} words, it has {rows}; is it cut off?")


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
    try:
        from gensim.models import KeyedVectors
    except ImportError:
        raise MissingExtraError("gensim", "vectors") from None
    try:
        vectors = KeyedVectors.load_word2vec_format(str(path), binary=True, limit=DEFAULT_WORDS)
    except (OSError, ValueError, EOFError, MemoryError) as error:
        what = str(error).splitlines()[0] if str(error) else "it is cut off"
        raise UserError(
            f"{path}: not word2vec's binary layout ({what}); of a fastText model give the .vec file"
        ) from None
    for word in vectors.index_to_key:
        yield word, vectors[word]


def save_vectors(path: Path, vectors: Float) -> None:
    """Put vectors into a model folder: a hard link to their converted file where one is possible.

    Args:
        path: of the file; one that holds these vectors already is left alone.
        vectors: float32 [W, E].
    """
    source = getattr(vectors, "filename", None)
    if source and path.exists():
        here, there = path.stat(), os.stat(source)
        if (here.st_size, here.st_mtime_ns) == (there.st_size, there.st_mtime_ns):
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
