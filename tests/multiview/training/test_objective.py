"""The objective and its further terms against plain loops over sentences, in float64."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from multiview.config import ObjectiveConfig, preset
from multiview.training.objective import (
    TEMPERATURE,
    Objective,
    Positions,
    count_anchors,
    neighbour_targets,
    standardised,
)

PAPER = preset("paper").objective
VARIANTS = [
    ObjectiveConfig(boundary=b, denominator=d, score=s, direction=r)
    for b in ("document", "none")
    for d in ("paper", "all", "quickthought")
    for s in ("bilinear", "dot")
    for r in ("forward", "both")
]
VARIANTS += [ObjectiveConfig(score="cosine", same=same) for same in (0.0, 2.5)]
VARIANTS += [ObjectiveConfig(score="dot", denominator="paper", same=1.0)]
Scores = Sequence[Sequence[float]]


@dataclass
class Around:
    """What one anchor is compared with."""

    anchor: int
    positives: list[int]
    outside: list[int]
    itself: list[int]


def surroundings(positions: Positions, boundary: str) -> list[Around]:
    """Every anchor's, read off the definition."""
    found, usable, size = [], np.flatnonzero(positions.usable).tolist(), len(positions)
    content = range(size) if positions.content is None else positions.content
    for s in usable:
        context = [u for u in (s - 1, s + 1) if 0 <= u < size]
        if boundary != "none":
            context = [u for u in context if positions.document[u] == positions.document[s]]
        words = {content[u] for u in (s, *context)}
        others = [u for u in usable if u not in context]
        outside = [u for u in others if u != s and content[u] not in words]
        itself = [u for u in others if content[u] == content[s]]
        if positives := [u for u in context if positions.usable[u]]:
            found.append(Around(s, positives, outside, itself))
    return found


def softmax_loss(scores: Sequence[float], positives: list[int], compared: list[float]) -> float:
    """Mean over the positives of the negative logarithm of their share in what is compared."""
    total = sum(map(math.exp, compared))
    return -sum(math.log(math.exp(scores[p]) / total) for p in positives) / len(positives)


def context_loss(scores: Sequence[float], here: Around, denominator: str) -> float:
    outside = [scores[u] for u in here.outside]
    if denominator == "paper":
        return sum(softmax_loss(scores, [p], [scores[p], *outside]) for p in here.positives)
    extra = [0.0] * len(here.itself) if denominator == "quickthought" else []
    compared = [*(scores[p] for p in here.positives), *outside, *extra]
    return softmax_loss(scores, here.positives, compared)


def same_loss(scores: Sequence[float], here: Around) -> float:
    return softmax_loss(scores, here.itself, [scores[u] for u in (*here.itself, *here.outside)])


def cosines(one: Tensor, other: Tensor) -> Tensor:
    return torch.nn.functional.cosine_similarity(one[:, None], other[None], dim=2)


