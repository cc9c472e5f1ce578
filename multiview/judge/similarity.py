"""Computes how alike two sentences are, from 0 to 1, by a logistic regression that is fitted on graded pairs.

The regression reads the judge's features without the topic, the cosines of slots, and the cosines of meaning
and of structure, which the encoder computes that parses the sentences for the judge.

Legend of dimension suffixes: n pairs, L slots, F features, D size of a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from multiview.judge.limits import Limits
from multiview.judge.long_texts import Text, distinct_texts, where_they_differ
from multiview.judge.weights import FEATURES, SLOTS, Floats, Weights
from runtime.process import cached_property, loading

if TYPE_CHECKING:  # they import torch
    from multiview.folder.reading import TextSource
    from multiview.judge.comparison import Comparison

FOLDER = Path(__file__).parent / "similarity_weights"
"""The folder of the weights in the package."""
USED_FEATURES = [index for index, name in enumerate(FEATURES) if name != "topic"]
"""The indices of the judge's features that are read; the topic is not, because any encoder may compute it."""
READ_SLOTS = {"agent": "agents", "patient": "patients", "predicate": "predicates"}
"""The slots whose cosines are read, each with the name of its feature."""


class SimilarityWeights(Weights):
    """The weights of similarity, which are fitted to grades from 0 to 1 in place of labels."""

    required_features: ClassVar[tuple[str, ...]] = (
        *(list(FEATURES)[index] for index in USED_FEATURES),
        "slots",
        *READ_SLOTS.values(),
        "meaning",
        "structure",
    )


def weights_of(name: str | Path) -> SimilarityWeights:
    """Load the weights ``free`` or ``rated`` of the package, or those of a file.

    Raises UserError if the file is missing or damaged.
    """
    return SimilarityWeights.load_named(name, FOLDER, "similarity")


@loading()
def similarity_features(
    pairs: Sequence[tuple[Text, Text]], comparison: Comparison, features_nF: Floats, source: TextSource
) -> tuple[Floats, Floats]:
    """Return the features that :class:`SimilarityWeights` read, [n, F], and the cosines of all slots, [n, L].

    Args:
        pairs: the pairs.
        comparison: the comparison of the pairs (:func:`multiview.judge.pair_reading.read_features`).
        features_nF: the judge's features of the pairs, from the same function.
        source: parses the sentences, and has the vectors of words.
    """
    from multiview.judge.slots import slot_cosines
    from multiview.structure.joining import meaning_and_structure

    texts, text_n2 = distinct_texts(pairs)
    parts = meaning_and_structure(source, texts)
    cosines = [np.einsum("nd,nd->n", *part[text_n2.T], dtype=np.float64) for part in parts]
    slot_nL, slots_n = slot_cosines(comparison.pairs, source.words)
    read_nL = slot_nL[:, [list(SLOTS).index(slot) for slot in READ_SLOTS]]
    return np.column_stack([features_nF[:, USED_FEATURES], slots_n, read_nL, *cosines]), slot_nL


class Similarities(NamedTuple):
    """The similarities of pairs, with the cosines of their slots."""

    similarity_n: Floats
    slot_nL: Floats


class ComparedPairs:
    """The pairs of one call of the judge; their similarities are computed together, when one is asked for.

    Args:
        pairs: the pairs.
        comparison: the comparison of the pairs.
        features_nF: the judge's features of the pairs.
        limits: the limits of the pairs, and the reasons that are found in their texts.
        source: parses the sentences, and has the vectors of words.
        load_weights: returns the weights of similarity.
    """

    def __init__(
        self,
        pairs: Sequence[tuple[Text, Text]],
        comparison: Comparison,
        features_nF: Floats,
        limits: Limits,
        source: TextSource,
        load_weights: Callable[[], SimilarityWeights],
    ) -> None:
        self.comparison, self.limits = comparison, limits
        self._pairs, self._features_nF = pairs, features_nF
        self._source, self._load_weights = source, load_weights

    @cached_property
    def similarities(self) -> Similarities:
        """The similarities of the pairs and the cosines of their slots, computed at the first access."""
        features_nF, slot_nL = similarity_features(
            self._pairs, self.comparison, self._features_nF, self._source
        )
        similarity_n = self._load_weights().probabilities(features_nF)
        # The sentences that two long texts share have similarity 1; their weight is their share of the words.
        similarity_n = 1 - (1 - similarity_n) * [_share_that_differs(*pair) for pair in self._pairs]
        return Similarities(self.limits.settle(similarity_n), slot_nL)

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: the similarities, in place of the models that compute them."""
        return {"comparison": self.comparison, "limits": self.limits, "similarities": self.similarities}


def _share_that_differs(a: Text, b: Text) -> float:
    """Return the share of the words of both texts that is left without the sentences that both have."""
    rest = where_they_differ(a, b)
    if rest == (a, b):
        return 1.0
    counts = [
        sum(len(text.split() if isinstance(text, str) else text) for text in pair) for pair in (rest, (a, b))
    ]
    return counts[0] / counts[1]
