"""Computes the area under the ROC curve, which several packages report."""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata


def area_under_curve(score_n: NDArray[np.floating], is_same_n: NDArray[np.bool_]) -> float:
    """Return the area under the ROC curve of the scores [n] of pairs that are the same, or are not.

    It is the share of (same, not same) combinations in which the pair that is the same has the higher score;
    ties count half (Mann and Whitney 1947). There must be at least one pair of each kind.
    """
    count = int(is_same_n.sum())
    rank_sum = float(rankdata(score_n)[is_same_n].sum())
    return (rank_sum - count * (count + 1) / 2) / (count * (len(score_n) - count))
