"""Finds candidates among many vectors, rows that may be near to a query, by an index of FAISS (``index``).

The index keeps the principal components of the vectors, at length 1, in 8 bits a number and in cells found by
k-means; a query looks into the nearest cells. It is mapped into memory, so that processes share it.

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
from runtime.vectors import unit_rows

with extra("index"):
    import faiss

MAX_DIM = 256
"""Numbers that are kept of a vector: its largest principal components."""
CELLS_PER_PROBE = 4
"""One cell in so many is searched for a query."""
SAMPLE_PER_CELL = 40
"""Vectors that k-means is given for each cell; FAISS asks for 39."""
MIN_CANDIDATES = 100
"""The fewest candidates of a query; their cosines are computed by the vectors themselves."""
BLOCK_ROWS = 65_536
"""Rows that are added at a time."""


class SearchIndex:
    """An index of FAISS on disk, which :meth:`load_or_build` writes."""

    def __init__(self, path: Path) -> None:
        index: Any = faiss.read_index(str(path), faiss.IO_FLAG_MMAP)
        cells = faiss.extract_index_ivf(index)
        cells.nprobe = max(cells.nlist // CELLS_PER_PROBE, 1)
        self.index = index

    @classmethod
    def load_or_build(cls, vectors_ND: NDArray[Any], folder: Path, identity: Mapping[str, Any]) -> Self:
        """Read the index of vectors from a folder, or build and write it, if it has another ``identity``."""
        path, recipe = folder / "vectors.faiss", _factory_string(*vectors_ND.shape)
        identity = {**identity, "recipe": recipe}
        make_once(folder, identity, [path.name], lambda: _write(path, recipe, vectors_ND))
        return cls(path)

    def candidates(self, queries_QD: NDArray[np.floating], top_k: int) -> Iterator[NDArray[np.int64]]:
        """Yield for each query the rows [C], in ascending order, among which its ``top_k`` nearest are."""
        count = max(MIN_CANDIDATES, 2 * top_k)
        _, rows_QC = self.index.search(_unit_rows(queries_QD), count)
        yield from (np.sort(rows_C[rows_C >= 0]) for rows_C in rows_QC)


def _factory_string(count: int, dim: int) -> str:
    """Return the string by which FAISS makes the index of so many vectors."""
    cells = max(min(round(4 * count**0.5), count // SAMPLE_PER_CELL), 1)
    return (f"PCA{MAX_DIM}," if dim > MAX_DIM else "") + f"IVF{cells},SQ8"


def _write(path: Path, recipe: str, vectors_ND: NDArray[np.float32]) -> None:
    count, dim = vectors_ND.shape
    index: Any = faiss.index_factory(dim, recipe)  # by distance: at length 1 it ranks as the cosine does
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
    """Return vectors at length 1, as FAISS reads them."""
    return np.ascontiguousarray(unit_rows(rows_ND), np.float32)
