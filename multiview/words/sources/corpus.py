"""``--vectors train``: word vectors trained on the corpus itself, by gensim's skip-gram.

Mikolov et al. 2013, with window 5, 5 negatives and 3 passes, or more over a small corpus. Of 736,666 words of
documentation, the sum of its words' vectors matched 7.6% of sentences with a neighbour after 3 passes and
11.6% after 15 (random vectors: 8.6%). One worker reads the sentences in order, so the same cache and options
give the same vectors; more workers would race for the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from corpora.support.errors import MissingExtraError, UserError
from corpora.support.files import json_digest
from corpora.support.progress import Bar, progress
from multiview.words.vectors import Float, Source
from multiview.words.vocabulary import corpus_words
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
    record = {
        "trees": trees.identity["content_sha256"],
        "words": [config.vocabulary.size, config.vocabulary.min_count, config.vocabulary.case],
        "dim": config.table.dim,
        "seed": config.seed,
        "passes": _passes(trees),
        **SKIP_GRAM,
    }
    return Source(
        "train",
        f"train-{json_digest(record, 8)}",
        record,
        f"skip-gram vectors of {config.table.dim} dimensions that gensim trained on the same corpus "
        f"({_passes(trees)} passes)",
        lambda: _skip_gram(config, trees),
    )


def _skip_gram(config: TrainConfig, trees: TreeCache) -> Iterator[tuple[str, Float]]:
    try:
        from gensim.models import Word2Vec
    except ImportError:
        raise MissingExtraError("gensim", "vectors") from None
    wanted = config.vocabulary
    words, counts_W = corpus_words(trees.type_counts(), wanted)
    if not words:
        raise UserError(
            f"--vectors train: no word occurs {wanted.min_count} times in {trees.folder}; lower "
            "--vocabulary.min-count"
        )
    model = Word2Vec(
        sg=1, vector_size=config.table.dim, min_count=1, seed=config.seed, workers=1, **SKIP_GRAM
    )
    model.build_vocab_from_freq(dict(zip(words, counts_W.tolist(), strict=True)), corpus_count=len(trees))
    epochs = _passes(trees)
    with progress(total=epochs * len(trees), description="word vectors") as bar:
        sentences = _Sentences(trees, lower=wanted.case == "lower", bar=bar)
        model.train(sentences, total_examples=len(trees), epochs=epochs)
    for word in words:
        yield word, np.asarray(model.wv[word], dtype=np.float32)


def _passes(trees: TreeCache) -> int:
    tokens = sum(row.tokens for row in trees.rows)
    return min(max(PASSES["words"] // max(tokens, 1), PASSES["least"]), PASSES["most"])


class _Sentences:
    """The words of every sentence, as often as gensim asks.

    Args:
        trees: the corpus.
        lower: whether to lower-case the words.
        bar: moved on by every sentence.
    """

    def __init__(self, trees: TreeCache, *, lower: bool, bar: Bar) -> None:
        self.trees, self.lower, self.bar = trees, lower, bar

    def __iter__(self) -> Iterator[list[str]]:
        # gensim reads each pass in a new thread; a cache belongs to one.
        trees = TreeCache(self.trees.folder, self.trees.manifest)
        for start in range(0, len(trees), BLOCK):
            stop = min(start + BLOCK, len(trees))
            batch = trees.read(start, stop, ("token",))
            assert batch.types is not None
            if self.lower:
                batch = replace(batch, types=[word.lower() for word in batch.types])
            yield from batch.words()
            self.bar.update(stop - start)
        trees.close()
