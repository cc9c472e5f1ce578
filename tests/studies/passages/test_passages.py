"""The passages command: end to end, bad input, the paper's rows; the cross-encoder."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from corpora.ranking.sets import Question, filter_questions, read_set
from runtime.errors import UserError
from studies.finetune.backbone import build_tiny
from studies.passages import methods, ranker
from studies.passages.config import PassagesConfig
from studies.passages.methods import rank as passages
from studies.passages.ranker import (
    METRICS,
    Scorer,
    Split,
    draw_pairs,
    measure,
    scale_rows,
    score,
    train_scorer,
)
from studies.runner import read_presets, read_published, run_study
from tests.fixtures.senteval import write_word_vectors
from tests.studies.passages import passage_sets


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a set and word vectors; the working folder is there."""
    passage_sets.write_wikiqa(tmp_path / "wikiqa", (20, 5, 5))
    passage_sets.write_wikiqa(tmp_path / "few" / "wikiqa", (8, 8, 8))
    write_word_vectors(tmp_path / "words.txt", (*passage_sets.ANIMALS, *passage_sets.HOMES))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("tiny") / "bert"
    return str(build_tiny(folder, passage_sets.TEXTS, layers=3, width=64, vocabulary=200, seed=0))


def run(**changes: Any) -> int:
    values: dict[str, Any] = {
        "sets": ("few/wikiqa",),
        "features": ("cosine",),
        "output": Path("out"),
        "cache": Path("vectors"),
        "device": "cpu",
    }
    return run_study(PassagesConfig(**{**values, **changes}), passages)


def results(key: str = "cells") -> list[Any]:
    values: list[Any] = json.loads(Path("out/results.json").read_text())[key]
    return values


def test_what_cannot_be_used_is_named_and_the_others_finish(world: Path) -> None:
    bad = passage_sets.write_wikipassageqa(world / "wikipassageqa")
    (bad / "dev.tsv").write_text("QID\tQuestion\n1\tx\n")
    (world / "model").mkdir()
    (world / "model" / "config.json").write_text(json.dumps({"format": 1, "views": {}}))
    sets = ("wikipassageqa", "wikiqa", "few/wikiqa")
    assert run(sets=sets, models=("none.txt", "words.txt"), cross=("model",)) == 2
    assert len(results()) == 2
    reasons = " ".join(results("left_out"))
    for reason in ("dev.tsv:1: no column", "none.txt", "of the name wikiqa", "model format 1"):
        assert reason in reasons


def test_every_choice_of_layers_and_pooling_is_a_model(world: Path, bert: str) -> None:
    assert run(backbones=(bert,), layers=("top,bottom", "-2"), poolings=("mean", "cls")) == 0
    dimensions = {"-1,-3 mean": 128, "-1,-3 cls": 128, "-2 mean": 64, "-2 cls": 64}
    cells = [(cell["cell"], cell["dimensions"]) for cell in results()[1:]]
    assert cells == [(f"wikiqa: bert {unit} cosine, seed 0", dim) for unit, dim in dimensions.items()]
    assert run(backbones=(bert,), layers=("-9", "top")) == 2
    assert "no layer '-9'" in results("left_out")[0]


def test_published_rows_stand_below_the_set_they_belong_to(world: Path) -> None:
    passage_sets.write_insuranceqa(world / "insuranceqa")
    assert run(sets=("few/wikiqa", "insuranceqa"), keep="all") == 0
    wikiqa, insurance = Path("out/report.md").read_text().split("## insuranceqa")
    assert "Published" not in wikiqa
    row = next(line for line in insurance.splitlines() if line.startswith("| In-domain"))
    texts = dict(zip(METRICS, (cell.strip() for cell in row.split("|")[4:-1]), strict=True))
    assert [texts[metric] for metric in ("p@1", "p@5", "p@10", "map")] == ["78.3", "25.4", "13.7", "–"]
    table = read_published(Path(methods.__file__).with_name("published.csv"))
    sizes = {name: sum(f"{name} " in " ".join(row) for row in table.values()) for name in passage_sets.PAPER}
    assert list(sizes.values()) == [5, 6, 4, 4]


