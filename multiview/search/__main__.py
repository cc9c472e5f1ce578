"""Search a corpus by meaning: find the sentences nearest to a query by cosine.

    python -m multiview.search runs/models/builtin-laptop corpus.txt "How do I open a file?" --keep
    python -m multiview.search runs/models/builtin-laptop runs/trees/books --vectors v.npy < queries.txt
    python -m multiview.search builtin questions.txt "How do I enable 2FA?" --judge pairs

In: a model; a corpus, which is a text file with one sentence per line or a tree cache; and queries, which are
arguments or the lines of standard input. Out: for each query the nearest sentences, with cosine and row. If a
line has several sentences, each of them is compared with the query, and the row is that of the line. The
vectors of the corpus are computed, kept from an earlier search (``--keep``), or read (``--vectors``). With
``--judge`` the sentences that do not say the same as the query come last, each with a reason. ``--queries
FILE`` measures search instead.

Legend of dimension suffixes: Q queries, N corpus sentences, D embedding size.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
from numpy.typing import NDArray
from tyro.conf import Positional, arg

from corpora.inputs import STANDARD_INPUT
from corpora.ranking.queries import read_queries, report_lines
from multiview.names.options import VectorOptions
from multiview.search.collection import NEAREST_JUDGED, Collection
from multiview.search.nearest import Hit
from multiview.sentence_input import SentenceInput, sentences_of
from runtime.cli import Command, Count, configuration
from runtime.errors import UserError, printable
from runtime.files import read_array

if TYPE_CHECKING:
    from multiview.judge import Judge
    from multiview.names.opened import OpenedEncoder


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


def main(config: SearchConfig) -> None:
    """Print the nearest sentences of each query, or how well queries find their sentences."""
    if config.corpus == STANDARD_INPUT and not (config.query or config.queries):
        raise UserError("-: the corpus comes from standard input; give the queries as arguments")
    if not all(map(str.strip, config.query)):
        raise UserError("QUERY: an empty one; give a sentence to search for")
    if config.judge is not None and config.queries:
        raise UserError("--queries measures search by cosine; leave out --judge")
    judge = None
    if config.judge is not None:
        from multiview.judge import Judge  # here, because its libraries take longer to import than a search

        judge = Judge.load(config.judge)  # before the corpus is encoded, because the file may be missing
    names = config.parsed_names()
    # Files of vectors and of queries refer to lines, so lines are not split into sentences.
    corpus = SentenceInput(config.corpus, split=not (config.vectors or config.queries))
    encoder = config.encoder(names)
    collection = open_collection(config, corpus, encoder)
    if config.queries is not None:
        measure(config, config.queries, collection, encoder)
    else:
        answer(config, collection, encoder, judge)


def open_collection(config: SearchConfig, corpus: SentenceInput, encoder: "OpenedEncoder") -> Collection:
    """Return the corpus with its vectors: those of ``--vectors``, those that ``--keep`` kept, or new ones."""
    if config.vectors is not None:
        return Collection(corpus, read_array(config.vectors, 2))
    if config.keep:
        return Collection.load_or_encode(corpus, encoder)
    return Collection(corpus, encoder.encode(corpus.texts, trees=corpus.trees, show_progress_bar=None))


def measure(config: SearchConfig, queries: Path, collection: Collection, encoder: "OpenedEncoder") -> None:
    """Print how well the queries of a table find their sentences, compared with BM25 and TF-IDF."""
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
    """Return the vectors of queries, [Q, D]. Raises UserError if those of the corpus do not fit them."""
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
    """Print at most ``top`` hits that say the same as the query, then those that do not, with a reason."""
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
    """Return a sentence as one line without control characters."""
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
