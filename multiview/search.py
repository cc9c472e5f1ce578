"""Search a corpus by meaning: find the sentences nearest to a query by cosine.

    python -m multiview.search runs/models/builtin-laptop corpus.txt "How do I open a file?" --keep
    python -m multiview.search runs/models/builtin-laptop runs/trees/books --vectors v.npy < queries.txt
    python -m multiview.search builtin questions.txt "How do I enable 2FA?" --judge pairs

In: a model, a text file with one sentence per line or a tree cache, and queries: arguments, or the lines of
standard input. Out: the nearest sentences of each query, with cosine and row. A line of several sentences is
searched by each of them; the row is the line's. The vectors of the corpus are computed, kept from an earlier
search (``--keep``), or read (``--vectors``). ``--judge`` puts those last that say something else than the
query, each with a reason; ``--queries FILE`` measures search instead.

Legend of dimension suffixes: Q queries, N corpus sentences, D embedding size, K results.
"""

import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from tyro.conf import Positional, arg

from corpora.inputs import STANDARD_INPUT
from corpora.ranking.queries import read_queries, report_lines
from corpora.sentences import describe_value
from multiview.names.options import VectorOptions
from multiview.names.sentence_input import SentenceInput, sentences_of
from runtime import __version__
from runtime.cli import Command, Count, configuration
from runtime.errors import UserError, check_count, printable
from runtime.files import json_digest, read_array
from runtime.folders import make_once

if TYPE_CHECKING:
    from multiview.judge import Judge
    from multiview.libraries.search_index import SearchIndex
    from multiview.names.opened import OpenedEncoder

BLOCK_QUERIES = 256
"""Queries that are searched for at a time."""
BLOCK_SCORES = 2**21
"""Scores that are in memory at a time, by 30 bytes each."""
NEAREST_JUDGED = 20
"""Nearest sentences of a query that the judge looks at, unless more are asked for."""
INDEXED_FROM = 200_000
"""Kept vectors that get an index, where FAISS is installed."""
LAST_ROW = 2**32 - 1
"""The largest number of a row."""


class Hit(NamedTuple):
    """One result of a search."""

    corpus_id: int
    """Row in the corpus."""
    score: float
    """Cosine of query and row."""


def semantic_search(
    queries_QD: NDArray[np.floating], corpus_ND: NDArray[np.floating], *, top_k: int = 10
) -> list[list[Hit]]:
    """Return the ``top_k`` corpus rows nearest to each query by cosine, best first; equal scores rank by row.

    ``queries_QD`` may be a single vector [D]. Vectors that are not finite, or of two sizes, and a ``top_k``
    that is no whole number from 1 are a UserError. Memory grows with Q x K, not with Q x N.
    """
    top_k = check_count(top_k, "search: top_k")
    queries, corpus = (np.atleast_2d(rows) for rows in (queries_QD, corpus_ND))
    shapes = f"{list(queries.shape)} of {queries.dtype} and {list(corpus.shape)} of {corpus.dtype}"
    if queries.ndim + corpus.ndim != 4 or len({queries.shape[1], corpus.shape[1]}) > 1:
        raise UserError(f"search: {shapes} are no vectors of one size")
    lengths_Q, lengths_N = _lengths(queries), _lengths(corpus)
    lengths_N = np.where(lengths_N > 0, lengths_N, 1)
    hits: list[list[Hit]] = []
    for first in range(0, len(queries), BLOCK_QUERIES):
        block = slice(first, first + BLOCK_QUERIES)
        divisor_Q1 = np.where(lengths_Q[block] > 0, lengths_Q[block], 1)[:, None]
        hits += _nearest((queries[block] / divisor_Q1).astype(np.float32), corpus, lengths_N, top_k)
    return hits


def _nearest(
    unit_QD: NDArray[np.float32], corpus_ND: NDArray[Any], lengths_N: NDArray[np.floating], top_k: int
) -> list[list[Hit]]:
    """Search the corpus for a block of queries, some rows at a time."""
    best_QK = np.empty((len(unit_QD), 0), np.uint64)
    rows_at_once = BLOCK_SCORES // len(unit_QD)
    for first in range(0, len(corpus_ND), rows_at_once):
        block = slice(first, first + rows_at_once)
        scores_QN = (unit_QD @ corpus_ND[block].T / lengths_N[block]).astype(np.float32)
        row_N = np.arange(first, first + scores_QN.shape[1])
        if best_QK.shape[1] == top_k:  # most rows are near to none of the queries
            is_near_N = (scores_QN > _scores(best_QK.min(axis=1, keepdims=True))).any(axis=0)
            scores_QN, row_N = scores_QN[:, is_near_N], row_N[is_near_N]
        keys_QN = np.concatenate([best_QK, _sort_keys(scores_QN, row_N)], axis=1)
        beyond = max(keys_QN.shape[1] - top_k, 0)
        best_QK = np.partition(keys_QN, beyond, axis=1)[:, beyond:] if beyond else keys_QN
    best_QK = np.sort(best_QK, axis=1)[:, ::-1]
    rows_QK = LAST_ROW - (best_QK & np.uint64(LAST_ROW)).astype(np.int64)
    return [list(map(Hit, *each)) for each in zip(rows_QK.tolist(), _scores(best_QK).tolist(), strict=True)]


