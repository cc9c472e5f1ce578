"""Reads the package's checks, plain pairs that every judge should get right; bounds how many a fit may lose.

Legend of dimension suffixes: n pairs, F features of a pair.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from corpora.tables import read_table
from multiview.judge.limits import Limits
from multiview.judge.long_texts import Text
from multiview.judge.pair_reading import read_features
from multiview.judge.weights import PULLS, THRESHOLD, Floats, Weights

if TYPE_CHECKING:  # it imports torch
    from multiview.folder.reading import TextSource

CHECKS = Path(__file__).with_name("checks.tsv")
"""Plain pairs with labels that every judge should get right; no judge was fitted on them."""
MAX_LOST_CHECKS = 1
"""The number of checks that a fit to one's own pairs may lose; if more are lost, a stronger pull is taken."""


class Checks(NamedTuple):
    """The package's checks, with the limits and the features by which weights judge them."""

    rows: list[tuple[str, ...]]
    """The kind, the label and both sentences of each check."""
    limits: Limits
    features_nF: Floats

    @classmethod
    def read(cls, source: TextSource, encoder: Any = None) -> Self:
        """Read the checks, parse them with ``source``, and compute their features."""
        rows = [row.cells for row in read_table(CHECKS, ("kind", "label", "sentence1", "sentence2"))]
        pairs: list[tuple[Text, Text]] = [(a, b) for _, _, a, b in rows]
        comparison, features_nF = read_features(pairs, source, encoder)
        return cls(rows, Limits.of(pairs, comparison), features_nF)

    def broken_by(self, weights: Weights) -> list[str]:
        """Return the checks that weights get wrong at :data:`THRESHOLD`, not at their own threshold."""
        probability_n = self.limits.limit(weights.probabilities(self.features_nF))
        return [
            f"{kind}: {a} | {b}"
            for (kind, label, a, b), probability in zip(self.rows, probability_n.tolist(), strict=True)
            if (probability >= THRESHOLD) != (label == "1")
        ]

    def _lost_by(self, weights: Weights, start: Weights) -> list[str]:
        """Return the checks that ``weights`` get wrong and ``start`` gets right."""
        known_wrong = self.broken_by(start)
        return [check for check in self.broken_by(weights) if check not in known_wrong]

    def fit(
        self,
        start: Weights,
        features_nF: Floats,
        label_n: NDArray[np.number],
        *,
        pull: float | None = None,
        about: dict[str, Any] | None = None,
    ) -> Weights:
        """Fit weights to pairs by :meth:`Weights.fit_on`; their record names the checks that they lose.

        Args:
            start: the weights to begin with.
            features_nF: the features of the pairs.
            label_n: the labels.
            pull: the strength of the ridge towards ``start``. None leaves it to cross-validation, and takes a
                stronger one as long as more than :data:`MAX_LOST_CHECKS` checks are lost.
            about: the record of the data.
        """
        weights = start.fit_on(features_nF, label_n, pull=pull, about=about)
        broken = self._lost_by(weights, start)
        for stronger in sorted(PULLS) if pull is None else ():
            if len(broken) > MAX_LOST_CHECKS and stronger > weights.about["pull"]:
                weights = start.fit_on(features_nF, label_n, pull=stronger, about=about)
                broken = self._lost_by(weights, start)
        return replace(weights, about={**weights.about, "broken checks": broken})
