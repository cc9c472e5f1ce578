"""Pre-trained word vectors: files of GloVe, word2vec and fastText, and the words that they add to a model.

Vectors are converted once into ``<name>.vectors/`` in a cache folder: ``vectors.npy`` (float32 [W, E]),
``words.txt`` and ``source.json``, which says what they were made from and has the SHA-256 of both. They are
memory-mapped, so that no process holds the 2.4 GB of 2,000,000 x 300 numbers.

Words that a trained table lacks get vectors by a linear map for each view (:class:`Expansion`), as in
Simoulin & Crabbé 2021, section 3.2, and Kiros et al. 2015, section 2.2: least squares over the words that the
table and the vectors share. The map is applied when a word is read.

Legend of dimension suffixes: W words, E vector size; in an expansion P pre-trained words, G their size, X new
words, V views, E size of trained vectors, K shared words, U rows that are read.
"""

import hashlib
import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.lib import format as npy
from numpy.typing import NDArray
from torch import Tensor, nn

from corpora.characters import plain
from corpora.inputs import readable, stem
from runtime.errors import MissingExtraError, UserError
from runtime.files import (
    atomic_path,
    check_file,
    file_record,
    lock_folder,
    read_array,
    read_record,
    write_array,
    write_record,
    write_text,
)
from runtime.progress import progress

Float = NDArray[np.float32]
CACHE = Path("runs/vectors")
"""Where converted vectors are kept."""
DEFAULT_WORDS = 2_000_000
"""Words read from the top of a file, as in the paper (section 3.2)."""
VECTORS = "vectors.npy"
COPY = (VECTORS, "words.txt")
NUMBER = re.compile(rb"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?|[-+]?(nan|inf)", re.IGNORECASE)
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
        """Gives E, the size of a vector."""
        return int(self.vectors.shape[1])


@dataclass(frozen=True)
class VectorSource:
    """Says where word vectors come from, and makes them."""

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
    """Open the first ``limit`` word vectors of a file (:func:`file_source`), converted into ``cache`` once.

    A line that is not a word and E numbers is named in a UserError.
    """
    return converted(file_source(path, limit), cache)


def file_source(spec: Path | str, limit: int = DEFAULT_WORDS) -> VectorSource:
    """Describe a file of vectors, which must be there; it is not read yet."""
    path = Path(spec)
    if not path.is_file():
        raise UserError(
            f"{path}: no such file; it wants GloVe, word2vec or fastText vectors, or distil:FOLDER"
        )
    stat = path.stat()
    record = {"bytes": stat.st_size, "modified_ns": stat.st_mtime_ns, "limit": limit}
    read = _read_binary if stem(path).endswith(".bin") else _read_text
    # Two of the same name differ in where they lie.
    name = f"{path.name}-{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}"
    about = f"the vectors of `{path.name}`"
    return VectorSource(str(path), name, record, about, lambda: itertools.islice(read(path), limit))


def converted(source: VectorSource, cache: Path) -> WordVectors:
    """Open the vectors of a source, making them the first time; a killed or damaged copy is made again."""
    folder = Path(cache) / f"{source.name}.vectors"
    if not _intact(folder, source.record):
        with lock_folder(folder, option="folder for it", wait=True):
            if not _intact(folder, source.record):  # another run may just have made it
                # Removed first: if the conversion is killed, the folder must not look complete.
                (folder / "source.json").unlink(missing_ok=True)
                _convert(source, folder)
                files = {name: file_record(folder / name) for name in COPY}
                write_record(folder / "source.json", {**source.record, "files": files})
    vectors, words = read_array(folder / VECTORS, 2), read_words(folder / "words.txt")
    if len(words) != len(vectors):
        raise UserError(f"{folder}: {len(words)} words, {len(vectors)} vectors; delete it to convert again")
    return WordVectors(words, vectors, source.about)


def _intact(folder: Path, source: Mapping[str, object]) -> bool:
    try:
        record = read_record(folder / "source.json")
        for name in COPY:
            check_file(folder / name, **record["files"][name])
        return record == {**source, "files": record["files"]}
    except (UserError, KeyError, TypeError):  # none yet, or damaged: made again
        return False


def _convert(source: VectorSource, folder: Path) -> None:
    words: dict[str, None] = {}
    pairs = iter(source.read())
    first = list(itertools.islice(pairs, 1))  # a source that works before its first word shows that itself
    if not first:
        raise UserError(f"{source.spec}: holds no word vectors")
    header: dict[str, Any] = {"descr": "<f4", "fortran_order": False, "shape": (0, len(first[0][1]))}
    with atomic_path(folder / VECTORS) as temporary, open(temporary, "wb") as out:
        npy.write_array_header_1_0(out, header)  # numpy leaves room for the number of rows
        with progress(unit="word", description=source.name) as bar:
            for word, vector in itertools.chain(first, pairs):
                bar.update(1)
                if not np.isfinite(vector).all():
                    raise UserError(f"{source.spec}: the vector of {word[:40]!r} is not finite")
                if writable(word) and word not in words:  # a second vector would never be looked up
                    words[word] = None
                    out.write(vector.astype("<f4").tobytes())
        out.seek(0)
        npy.write_array_header_1_0(out, {**header, "shape": (len(words), header["shape"][1])})
    write_text(folder / "words.txt", "".join(word + "\n" for word in words))


