"""Statistics of scores that packages of several layers report."""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata


def area_under_curve(score_n: NDArray[np.floating], is_same_n: NDArray[np.bool_]) -> float:
    """Return the area under the ROC curve: how often one of those that are the same has the higher score.

    Ties count half. At least one of the n must be the same, and one not (Mann and Whitney 1947).
    """
    count = int(is_same_n.sum())
    rank_sum = float(rankdata(score_n)[is_same_n].sum())
    return (rank_sum - count * (count + 1) / 2) / (count * (len(score_n) - count))
