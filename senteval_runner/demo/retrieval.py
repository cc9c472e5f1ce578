"""Neighbour retrieval on held-out documents: the evaluation that needs no download, and its report.

Sentences in running order are cut into blocks of 400 candidates, the batch size of the contrastive
objective. Within a block every sentence ranks all others by cosine; its neighbours (the sentence
before and after it in the same document) are the right answers. Reported are recall@1 (a neighbour
comes first) and MRR (reciprocal rank of the best neighbour), each with a bootstrap interval over
documents, because sentences of one document are not independent.

Legend of dimension suffixes: B sentences of a block, D embedding size, A anchors.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from corpora.characters import plain
from corpora.support.cli import config_to_json
from corpora.support.files import write_json, write_text
from corpora.support.progress import progress
from multiview.model import MultiViewEncoder
from parsing.trees.cache import TreeCache
from parsing.trees.drawings import constituency_svg, dependency_svg
from parsing.trees.sentences import ParsedSentence, cached_sentences
from senteval_runner.protocol.features import unit
from senteval_runner.report.page import Column, Figure, Page, Score, Section, Table, bootstrap
from senteval_runner.vectors.models import open_model

BLOCK_SENTENCES = 400
DRAWN_TREES, DRAWN_TOKENS = 2, range(7, 13)
"""How many sentences are drawn, and of which lengths: a real tree that a page holds."""


@dataclass(frozen=True, kw_only=True)
class RetrievalScores:
    """Neighbour retrieval of one encoder; fractions between 0 and 1."""

    recall_at_1: Score
    mrr: Score
    anchors: int
    candidates: int
    behind: Score | None = None
    """How far recall@1 is behind that of the encoder in question, on the same anchors; None of itself."""


def evaluate(model: Path, train_trees: Path, held_out_trees: Path) -> dict[str, RetrievalScores]:
    """Neighbour retrieval of the adapted encoder and of what it has to beat.

    That is the encoder as it is in the package (it has seen none of this text), weighted bags of its words
    and of random vectors, and TF-IDF.
    """
    held_out, training = TreeCache.open(held_out_trees), TreeCache.open(train_trees)
    sentences, seen = (list(c.read(0, len(c), ("token",)).words()) for c in (held_out, training))
    offsets = np.asarray(held_out.documents())

    def views(name: str) -> NDArray[np.float32]:
        return MultiViewEncoder.load(name).encode(None, trees=held_out, batch_size=256)

    def bag(words: str) -> NDArray[np.float32]:
        return open_model(f"sif:{words}?corpus={train_trees}")(sentences)

    encoders: dict[str, Callable[[], NDArray[np.floating] | csr_matrix]] = {
        "builtin, adapted": lambda: views(str(model)),
        "builtin": lambda: views("builtin"),
        "SIF of its words": lambda: bag("builtin"),
        "SIF of random words": lambda: bag("random"),
        "TF-IDF": lambda: tfidf_embeddings(seen, sentences),
    }
    rows = {}
    with progress(total=len(encoders), unit="encoder", description="evaluate") as bar:
        for name, encode in encoders.items():
            rows[name] = encode()
            bar.update(1)
    return neighbour_retrieval(rows, np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)))


def reciprocal_ranks(
    embeddings_ND: NDArray[np.floating] | csr_matrix,
    document_N: NDArray[np.integer],
    block: int = BLOCK_SENTENCES,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Reciprocal rank of each anchor's best neighbour within its block.

    Args:
        embeddings_ND: one row per sentence, in running order; sparse rows are made dense block by block.
        document_N: document number per sentence; neighbours share it.
        block: sentences per block; a last block of one sentence has no anchors.

    Returns:
        Reciprocal ranks [A] and the document of each anchor [A]. Ties count as errors: a candidate with
        exactly the neighbour's similarity ranks before it, so constant vectors score nothing.
    """
    ranks, owners = [], []
    for start in range(0, len(document_N), block):
        rows_BD = embeddings_ND[start : start + block]
        dense_BD = rows_BD if isinstance(rows_BD, np.ndarray) else rows_BD.toarray()
        unit_BD = unit(dense_BD).astype(np.float32)
        document_B = document_N[start : start + block]
        similarity_BB = unit_BD @ unit_BD.T
        np.fill_diagonal(similarity_BB, -np.inf)
        left = np.flatnonzero(document_B[1:] == document_B[:-1])
        positive_BB = np.zeros(similarity_BB.shape, dtype=bool)
        positive_BB[left, left + 1] = positive_BB[left + 1, left] = True
        best_B = np.where(positive_BB, similarity_BB, -np.inf).max(axis=1)
        anchors = np.flatnonzero(positive_BB.any(axis=1))
        before = (similarity_BB >= best_B[:, None]) & ~positive_BB
        ranks.append(1.0 / (1 + before[anchors].sum(axis=1)))
        owners.append(document_B[anchors].astype(np.int64))
    return np.concatenate(ranks), np.concatenate(owners)


