"""The objective against plain loops over sentences, in float64."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.config import ObjectiveConfig, preset
from multiview.training.objective import (
    Objective,
    Positions,
    Targets,
    count_anchors,
    neighbour_targets,
    pair_names,
)

PAPER = preset("paper").objective
VARIANTS = [
    ObjectiveConfig(boundary=b, denominator=d, score=s, direction=r)
    for b in ("document", "none")
    for d in ("paper", "all", "quickthought")
    for s in ("bilinear", "dot")
    for r in ("forward", "both")
]


def loop_pair(scores, positions: Positions, config: ObjectiveConfig) -> tuple[float, int, int]:
    """Sum of losses, anchors, hits of one score matrix, written as the formulas read."""
    total, anchors, hits = 0.0, 0, 0
    size = len(positions)
    for s in range(size):
        if not positions.usable[s]:
            continue
        context = []
        for u in range(size):
            same = config.boundary == "none" or positions.document[u] == positions.document[s]
            if abs(positions.sentence[u] - positions.sentence[s]) == 1 and same:
                context.append(u)
        positives = [u for u in context if positions.usable[u]]
        if not positives:
            continue
        anchors += 1
        others = [u for u in range(size) if u != s and positions.usable[u]]
        outside = [u for u in others if u not in context]
        extra = [0.0] if config.denominator == "quickthought" else []
        for p in positives:
            if config.denominator == "paper":
                compared = [scores[s][u] for u in [p, *outside]] + extra
                total -= scores[s][p] - math.log(sum(math.exp(x) for x in compared))
            else:
                compared = [scores[s][u] for u in others] + extra
                total -= (scores[s][p] - math.log(sum(math.exp(x) for x in compared))) / len(positives)
        hits += max(others, key=lambda u: scores[s][u]) in positives
    return total, anchors, hits


def make_positions(size: int, seed: int) -> Positions:
    random = np.random.default_rng(seed)
    return Positions(
        sentence=np.arange(100, 100 + size),
        document=np.cumsum(random.random(size) < 0.25),
        usable=random.random(size) > 0.15,
    )


def targets(objective: Objective, positions: Positions) -> Targets:
    return neighbour_targets(positions, objective.config.boundary)


@pytest.mark.parametrize("config", VARIANTS, ids=lambda c: "-".join(str(v) for v in vars(c).values()))
def test_equals_the_loops(config: ObjectiveConfig) -> None:
    torch.manual_seed(3)
    views, dim = ("dep", "const", "dep"), 5
    objective = Objective(views, dim, config).double()
    positions = make_positions(13, seed=7)
    features = [torch.randn(13, 5, dtype=torch.float64) for _ in views]
    value = objective(features, targets(objective, positions))
    pairs = list(itertools.combinations(range(3), 2))
    expected = 0.0
    for k, (i, j) in enumerate(pairs):
        weight = objective.bilinear[k] if config.score == "bilinear" else torch.eye(5, dtype=torch.float64)
        matrix = (features[i] @ weight @ features[j].T).tolist()
        runs = [loop_pair(matrix, positions, config)]
        if config.direction == "both":
            runs.append(loop_pair(torch.tensor(matrix, dtype=torch.float64).T.tolist(), positions, config))
        loss = sum(run[0] for run in runs) / len(runs)
        expected += loss / len(pairs)
        assert value.anchors == runs[0][1] == count_anchors(positions, config.boundary)
        assert value.sums[1 + k].item() == pytest.approx(loss, abs=1e-9)
        assert value.sums[4 + k].item() == pytest.approx(sum(run[2] for run in runs) / len(runs))
    assert value.loss.item() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("config", VARIANTS[::3], ids=lambda c: "-".join(str(v) for v in vars(c).values()))
def test_gradient_is_the_numerical_one(config: ObjectiveConfig) -> None:
    torch.manual_seed(0)
    objective = Objective(("a", "b"), 3, config).double()
    positions = make_positions(7, seed=2)
    features = [torch.randn(7, 3, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    assert torch.autograd.gradcheck(
        lambda *f: objective(f, targets(objective, positions)).loss, tuple(features)
    )


@given(size=st.integers(1, 40), seed=st.integers(0, 10**6), boundary=st.sampled_from(["document", "none"]))
@settings(max_examples=60, deadline=None)
def test_anchor_count_without_the_matrix(size: int, seed: int, boundary: str) -> None:
    positions = make_positions(size, seed)
    assert count_anchors(positions, boundary) == len(neighbour_targets(positions, boundary).anchor)


def test_batch_without_positives_costs_nothing_and_has_a_gradient() -> None:
    positions = Positions(np.arange(4), np.arange(4), np.ones(4, dtype=bool))
    objective = Objective(("a", "b"), 3, replace(PAPER, boundary="document"))
    features = [torch.randn(4, 3, requires_grad=True) for _ in range(2)]
    value = objective(features, targets(objective, positions))
    value.loss.backward()
    assert value.anchors == 0 and value.loss.item() == 0.0
    assert torch.isfinite(features[0].grad).all()


def test_two_sentences_have_no_negatives_and_no_nan() -> None:
    positions = Positions(np.arange(2), np.zeros(2, dtype=np.int64), np.ones(2, dtype=bool))
    for denominator in ("paper", "all"):
        objective = Objective(("a", "b"), 3, ObjectiveConfig(denominator=denominator))
        features = [torch.randn(2, 3, requires_grad=True) for _ in range(2)]
        value = objective(features, targets(objective, positions))
        value.loss.backward()
        assert value.loss.item() == pytest.approx(0.0)
        assert torch.isfinite(features[1].grad).all()


def test_bfloat16_features_are_scored_in_float32() -> None:
    positions = make_positions(9, seed=1)
    objective = Objective(("a", "b"), 4, PAPER)
    features = [torch.randn(9, 4).bfloat16() for _ in range(2)]
    assert objective(features, targets(objective, positions)).loss.dtype == torch.float32


def test_pairs_are_named_by_position() -> None:
    assert pair_names(["dep", "const"]) == ["0-dep,1-const"]
    assert pair_names(["seq", "seq", "dep"]) == ["0-seq,1-seq", "0-seq,2-dep", "1-seq,2-dep"]
