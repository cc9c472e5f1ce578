"""Thresholds of a judge: what is counted, and what the pairs cannot show."""

import numpy as np
import pytest
from scipy.stats import binom

from multiview.judge.thresholds import choose_threshold, curve, upper_bound
from runtime.errors import UserError


@pytest.mark.parametrize(("false_hits", "accepted"), [(0, 300), (3, 500), (7, 20), (19, 20)])
def test_the_bound_is_the_rate_at_which_so_few_false_hits_are_rare(false_hits: int, accepted: int) -> None:
    bound = float(upper_bound(false_hits, accepted))
    assert binom.cdf(false_hits, accepted, bound) == pytest.approx(0.05)


def test_nothing_accepted_or_all_of_it_false_shows_nothing() -> None:
    assert upper_bound(np.array([0, 4]), np.array([0, 4])).tolist() == [1, 1]
    assert 1 - float(upper_bound(0, 300)) == pytest.approx(0.990, abs=5e-4)


def test_the_curve_counts_ties_together() -> None:
    score, is_same = np.array([0.2, 0.9, 0.5, 0.5]), np.array([True, True, False, True])
    columns = [column.tolist() for column in curve(score, is_same)]
    assert columns == [[0.9, 0.5, 0.2], [1, 3, 4], [0, 1, 1]]


def scored(count: int, *, errors: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Scores of which those above .5 say the same, but for some at the top that do not."""
    score = np.random.default_rng(1).random(count)
    is_same = score > 0.5
    is_same[np.argsort(-score)[:errors]] = False
    return score, is_same


def test_a_threshold_is_chosen_on_one_half_and_counted_on_the_other() -> None:
    score, is_same = scored(4000)
    found = choose_threshold(score, is_same, 0.99)
    other = np.random.default_rng(0).permutation(4000) % 2 == 1
    accepted = score[other] >= found.threshold
    assert found.accepted == accepted.sum() and found.false_hits == (accepted & ~is_same[other]).sum()
    assert found.hit_rate == accepted[is_same[other]].mean() > 0.98
    assert found.false_hit_bound == float(upper_bound(found.false_hits, found.accepted)) <= 0.01


def test_what_the_pairs_cannot_show_is_refused() -> None:
    with pytest.raises(
        UserError,
        match=r"show a precision of 9\d\.\d % at most; give pairs with 299 in each half to show 99 %",
    ):
        choose_threshold(*scored(400), 0.99)
    with pytest.raises(UserError, match=r"no threshold shows a precision of 99 % .*, the best \d+\.\d %"):
        choose_threshold(*scored(4000, errors=400), 0.99)
    score, is_same = scored(4000)
    other = np.flatnonzero(np.random.default_rng(0).permutation(4000) % 2 == 1)
    is_same[other[score[other] > 0.9]] = False
    with pytest.raises(UserError, match=r"has \d+ false of \d+ hits on the other, which shows"):
        choose_threshold(score, is_same, 0.99)