def test_the_preset_has_the_papers_methods(world: Path, bert: str) -> None:
    values = read_presets(PassagesConfig)["paper"]
    run = methods.StudyRun(world / "out")
    at_hand = PassagesConfig(**{**values, "backbones": (bert, bert + "/"), "cross": (bert,)})
    methods_of_the_paper = methods.make_methods(at_hand, run)
    # BM25, two encoders x (cosine, bilinear, uv and all four under two scorers), cross-encoder
    assert len(methods_of_the_paper) == 14 and not run.left_out


@pytest.mark.usefixtures("both_devices")
def test_cross_loss_scores_and_frozen_words(bert: str, world: Path) -> None:
    data = filter_questions(read_set("few/wikiqa"), "answered")
    config = PassagesConfig(cross_epochs=1.5, margin=1.0, device="cpu")  # a pass is 32 pairs, two steps
    net, history = ranker.fine_tune(data, bert, config, seed=3, folder=world / "state")
    words = [p for name, p in net.named_parameters() if "word_embeddings" in name]
    assert len(words) == 1 and not words[0].requires_grad
    tower = ranker.load_tower(bert, max_length=None)
    assert net.tower.model.max_seq_length == 128  # as much as the backbone reads
    start = ranker.CrossRanker(tower, 3)
    assert torch.equal(words[0].cpu(), tower.model[0].auto_model.get_input_embeddings().weight)
    assert not torch.equal(net.first.weight.cpu(), start.first.weight)
    assert [row["step"] for row in history] == [0, 2, 3] and list(world.glob("state/best/step-*"))
    test = data.splits["test"]
    scores = ranker.cross_scores(net, test, data.passages)

    def score(question: str, passage: str) -> float:
        return net([(question, passage)]).item()

    with torch.inference_mode():
        for q, scores_of_q in zip(test[:3], scores, strict=False):
            single_scores = [score(q.text, data.passages[row]) for row in q.candidates]
            assert scores_of_q.tolist() == pytest.approx(single_scores, abs=1e-4)
        batch = ranker.ranking_pairs(data, 0, 0).take(np.arange(5))
        rows = zip(batch.first, batch.second or (), batch.target, strict=True)
        terms = [max(0.0, 1.0 - score(q, right) + score(q, data.passages[wrong])) for q, right, wrong in rows]
        loss = ranker.pair_loss(net, batch, data.passages, 1.0).item()
    assert loss == pytest.approx(np.mean(terms), abs=1e-4)
    assert [len(ranker.ranking_pairs(data, 0, number)) for number in (0, 1)] == [32, 32]


def test_metrics_equal_a_loop() -> None:
    generator = np.random.default_rng(0)
    questions, scores, metrics = [], [], {name: [] for name in METRICS}
    for _ in range(60):
        size = int(generator.integers(1, 30))
        relevant = generator.random(size) < generator.choice([0.05, 0.3, 0.9])
        missed_count = int(generator.integers(0, 3))
        values = generator.integers(0, 6, size).astype(float)  # with ties
        order = sorted(range(size), key=lambda i: (-values[i], relevant[i], i))
        hits = [bool(relevant[i]) for i in order]
        total = sum(hits) + missed_count
        precisions = [sum(hits[: r + 1]) / (r + 1) for r, hit in enumerate(hits) if hit]
        metrics["mrr"].append(1 / (1 + hits.index(True)) if any(hits) else 0)
        metrics["map"].append(sum(precisions) / total if total else 0)
        for k in (1, 5, 10):
            metrics[f"p@{k}"].append(sum(hits[:k]) / k)
            metrics[f"r@{k}"].append(sum(hits[:k]) / total if total else 0)
            metrics[f"s@{k}"].append(float(any(hits[:k])))
        questions.append(Question("q", "q", np.arange(size), relevant, missed_count))
        scores.append(values)
    measured_metrics = measure(questions, scores)
    for name in METRICS:
        np.testing.assert_allclose(measured_metrics[name], metrics[name], atol=1e-6, err_msg=name)


