"""Pre-trained word vectors (GloVe, word2vec, fastText), and the words that they add to a trained model.

The vectors of a file are converted once, into the folder ``<name>.vectors/`` of a cache: ``vectors.npy``
(float32 [W, E]), ``words.txt``, and ``source.json``, which says what the two were made from and has their
SHA-256. They are memory-mapped, so that no process has to hold the 2.4 GB of 2,000,000 x 300 numbers.

Words that a trained model lacks get vectors by a linear map for each view (:class:`Expansion`), as in
Simoulin & Crabbé 2021, section 3.2, and Kiros et al. 2015, section 2.2. The map is fitted by least squares
over the words that both the model and the vectors have, and applied when a word is read.

Legend of dimension suffixes: W words, E vector size; in an expansion P pre-trained words, G their size, X new
words, V views, E size of trained vectors, K shared words, U rows that are read.
"""

import functools
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, takewhile
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.lib import format as npy
from numpy.typing import NDArray
from torch import Tensor, nn

from corpora.characters import normalise_text
from corpora.inputs import is_encodable, open_text, stem
from runtime.errors import UserError, extra
from runtime.files import atomic_path, read_array, write_text
from runtime.folders import make_once
from runtime.progress import progress

Float = NDArray[np.float32]
CACHE = Path("runs/vectors")
"""The folder in which converted vectors are kept."""
DEFAULT_WORDS = 2_000_000
"""The number of words that are read from the top of a file, as in the paper (section 3.2)."""
VECTORS = "vectors.npy"
WORDS = "words.txt"
NUMBER = re.compile(rb"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?|[-+]?(nan|inf)", re.IGNORECASE)
MAX_DIM = 65_536
"""The largest size of vectors that is believed if the first line of a file gives it."""


@dataclass(frozen=True)
class WordVectors:
    """Words and their vectors, in the order of their file, which is usually by falling frequency."""

    words: list[str]
    vectors: Float
    """float32 [W, E]; memory-mapped and read-only if they come from a file."""
    summary: str = ""
    """A description of the vectors for a model card."""

    @property
    def dim(self) -> int:
        """The size E of a vector."""
        return int(self.vectors.shape[1])


def load_word_vectors(path: Path | str, cache: Path = CACHE, limit: int = DEFAULT_WORDS) -> WordVectors:
    """Return the first ``limit`` word vectors of a file, which are converted into ``cache`` if needed.

    Raises UserError if a line, which is named, is not a word and E numbers.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(
            f"{path}: no such file; it wants GloVe, word2vec or fastText vectors, or distil:FOLDER"
        )
    stat = path.stat()
    identity = {"bytes": stat.st_size, "modified_ns": stat.st_mtime_ns, "limit": limit}
    is_binary = stem(path).endswith(".bin")
    read_pairs = functools.partial(_read_binary, limit=limit) if is_binary else _read_text
    # The digest of the path tells two files of the same name apart.
    folder = cache / f"{path.name}-{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}"
    summary = f"the vectors of `{path.name}`"
    return convert_once(folder, identity, lambda: islice(read_pairs(path), limit), str(path), summary)


def convert_once(
    folder: Path,
    identity: Mapping[str, object],
    read: Callable[[], Iterable[tuple[str, Float]]],
    spec: str,
    summary: str,
) -> WordVectors:
    """Return the word vectors of a folder, which are made unless the folder has those of ``identity``.

    Args:
        folder: its name without the suffix ``.vectors``.
        identity: the JSON values that decide words and vectors.
        read: makes them: yields each word and its vector [E], most frequent first.
        spec: the name that the user gave for them, for messages.
        summary: a description of them for a model card.
    """
    folder = folder.with_name(f"{folder.name}.vectors")
    make_once(folder, identity, (VECTORS, WORDS), lambda: _convert(read(), folder, spec))
    vectors, words = read_array(folder / VECTORS, 2), read_words(folder / WORDS)
    if len(words) != len(vectors):
        raise UserError(f"{folder}: {len(words)} words, {len(vectors)} vectors; delete it to convert again")
    return WordVectors(words, vectors, summary)


def _convert(pairs: Iterable[tuple[str, Float]], folder: Path, spec: str) -> None:
    """Write words and their vectors to a folder, one by one, because memory may not hold them all.

    Raises UserError if a vector is not finite, or if there is none.
    """
    words: dict[str, None] = {}  # in order, without repetitions
    pairs = iter(pairs)
    first_pair = next(pairs, None)  # before the bar, because a slow source shows a bar of its own
    if first_pair is None:
        raise UserError(f"{spec}: holds no word vectors")
    dim = len(first_pair[1])
    header: dict[str, Any] = {"descr": "<f4", "fortran_order": False, "shape": (0, dim)}
    with atomic_path(folder / VECTORS) as temporary, open(temporary, "wb") as stream:
        npy.write_array_header_1_0(stream, header)  # numpy leaves room for the number of rows
        with progress(unit="word", description=folder.stem) as bar:
            for word, vector in chain([first_pair], pairs):
                bar.update(1)
                if not np.isfinite(vector).all():
                    raise UserError(f"{spec}: the vector of {word[:40]!r} is not finite")
                if is_writable(word) and word not in words:  # the second vector of a word is never looked up
                    words[word] = None
                    stream.write(vector.astype("<f4").tobytes())
        stream.seek(0)
        npy.write_array_header_1_0(stream, {**header, "shape": (len(words), dim)})
    write_text(folder / WORDS, "".join(word + "\n" for word in words))


def _read_text(path: Path) -> Iterator[tuple[str, Float]]:
    """Yield the words and vectors [E] of a text file, one of each per line.

    A first line of two integers is the header of word2vec: the numbers of words and of dimensions.
    """
    with open_text(path) as stream:
        first_line = stream.readline()
        fields = first_line.split()
        header_count = None
        lines: Iterable[bytes] = stream
        if len(fields) == 2 and all(field.isdigit() for field in fields):
            header_count, dim = (int(field[:18]) for field in fields)
        else:
            dim = len(list(takewhile(NUMBER.fullmatch, reversed(fields[1:]))))
            lines = chain([first_line], stream)
        if not 1 <= dim <= MAX_DIM:
            raise UserError(f"{path}, line 1: {first_line[:40]!r} is not a word and its numbers")
        row_count = 0
        for row_count, line in enumerate(lines, start=1):
            word, *numbers = line.rstrip().rsplit(b" ", dim)  # from the end: words of GloVe 840B have spaces
            try:
                vector = np.array(numbers, dtype=np.float32)
            except ValueError:
                vector = np.empty(0, dtype=np.float32)
            if len(vector) != dim or b"_" in line[len(word) :]:  # Python reads 1_0 as ten
                number = row_count if header_count is None else row_count + 1
                raise UserError(f"{path}, line {number}: {line[:40]!r} is not a word and {dim} numbers")
            yield word.decode("utf-8", "replace"), vector
        if header_count not in (None, row_count):
            counts = f"its first line says {header_count} words, it has {row_count}"
            raise UserError(f"{path}: {counts}; is it cut off?")


def _read_binary(path: Path, limit: int) -> Iterator[tuple[str, Float]]:
    """Yield the first words and vectors [E] of a file in word2vec's binary format."""
    with extra("vectors"):
        from gensim.models import KeyedVectors
    try:
        vectors = KeyedVectors.load_word2vec_format(str(path), binary=True, limit=limit)
    except (OSError, ValueError, EOFError, MemoryError) as error:
        reason = str(error).splitlines()[0] if str(error) else "it is cut off"
        raise UserError(
            f"{path}: not word2vec's binary layout ({reason}); of a fastText model give the .vec file"
        ) from None
    for word in vectors.index_to_key:
        yield word, vectors[word]