def make_positions(size: int, seed: int, *, contents: bool = False) -> Positions:
    random = np.random.default_rng(seed)
    return Positions(
        sentence=np.arange(100, 100 + size),
        document=np.cumsum(random.random(size) < 0.25),
        usable=random.random(size) > 0.15,
        content=random.integers(size // 2, size=size) if contents else None,
    )


def drawn(views: int, size: int, dim: int, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn((views, size, dim), generator=generator, dtype=torch.float64)
    return [view.clone().requires_grad_() for view in features]


def name_of(config: ObjectiveConfig) -> str:
    return "-".join(map(str, vars(config).values()))


@pytest.mark.parametrize("contents", [False, True])
@pytest.mark.parametrize("config", VARIANTS, ids=name_of)
def test_equals_the_loops(config: ObjectiveConfig, contents: bool) -> None:
    torch.manual_seed(3)
    views, dim, size = ("dep", "const", "dep"), 5, 13
    objective = Objective(views, dim, config).double()
    positions = make_positions(size, seed=7, contents=contents)
    features = drawn(3, size, dim)
    value = objective(features, neighbour_targets(positions, config.boundary))
    around = surroundings(positions, config.boundary)
    assert value.anchors == len(around) == count_anchors(positions, config.boundary) > 5
    pairs = list(itertools.combinations(range(3), 2))
    expected, same = 0.0, 0.0
    for k, (i, j) in enumerate(pairs):
        weight = objective.bilinear[k] if config.score == "bilinear" else torch.eye(dim, dtype=torch.float64)
        cosine = cosines(features[i], features[j]) / TEMPERATURE
        matrix = cosine if config.score == "cosine" else features[i] @ weight @ features[j].T
        ways = (matrix, matrix.T) if config.direction == "both" else (matrix,)
        losses, hits = 0.0, 0
        for scores in (way.tolist() for way in ways):
            losses += sum(context_loss(scores[a.anchor], a, config.denominator) for a in around) / len(ways)
            for a in around:
                best = max((*a.positives, *a.outside), key=lambda u: scores[a.anchor][u])
                hits += best in a.positives
        for scores in (way.tolist() for way in (cosine, cosine.T)[: len(ways)]):
            same += sum(same_loss(scores[a.anchor], a) for a in around) / len(ways) / len(pairs)
        assert value.sums[1 + k].item() == pytest.approx(losses, abs=1e-9)
        assert value.sums[4 + bool(config.same) + k].item() == pytest.approx(hits / len(ways))
        expected += losses / len(pairs)
    assert value.loss.item() == pytest.approx(expected + config.same * same, abs=1e-9)


def test_the_teacher() -> None:
    torch.manual_seed(1)
    config, positions = ObjectiveConfig(), make_positions(10, seed=7)
    objective = Objective(["dep", "const"], 4, config, 8, 3).double()
    objective.terms = {"teacher": 0.5}
    given, taught = [view.detach() for view in drawn(2, 10, 4)], drawn(1, 10, 3, seed=5)[0].detach()
    where = neighbour_targets(positions, "document")
    value = objective(given, where, teacher_BK=taught)
    assert objective.to_teacher is not None
    weight, bias = objective.to_teacher.weight.tolist(), objective.to_teacher.bias.tolist()
    distance = 0.0
    for anchor in (a.anchor for a in surroundings(positions, "document")):
        joined = [*given[0][anchor].tolist(), *given[1][anchor].tolist()]
        mapped = [sum(map(operator.mul, row, joined)) + b for row, b in zip(weight, bias, strict=True)]
        wanted = taught[anchor].tolist()
        dot, lengths = sum(map(operator.mul, mapped, wanted)), math.hypot(*mapped) * math.hypot(*wanted)
        distance += 1 - dot / lengths
    assert value.sums[2].item() == pytest.approx(distance, abs=1e-10)
    plain = Objective(["dep", "const"], 4, config)(given, where)
    assert value.loss.item() == pytest.approx(plain.loss.item() + 0.5 * distance, abs=1e-10)
    assert objective.metrics == ["loss", "loss/0-dep,1-const", "loss/teacher", "accuracy@1/0-dep,1-const"]


@pytest.mark.parametrize("config", [*VARIANTS[::3], VARIANTS[-2]], ids=name_of)
def test_gradient_is_the_numerical_one(config: ObjectiveConfig) -> None:
    torch.manual_seed(0)
    objective = Objective(("a", "b"), 3, config, 6, 4).double()
    positions = make_positions(7, seed=2, contents=bool(config.same))
    features, taught = drawn(2, 7, 3), drawn(1, 7, 4)[0].detach()
    where = neighbour_targets(positions, config.boundary)

    def loss(*inputs: Tensor) -> Tensor:
        value: Tensor = objective(inputs[:2], where, teacher_BK=taught).loss
        return value

    assert torch.autograd.gradcheck(loss, (*features, *objective.to_teacher.parameters()))


@given(size=st.integers(1, 40), seed=st.integers(0, 10**6), boundary=st.sampled_from(["document", "none"]))
@settings(max_examples=60, deadline=None)
def test_anchor_count_without_the_matrix(size: int, seed: int, boundary: str) -> None:
    positions = make_positions(size, seed)
    assert count_anchors(positions, boundary) == len(neighbour_targets(positions, boundary).anchor)


@pytest.mark.parametrize("denominator", ["paper", "all"])
@pytest.mark.parametrize(("documents", "anchors"), [([0, 1, 2, 3], 0), ([0, 0], 2)])
def test_without_positives_or_negatives_there_is_no_nan(
    documents: list[int], anchors: int, denominator: str
) -> None:
    """Features of bfloat16 are scored in float32."""
    size = len(documents)
    positions = Positions(np.arange(size), np.array(documents), np.ones(size, dtype=bool))
    objective = Objective(("a", "b"), 3, replace(PAPER, boundary="document", denominator=denominator))
    features = [feature.bfloat16() for feature in drawn(2, size, 3)]
    value = objective(features, neighbour_targets(positions, "document"))
    (gradient,) = torch.autograd.grad(value.loss, features[0])
    assert value.anchors == anchors and value.loss.item() == pytest.approx(0.0, abs=1e-6)
    assert torch.isfinite(gradient).all() and value.loss.dtype == torch.float32


def test_standardised_numbers_are_those_of_numpy() -> None:
    x_ND = np.random.default_rng(0).normal(3.0, [1e-4, 0.02, 5.0, 0.0, 0.0], size=(50, 5)).astype(np.float32)
    x_ND[:, 4] = 0.1
    x_ND[::2, 4] += 1e-8  # what rounding does to a constant
    wide_ND = x_ND.astype(np.float64)
    expected_ND = (wide_ND - wide_ND.mean(0))[:, :3] / wide_ND.std(0)[:3]
    found_ND = standardised(torch.from_numpy(x_ND)).numpy()
    np.testing.assert_allclose(found_ND[:, :3], expected_ND, atol=1e-5)
    assert not found_ND[:, 3:].any()
