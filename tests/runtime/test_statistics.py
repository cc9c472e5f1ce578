"""Statistics count what they say."""

import numpy as np
import pytest

from runtime.statistics import area_under_curve


def test_area_under_the_curve_counts_pairs() -> None:
    score, is_same = np.array([0.1, 0.4, 0.4, 0.9]), np.array([False, True, False, True])
    wins = [(a > b) + (a == b) / 2 for a in score[is_same] for b in score[~is_same]]
    assert area_under_curve(score, is_same) == pytest.approx(np.mean(wins))
