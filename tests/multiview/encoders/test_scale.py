"""One scale for each number, against numpy in float64, and which sentences of a text are measured."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from multiview.encoders.meaning import LENGTH, Scale, Span, joined, spread


def test_features_have_one_deviation_over_what_was_measured() -> None:
    random = np.random.default_rng(0)
    x_ND = random.normal([3, -40, 0, 7, 0.1], [0.02, 5, 1e-5, 0, 0], size=(500, 5)).astype(np.float32)
    x_ND[::2, 4] += 1e-8  # what rounding does to a constant
    scale = Scale.measured(torch.from_numpy(part) for part in np.array_split(x_ND, 7))
    wide_ND = x_ND.astype(np.float64)
    np.testing.assert_allclose(scale.mean, wide_ND.mean(axis=0), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(scale.deviation[:3], wide_ND.std(axis=0)[:3], rtol=1e-5)
    assert not scale.deviation[3:].any()
    features = scale(torch.from_numpy(x_ND)).numpy()
    expected = LENGTH / 5**0.5 * (wide_ND - wide_ND.mean(axis=0))[:, :3] / wide_ND.std(axis=0)[:3]
    np.testing.assert_allclose(features[:, :3], expected, atol=1e-4)
    assert not features[:, 3:].any()
    length = np.sqrt(np.square(features[:, :3] * (5 / 3) ** 0.5).sum(axis=1).mean())
    assert length == pytest.approx(LENGTH, rel=1e-4)


def test_numbers_are_chosen_joined_and_left_out() -> None:
    x_BD = torch.randn(4, 5)
    scale = Scale(torch.arange(5.0), torch.tensor([1.0, 2.0, torch.inf, 0.0, 4.0]), "a text")
    whole = scale(x_BD)
    assert whole.shape == (4, 4) and scale.numbers.tolist() == [0, 1, 3, 4]
    torch.testing.assert_close(scale(x_BD, 2), whole[:, :2])
    some = Scale(scale.mean[[0, 4]], scale.deviation[[0, 4]])
    torch.testing.assert_close(some(x_BD[:, [0, 4]]), 2**0.5 * whole[:, [0, 3]])  # 2 numbers, not 4
    both = joined([some, scale])(torch.cat([x_BD[:, [0, 4]], x_BD], dim=1))
    torch.testing.assert_close(both, (4 / 6) ** 0.5 * torch.cat([whole[:, [0, 3]], whole], dim=1))
    assert Scale.measured([x_BD, x_BD * 2], like=scale).numbers.tolist() == scale.numbers.tolist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ([(0, 7)], [(0, 2), (2, 4), (4, 7)]),  # all of a short one
        ([], []),
        ([(0, 100)], [(0, 3), (25, 28), (50, 53), (75, 78)]),
        ([(10, 30), (50, 130)], [(10, 13), (55, 58), (80, 83), (105, 108)]),  # 100 sentences without the gap
        ([(0, 26), (40, 114)], [(0, 3), (25, 26), (64, 67), (89, 92)]),  # the end of a part ends a block
    ],
)
def test_blocks_are_spread_evenly_over_a_text(text: list[Span], expected: list[Span]) -> None:
    assert spread(text, most=12, block=3) == expected
