"""The words of a model that is about to be trained."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch

from corpora.support.errors import UserError
from multiview.config import TrainConfig
from multiview.words.sources import open_vectors
from multiview.words.table import MEAN_WORDS, WordTable
from multiview.words.vectors import CACHE, WordVectors
from multiview.words.vocabulary import UNKNOWN_ROW, Vocabulary, corpus_words
from parsing.cache.reader import TreeCache

OWN_SHARE = 0.5
"""Length of the random direction that each word of a model gets when it goes on, against that of its vector.

A word is then more like itself than like its synonyms, which finds neighbours in the text of a domain."""


def new_table(config: TrainConfig, trees: TreeCache, cache: Path = CACHE) -> WordTable:
    """The words of a new model.

    Args:
        config: of the training.
        trees: the corpus.
        cache: where converted vectors are kept.

    Raises:
        UserError: the vectors are missing or malformed, or have none of the corpus's words.
    """
    wanted = config.table
    if config.words == "fixed":
        vectors = open_vectors(config, trees, cache)
        listed = Vocabulary(vectors.words, buckets=wanted.buckets, case=wanted.case)
        if not any(0 < listed.row(word) <= len(listed) for word in trees.type_counts()):
            raise _no_word_in_common(config)
        fixed = WordTable.with_fixed(listed, vectors.vectors)
        fixed.origin = f"from {vectors.about}"
        return fixed
    words, counts_W = corpus_words(trees.type_counts(), wanted)
    vocabulary = Vocabulary(words, buckets=wanted.buckets, case=wanted.case)
    if config.words == "tuned":
        return tuned_table(config, vocabulary, open_vectors(config, trees, cache))
    table = WordTable(vocabulary, wanted.dim, views=len(config.view_list))
    equal = config.encoder.start == "bag"
    table.initialise(wanted.init, equal=equal, counts=counts_W, seed=config.seed)
    return table


def tuned_table(
    config: TrainConfig, vocabulary: Vocabulary, vectors: WordVectors, share: float = 0.0
) -> WordTable:
    """Trained tables whose words start from given vectors.

    A word takes the vector of its own spelling, or else (unless the vocabulary's case is ``exact``) of its
    lower, Capitalised or UPPER case. The unknown word starts from the mean vector, as with fixed vectors.
    Hash buckets and words without a vector start at random, as long as the given vectors are on average.

    Args:
        config: of the training.
        vocabulary: of the corpus.
        vectors: float32 [W, E] with their words; the tables get E dimensions.
        share: b; a given vector v starts as (v + b|v|r) / √(1 + b²), r a random direction.

    Raises:
        UserError: no word has a vector.
    """
    given = Vocabulary(vectors.words, case="exact" if vocabulary.case == "exact" else "backoff")
    places = given.lookup(vocabulary.words).astype(np.int64) - 1  # row 0 is the unknown word
    rows = 1 + np.flatnonzero(places >= 0)
    if not len(rows):
        raise _no_word_in_common(config)
    values = torch.from_numpy(np.asarray(vectors.vectors[places[rows - 1]], dtype=np.float32))
    mean_E = torch.from_numpy(np.asarray(vectors.vectors[:MEAN_WORDS]).mean(axis=0))
    table = WordTable(vocabulary, vectors.dim, views=len(config.view_list))
    table.initialise("unit", equal=config.encoder.start == "bag", seed=config.seed)
    with torch.no_grad():
        for rows_of_view in table.tables:
            rows_of_view /= rows_of_view.norm(dim=1, keepdim=True)
            own = values.norm(dim=1, keepdim=True) * rows_of_view[torch.from_numpy(rows)]
            rows_of_view *= values.norm(dim=1).mean()
            rows_of_view[UNKNOWN_ROW] = mean_E
            rows_of_view[torch.from_numpy(rows)] = (values + share * own) / math.sqrt(1 + share**2)
    table.origin = f"{len(rows):,} of them starting from {vectors.about}"
    return table


def _no_word_in_common(config: TrainConfig) -> UserError:
    return UserError(
        f"--vectors {config.vectors}: has none of the corpus's words; use vectors of the same language and "
        "case"
    )
