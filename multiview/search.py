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
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import tyro
from numpy.typing import NDArray

from corpora.support.cli import Command
from corpora.support.config import Count, configuration
from corpora.support.errors import UserError

if TYPE_CHECKING:
    from parsing.cache.reader import TreeCache

# Corpus vectors in memory at a time: 100k x 4800 float32 is 1.9 GB, a block of it 80 MB.
BLOCK_SENTENCES = 4096


@dataclass(frozen=True)
class Hit:
    """One result."""

    corpus_id: int
    """Row in the corpus."""
    score: float
    """Cosine."""


def semantic_search(
    queries_QD: NDArray[np.floating], corpus_ND: NDArray[np.floating], *, top_k: int = 10
) -> list[list[Hit]]:
    """The ``top_k`` corpus rows nearest to each query by cosine, best first.

    The corpus may be a memory-mapped array; it is read block by block. Equal scores rank by row.

    Args:
        queries_QD: [Q, D], one row per query, or a single vector [D].
        corpus_ND: [N, D], one row per sentence.
        top_k: results per query, at most N.
    """
    queries = _unit(np.atleast_2d(queries_QD))
    blocks = [
        queries @ _unit(np.asarray(corpus_ND[start : start + BLOCK_SENTENCES])).T
        for start in range(0, len(corpus_ND), BLOCK_SENTENCES)
    ]
    scores_QN = np.hstack(blocks) if blocks else np.zeros((len(queries), 0), dtype=np.float32)
    rows_QK = np.argsort(-scores_QN, axis=1, kind="stable")[:, :top_k]
    return [
        [Hit(int(row), float(scores[row])) for row in rows]
        for rows, scores in zip(rows_QK, scores_QN, strict=True)
    ]


def _unit(vectors: NDArray[np.floating]) -> NDArray[np.float32]:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    result: NDArray[np.float32] = (vectors / np.maximum(norms, 1e-12)).astype(np.float32)
    return result


@configuration
class SearchConfig:
    """Options of ``python -m multiview.search``."""

    model: Annotated[Path, tyro.conf.Positional]
    """Model folder, or builtin."""
    corpus: Annotated[Path, tyro.conf.Positional]
    """Text file, one sentence per line, or a tree cache."""
    queries: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="QUERY...")] = ()
    """Sentences to search for; without any, the lines of standard input."""
    vectors: Path | None = None
    """Vectors of the corpus written by multiview.encode (.npy, .h5); without them it is encoded now."""
    top: Count = 10
    """Sentences to print per query."""
    dep_model: str = ""
    """Dependency parser the model was trained with, unless it is the builtin one."""
    const_model: str = ""
    """Constituency parser the model was trained with, unless it is the builtin one."""
    views: str = ""
    """Only these views, separated by commas; all by default."""
    device: str = "auto"
    """cpu, cuda, ...; auto takes a GPU if there is one."""


def main(config: SearchConfig) -> None:
    """Print the nearest sentences of each query."""
    from multiview.folder.reading import read_lines
    from multiview.model import MultiViewEncoder
    from parsing.cache.reader import TreeCache

    encoder = MultiViewEncoder.load(
        config.model, config.device, dep_model=config.dep_model, const_model=config.const_model
    )
    views = config.views.split(",") if config.views else None
    trees = TreeCache.open(config.corpus) if config.corpus.is_dir() else None
    texts = None if trees is not None else read_lines(config.corpus)
    if config.vectors is None:
        corpus_ND = encoder.encode(texts, views=views, trees=trees)
    else:
        corpus_ND = read_vectors(config.vectors)
    rows = len(trees) if texts is None and trees is not None else len(texts or ())
    if not rows:
        raise UserError(f"{config.corpus}: holds no sentences to search in")
    size = encoder.encode([], views=views).shape[1]
    if corpus_ND.shape != (rows, size):
        shape = " x ".join(map(str, corpus_ND.shape))
        raise UserError(
            f"{config.vectors}: holds {shape} numbers, {config.corpus} and the model need {rows} x {size}; "
            "encode this corpus with this model and the same --views"
        )
    for query in config.queries or _typed(sys.stdin):
        if len(config.queries) != 1:
            print(f"{query}")
        for hit in semantic_search(encoder.encode(query, views=views), corpus_ND, top_k=config.top)[0]:
            print(f"{hit.score:.4f}  {hit.corpus_id:>7}  {_text(hit.corpus_id, texts, trees)}", flush=True)


def read_vectors(path: Path) -> NDArray[np.floating]:
    """Vectors [N, D] that ``multiview.encode`` wrote; ``.npy`` is memory-mapped.

    Raises:
        UserError: no such file, or not vectors.
    """
    import h5py

    if not path.is_file():
        raise UserError(f"{path}: no such file; python -m multiview.encode makes it")
    try:
        if path.suffix == ".npy":
            vectors: NDArray[np.floating] = np.load(path, mmap_mode="r")
            return vectors
        with h5py.File(path) as file:
            return np.asarray(file["embeddings"][:])
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{path}: not vectors of multiview.encode ({error})") from None


def _typed(lines: Iterable[str]) -> Iterable[str]:
    """The lines of a stream that are not empty.

    Raises:
        UserError: bytes that are not UTF-8.
    """
    try:
        for line in lines:
            if line.strip():
                yield line.strip()
    except UnicodeDecodeError as error:
        raise UserError(f"standard input: not UTF-8 ({error.reason} at byte {error.start})") from None


def _text(row: int, texts: list[str] | None, trees: TreeCache | None) -> str:
    """A corpus sentence to print."""
    if texts is not None:
        return texts[row]
    assert trees is not None
    return " ".join(next(trees.read(row, row + 1, ("token",)).words()))


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