def test_features_equal_loops() -> None:
    generator = torch.Generator().manual_seed(0)
    u, v = torch.randn(2, 5, 6, generator=generator, dtype=torch.float64)
    x, y = (t / t.norm(dim=1, keepdim=True) * 6**0.5 for t in (u, v))
    bilinear = Scorer("bilinear", None, 6, 3).double().requires_grad_(False)
    cosines = Scorer("cosine", None, 6, 3)(x, y)
    for a, b, cosine, product in zip(x, y, cosines, bilinear(x, y), strict=True):
        assert cosine.item() == pytest.approx(float(a @ b / (a.norm() * b.norm())))
        loop = sum(a[i] * bilinear.w_DD[i, j] * b[j] for i in range(6) for j in range(6)) / 6
        assert product.item() == pytest.approx(float(loop))
        for feature, row in (("uv", [a, b]), ("uv-diff-prod", [a, b, (a - b).abs(), a * b])):
            inputs = torch.cat(row).numpy()
            linear, mlp = (Scorer(feature, size, 6, 1).double().requires_grad_(False) for size in (None, 4))
            w, c = linear.layers[0].weight.numpy(), linear.layers[0].bias.numpy()
            assert linear(a[None], b[None]).item() == pytest.approx((w @ inputs + c).item())
            (w1, c1), (w2, c2) = ((layer.weight.numpy(), layer.bias.numpy()) for layer in mlp.layers[::2])
            score = w2 @ np.maximum(w1 @ inputs + c1, 0) + c2
            assert mlp(a[None], b[None]).item() == pytest.approx(score.item())


def random_split(questions: int, seed: int, dim: int = 16) -> Split:
    """Questions of six passages each, the first of them relevant."""
    generator = np.random.default_rng(seed)
    rows = [Question(str(i), "", np.arange(6 * i, 6 * i + 6), np.arange(6) == 0) for i in range(questions)]
    tables = [generator.normal(size=(count, dim)) for count in (questions, 6 * questions)]
    return Split(rows, *map(scale_rows, tables))


def test_pairs_are_of_one_question_and_all_relevant_ones_are_used() -> None:
    split = random_split(7, 0)
    pairs = draw_pairs(split.questions, np.random.default_rng(3))
    assert len(pairs) == 7 * 4 and len({tuple(p) for p in pairs.tolist()}) == len(pairs)
    for number, right, wrong in pairs:
        q = split.questions[number]
        assert right == q.candidates[0] and wrong in q.candidates[1:]


def test_scores_equal_single_ones_and_zero_vectors_stay_zero() -> None:
    split = random_split(5, 1)
    net = Scorer("uv-diff-prod", 128, 16, 0).requires_grad_(False)
    for number, scores in enumerate(score(net, split)):
        rows = split.questions[number].candidates
        single = [net(split.question_ND[number, None], split.passage_ND[row, None]).item() for row in rows]
        assert scores.tolist() == pytest.approx(single, abs=1e-5)
    assert scale_rows(np.zeros((2, 3))).tolist() == [[0, 0, 0]] * 2
    assert scale_rows(np.ones((1, 4))).norm().item() == pytest.approx(2)


def test_patience_ends_and_a_loss_that_is_not_finite_stops() -> None:
    train, dev = random_split(30, 0), random_split(10, 1)
    options = {"epochs": 50, "learning_rate": 1e-9, "margin": 0.0, "seed": 0}
    assert len(train_scorer(Scorer("bilinear", None, 16, 0), train, dev, **options)) < 20
    infinite = Split(train.questions, train.question_ND * math.inf, train.passage_ND)
    with pytest.raises(UserError, match=r"lower --learning-rate"):
        train_scorer(Scorer("bilinear", None, 16, 0), infinite, dev, **options)
