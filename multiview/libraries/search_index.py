"""Finds, by an index of FAISS (extra ``index``), the candidates of a query: rows that may be near to it.

Vectors are scaled to length 1, reduced to principal components of 8 bits each, and put into the cells of
k-means. A query is compared with the vectors in the cells nearest to it. The file of the index is mapped into
memory, so that processes share it.

Legend of dimension suffixes: Q queries, N rows, D embedding size, C candidates.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from runtime.errors import extra
from runtime.files import atomic_path
from runtime.folders import make_once
from runtime.vectors import divide_by_norms

with extra("index"):
    import faiss

MAX_DIM = 256
"""The largest number of principal components of a vector that are kept."""
CELLS_PER_PROBE = 4
"""A query is compared with the vectors in one cell out of this many."""
SAMPLE_PER_CELL = 40
"""The number of vectors for each cell by which k-means is fitted; FAISS warns below 39."""
MIN_CANDIDATES = 100
"""The smallest number of candidates of a query. Their exact cosines are computed afterwards."""
BLOCK_ROWS = 65_536
"""The number of rows that are added to the index at a time."""


class SearchIndex:
    """An index of FAISS on disk; :meth:`load_or_build` writes it."""

    def __init__(self, path: Path) -> None:
        index: Any = faiss.read_index(str(path), faiss.IO_FLAG_MMAP)
        cells = faiss.extract_index_ivf(index)
        cells.nprobe = max(cells.nlist // CELLS_PER_PROBE, 1)
        self.index = index

    @classmethod
    def load_or_build(cls, vectors_ND: NDArray[Any], folder: Path, identity: Mapping[str, Any]) -> Self:
        """Read the index of vectors from a folder, or build it if the folder has no index of ``identity``."""
        path, recipe = folder / "vectors.faiss", _factory_string(*vectors_ND.shape)
        identity = {**identity, "recipe": recipe}
        make_once(folder, identity, [path.name], lambda: _write(path, recipe, vectors_ND))
        return cls(path)

    def candidates(self, queries_QD: NDArray[np.floating], top_k: int) -> Iterator[NDArray[np.int64]]:
        """Yield the rows [C], ascending, in which the ``top_k`` nearest of each query are to be found."""
        count = max(MIN_CANDIDATES, 2 * top_k)
        _, rows_QC = self.index.search(_unit_rows(queries_QD), count)
        yield from (np.sort(rows_C[rows_C >= 0]) for rows_C in rows_QC)


def _factory_string(count: int, dim: int) -> str:
    """Return the description, in the syntax of FAISS, of the index of ``count`` vectors."""
    cells = max(min(round(4 * count**0.5), count // SAMPLE_PER_CELL), 1)
    return (f"PCA{MAX_DIM}," if dim > MAX_DIM else "") + f"IVF{cells},SQ8"


def _write(path: Path, recipe: str, vectors_ND: NDArray[np.float32]) -> None:
    count, dim = vectors_ND.shape
    # The index ranks by distance, which ranks vectors of length 1 as the cosine does.
    index: Any = faiss.index_factory(dim, recipe)
    sample = min(SAMPLE_PER_CELL * faiss.extract_index_ivf(index).nlist, count)
    size, memory = count * index.sa_code_size(), 4 * dim * (sample + BLOCK_ROWS)
    sizes = f"{size / 1e9:.1f} GB, and {memory / 1e9:.1f} GB of memory while it is made"
    print(f"an index of {count:,} vectors: {sizes}", file=sys.stderr)
    sample_N = np.linspace(0, count - 1, sample).astype(np.int64)
    index.train(_unit_rows(vectors_ND[sample_N]))
    for first in range(0, count, BLOCK_ROWS):
        index.add(_unit_rows(vectors_ND[first : first + BLOCK_ROWS]))
    with atomic_path(path) as temporary:
        faiss.write_index(index, str(temporary))


def _unit_rows(rows_ND: NDArray[np.floating]) -> NDArray[np.float32]:
    """Return vectors scaled to length 1, as the contiguous float32 array that FAISS reads."""
    return np.ascontiguousarray(divide_by_norms(rows_ND), np.float32)
