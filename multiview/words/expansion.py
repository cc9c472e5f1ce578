"""Words that a trained table does not hold, by a linear map from pre-trained vectors.

Simoulin & Crabbé 2021, section 3.2: at inference the vocabulary of trained words grows to 2M by a linear
projection. The map is that of Skip-Thought (Kiros et al. 2015, section 2.2): un-regularised least squares
over the words that the table and the vectors share, for each view on its own.

A word's vector is computed when it is read. 2 million words then cost the pre-trained file, mapped into
memory, instead of 2.4 GB of rows for each view.

Legend of dimension suffixes: P pre-trained words, G their size, X new words, V views, E size of trained
vectors, K shared words, U rows that are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from corpora.support.errors import UserError
from corpora.support.files import atomic_path, write_text
from multiview.words.vectors import Float, WordVectors, save_vectors
from multiview.words.vocabulary import Vocabulary, read_words


class Expansion(nn.Module):
    """New words of a trained table.

    Args:
        words: the X new words.
        vectors_PG: pre-trained vectors, float32 [P, G].
        places_X: int64 [X], each new word's row in ``vectors_PG``.
        maps_VGE: float32 [V, G, E], from the pre-trained to each view's trained vectors.
    """

    maps_VGE: Tensor

    def __init__(
        self, words: Sequence[str], vectors_PG: Float, places_X: NDArray[np.int64], maps_VGE: Tensor
    ) -> None:
        super().__init__()
        self.words = list(words)
        self.vectors_PG = vectors_PG
        self.places_X = places_X
        self.register_buffer("maps_VGE", maps_VGE, persistent=False)

    def __len__(self) -> int:
        return len(self.words)

    @classmethod
    def fit(cls, vocabulary: Vocabulary, tables: Sequence[Float], vectors: WordVectors) -> Self:
        """The words of ``vectors`` that a vocabulary lacks, with a map for each of its tables.

        Args:
            vocabulary: of the tables, not expanded.
            tables: per view float32 [R, E]; row 1 is the first listed word.
            vectors: pre-trained vectors that cover some of the listed words and the new ones.

        Raises:
            UserError: fewer shared words than dimensions: the map would be arbitrary.
        """
        known = {word: row for row, word in enumerate(vocabulary.words, start=1)}
        places: dict[str, int] = {}
        for place, word in enumerate(vectors.words):
            # Of two spellings that the vocabulary reads alike, the more frequent one stands first.
            places.setdefault(word.lower() if vocabulary.case == "lower" else word, place)
        shared = [(place, known[word]) for word, place in places.items() if word in known]
        if len(shared) < vectors.dim:
            raise UserError(
                f"vocabulary expansion needs {vectors.dim} words in common, the vectors share {len(shared)} "
                "with the model; use vectors of the same language and case"
            )
        source_K, target_K = np.array(shared).T
        source_KG = vectors.vectors[source_K]
        maps = [least_squares_map(source_KG, table[target_K]) for table in tables]
        new = {word: place for word, place in places.items() if word not in known}
        return cls(
            list(new),
            vectors.vectors,
            np.fromiter(new.values(), dtype=np.int64, count=len(new)),
            torch.from_numpy(np.stack(maps)),
        )

    def rows(self, view: int, index_U: NDArray[np.integer]) -> Tensor:
        """Vectors [U, E] of some of the new words in one view.

        Args:
            view: its position.
            index_U: places among the new words, [U].
        """
        source_UG = torch.from_numpy(np.asarray(self.vectors_PG[self.places_X[index_U]], dtype=np.float32))
        return source_UG.to(self.maps_VGE) @ self.maps_VGE[view]

    def save(self, folder: Path) -> None:
        """Write expansion.txt, expansion.safetensors and vectors.npy."""
        save_vectors(folder / "vectors.npy", self.vectors_PG)
        write_text(folder / "expansion.txt", "".join(word + "\n" for word in self.words))
        tensors = {"maps": self.maps_VGE.cpu().contiguous(), "places": torch.from_numpy(self.places_X)}
        with atomic_path(folder / "expansion.safetensors") as temporary:
            save_file(tensors, temporary)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what :meth:`save` wrote.

        Raises:
            UserError: a file is missing or damaged; it is named.
        """
        path = folder / "expansion.safetensors"
        try:
            tensors = load_file(path)
            maps_VGE, places_X = tensors["maps"], tensors["places"].numpy()
            path = folder / "vectors.npy"
            vectors_PG = np.load(path, mmap_mode="r")
        except (OSError, ValueError, KeyError, SafetensorError) as error:
            raise UserError(f"{path}: cannot be loaded ({str(error).splitlines()[0]})") from None
        words = read_words(folder / "expansion.txt")
        if len(words) != len(places_X) or vectors_PG.shape[1] != maps_VGE.shape[1]:
            raise UserError(
                f"{folder / 'expansion.safetensors'}: {len(places_X)} words and maps {list(maps_VGE.shape)}, "
                f"expansion.txt has {len(words)} and vectors.npy {list(vectors_PG.shape)}"
            )
        return cls(words, vectors_PG, places_X, maps_VGE)


def least_squares_map(source_KG: Float, target_KE: Float) -> Float:
    """W [G, E] = argmin ‖source W − target‖² (un-regularised, as in Skip-Thought)."""
    solution, *_ = np.linalg.lstsq(source_KG.astype(np.float64), target_KE.astype(np.float64), rcond=None)
    return solution.astype(np.float32)
