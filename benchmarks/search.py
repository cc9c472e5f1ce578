"""Compare search by the index of multiview.search with exact search, among many vectors.

    python -m benchmarks.search vectors.npy --rows 1000000

The file has vectors of real sentences, by ``multiview.encode``. The last vectors are the queries; the others
are searched. If ``--rows`` is larger than their number, more rows are made, each a real vector plus half of
another one, scaled to length 1. Times are processor times. The last line is JSON.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from tyro.conf import Positional

from multiview.search import semantic_search
from multiview.search.collection import Collection
from runtime.cli import Command, Count, configuration
from runtime.files import read_array
from runtime.large_arrays import write_rows
from runtime.process import peak_memory

TOP = 10
"""Number of rows that both searches find for each query."""
MIXED = 0.5
"""The factor of the second vector in a row that is made of two."""


@configuration
class SearchingConfig:
    """Options of ``benchmarks.search``."""

    vectors: Positional[Path]
    """Vectors of real sentences (.npy)."""
    rows: Count = 1_000_000
    """Rows to search, real ones and others."""
    queries: Count = 200
    """Queries, the last of the vectors."""


def main(config: SearchingConfig) -> None:
    """Print recall, times and sizes."""
    from multiview.libraries.search_index import SearchIndex

    vectors_ND = read_array(config.vectors, 2)
    real_ND, query_QD = vectors_ND[: -config.queries], np.array(vectors_ND[-config.queries :])

    def rows_of(first: int, stop: int) -> np.ndarray:
        """Return rows ``first`` to ``stop``: real ones and, behind these, rows that are made of two."""
        generator = np.random.default_rng(first)
        one_N, other_N = generator.integers(0, len(real_ND), (2, stop - first))
        index_N = np.arange(first, stop)
        is_real_N = index_N < len(real_ND)
        one_N = np.where(is_real_N, index_N, one_N)
        factor_N1 = np.where(is_real_N, 0.0, MIXED)[:, None]
        rows_ND = real_ND[one_N] + factor_N1 * real_ND[other_N]
        return rows_ND / np.linalg.norm(rows_ND, axis=1, keepdims=True)

    with tempfile.TemporaryDirectory(dir=config.vectors.parent) as folder:
        path = Path(folder) / "rows.npy"
        write_rows(path, {}, config.rows, rows_of)
        row_ND = read_array(path, 2)
        seconds = {}
        began = time.process_time()
        index = SearchIndex.load_or_build(row_ND, Path(folder) / "index", {})
        seconds["index"] = time.process_time() - began
        size = sum(file.stat().st_size for file in (Path(folder) / "index").iterdir())
        memory = peak_memory()
        collection = Collection(None, row_ND, index)  # type: ignore[arg-type]
        began = time.process_time()
        found = collection.search(query_QD, top_k=TOP)
        seconds["a query"] = (time.process_time() - began) / len(query_QD)
        began = time.process_time()
        semantic_search(query_QD[:1], row_ND, top_k=TOP)
        seconds["a query of all rows"] = time.process_time() - began
        exact = semantic_search(query_QD, row_ND, top_k=TOP)
    recalls = []
    for found_hits, exact_hits in zip(found, exact, strict=True):
        exact_rows = {hit.corpus_id for hit in exact_hits}
        recalls.append(len({hit.corpus_id for hit in found_hits} & exact_rows) / TOP)
    results = {
        "rows": len(row_ND),
        "real": len(real_ND),
        "index_mb": round(size / 1e6),
        "peak_mb": memory // 10**6,
        f"recall@{TOP}": round(float(np.mean(recalls)), 4),
        "seconds": seconds,
    }
    for name, value in results.items():
        print(f"{name:10} {value}")
    print(json.dumps(results))


cli = Command(SearchingConfig, main, "benchmarks.search", "Search many vectors by an index, and all of them.")


if __name__ == "__main__":
    sys.exit(cli())
