"""A corpus with its vectors, which are computed once and kept in ``runs/vectors``.

Legend of dimension suffixes: Q queries, N corpus sentences, D embedding size.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from multiview.search.nearest import Hit, semantic_search
from multiview.sentence_input import SentenceInput
from runtime import __version__
from runtime.files import json_digest, read_array
from runtime.folders import make_once

if TYPE_CHECKING:
    from multiview.libraries.search_index import SearchIndex
    from multiview.names.opened import OpenedEncoder

NEAREST_JUDGED = 20
"""The number of nearest sentences that are judged for each query, unless more are asked for."""
INDEXED_FROM = 200_000
"""The number of kept vectors from which on an index is built, if FAISS is installed."""


@dataclass(frozen=True, eq=False)
class Collection:
    """A corpus with its vectors."""

    corpus: SentenceInput
    vectors_ND: NDArray[np.float32]
    index: SearchIndex | None = None
    """Finds candidates among many vectors; None compares a query with all of them."""

    @classmethod
    def load_or_encode(cls, corpus: SentenceInput, encoder: OpenedEncoder) -> Self:
        """Read the vectors of a corpus from ``runs/vectors``, or encode the corpus and keep them there.

        They are encoded again if the text, the encoder or the version of this package has changed.
        """
        # A changed plugin is not noticed, because no key depends on the code of plugins.
        identity: dict[str, Any] = {"text": corpus.sha256, "encoder": encoder.key(), "version": __version__}
        folder = Path(f"runs/vectors/search-{json_digest(identity, 16)}")
        path = folder / "vectors.npy"
        make_once(folder, identity, [path.name], lambda: corpus.write_vectors(path, encoder, identity))
        vectors_ND = read_array(path, 2)
        if len(corpus) < INDEXED_FROM or importlib.util.find_spec("faiss") is None:
            return cls(corpus, vectors_ND)
        from multiview.libraries.search_index import SearchIndex

        return cls(corpus, vectors_ND, SearchIndex.load_or_build(vectors_ND, folder / "index", identity))

    def search(self, queries_QD: NDArray[np.floating], *, top_k: int) -> list[list[Hit]]:
        """Return the ``top_k`` nearest rows of each query. Cosines are exact; an index may miss rows."""
        if self.index is None:
            return semantic_search(queries_QD, self.vectors_ND, top_k=top_k)
        hits = []
        for query_D, rows in zip(queries_QD, self.index.candidates(queries_QD, top_k), strict=True):
            (nearest,) = semantic_search(query_D, self.vectors_ND[rows], top_k=top_k)
            hits.append([Hit(int(rows[hit.corpus_id]), hit.score) for hit in nearest])
        return hits
