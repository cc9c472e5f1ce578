"""The words of a model that is about to be trained."""

from __future__ import annotations

from pathlib import Path

from multiview.config import TrainConfig
from multiview.words.sources.spec import open_vectors
from multiview.words.table import WordTable
from multiview.words.vectors import CACHE
from multiview.words.vocabulary import Vocabulary, corpus_words
from parsing.cache.reader import TreeCache


def new_table(config: TrainConfig, trees: TreeCache, cache: Path = CACHE) -> WordTable:
    """The words of a new model.

    Args:
        config: of the training.
        trees: the corpus.
        cache: where converted vectors are kept.

    Raises:
        UserError: the vectors are missing or malformed.
    """
    wanted = config.vocabulary
    if config.words == "fixed":
        vectors = open_vectors(config, trees, cache)
        fixed = WordTable.with_fixed(Vocabulary(vectors.words, case=wanted.case), vectors.vectors)
        fixed.origin = vectors.about
        return fixed
    words, counts_W = corpus_words(trees.type_counts(), wanted)
    vocabulary = Vocabulary(words, buckets=wanted.buckets, case=wanted.case)
    table = WordTable(vocabulary, config.table.dim, views=len(config.view_list))
    table.initialise(config.table, counts=counts_W, seed=config.seed)
    return table
