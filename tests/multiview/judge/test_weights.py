"""The weights of a judge that is fitted to pairs of one's own."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from multiview.judge import FEATURES, Judge
from multiview.judge.judge import JUDGE_FOLDER
from multiview.judge.weights import MIN_SLOPE, PULLS, Weights, _design


def start() -> Weights:
    return Weights.load(JUDGE_FOLDER / "pairs.json")


def drawn(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of pairs spread as the package's judge knows them, and labels that are noise."""
    generator = np.random.default_rng(seed)
    first = start()
    features = generator.normal(first.mean, first.deviation, (count, len(FEATURES)))
    return features, (generator.random(count) < 0.5).astype(float)


def test_the_fit_is_that_of_an_optimiser_that_knows_nothing() -> None:
    features, labels = drawn(40)
    first, pull = start(), 20.0
    design = _design(features, np.array(first.mean), np.array(first.deviation))
    own = np.array(first.weight)

    def least(design: np.ndarray, centre: np.ndarray, ridge: float) -> np.ndarray:
        def loss(weight: np.ndarray) -> float:
            score, distance = design @ weight, weight - centre
            return float((np.logaddexp(0, score) - labels * score).sum() + ridge / 2 * (distance**2).sum())

        def gradient(weight: np.ndarray) -> np.ndarray:
            return design.T @ (expit(design @ weight) - labels) + ridge * (weight - centre)

        options = {"maxiter": 10_000, "ftol": 1e-15, "gtol": 1e-9}
        return minimize(loss, centre, jac=gradient, method="L-BFGS-B", options=options).x

    level, slope = least(np.column_stack([np.ones(40), design @ own]), np.array([0.0, 1.0]), 1.0)
    slope = max(slope, MIN_SLOPE)
    shift = np.eye(len(own))[0] * level
    expected = (least(design, slope * own + shift, pull) - shift) / slope
    np.testing.assert_allclose(first.fit_on(features, labels, pull=pull).weight, expected, atol=1e-3)


def test_pairs_that_agree_take_the_strongest_pull_and_many_of_another_rule_a_weak_one() -> None:
    features, _ = drawn(60)
    agreeing = (np.random.default_rng(2).random(60) < start().probabilities(features)).astype(float)
    assert start().fit_on(features, agreeing).about["pull"] == PULLS[0]
    features, _ = drawn(1500)
    index = list(FEATURES).index("words")
    rule = (features[:, index] < start().mean[index]).astype(float)
    fitted = start().fit_on(features, rule)
    assert fitted.about["pull"] <= PULLS[2]
    new, _ = drawn(500, seed=1)
    is_below = new[:, index] < start().mean[index]
    assert ((fitted.probabilities(new) > 0.5) == is_below).mean() > 0.8


def test_a_wrong_and_sure_start_does_not_overshoot() -> None:
    features, _ = drawn(300)
    wrong = (start().probabilities(features) < 0.5).astype(float)
    fitted = start().fit_on(features, wrong, pull=1e-3)
    assert ((fitted.probabilities(features) > 0.5) == (wrong == 1)).mean() > 0.99


def test_the_cosine_of_an_encoder_gets_a_scale_of_its_own() -> None:
    features, _ = drawn(50)
    scaled = start().with_scale_of("topic", features)
    index = list(FEATURES).index("topic")
    assert scaled.mean[index] == pytest.approx(features[:, index].mean())
    assert scaled.deviation[index] == pytest.approx(features[:, index].std())
    assert scaled.weight == start().weight and scaled.mean[:index] == start().mean[:index]
    assert Judge(scaled).weights is scaled