def _read_text(path: Path) -> Iterator[tuple[str, Float]]:
    """Yield the words and vectors [E], one per line; a first line of two integers is word2vec's header.

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
            dim = len(list(itertools.takewhile(NUMBER.fullmatch, reversed(fields[1:]))))
            lines, first_number = itertools.chain([first], stream), 1
        if not 1 <= dim <= MOST:
            raise UserError(f"{path}, line 1: {first[:40]!r} is not a word and its numbers")
        rows = 0
        for number, line in enumerate(lines, start=first_number):
            word, *numbers = line.rstrip().rsplit(b" ", dim)
            try:
                vector = np.array(numbers, dtype=np.float32)
            except ValueError:
                vector = np.empty(0, dtype=np.float32)
            if len(vector) != dim or b"_" in line[len(word) :]:  # Python reads 1_0 as ten
                raise UserError(f"{path}, line {number}: {line[:40]!r} is not a word and {dim} numbers")
            rows += 1
            yield word.decode("utf-8", "replace"), vector
        if announced not in (None, rows):
            raise UserError(f"{path}: its first line says {announced} words, it has {rows}; is it cut off?")


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


def writable(word: str) -> bool:
    """Tell whether a file of one word per line can hold a word: no line break, no lone surrogate."""
    return bool(word) and "\n" not in word and word.encode("utf-8", "ignore").decode() == word


def read_words(path: Path) -> list[str]:
    """Return the words of a file of one word per line, in UTF-8."""
    try:
        return path.read_bytes().decode("utf-8").split("\n")[:-1]
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; the model folder is not complete") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 ({error})") from None


def save_vectors(path: Path, vectors: Float) -> None:
    """Put vectors [W, E] into a new folder, by a link to the file they are mapped from if one is possible."""
    with atomic_path(path) as temporary:
        temporary.unlink()
        try:
            os.link(getattr(vectors, "filename", None) or "", temporary)
            # The file of that name may be another one by now.
            if np.array_equal(np.load(temporary, mmap_mode="r"), vectors):
                return
        except (OSError, ValueError):  # another file system, or not mapped from a file
            pass
        temporary.unlink(missing_ok=True)
        write_array(temporary, np.asarray(vectors))


class Expansion(nn.Module):
    """New words of a trained table, X of them.

    ``places_X``, int64 [X], are their rows in the pre-trained ``vectors_PG`` [P, G]; ``maps_VGE`` [V, G, E]
    lead from these to each view's trained vectors.
    """

    places: Tensor
    maps: Tensor

    def __init__(self, words: Sequence[str], vectors_PG: Float, places_X: Tensor, maps_VGE: Tensor) -> None:
        super().__init__()
        self.words, self.vectors_PG = list(words), vectors_PG
        self.register_buffer("places", places_X)
        self.register_buffer("maps", maps_VGE)

    @classmethod
    def fit(
        cls, known: Mapping[str, int], *, lower: bool, tables: Sequence[Float], vectors: WordVectors
    ) -> Self:
        """Return the words of ``vectors`` that a vocabulary lacks, with a map for each of its tables.

        W [G, E] = argmin ‖source W − target‖², un-regularised. ``known`` is the row of each listed word in
        the tables, per view float32 [R, E]; ``lower`` tells whether the vocabulary is lower case. With fewer
        shared words than dimensions the map would be arbitrary, which is a UserError.
        """
        places: dict[str, int] = {}
        for place, word in enumerate(vectors.words):
            # Of two spellings that the vocabulary reads alike, the more frequent one stands first.
            word = plain(word)
            places.setdefault(word.lower() if lower else word, place)
        places.pop("", None)
        shared = [(place, known[word]) for word, place in places.items() if word in known]
        if len(shared) < vectors.dim:
            raise UserError(
                f"vocabulary expansion needs {vectors.dim} words in common, the vectors share {len(shared)} "
                "with the model; use vectors of the same language and case"
            )
        source_K, target_K = np.array(shared).T
        source_KG = vectors.vectors[source_K].astype(np.float64)
        maps = [np.linalg.lstsq(source_KG, table[target_K].astype(np.float64))[0] for table in tables]
        new = {word: place for word, place in places.items() if word not in known}
        maps_VGE = torch.from_numpy(np.stack(maps).astype(np.float32))
        return cls(list(new), vectors.vectors, torch.tensor([*new.values()], dtype=torch.int64), maps_VGE)

    def rows(self, view: int, index_U: NDArray[np.integer]) -> Tensor:
        """Return the vectors [U, E] in one view of the new words at places ``index_U`` [U] among them."""
        places_U = self.places[torch.from_numpy(index_U).to(self.places.device)].cpu().numpy()
        source_UG = torch.from_numpy(np.asarray(self.vectors_PG[places_U], dtype=np.float32))
        return source_UG.to(self.maps) @ self.maps[view]

    def check(self, path: Path) -> None:
        """Refuse what a file of weights may hold: a map that is not finite, a place outside the vectors."""
        if not self.maps.isfinite().all():
            raise UserError(f"{path}: words.expansion.maps: a number is not finite")
        if ((self.places < 0) | (self.places >= len(self.vectors_PG))).any():
            raise UserError(f"{path}: words.expansion.places: no row of the {len(self.vectors_PG)} vectors")
