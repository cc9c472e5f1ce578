"""The objective and its further terms against plain loops over sentences, in float64."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from multiview.config import preset
from multiview.encoders.meaning import Readout
from multiview.model_config import MeaningConfig, ObjectiveConfig
from multiview.training.objective import MeaningObjective, Objective, contrastive_losses
from multiview.training.targets import Grades, Positions, neighbour_targets, pair_targets
from tests.oracles import objective as oracle
from tests.oracles.objective import losses, surroundings

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


def make_positions(size: int, seed: int, *, contents: bool = False) -> Positions:
    random = np.random.default_rng(seed)
    return Positions(
        sentence=np.arange(100, 100 + size),
        document=np.cumsum(random.random(size) < 0.25),
        usable=random.random(size) > 0.15,
        content=random.integers(size // 2, size=size) if contents else None,
    )


def drawn(views: int, size: int, dim: int, seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn((views, size, dim), generator=generator, dtype=torch.float64)
    return [view.clone().requires_grad_() for view in features]


@pytest.mark.parametrize("contents", [False, True])
@pytest.mark.parametrize("config", VARIANTS, ids=lambda config: "-".join(map(str, vars(config).values())))
def test_equals_the_loops(config: ObjectiveConfig, contents: bool) -> None:
    torch.manual_seed(3)
    views, dim, size = ("dep", "const", "dep"), 5, 13
    objective = Objective(views, dim, config).double()
    positions = make_positions(size, seed=7, contents=contents)
    features = drawn(3, size, dim)
    targets = neighbour_targets(positions, config.boundary)
    loss, sums = objective(features, targets)
    expected = losses(features, list(objective.bilinear), positions, config)
    assert len(targets.anchor) == expected.anchors > 5
    terms = [expected.whole, *expected.pairs, *([expected.same] if config.same else []), *expected.hits]
    expected_sums = [float(torch.as_tensor(each).detach()) for each in terms]
    assert sums.tolist() == pytest.approx(expected_sums, abs=1e-9)
    assert loss.item() == pytest.approx(expected.whole.item(), abs=1e-9)
    variables = [*features, *objective.parameters()]
    gradients = (torch.autograd.grad(of, variables) for of in (loss, expected.whole))
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9)


def test_the_distance_from_a_teacher_equals_the_loops() -> None:
    torch.manual_seed(1)
    config, positions = ObjectiveConfig(), make_positions(10, seed=7)
    objective = Objective(["dep", "const"], 4, config, 8, 3).double()
    objective.term_weights = {"teacher": 0.5}
    features, teacher = [view.detach() for view in drawn(2, 10, 4)], drawn(1, 10, 3, seed=5)[0].detach()
    targets = neighbour_targets(positions, "document")
    loss, sums = objective(features, targets, teacher_BK=teacher)
    assert objective.to_teacher is not None
    distance = torch.zeros((), dtype=torch.float64)
    for around in surroundings(positions, "document"):
        student = objective.to_teacher(torch.cat([view[around.anchor] for view in features]))
        distance += 1 - torch.cosine_similarity(student, teacher[around.anchor], dim=0)
    assert sums[2].item() == pytest.approx(distance.item(), abs=1e-10)
    plain, _ = Objective(["dep", "const"], 4, config)(features, targets)
    assert loss.item() == pytest.approx(plain.item() + 0.5 * distance.item(), abs=1e-10)
    assert objective.metrics == ["loss", "loss/0-dep,1-const", "loss/teacher", "accuracy@1/0-dep,1-const"]


@pytest.mark.parametrize("denominator", ["paper", "all"])
@pytest.mark.parametrize(("documents", "anchors"), [([0, 1, 2, 3], 0), ([0, 0], 2)])
def test_without_positives_or_negatives_there_is_no_nan(documents, anchors: int, denominator: str) -> None:
    """Features of bfloat16 are scored in float32."""
    size = len(documents)
    positions = Positions(np.arange(size), np.array(documents), np.ones(size, dtype=bool))
    objective = Objective(("a", "b"), 3, replace(PAPER, boundary="document", denominator=denominator))
    features = [feature.bfloat16() for feature in drawn(2, size, 3)]
    targets = neighbour_targets(positions, "document")
    loss, _ = objective(features, targets)
    (gradient,) = torch.autograd.grad(loss, features[0])
    assert len(targets.anchor) == anchors and loss.item() == pytest.approx(0.0, abs=1e-6)
    assert torch.isfinite(gradient).all() and loss.dtype == torch.float32


def test_pairs_equal_the_loops() -> None:
    """Copies of an anchor, a positive of two anchors, a negative of the same group, a row of one sentence."""
    rows = [(0, 1, 2, 3), (4, 1), (5, 6, 7), (8, 8), (9, 10, 4)]
    group = np.array([0, 0, 1, 0, 0, 2, 2, 3, 4, 5, 5])
    (unit,) = drawn(1, len(group), 4)
    cosine_BB = oracle.cosines(unit, unit)
    targets = pair_targets(rows, group)
    loss = contrastive_losses(cosine_BB[targets.anchor], targets, "all").sum()
    expected = oracle.pair_loss(cosine_BB, rows, group.tolist())
    assert targets.anchor.tolist() == [0, 1, 4, 5, 6, 9, 10]
    assert loss.item() == pytest.approx(expected.item(), abs=1e-9)
    gradients = [torch.autograd.grad(of, unit, retain_graph=True)[0] for of in (loss, expected)]
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-9)


@pytest.mark.parametrize("has_readout", [True, False])
def test_going_on_equals_the_loops(has_readout: bool) -> None:
    """Of three views two are trained; without a read-out the meaning is the views side by side."""
    torch.manual_seed(5)
    views, positions = drawn(3, 12, 4), make_positions(12, seed=7)
    readout = Readout(torch.randn(5, 12), torch.randn(5)).double() if has_readout else None
    config = MeaningConfig(views=0.5, meaning=2.0, keep=3.0, temperature=0.1)
    objective = MeaningObjective(readout, [0, 2], config)
    meaning = torch.cat(views, dim=1)
    if readout is not None:
        meaning = meaning @ readout.weight.T + readout.bias
    start = drawn(1, 12, meaning.shape[1], seed=9)[0].detach()
    loss, sums = objective(views, neighbour_targets(positions, "document"), start)
    expected = oracle.going_on_loss([views[0], views[2]], meaning, start, positions, (0.5, 2.0, 3.0), 0.1)
    assert sums.tolist()[:-1] == pytest.approx([part.item() for part in expected], abs=1e-9)
    names = ["loss", "loss/views", "loss/meaning", "loss/kept", "accuracy@1/meaning"]
    assert objective.metrics == names and 0 <= sums[-1] <= len(surroundings(positions, "document"))
    gradients = [torch.autograd.grad(of, views) for of in (loss, expected[0])]
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9)


def test_going_on_with_grades_equals_the_loops() -> None:
    (view,), start = drawn(1, 6, 4), drawn(1, 6, 4, seed=2)[0].detach()
    objective = MeaningObjective(None, [0], MeaningConfig(meaning=2.0, keep=3.0, temperature=0.2))
    first, second = torch.tensor([0, 2, 4, 0]), torch.tensor([1, 3, 5, 3])
    grades = torch.tensor([0.6, 0.0, 1.0, 0.2])
    targets = Grades(first, second, grades)
    loss, sums = objective([view], targets, start)
    alike = torch.cosine_similarity(view[first], view[second]).tolist()
    kept = sum(1 - torch.cosine_similarity(view[row], start[row], dim=0).item() for row in first)
    graded = sum((a - g) ** 2 / (2 * 0.2**2) for a, g in zip(alike, grades.tolist(), strict=True))
    assert sums.tolist() == pytest.approx([2 * graded + 3 * kept, graded, kept], abs=1e-9)
    assert loss.item() == pytest.approx(sums[0].item()) and objective.metrics_of(targets)[1] == "loss/grades"
    assert "loss/views" not in objective.metrics  # one view has no other to be contrasted with