def neighbour_retrieval(
    rows: Mapping[str, NDArray[np.floating] | csr_matrix],
    document_N: NDArray[np.integer],
    block: int = BLOCK_SENTENCES,
) -> dict[str, RetrievalScores]:
    """Recall@1 and MRR of several encoders; see the module's docstring for the protocol.

    Args:
        rows: vectors [N, D] of the same sentences by encoder. The first is the one in question; of each other
            the difference to it is taken anchor by anchor, because both meet the same easy and hard ones.
        document_N: document number per sentence.
        block: sentences per block.

    Raises:
        ValueError: rows and documents differ in number, or no sentence has a neighbour.
    """
    scores: dict[str, RetrievalScores] = {}
    first_A: NDArray[np.float64] | None = None
    for name, embeddings_ND in rows.items():
        if embeddings_ND.shape[0] != len(document_N):
            raise ValueError(f"{name}: {embeddings_ND.shape[0]} embeddings for {len(document_N)} sentences")
        reciprocal_A, document_A = reciprocal_ranks(embeddings_ND, document_N, block)
        if not len(reciprocal_A):
            raise ValueError("no two successive sentences of a block share a document: nothing to retrieve")
        hit_A = (reciprocal_A == 1.0).astype(np.float64)
        scores[name] = RetrievalScores(
            recall_at_1=bootstrap(hit_A, document_A),
            mrr=bootstrap(reciprocal_A, document_A),
            anchors=len(reciprocal_A),
            candidates=min(block, len(document_N)) - 1,
            behind=None if first_A is None else bootstrap(first_A - hit_A, document_A),
        )
        first_A = hit_A if first_A is None else first_A
    return scores


def tfidf_embeddings(train: Sequence[Sequence[str]], sentences: Sequence[Sequence[str]]) -> csr_matrix:
    """TF-IDF rows of tokenised ``sentences``, weights fitted on ``train``: [N, words of ``train``]."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(
        tokenizer=list, preprocessor=lambda tokens: [plain(t).lower() for t in tokens], token_pattern=None
    )
    vectorizer.fit(train)
    return csr_matrix(vectorizer.transform(sentences))


def retrieval_table(scores: Mapping[str, RetrievalScores]) -> Table:
    """Recall@1 and MRR of each encoder with their intervals."""

    def percent(score: Score | None) -> Score | None:
        if score is None or score.interval is None:
            return score
        return Score(100 * score.value, interval=(100 * score.interval[0], 100 * score.interval[1]))

    rows = [
        [name, percent(score.recall_at_1), score.mrr, percent(score.behind)] for name, score in scores.items()
    ]
    first, score = next(iter(scores.items()))
    protocol = (
        f"{score.anchors:,} sentences of packages that training has not seen each rank the other "
        f"{score.candidates} sentences of their block by cosine; right answers are the sentences before "
        "and after. Recall@1 in per cent and mean reciprocal rank; 95 % intervals from resampling documents. "
        f"The last column is how far {first} is ahead in recall@1, anchor by anchor."
    )
    digits = {"encoder": 2, "recall@1, %": 1, "MRR": 3, "behind by": 1}
    columns = [Column(name, digits=number) for name, number in digits.items()]
    return Table(columns, rows, notes=[protocol])


def write_report(
    config: Any,
    trees: Path,
    scores: Mapping[str, RetrievalScores],
    seconds: Mapping[str, float],
) -> Path:
    """All figures as JSON; the table and two parse trees on one page, whose path it returns.

    Args:
        config: the demo's options; its ``output`` is the folder.
        trees: tree cache whose sentences are drawn.
        scores: of each encoder.
        seconds: time of each step.
    """
    retrieval = {name: dataclasses.asdict(score) for name, score in scores.items()}
    taken = {step: round(value, 1) for step, value in seconds.items()}
    found = {"config": config_to_json(config), "retrieval": retrieval, "seconds": taken}
    write_json(config.output / "results.json", found)
    sections = [
        Section("Neighbour retrieval", [retrieval_table(scores)]),
        Section("Two of the parsed sentences", list(_trees(trees))),
        Section("Where the time went", [Table(["step", "seconds"], [[*row] for row in taken.items()])]),
    ]
    page = config.output / "report.html"
    write_text(page, Page("From text to sentence vectors: the demo", sections).html())
    return Path(page)


def _trees(folder: Path) -> Iterator[Figure]:
    """The first sentences of a handy length, both trees of each drawn."""
    cache = TreeCache.open(folder)

    def fits(stored: ParsedSentence) -> bool:
        wordlike = all(word.replace("-", "").isalpha() for word in stored.words[:-1])
        return not stored.flags and len(stored.words) in DRAWN_TOKENS and wordlike

    fitting = filter(fits, cached_sentences(cache, 0, len(cache)))
    for stored in itertools.islice(fitting, DRAWN_TREES):
        assert stored.heads and stored.relations and stored.tags and stored.spans is not None
        dependencies = dependency_svg(stored.words, stored.heads, stored.relations, stored.tags)
        yield Figure(dependencies, " ".join(stored.words))
        yield Figure(constituency_svg(stored.words, stored.tags, stored.spans))