def _sort_keys(scores_QN: NDArray[np.float32], row_N: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return integers that sort as the scores do, and equal scores by row: no two of a query are equal."""
    bits_QN = (scores_QN + np.float32(0)).view(np.uint32)  # adding 0 turns -0 into it
    bits_QN ^= np.where(bits_QN >> 31, np.uint32(2**32 - 1), np.uint32(2**31))  # in the order of the floats
    return bits_QN.astype(np.uint64) << np.uint64(32) | (LAST_ROW - row_N).astype(np.uint64)


def _scores(keys: NDArray[np.uint64]) -> NDArray[np.float32]:
    """Return the scores, float32, of what :func:`_sort_keys` returned."""
    bits = (keys >> np.uint64(32)).astype(np.uint32)
    return (bits ^ np.where(bits >> 31, np.uint32(2**31), np.uint32(2**32 - 1))).view(np.float32)


def _lengths(rows_ND: NDArray[Any]) -> NDArray[np.floating]:
    """Return the length of each vector, [N], in float64 where float32 may be too narrow for squares."""
    if rows_ND.dtype.kind not in "fiu":
        raise UserError(f"search: {describe_value(rows_ND)} is no array of numbers")
    squares_N = np.einsum("nd,nd->n", rows_ND, rows_ND)
    if rows_ND.dtype != np.float32 or not ((squares_N > 1e-30) & (squares_N < 1e30)).all():
        squares_N = np.einsum("nd,nd->n", rows_ND, rows_ND, dtype=np.float64)
    is_finite_N = np.isfinite(squares_N)
    if not is_finite_N.all():
        raise UserError(f"search: vector {is_finite_N.argmin()} has NaN, infinity, or numbers too large")
    lengths_N: NDArray[np.floating] = np.sqrt(squares_N)
    return lengths_N


@configuration
class SearchConfig(VectorOptions):
    """Options of ``python -m multiview.search``."""

    corpus: Annotated[Positional[Path], arg(metavar="CORPUS")]
    """Text file, one sentence per line, - for standard input, a pipe, or a tree cache."""
    query: Annotated[Positional[tuple[str, ...]], arg(metavar="QUERY...")] = ()
    """Sentences to search for; without any, the lines of standard input."""
    queries: Path | None = None
    """Measure search instead: a table of query and relevant sentence of the corpus, with these two columns.
    It gives P@1, MRR and recall@10, beside those of BM25 and TF-IDF (extras retrieval and sklearn)."""
    vectors: Path | None = None
    """Vectors of the corpus written by multiview.encode (.npy); without them it is encoded now."""
    keep: bool = False
    """Keep the vectors of the corpus in runs/vectors; they serve until text, model, views or structure
    change. From 200,000 sentences on with an index of FAISS (extra index), where that is installed."""
    top: Count = 10
    """Sentences to print per query."""
    judge: str | None = None
    """pairs, pairs-with-mrpc, or the JSON file of a judge of your own: of the twenty nearest, or of --top if
    that is more, print those that say the same as the query, at most --top, with the probability; and, as
    left out, those that say something else, with the reason. English only."""


@dataclass(frozen=True, eq=False)
class Collection:
    """A corpus with its vectors."""

    corpus: SentenceInput
    vectors_ND: NDArray[np.float32]
    index: "SearchIndex | None" = None
    """Finds candidates among many vectors; without it all are looked at."""

    @classmethod
    def load_or_encode(cls, corpus: SentenceInput, encoder: "OpenedEncoder") -> Self:
        """Read the vectors of a corpus from ``runs/vectors``, or encode it; text, model and version count."""
        # The encoder's key leaves out the code of plugins.
        identity: dict[str, Any] = {"text": corpus.sha256, "encoder": encoder.key, "version": __version__}
        folder = Path(f"runs/vectors/search-{json_digest(identity, 16)}")
        path = folder / "vectors.npy"
        make_once(folder, identity, [path.name], lambda: corpus.write_vectors(path, encoder, identity))
        vectors_ND = read_array(path, 2)
        if len(corpus) < INDEXED_FROM or importlib.util.find_spec("faiss") is None:
            return cls(corpus, vectors_ND)
        from multiview.libraries.search_index import SearchIndex

        return cls(corpus, vectors_ND, SearchIndex.load_or_build(vectors_ND, folder / "index", identity))

    def search(self, queries_QD: NDArray[np.floating], *, top_k: int) -> list[list[Hit]]:
        """Return the nearest rows of each query; candidates of an index are scored by the vectors."""
        if self.index is None:
            return semantic_search(queries_QD, self.vectors_ND, top_k=top_k)
        hits = []
        for query_D, rows in zip(queries_QD, self.index.candidates(queries_QD, top_k), strict=True):
            (nearest,) = semantic_search(query_D, self.vectors_ND[rows], top_k=top_k)
            hits.append([Hit(int(rows[hit.corpus_id]), hit.score) for hit in nearest])
        return hits


def main(config: SearchConfig) -> None:
    """Print the nearest sentences of each query, or measure search."""
    if config.corpus == STANDARD_INPUT and not (config.query or config.queries):
        raise UserError("-: the corpus comes from standard input; give the queries as arguments")
    if config.judge is not None and config.queries:
        raise UserError("--queries measures search by cosine; leave out --judge")
    judge = None
    if config.judge is not None:
        from multiview.judge import Judge  # here: its libraries take longer to import than a search

        judge = Judge.load(config.judge)  # before the corpus is encoded: the file may be missing
    names = config.parsed_names()
    # Vectors and tables of queries have a row a line.
    corpus = SentenceInput(config.corpus, split=not (config.vectors or config.queries))
    encoder = config.encoder(names)
    collection = open_collection(config, corpus, encoder)
    if config.queries is not None:
        measure(config, config.queries, collection, encoder)
    else:
        answer(config, collection, encoder, judge)


def open_collection(config: SearchConfig, corpus: SentenceInput, encoder: "OpenedEncoder") -> Collection:
    """Read the vectors of the corpus from ``--vectors`` or from what ``--keep`` kept, or encode it."""
    if config.vectors is not None:
        return Collection(corpus, read_array(config.vectors, 2))
    if config.keep:
        return Collection.load_or_encode(corpus, encoder)
    return Collection(corpus, encoder.encode(corpus.texts, trees=corpus.trees, show_progress_bar=None))


def measure(config: SearchConfig, queries: Path, collection: Collection, encoder: "OpenedEncoder") -> None:
    """Print how well the queries of a table find their sentences, beside lexical search."""
    corpus = collection.corpus
    data = read_queries(queries, list(map(corpus.text, range(len(corpus)))))
    vectors = (encode_queries(config, collection, encoder, data.queries), collection.vectors_ND)
    for name, finding in report_lines(data, {config.model: vectors}):
        print(f"{name:10} {finding}")


def answer(
    config: SearchConfig, collection: Collection, encoder: "OpenedEncoder", judge: "Judge | None"
) -> None:
    """Print the nearest sentences of each query of the command line, or of standard input."""
    corpus, top = collection.corpus, config.top
    if judge is not None:
        top = max(NEAREST_JUDGED, top)
    for query in config.query or sentences_of(STANDARD_INPUT):
        query_1D = encode_queries(config, collection, encoder, [query])
        if len(config.query) != 1:
            print(on_one_line(query))
        (nearest,) = collection.search(query_1D, top_k=top)
        hits = [(Hit(corpus.line(row), score), corpus.text(row)) for row, score in nearest]
        if judge is not None:
            _print_judged(judge, query, hits, config.top)
            continue
        for (line, score), text in hits:
            print(f"{score:.4f}  {line:>7}  {on_one_line(text)}", flush=True)


def encode_queries(
    config: SearchConfig, collection: Collection, encoder: "OpenedEncoder", queries: Sequence[str]
) -> NDArray[np.floating]:
    """Encode queries, [Q, D]; a UserError says that the corpus was encoded by another model."""
    corpus, corpus_ND = collection.corpus, collection.vectors_ND
    query_QD: NDArray[np.floating] = encoder.encode(queries)
    if corpus_ND.shape != (len(corpus), query_QD.shape[1]) or not len(corpus):
        shape = " x ".join(map(str, corpus_ND.shape))
        raise UserError(
            f"{config.vectors or config.corpus}: holds {shape} numbers, corpus and model need "
            f"{len(corpus)} x {query_QD.shape[1]}, of one sentence at least; encode the corpus with this "
            "model and the same --views"
        )
    return query_QD


def _print_judged(judge: "Judge", query: str, hits: Sequence[tuple[Hit, str]], top: int) -> None:
    """Print the hits that say the same as the query, at most ``top``; then the others, with a reason."""
    judgements = judge.pairs([(query, text) for _, text in hits])
    judged = [(*hit, judgement) for hit, judgement in zip(hits, judgements, strict=True)]
    accepted = [each for each in judged if each[2].same]
    for (line, score), text, judgement in accepted[:top]:
        print(f"{score:.4f}  {line:>7}  {judgement.probability:.2f}  {on_one_line(text)}", flush=True)
    print(f"left out, as they say something else: {len(judged) - len(accepted)}")
    for (line, score), text, judgement in judged:
        if not judgement.same:
            reason = printable((judgement.shown_reasons or ["no single reason"])[0])
            numbers = f"{score:.4f}  {line:>7}  {judgement.probability:.2f}"
            print(f"{numbers}  {on_one_line(text)}  ({reason})", flush=True)


def on_one_line(text: str) -> str:
    """Return a sentence on one line, without characters that control a terminal."""
    return printable(" ".join(text.split()))


cli = Command(
    SearchConfig,
    main,
    "multiview.search",
    "The nearest sentences of a corpus to a query, by cosine.",
    kept_work="nothing was written",
    plugins=True,
)


if __name__ == "__main__":
    sys.exit(cli())
