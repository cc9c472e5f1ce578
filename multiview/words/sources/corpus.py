"""``--vectors train``: word vectors that gensim's skip-gram trains on the corpus.

Mikolov et al. 2013, with window 5, 5 negatives and 3 passes, or more over a small corpus. Of 736,666 words of
documentation, the sum of its words' vectors matched 7.6% of sentences with a neighbour after 3 passes and
11.6% after 15 (random vectors: 8.6%). One worker reads the sentences in order, so the same cache and options
give the same vectors; more workers would race for the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from corpora.support.errors import MissingExtraError, UserError
from corpora.support.files import json_digest
from corpora.support.progress import Bar, progress
from multiview.vector_names import TRAIN
from multiview.words.vectors import Float, Source
from multiview.words.vocabulary import corpus_words, words_record
from parsing.cache.reader import TreeCache

if TYPE_CHECKING:
    from multiview.config import TrainConfig

SKIP_GRAM = {"window": 5, "negative": 5}
PASSES = {"words": 10_000_000, "least": 3, "most": 20}
"""Read the corpus until so many words are read, but not less or more often than this."""
BLOCK = 4096
"""Sentences read from the cache at a time."""


def trained_on_corpus(config: TrainConfig, trees: TreeCache) -> Source:
    """Vectors of ``--table.dim`` numbers for the words that ``--vocabulary`` lists.

    Args:
        config: of the training.
        trees: the corpus.
    """
    passes = _passes(trees)
    record = {
        **words_record(trees, config.vocabulary),
        **SKIP_GRAM,
        "dim": config.table.dim,
        "seed": config.seed,
        "passes": passes,
    }
    return Source(
        TRAIN,
        f"train-{json_digest(record, 8)}",
        record,
        f"skip-gram vectors of {config.table.dim} dimensions that gensim trained on the same corpus "
        f"({passes} passes)",
        lambda: _of_corpus(config, trees),
    )


def _of_corpus(config: TrainConfig, trees: TreeCache) -> Iterator[tuple[str, Float]]:
    wanted = config.vocabulary
    counted = corpus_words(trees.type_counts(), wanted)
    if not counted[0]:
        raise UserError(
            f"--vectors train: no word occurs {wanted.min_count} times in {trees.folder}; lower "
            "--vocabulary.min-count"
        )
    yield from _skip_gram(config, counted, lambda: _of_trees(trees), len(trees), _passes(trees))


def _skip_gram(
    config: TrainConfig,
    counted: tuple[list[str], NDArray[np.int64]],
    sentences: Callable[[], Iterator[Sequence[str]]],
    total: int,
    passes: int,
) -> Iterator[tuple[str, Float]]:
    try:
        from gensim.models import Word2Vec
    except ImportError:
        raise MissingExtraError("gensim", "vectors") from None
    words, counts_W = counted
    model = Word2Vec(
        sg=1, vector_size=config.table.dim, min_count=1, seed=config.seed, workers=1, **SKIP_GRAM
    )
    model.build_vocab_from_freq(dict(zip(words, counts_W.tolist(), strict=True)), corpus_count=total)
    with progress(total=passes * total, description="word vectors") as bar:
        again = _Sentences(sentences, lower=config.vocabulary.case == "lower", bar=bar)
        model.train(again, total_examples=total, epochs=passes)
    for word in words:
        yield word, np.asarray(model.wv[word], dtype=np.float32)


def _passes(trees: TreeCache) -> int:
    tokens = sum(row.tokens for row in trees.rows)
    return min(max(PASSES["words"] // max(tokens, 1), PASSES["least"]), PASSES["most"])


def _of_trees(trees: TreeCache) -> Iterator[Sequence[str]]:
    # gensim reads each pass in a new thread; a cache belongs to one.
    own = TreeCache(trees.folder, trees.manifest)
    for start in range(0, len(own), BLOCK):
        yield from own.read(start, min(start + BLOCK, len(own)), ("token",)).words()
    own.close()


class _Sentences:
    """The words of every sentence, as often as gensim asks.

    Args:
        sentences: reads them once.
        lower: whether to lower-case the words.
        bar: moved on by every sentence.
    """

    def __init__(self, sentences: Callable[[], Iterator[Sequence[str]]], *, lower: bool, bar: Bar) -> None:
        self.sentences, self.lower, self.bar = sentences, lower, bar

    def __iter__(self) -> Iterator[list[str]]:
        for words in self.sentences():
            yield [word.lower() for word in words] if self.lower else list(words)
            self.bar.update(1)
