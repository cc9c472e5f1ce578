"""Metrics against hand-worked examples, the ranking loss and features against loops, training."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from corpora.ranking.questions import Question, question
from corpora.support.errors import UserError
from studies.passages.config import RankerConfig
from studies.passages.methods import SentenceMeans, tied_fraction
from studies.passages.metrics import METRICS, mean, measure, ranked
from studies.passages.ranker import (
    Bilinear,
    Concatenated,
    Cosine,
    Part,
    count_pairs,
    draw_pairs,
    make_scorer,
    pair_scores,
    ranking_loss,
    scaled,
    score,
    train_scorer,
)


def judged(relevant: list[int], missed: int = 0) -> Question:
    return Question("q", "q", np.arange(len(relevant)), np.array(relevant, dtype=bool), missed)


def of(relevant: list[int], scores: list[float], missed: int = 0) -> dict[str, float]:
    return mean(measure([judged(relevant, missed)], [np.array(scores)]))


def test_metrics_by_hand() -> None:
    # ranks: 1 wrong, 2 right, 3 wrong, 4 right, 5 wrong, 6 wrong
    found = of([0, 1, 0, 1, 0, 0], [6, 5, 4, 3, 2, 1])
    assert found["mrr"] == pytest.approx(1 / 2)
    assert found["map"] == pytest.approx((1 / 2 + 2 / 4) / 2)
    assert (found["p@1"], found["p@5"]) == (0, pytest.approx(2 / 5))
    assert found["p@10"] == pytest.approx(2 / 10)  # six candidates, still divided by ten
    assert (found["r@1"], found["r@5"], found["r@10"]) == (0, 1, 1)


def test_ties_count_against_us() -> None:
    # one score for all: three wrong ones come first, then the two right ones at ranks 4 and 5
    found = of([1, 0, 0, 1, 0], [0.5] * 5)
    assert found["mrr"] == pytest.approx(1 / 4)
    assert found["map"] == pytest.approx((1 / 4 + 2 / 5) / 2)
    assert found["p@1"] == found["r@1"] == 0
    assert ranked(np.full(5, 0.5), np.array([1, 0, 0, 1, 0], dtype=bool)).tolist() == [1, 2, 4, 0, 3]
    # a tie of a right and a wrong one below a right one
    assert of([1, 1, 0], [2, 1, 1])["map"] == pytest.approx((1 / 1 + 2 / 3) / 2)


def test_questions_without_relevant_candidate_and_missed_ones() -> None:
    assert all(value == 0 for value in of([0, 0], [2, 1]).values())
    found = of([1, 0], [2, 1], missed=1)
    assert found["mrr"] == found["p@1"] == 1
    assert found["map"] == found["r@1"] == found["r@10"] == pytest.approx(1 / 2)
    both = measure([judged([0, 0]), judged([1])], [np.array([1, 0]), np.array([0])])
    assert both["mrr"].tolist() == [0, 1]


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


def test_tied_pairs_equal_a_loop() -> None:
    generator = np.random.default_rng(1)
    questions = [judged((generator.random(9) < 0.4).astype(int).tolist()) for _ in range(20)]
    scores = [generator.integers(0, 3, 9).astype(float) for _ in range(20)]
    pairs = [
        abs(s[i] - s[j]) <= 1e-6
        for q, s in zip(questions, scores, strict=True)
        for i in np.flatnonzero(q.relevant)
        for j in np.flatnonzero(~q.relevant)
    ]
    assert tied_fraction(questions, scores) == pytest.approx(np.mean(pairs))
    assert tied_fraction([judged([1, 1])], [np.zeros(2)]) == 0


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


def test_a_zero_margin_is_content_with_ties() -> None:
    equal = torch.zeros(4, requires_grad=True)
    loss = ranking_loss(equal, torch.zeros(4), 0.0)
    loss.backward()
    assert loss.item() == 0 and equal.grad.tolist() == [0] * 4
    assert ranking_loss(equal, torch.zeros(4), 1.0).item() == 1


def test_features_equal_loops() -> None:
    generator = torch.Generator().manual_seed(0)
    u, v = torch.randn(2, 5, 6, generator=generator, dtype=torch.float64)
    x, y = (t / t.norm(dim=1, keepdim=True) * 6**0.5 for t in (u, v))
    cosine = [float(a @ b / (a.norm() * b.norm())) for a, b in zip(u, v, strict=True)]
    assert Cosine()(x, y).tolist() == pytest.approx(cosine)
    assert Bilinear(6, 0, identity=True).double()(x, y).detach().tolist() == pytest.approx(cosine)
    bilinear = Bilinear(6, 3, identity=False).double().requires_grad_(False)
    w = bilinear.w_DD.tolist()
    for i, value in enumerate(bilinear(x, y).tolist()):
        loop = sum(float(x[i, a]) * w[a][b] * float(y[i, b]) for a in range(6) for b in range(6)) / 6
        assert value == pytest.approx(loop)
    for feature, parts in (
        ("uv", lambda a, b: [*a, *b]),
        (
            "uv-diff-prod",
            lambda a, b: [
                *a,
                *b,
                *(abs(p - q) for p, q in zip(a, b, strict=True)),
                *(p * q for p, q in zip(a, b, strict=True)),
            ],
        ),
    ):
        net = Concatenated(6, feature, None, 1).double().requires_grad_(False)
        weight, bias = net.layers[0].weight[0].tolist(), float(net.layers[0].bias)
        mlp = Concatenated(6, feature, 4, 1).double().requires_grad_(False)
        for i in range(5):
            row = parts(x[i].tolist(), y[i].tolist())
            expected = bias + sum(a * b for a, b in zip(weight, row, strict=True))
            assert float(net(x, y)[i]) == pytest.approx(expected)
            first, second = mlp.layers[0], mlp.layers[2]
            hidden = [
                max(0.0, float(b) + sum(float(c) * r for c, r in zip(line, row, strict=True)))
                for line, b in zip(first.weight, first.bias, strict=True)
            ]
            value = float(second.bias) + sum(
                float(c) * h for c, h in zip(second.weight[0], hidden, strict=True)
            )
            assert float(mlp(x, y)[i]) == pytest.approx(value)


@pytest.mark.parametrize("name", ["bilinear", "uv", "uv-diff-prod"])
@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_loss_through_the_scorers_passes_gradcheck(name: str, kind: str) -> None:
    net = make_scorer(name, kind, 4, 3, 0).double()
    u, p, n = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    u, p, n = (t.requires_grad_() for t in (u, p, n))
    assert torch.autograd.gradcheck(lambda a, b, c: ranking_loss(net(a, b), net(a, c), 0.3), (u, p, n))


def world(questions: int, seed: int, dim: int = 16) -> Part:
    """Relevant passages are a fixed rotation of their question: cosine is blind, a bilinear map is not."""
    generator = np.random.default_rng(seed)
    rotation = np.linalg.qr(np.random.default_rng(99).normal(size=(dim, dim)))[0]
    asked = generator.normal(size=(questions, dim))
    passages, found = [], []
    for i in range(questions):
        rows = range(len(passages), len(passages) + 6)
        passages += [
            asked[i] @ rotation + 0.3 * generator.normal(size=dim),
            *generator.normal(size=(5, dim)),
        ]
        found.append(question(str(i), "", list(rows), [True] + [False] * 5))
    return Part(found, scaled(asked), scaled(np.array(passages)))


def test_pairs_are_of_one_question_and_all_relevant_ones_are_used() -> None:
    part = world(7, 0)
    for negatives, each in ((2, 2), (50, 5)):
        pairs = draw_pairs(part.questions, negatives, np.random.default_rng(3))
        assert len(pairs) == 7 * each and len({tuple(p) for p in pairs.tolist()}) == len(pairs)
        for number, right, wrong in pairs:
            q = part.questions[number]
            assert right == q.candidates[0] and wrong in q.candidates[1:]


def test_scores_equal_single_ones_and_zero_vectors_stay_zero() -> None:
    part = world(5, 1)
    net = make_scorer("uv-diff-prod", "mlp", 16, 8, 0).requires_grad_(False)
    for number, found in enumerate(score(net, part)):
        for row, value in zip(part.questions[number].candidates, found, strict=True):
            alone = net(part.question_ND[number : number + 1], part.passage_ND[row : row + 1])
            assert float(value) == pytest.approx(float(alone), abs=1e-5)
    assert scaled(np.zeros((2, 3))).tolist() == [[0, 0, 0]] * 2
    assert scaled(np.ones((1, 4))).norm().item() == pytest.approx(2)


@pytest.mark.parametrize("margin", [0.0, 0.5])
@pytest.mark.parametrize(("feature", "kind"), [("bilinear", "linear"), ("uv-diff-prod", "mlp")])
def test_training_beats_its_start(feature: str, kind: str, margin: float) -> None:
    train, dev, test = world(150, 0), world(40, 1), world(40, 2)
    config = RankerConfig(epochs=25, learning_rate=1e-2, hidden=32)

    def fit():
        return train_scorer(
            make_scorer(feature, kind, 16, 32, 5), train, dev, config, margin=margin, select="map", seed=5
        )

    result = fit()
    before = mean(measure(test.questions, score(make_scorer(feature, kind, 16, 32, 5), test)))["map"]
    after = mean(measure(test.questions, score(result.scorer, test)))["map"]
    assert after > before + 0.2
    assert result.dev == max(result.curve) and result.curve[result.epoch] == result.dev
    assert result.after.loss < result.before.loss and result.after.satisfied > result.before.satisfied
    again = fit()
    assert again.curve == result.curve
    for one, other in zip(result.scorer.parameters(), again.scorer.parameters(), strict=True):
        assert torch.equal(one, other)


def test_the_best_pass_is_kept_and_patience_ends() -> None:
    train, dev = world(30, 0), world(10, 1)
    config = RankerConfig(epochs=50, patience=2, learning_rate=1e-9)
    result = train_scorer(
        make_scorer("bilinear", "linear", 16, 0, 0), train, dev, config, margin=0.0, select="mrr", seed=0
    )
    assert len(result.curve) < 10
    assert result.curve[result.epoch] == result.dev


def test_pair_counts_equal_a_loop() -> None:
    part = world(8, 0)
    pairs = draw_pairs(part.questions, 3, np.random.default_rng(0))
    net = Bilinear(16, 0, identity=False).requires_grad_(False)
    right, wrong = (side.tolist() for side in pair_scores(net, part, pairs))
    found = count_pairs(net, part, pairs, 0.1)
    gaps = [a - b for a, b in zip(right, wrong, strict=True)]
    assert found.pairs == 24 and found.tied == 0
    assert found.satisfied == pytest.approx(np.mean([gap >= 0.1 for gap in gaps]))
    assert found.loss == pytest.approx(np.mean([max(0, 0.1 - gap) for gap in gaps]), abs=1e-6)
    torch.nn.init.zeros_(net.w_DD)
    constant = count_pairs(net, part, pairs, 0.0)
    assert (constant.tied, constant.satisfied, constant.loss) == (1, 1, 0)


def test_a_loss_that_is_not_finite_stops() -> None:
    part = world(5, 0)
    broken = Part(part.questions, part.question_ND * math.inf, part.passage_ND)
    with pytest.raises(UserError, match=r"lower --ranker\.learning-rate"):
        train_scorer(
            make_scorer("bilinear", "linear", 16, 0, 0),
            broken,
            part,
            RankerConfig(),
            margin=0.0,
            select="map",
            seed=0,
        )


def test_sentence_means() -> None:
    seen = []

    def encode(sentences: list[list[str]]) -> np.ndarray:
        seen.extend(" ".join(s) for s in sentences)
        return np.array([[len(s), 1.0] for s in sentences], dtype=np.float32)

    found = SentenceMeans(encode)([["a", "b", ".", "c", "."], ["c", "."], ["."]])
    assert seen == ["a b .", "c .", "."]
    assert found.tolist() == [[2.5, 1], [2, 1], [1, 1]]
