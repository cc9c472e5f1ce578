"""Reads pairs of sentences: parses them, compares them and computes the features by which weights judge.

Legend of dimension suffixes: n pairs, F features of a pair, D size of a vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from multiview.judge.long_texts import Text, distinct_texts
from multiview.judge.weights import FEATURES, Floats
from runtime.process import loading

if TYPE_CHECKING:  # these modules import torch
    from multiview.folder.reading import TextSource
    from multiview.judge.comparison import Comparison
    from parsing.trees.cache import TreeCache

PARSING_BATCH = 512
"""The number of sentences that are parsed at a time, at most."""


def read_features(
    pairs: Sequence[tuple[Text, Text]],
    source: TextSource,
    encoder: Any = None,
    trees: TreeCache | None = None,
) -> tuple[Comparison, Floats]:
    """Return the comparison of the sentences of each pair, and the features of the pairs, float64 [n, F].

    Args:
        pairs: the pairs, whose texts are read as :func:`multiview.judge.long_texts.as_read` returns them.
        source: parses each distinct sentence once, and has the vectors of words.
        encoder: computes the topic; by default the sums of word vectors do.
        trees: holds sentences that need not be parsed.
    """
    import torch

    with loading():
        from multiview.judge.comparison import Comparison
        from multiview.judge.facts import facts_of_pairs
        from multiview.judge.pair_features import compute_features
        from multiview.libraries.arrays import check_vectors, unit_rows
        from runtime.device import torch_threads

    texts, text_n2 = distinct_texts(pairs)
    with torch.inference_mode(), torch_threads(1):
        facts = facts_of_pairs(source.reader.batches(texts, {"tokens", "dep"}, trees, PARSING_BATCH), text_n2)
        comparison = Comparison(facts)
        features = compute_features(comparison, source.words)
    if encoder is not None:
        strings = [text if isinstance(text, str) else " ".join(text) for text in texts]
        vectors = unit_rows(check_vectors(encoder.encode(strings), strings, type(encoder).__name__)[0])
        features["topic"] = np.einsum("nd,nd->n", *vectors[text_n2.T])
    return comparison, np.column_stack([features[name] for name in FEATURES]).astype(np.float64)
