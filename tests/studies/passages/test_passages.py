"""Metrics against hand-worked examples, the ranking loss and features against loops, training."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from corpora.ranking.sets import Question
from corpora.support.errors import UserError
from studies.passages.ranker import (
    METRICS,
    Bilinear,
    Concatenated,
    Cosine,
    Part,
    draw_pairs,
    make_scorer,
    mean,
    measure,
    ranking_loss,
    scaled,
    score,
    train_scorer,
)


def test_metrics_equal_a_loop() -> None:
    generator = np.random.default_rng(0)
    questions, scores, expected = [], [], {name: [] for name in METRICS}
    for _ in range(60):
        size = int(generator.integers(1, 30))
        relevant = generator.random(size) < generator.choice([0.05, 0.3, 0.9])
        missed = int(generator.integers(0, 3))
        values = generator.integers(0, 6, size).astype(float)  # with ties
        order = sorted(range(size), key=lambda i: (-values[i], relevant[i], i))
        hits = [bool(relevant[i]) for i in order]
        total = sum(hits) + missed
        precisions = [sum(hits[: r + 1]) / (r + 1) for r, hit in enumerate(hits) if hit]
        expected["mrr"].append(1 / (1 + hits.index(True)) if any(hits) else 0)
        expected["map"].append(sum(precisions) / total if total else 0)
        for k in (1, 5, 10):
            expected[f"p@{k}"].append(sum(hits[:k]) / k)
            expected[f"r@{k}"].append(sum(hits[:k]) / total if total else 0)
            expected[f"s@{k}"].append(float(any(hits[:k])))
        questions.append(Question("q", "q", np.arange(size), relevant, missed))
        scores.append(values)
    found = measure(questions, scores)
    for name in METRICS:
        np.testing.assert_allclose(found[name], expected[name], atol=1e-6, err_msg=name)


@pytest.mark.parametrize("margin", [0.0, 0.7])
def test_ranking_loss_and_gradient(margin: float) -> None:
    generator = torch.Generator().manual_seed(0)
    right, wrong = torch.randn(2, 12, generator=generator, dtype=torch.float64)
    right.requires_grad_()
    wrong.requires_grad_()
    loss = ranking_loss(right, wrong, margin)
    terms = [max(0.0, margin - p + n) for p, n in zip(right.tolist(), wrong.tolist(), strict=True)]
    assert loss.item() == pytest.approx(sum(terms) / 12)
    loss.backward()
    slope = [-1 / 12 if term > 0 else 0.0 for term in terms]
    assert right.grad.tolist() == pytest.approx(slope)
    assert wrong.grad.tolist() == pytest.approx([-s for s in slope])
    assert torch.autograd.gradcheck(lambda p, n: ranking_loss(p, n, margin), (right, wrong))


def test_features_equal_loops() -> None:
    generator = torch.Generator().manual_seed(0)
    u, v = torch.randn(2, 5, 6, generator=generator, dtype=torch.float64)
    x, y = (t / t.norm(dim=1, keepdim=True) * 6**0.5 for t in (u, v))
    bilinear = Bilinear(6, 3).double().requires_grad_(False)
    for a, b, one, other in zip(x, y, Cosine()(x, y), bilinear(x, y), strict=True):
        assert one.item() == pytest.approx(float(a @ b / (a.norm() * b.norm())))
        loop = sum(a[i] * bilinear.w_DD[i, j] * b[j] for i in range(6) for j in range(6)) / 6
        assert other.item() == pytest.approx(float(loop))
        for feature, row in (("uv", [a, b]), ("uv-diff-prod", [a, b, (a - b).abs(), a * b])):
            inputs = torch.cat(row).numpy()
            plain, mlp = (
                Concatenated(6, feature, hidden, 1).double().requires_grad_(False) for hidden in (None, 4)
            )
            first, last = ((layer.weight.numpy(), layer.bias.numpy()) for layer in mlp.layers[::2])
            hidden = np.maximum(first[0] @ inputs + first[1], 0)
            weight, bias = plain.layers[0].weight.numpy(), plain.layers[0].bias.numpy()
            assert plain(a[None], b[None]).item() == pytest.approx((weight @ inputs + bias).item())
            assert mlp(a[None], b[None]).item() == pytest.approx((last[0] @ hidden + last[1]).item())


def world(questions: int, seed: int, dim: int = 16) -> Part:
    """Relevant passages are a fixed rotation of their question: cosine is blind, a bilinear map is not."""
    generator = np.random.default_rng(seed)
    rotation = np.linalg.qr(np.random.default_rng(99).normal(size=(dim, dim)))[0]
    asked = generator.normal(size=(questions, dim))
    passages, found = [], []
    for i in range(questions):
        rows = np.arange(len(passages), len(passages) + 6)
        passages += [
            asked[i] @ rotation + 0.3 * generator.normal(size=dim),
            *generator.normal(size=(5, dim)),
        ]
        found.append(Question(str(i), "", rows, np.arange(6) == 0))
    return Part(found, scaled(asked), scaled(np.array(passages)))


def test_pairs_are_of_one_question_and_all_relevant_ones_are_used() -> None:
    part = world(7, 0)
    pairs = draw_pairs(part.questions, np.random.default_rng(3))
    assert len(pairs) == 7 * 4 and len({tuple(p) for p in pairs.tolist()}) == len(pairs)
    for number, right, wrong in pairs:
        q = part.questions[number]
        assert right == q.candidates[0] and wrong in q.candidates[1:]


def test_scores_equal_single_ones_and_zero_vectors_stay_zero() -> None:
    part = world(5, 1)
    net = make_scorer("uv-diff-prod", "mlp", 16, 0).requires_grad_(False)
    for number, found in enumerate(score(net, part)):
        for row, value in zip(part.questions[number].candidates, found, strict=True):
            alone = net(part.question_ND[number : number + 1], part.passage_ND[row : row + 1])
            assert float(value) == pytest.approx(float(alone), abs=1e-5)
    assert scaled(np.zeros((2, 3))).tolist() == [[0, 0, 0]] * 2
    assert scaled(np.ones((1, 4))).norm().item() == pytest.approx(2)


@pytest.mark.parametrize(("feature", "kind", "margin"), [("bilinear", None, 0), ("uv-diff-prod", "mlp", 0.5)])
def test_training_beats_its_start(feature: str, kind: str | None, margin: float) -> None:
    train, dev, test = world(150, 0), world(40, 1), world(40, 2)

    def fit() -> tuple[torch.nn.Module, list[float]]:
        net = make_scorer(feature, kind, 16, 5)
        return net, train_scorer(net, train, dev, epochs=25, learning_rate=1e-2, margin=margin, seed=5)

    (net, curve), (again, repeated) = fit(), fit()
    start = make_scorer(feature, kind, 16, 5)
    before, after = (mean(measure(test.questions, score(one, test)))["map"] for one in (start, net))
    assert after > before + 0.2
    assert mean(measure(dev.questions, score(net, dev)))["map"] == max(curve)  # the best pass is kept
    assert curve == repeated
    assert all(torch.equal(p, q) for p, q in zip(net.parameters(), again.parameters(), strict=True))


def test_patience_ends_and_a_loss_that_is_not_finite_stops() -> None:
    train, dev = world(30, 0), world(10, 1)
    options = {"epochs": 50, "learning_rate": 1e-9, "margin": 0.0, "seed": 0}
    assert len(train_scorer(make_scorer("bilinear", None, 16, 0), train, dev, **options)) < 20
    broken = Part(train.questions, train.question_ND * math.inf, train.passage_ND)
    with pytest.raises(UserError, match=r"lower --learning-rate"):
        train_scorer(make_scorer("bilinear", None, 16, 0), broken, dev, **options)