def is_writable(word: str) -> bool:
    """Tell whether a file of one word per line can hold a word: it has no line break or lone surrogate."""
    return bool(word) and "\n" not in word and is_encodable(word)


def read_words(path: Path) -> list[str]:
    """Return the words of a file of one word per line, in UTF-8."""
    try:
        return path.read_bytes().decode("utf-8").split("\n")[:-1]
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 ({error})") from None


class Expansion(nn.Module):
    """Words that are added to a trained model, with vectors by a linear map of pre-trained vectors.

    Args:
        words: the X added words.
        vectors_PG: the pre-trained vectors.
        places_X: the row in these of each added word, int64.
        maps_VGE: the map for each view, from a pre-trained vector to one of the view.
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
        cls, row_of: Mapping[str, int], *, lower: bool, tables: Sequence[Float], vectors: WordVectors
    ) -> Self:
        """Return the words of ``vectors`` that a vocabulary lacks, with a map W fitted for each table.

        W [G, E] = argmin ‖source W − target‖², without regularisation, over the words that both have: source
        are their pre-trained vectors [K, G], target those of the table [K, E].

        Args:
            row_of: the row in the tables of each word of the vocabulary.
            lower: whether the vocabulary is in lower case.
            tables: the trained vectors of each view, float32 [rows, E].
            vectors: the pre-trained vectors.

        Raises UserError if they share fewer words than there are dimensions, because the map would be
        arbitrary.
        """
        row_of_word: dict[str, int] = {}
        for row, pretrained_word in enumerate(vectors.words):
            # Of two spellings that the vocabulary does not tell apart, the first is the more frequent one.
            word = normalise_text(pretrained_word)
            row_of_word.setdefault(word.lower() if lower else word, row)
        row_of_word.pop("", None)
        shared_words = [word for word in row_of_word if word in row_of]
        if len(shared_words) < vectors.dim:
            raise UserError(
                f"vocabulary expansion needs {vectors.dim} words in common, the vectors share "
                f"{len(shared_words)} with the model; use vectors of the same language and case"
            )
        source_KG = vectors.vectors[[row_of_word[word] for word in shared_words]].astype(np.float64)
        target_K = [row_of[word] for word in shared_words]
        maps = [np.linalg.lstsq(source_KG, table[target_K].astype(np.float64))[0] for table in tables]
        maps_VGE = torch.from_numpy(np.stack(maps).astype(np.float32))
        new_words = [word for word in row_of_word if word not in row_of]
        places_X = torch.tensor([row_of_word[word] for word in new_words], dtype=torch.int64)
        return cls(new_words, vectors.vectors, places_X, maps_VGE)

    def rows(self, view: int, index_U: NDArray[np.integer]) -> Tensor:
        """Return the vectors [U, E] in one view of added words, given by their indices among all of them."""
        places_U = self.places[torch.from_numpy(index_U).to(self.places.device)].cpu().numpy()
        source_UG = torch.from_numpy(np.asarray(self.vectors_PG[places_U], dtype=np.float32))
        return source_UG.to(self.maps) @ self.maps[view]

    def check(self, path: Path) -> None:
        """Raise UserError if a map is not finite or a place is no row of the vectors."""
        if not self.maps.isfinite().all():
            raise UserError(f"{path}: words.expansion.maps: a number is not finite")
        if ((self.places < 0) | (self.places >= len(self.vectors_PG))).any():
            raise UserError(f"{path}: words.expansion.places: no row of the {len(self.vectors_PG)} vectors")
