"""Chooses the threshold of a judge, with a bound on the share of the accepted pairs that are false.

Legend of dimension suffixes: n pairs, T thresholds.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from runtime.errors import UserError

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
CONFIDENCE = 0.95
"""The confidence of the bound on the other half of the pairs."""
CHOOSING_CONFIDENCES = (0.999, 0.99, CONFIDENCE)
"""The confidences of the bound on the half that the threshold is chosen on; the first one reached is taken.

They are higher than :data:`CONFIDENCE`, because a threshold that was chosen at 0.95 often fails on the other
half.
"""


class Threshold(NamedTuple):
    """A threshold, with the counts on the half of the pairs that it was not chosen on."""

    threshold: float
    """Pairs with this probability or a greater one are accepted."""
    hit_rate: float
    """The share of the pairs that say the same which are accepted."""
    false_hit_bound: float
    """A bound, with 95 % confidence, on the share of the accepted pairs that do not say the same."""
    accepted: int
    false_hits: int


def upper_bound(
    false_hits: NDArray[Any] | int, accepted: NDArray[Any] | int, confidence: float = CONFIDENCE
) -> Any:
    """Return the one-sided upper bound of Clopper and Pearson (1934) on the rate ``false_hits / accepted``.

    It is 1 if nothing was accepted.
    """
    from scipy.stats import beta  # imported here, because the import takes longer than a judgement

    accepted = np.asarray(accepted)
    bound = beta.ppf(confidence, np.asarray(false_hits) + 1, np.maximum(accepted - false_hits, 1e-9))
    return np.where(accepted > false_hits, bound, 1.0)


def curve(score_n: Floats, is_same_n: Flags) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64]]:
    """Return every threshold, the highest first, and how many pairs and false pairs it accepts: [T] each."""
    order_n = np.argsort(-score_n, kind="stable")
    score_n, is_same_n = score_n[order_n], is_same_n[order_n]
    is_last_n = np.append(score_n[1:] < score_n[:-1], True)
    accepted_n, false_n = np.arange(1, len(score_n) + 1), np.cumsum(~is_same_n)
    return score_n[is_last_n], accepted_n[is_last_n], false_n[is_last_n]


def choose_threshold(score_n: Floats, is_same_n: Flags, precision: float) -> Threshold:
    """Choose the threshold with the most hits on a random half of the pairs, and count on the other half.

    ``score_n`` are the probabilities of the pairs, ``is_same_n`` says whether their sentences say the same,
    and ``precision`` is the share of the accepted pairs that must say the same. Raises UserError if the pairs
    are too few, or the scores too poor, to show the precision.
    """
    half_n = np.random.default_rng(0).permutation(len(score_n)) % 2 == 0
    threshold_T, accepted_T, false_T = curve(score_n[half_n], is_same_n[half_n])
    allowed = 1 - precision
    most = min(int(is_same_n[half_n].sum()), int(is_same_n[~half_n].sum()))
    best = 1 - float(upper_bound(0, most))
    needed = int(np.ceil(np.log(1 - CONFIDENCE) / np.log(precision)))
    if best < precision:
        raise UserError(
            f"judge.choose_threshold: a half of the pairs has {most} that say the same, which can show a "
            f"precision of {100 * best:.1f} % at most; give pairs with {needed} in each half to show "
            f"{100 * precision:g} %"
        )
    for confidence in CHOOSING_CONFIDENCES:
        is_shown_T = upper_bound(false_T, accepted_T, confidence) <= allowed
        if is_shown_T.any():
            break
    else:
        shown = 1 - float(upper_bound(false_T, accepted_T).min())
        raise UserError(
            f"judge.choose_threshold: no threshold shows a precision of {100 * precision:g} % on the half of "
            f"the pairs that it is chosen on, the best {100 * shown:.1f} %; ask for less, or give more pairs"
        )
    threshold = float(threshold_T[np.flatnonzero(is_shown_T)[-1]])
    is_accepted_n, is_same_n = score_n[~half_n] >= threshold, is_same_n[~half_n]
    accepted, false_hits = int(is_accepted_n.sum()), int((is_accepted_n & ~is_same_n).sum())
    bound = float(upper_bound(false_hits, accepted))
    if bound > allowed:
        raise UserError(
            f"judge.choose_threshold: the threshold {threshold:.4f}, chosen on one half of the pairs, has "
            f"{false_hits} false of {accepted} hits on the other, which shows a precision of "
            f"{100 * (1 - bound):.1f} %, not {100 * precision:g} %; ask for less, or give more pairs"
        )
    hit_rate = float((is_accepted_n & is_same_n).sum() / is_same_n.sum())
    return Threshold(threshold, hit_rate, bound, accepted, false_hits)
