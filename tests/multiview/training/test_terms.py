"""The objective's further terms against loops in float64: cosine, same sentence, duplicates, teacher."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from multiview.config import ObjectiveConfig, TeacherConfig
from multiview.training.objective import TEMPERATURE, Objective, Positions, Targets, neighbour_targets

WORDS = ["a b", "c", "a b", "d e", "f", "c", "g", "h i", "a b", "k"]
"""Sentences 0, 2 and 8 have the same words, and so have 1 and 5."""
DOCUMENT = [0, 0, 0, 0, 0, 0, 1, 1, 1, 1]
USABLE = [True, True, True, True, False, True, True, True, True, True]


def positions(*, masked: bool) -> Positions:
    content = np.array([WORDS.index(words) for words in WORDS]) if masked else None
    return Positions(np.arange(50, 60), np.array(DOCUMENT), np.array(USABLE), content)


def features(views: int, dim: int, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randn(len(WORDS), dim, generator=generator, dtype=torch.float64, requires_grad=True)
        for _ in range(views)
    ]


def cosine(a: list[float], b: list[float]) -> float:
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return dot / math.sqrt(sum(x * x for x in a)) / math.sqrt(sum(y * y for y in b))


def neighbours(s: int) -> list[int]:
    return [u for u in (s - 1, s + 1) if 0 <= u < len(WORDS) and DOCUMENT[u] == DOCUMENT[s]]


def anchors() -> list[int]:
    return [s for s in range(len(WORDS)) if USABLE[s] and any(USABLE[u] for u in neighbours(s))]


def outside(s: int, *, masked: bool) -> list[int]:
    context = [s, *neighbours(s)]
    alike = {WORDS[u] for u in context}
    kept = [u for u in range(len(WORDS)) if USABLE[u] and u not in context]
    return [u for u in kept if not (masked and WORDS[u] in alike)]


def softmax_loss(scores: dict[int, float], positives: list[int], negatives: list[int]) -> float:
    total = sum(math.exp(scores[u]) for u in (*positives, *negatives))
    return -sum(math.log(math.exp(scores[p]) / total) for p in positives) / len(positives)


def by_loops(views: list[Tensor], config: ObjectiveConfig, masked: bool) -> float:
    """The loss of cosine scores with the same-sentence term, written as the formulas read."""
    rows = [view.tolist() for view in views]
    loss = 0.0
    pairs = list(itertools.combinations(range(len(views)), 2))
    for i, j in pairs:
        for left, right in ((i, j), (j, i)):
            for s in anchors():
                score = {u: cosine(rows[left][s], rows[right][u]) / TEMPERATURE for u in range(len(WORDS))}
                positives = [u for u in neighbours(s) if USABLE[u]]
                loss += softmax_loss(score, positives, outside(s, masked=masked)) / 2 / len(pairs)
                itself = [s]
                if masked:
                    itself += [
                        u
                        for u in range(len(WORDS))
                        if u != s and WORDS[u] == WORDS[s] and USABLE[u] and u not in positives
                    ]
                same = softmax_loss(score, itself, outside(s, masked=masked))
                loss += config.same * same / 2 / len(pairs)
    return loss


def targets(*, masked: bool) -> Targets:
    where = positions(masked=masked)
    return neighbour_targets(where, "document")


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("same", [0.0, 2.5])
@pytest.mark.parametrize("views", [2, 3])
def test_cosine_and_the_same_sentence(views: int, same: float, masked: bool) -> None:
    config = ObjectiveConfig(score="cosine", same=same)
    given = features(views, 4)
    value = Objective(["dep"] * views, 4, config).double()(given, targets(masked=masked))
    assert value.anchors == len(anchors()) == 8
    assert value.loss.item() == pytest.approx(by_loops(given, config, masked), abs=1e-10)
    assert len(value.sums) == 1 + 2 * len(list(itertools.combinations(range(views), 2))) + bool(same)


def test_a_duplicate_is_no_negative() -> None:
    found, unmasked = targets(masked=True), targets(masked=False)
    first = found.anchor.tolist().index(0)
    assert unmasked.negative[first].nonzero().flatten().tolist() == [2, 3, 5, 6, 7, 8, 9]
    # 2 and 8 have its own words, 5 those of its neighbour 1.
    assert found.negative[first].nonzero().flatten().tolist() == [3, 6, 7, 9]
    assert found.positive[first].nonzero().flatten().tolist() == [1]
    assert found.itself[first].nonzero().flatten().tolist() == [0, 2, 8]


def teacher_by_loops(views: list[Tensor], taught: Tensor, objective: Objective) -> dict[str, float]:
    rows, teacher = [view.tolist() for view in views], taught.tolist()
    mapped = [(view @ m).tolist() for view, m in zip(views, objective.to_teacher, strict=True)]
    joined = [[*rows[0][s], *rows[1][s]] for s in range(len(WORDS))]
    terms = {"teacher": 0.0, "similarity": 0.0}
    for s in anchors():
        for view in mapped:
            score = {u: cosine(view[s], teacher[u]) / TEMPERATURE for u in range(len(WORDS))}
            terms["teacher"] += softmax_loss(score, [s], outside(s, masked=False)) / len(views)
        others = [u for u in range(len(WORDS)) if USABLE[u] and u != s]
        differences = [cosine(joined[s], joined[u]) - cosine(teacher[s], teacher[u]) for u in others]
        terms["similarity"] += sum(d * d for d in differences) / len(others)
    return terms


def taught_objective(config: ObjectiveConfig, **weights: float) -> Objective:
    torch.manual_seed(1)
    return Objective(["dep", "const"], 4, config, TeacherConfig(**weights), 3).double()


def test_the_teacher() -> None:
    config = ObjectiveConfig()
    objective = taught_objective(config, contrast=0.5, similarity=3.0)
    given, taught = features(2, 4), features(1, 3, seed=5)[0].detach()
    where = targets(masked=False)
    value = objective(given, where, teacher_BK=taught)
    plain = Objective(["dep", "const"], 4, config)(given, where)
    expected = teacher_by_loops(given, taught, objective)
    assert value.sums[2:4].tolist() == pytest.approx(list(expected.values()), abs=1e-10)
    total = plain.loss.item() + 0.5 * expected["teacher"] + 3.0 * expected["similarity"]
    assert value.loss.item() == pytest.approx(total, abs=1e-10)
    assert len(value.sums) == len(objective.metrics)
    assert objective.metrics == [
        *("loss", "loss/0-dep,1-const", "loss/teacher", "loss/similarity"),
        "accuracy@1/0-dep,1-const",
    ]


def test_gradients_are_the_numerical_ones() -> None:
    config = ObjectiveConfig(score="cosine", same=1.5)
    objective = taught_objective(config, contrast=1.0, similarity=2.0)
    given, taught = features(2, 4), features(1, 3, seed=5)[0].detach()
    where = targets(masked=True)

    def loss(*inputs: Tensor) -> Tensor:
        value: Tensor = objective(inputs[:2], where, teacher_BK=taught).loss
        return value

    assert torch.autograd.gradcheck(loss, (*given, *objective.to_teacher))
