"""How alike two sentences are, from 0 to 1: a logistic regression, as the judge's, fitted on graded pairs.

Its numbers are those of the judge, but for the topic; the cosines of the slots; and those of meaning and of
structure, which come from the encoder that the judge reads sentences by.

Legend of dimension suffixes: n pairs, L slots, F numbers, D size of a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from multiview.judge.certain import Limits
from multiview.judge.long_texts import Text, as_read, where_they_differ
from multiview.judge.weights import NUMBERS, Floats, Weights
from runtime.files import path_of
from runtime.process import cached_property, loading

if TYPE_CHECKING:  # they import torch
    from multiview.folder.reading import TextSource
    from multiview.judge.comparison import Comparison

FOLDER = Path(__file__).parent / "similarity_weights"
"""The folder of the weights in the package."""
USED_NUMBERS = [index for index, name in enumerate(NUMBERS) if name != "topic"]
"""The indices of the judge's numbers that are read: the topic may be that of any encoder."""


class SimilarityWeights(Weights):
    """The weights of similarity; the labels that they are fitted to are graded, from 0 to 1."""

    names: ClassVar[tuple[str, ...]] = (
        *(list(NUMBERS)[index] for index in USED_NUMBERS),
        *("slots", "agents", "patients", "predicates", "meaning", "structure"),
    )


def weights_of(name: str | Path) -> SimilarityWeights:
    """Load ``free``, ``rated``, or the file of others; one that is missing or damaged is a UserError."""
    in_package = {file.stem: file for file in FOLDER.glob("*.json")}
    return SimilarityWeights.load(in_package.get(str(name)) or path_of(name, "similarity"))


@loading()
def similarity_numbers(
    pairs: Sequence[tuple[Text, Text]], comparison: Comparison, numbers_nF: Floats, source: TextSource
) -> tuple[Floats, Floats]:
    """Return the numbers of similarity, [n, F], and the cosines of all slots, [n, L].

    ``comparison`` and ``numbers_nF`` are what the judge has read of the pairs.
    """
    from multiview.judge.slots import slot_cosines
    from multiview.structure.joining import meaning_and_structure

    order: dict[Text, int] = {}
    text_n2 = np.array([[order.setdefault(text, len(order)) for text in as_read(*pair)] for pair in pairs])
    parts = meaning_and_structure(source, list(order))
    cosines = [np.einsum("nd,nd->n", *part[text_n2.T], dtype=np.float64) for part in parts]
    slot_nL, slots_n = slot_cosines(comparison.pairs, source.words)
    return np.column_stack([numbers_nF[:, USED_NUMBERS], slots_n, slot_nL[:, :3], *cosines]), slot_nL


class ComparedPairs:
    """The pairs of one call of the judge, which compares them further, all at once, when it is asked to."""

    def __init__(
        self,
        pairs: Sequence[tuple[Text, Text]],
        comparison: Comparison,
        numbers_nF: Floats,
        limits: Limits,
        source: TextSource,
        weights: Callable[[], SimilarityWeights],
    ) -> None:
        self.comparison, self.limits = comparison, limits
        self._rest = pairs, numbers_nF, source, weights

    @cached_property
    def compared(self) -> tuple[Floats, Floats]:
        """The similarities [n], and the cosines of the slots [n, L]."""
        pairs, numbers_nF, source, weights = self._rest
        numbers_nF, slot_nL = similarity_numbers(pairs, self.comparison, numbers_nF, source)
        similarity_n = weights().probabilities(numbers_nF)
        # What long texts share is alike.
        similarity_n = 1 - (1 - similarity_n) * [_share_that_differs(*pair) for pair in pairs]
        return self.limits.settle(similarity_n), slot_nL

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the models: judgements travel without them, compared."""
        return {"comparison": self.comparison, "limits": self.limits, "compared": self.compared}


def _share_that_differs(a: Text, b: Text) -> float:
    rest = where_they_differ(a, b)
    if rest == (a, b):
        return 1.0
    counts = [
        sum(len(text.split() if isinstance(text, str) else text) for text in pair) for pair in (rest, (a, b))
    ]
    return counts[0] / counts[1]
