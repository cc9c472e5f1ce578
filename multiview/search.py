"""Semantic search: the nearest sentences of a corpus by cosine.

    python -m multiview.search runs/models/dep-const-laptop corpus.txt "How do I open a file?"
    python -m multiview.search runs/models/dep-const-laptop runs/trees/pydocs --vectors v.npy < queries.txt

In: a model folder, or ``builtin``; a text file with one sentence per line, or a tree cache; queries as
arguments, or one per line of standard input. Out: the nearest sentences of each query, with cosine and row.
``--vectors`` reads the corpus vectors that ``python -m multiview.encode`` wrote, so that only the queries are
encoded.

Legend of dimension suffixes: Q queries, N corpus sentences, D embedding size, K results.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tyro.conf import Positional, arg

from corpora.support.cli import Command, Count, configuration
from corpora.support.errors import UserError
from corpora.support.files import read_array
from multiview.encode import VectorOptions, open_sentences


class Hit(NamedTuple):
    """One result."""

    corpus_id: int
    """Row in the corpus."""
    score: float
    """Cosine."""


def semantic_search(
    queries_QD: NDArray[np.floating], corpus_ND: NDArray[np.floating], *, top_k: int = 10
) -> list[list[Hit]]:
    """The ``top_k`` corpus rows nearest to each query by cosine, best first; equal scores rank by row.

    Args:
        queries_QD: [Q, D], one row per query, or a single vector [D].
        corpus_ND: [N, D], one row per sentence.
        top_k: results per query, at most N.
    """
    queries = np.atleast_2d(queries_QD)
    lengths_Q, lengths_N = (np.sqrt(np.einsum("nd,nd->n", rows, rows)) for rows in (queries, corpus_ND))
    scores_QN = queries @ corpus_ND.T / np.maximum(lengths_Q[:, None] * lengths_N, 1e-12)
    rows_QK = np.argsort(-scores_QN, axis=1, kind="stable")[:, :top_k]
    return [[Hit(int(row), float(scores_QN[q, row])) for row in rows] for q, rows in enumerate(rows_QK)]


@configuration
class SearchConfig(VectorOptions):
    """Options of ``python -m multiview.search``."""

    corpus: Positional[Path]
    """Text file, one sentence per line, or a tree cache."""
    queries: Annotated[Positional[tuple[str, ...]], arg(metavar="QUERY...")] = ()
    """Sentences to search for; without any, the lines of standard input."""
    vectors: Path | None = None
    """Vectors of the corpus written by multiview.encode (.npy); without them it is encoded now."""
    top: Count = 10
    """Sentences to print per query."""


def main(config: SearchConfig) -> None:
    """Print the nearest sentences of each query."""
    (_, encode), (texts, trees) = config.encoder(), open_sentences(config.corpus)
    shape = (len(texts if texts is not None else trees or ()), encode([]).shape[1])
    corpus_ND = encode(texts, trees=trees) if config.vectors is None else read_vectors(config.vectors)
    if corpus_ND.shape != shape or not len(corpus_ND):
        found, wanted = (" x ".join(map(str, numbers)) for numbers in (corpus_ND.shape, shape))
        raise UserError(
            f"{config.vectors or config.corpus}: holds {found} numbers, corpus and model need {wanted}, of "
            "one sentence at least; encode the corpus with this model and the same --views"
        )
    for query in config.queries or filter(None, map(str.strip, sys.stdin)):
        if len(config.queries) != 1:
            print(query)
        for row, score in semantic_search(encode(query), corpus_ND, top_k=config.top)[0]:
            text = texts[row] if texts is not None else ""
            if trees is not None:
                text = " ".join(next(trees.read(row, row + 1, ("token",)).words()))
            print(f"{score:.4f}  {row:>7}  {text}", flush=True)


def read_vectors(path: Path) -> NDArray[np.floating]:
    """Vectors [N, D] that ``multiview.encode`` wrote.

    Raises:
        UserError: no such file, or not vectors.
    """
    return read_array(path, 2)


cli = Command(
    SearchConfig,
    main,
    "multiview.search",
    "The nearest sentences of a corpus to a query, by cosine.",
    kept="nothing was written",
    plugins=True,
)


if __name__ == "__main__":
    sys.exit(cli())
