"""Streams, heads, the loop and the tiny backbone against plain implementations."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.errors import UserError
from runtime.training_state import Checkpoints
from senteval_runner.towers.transformer import load_tower
from studies.finetune.backbone import build_tiny
from studies.finetune.examples import Examples, Stream, draw_all, draw_fraction, with_negatives
from studies.finetune.training import TrainedTask, TuningConfig, fit
from tests.fixtures.transformers import build
from tests.studies.finetune.fixtures import nli_rows


def numbered(n: int) -> Examples:
    return Examples([str(i) for i in range(n)], [str(-i) for i in range(n)], np.arange(n))


@given(n=st.integers(1, 40), batch=st.integers(1, 9), seed=st.integers(0, 5))
@settings(max_examples=30, deadline=None)
def test_every_pass_of_a_stream_holds_every_example_once(n: int, batch: int, seed: int) -> None:
    stream = Stream(draw_all(numbered(n)), batch, seed, "task")
    for start in (0, stream.batches_per_pass):
        rows = [t for k in range(start, start + stream.batches_per_pass) for t in stream.batch(k).target]
        assert sorted(rows) == list(range(n))
    # any batch can be asked for first: that is what resuming relies on
    second_stream = Stream(draw_all(numbered(n)), batch, seed, "task")
    k = 2 * stream.batches_per_pass + seed
    assert second_stream.batch(k).first == stream.batch(k).first


def test_sampling_draws_a_fresh_tenth_each_pass() -> None:
    draw = draw_fraction(numbered(200), 0.1, 3, "quora")
    first, second = draw(0).first, draw(1).first
    assert len(set(first)) == len(set(second)) == 20 and first != second and draw(1).first == second
    rows = numbered(40_000).sample(4_000, "x").target
    # each tenth of the rows gives a tenth of the choice: 400, standard deviation 18
    assert len(set(rows)) == 4_000 and (abs(np.bincount(rows // 4_000) - 400) < 75).all()


def test_negatives_are_never_paraphrases_and_differ_between_passes() -> None:
    pairs = [("a", "b"), ("b", "c"), ("d", "e"), ("f", "g"), ("h", "a"), ("a", "c")]
    draw = with_negatives(pairs, 3, seed=1)
    paraphrases = {(x, y) for a, b in pairs for x, y in ((a, b), (b, a))}
    passes = [draw(i) for i in range(20)]
    for examples in passes:
        negatives = examples.take(examples.target == 0).first
        assert sorted(negatives) == sorted("abdfh" * 3), "three of each target, whose pairs may be several"
        assert examples.target.sum() == len(pairs)
        for (a, b), target in zip(examples.pairs, examples.target, strict=True):
            assert ((a, b) in paraphrases) == bool(target) and a != b
    assert passes[0].second != passes[1].second
    with pytest.raises(UserError, match="no negative for 'a'"):
        with_negatives([("a", "b")], 1, seed=1)(0)
    sides = [("a", "b"), ("d", "e")], [("a", "e"), ("c", "f")]
    examples = with_negatives(sides[0], 9, seed=1, other_side_pairs=sides[1])(0)
    negatives = set(examples.take(examples.target == 0).pairs)
    assert negatives == {("a", "d"), ("d", "a"), ("d", "b")}, "no phrase of the other side alone"
    assert with_negatives([("a", "b")], 0, seed=1)(0).target.tolist() == [1]


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1))
        self.idle_layer = torch.nn.Linear(2, 2)

    def loss(self, examples: Examples) -> torch.Tensor:
        x = torch.tensor([[float(a), float(b)] for a, b in examples.pairs])
        y = torch.from_numpy(examples.target).float()
        return (self.layer(x / 20).squeeze(-1) - y / 20).square().mean()


def test_the_best_weights_on_dev_are_kept_but_never_those_of_the_start(tmp_path: Path) -> None:
    """30 steps of two tasks in turn, the second with a steeper loss."""
    net = Net()
    streams = [Stream(draw_all(numbered(23)), 4, 0, name) for name in ("t", "u")]
    tasks = [
        TrainedTask(streams[0], net.loss),
        TrainedTask(streams[1], lambda examples: 100 * net.loss(examples)),
    ]
    score = iter([1.0, 0.5, 0.9, 0.1])
    config = TuningConfig(learning_rate=0.01, steps=30, evaluate_every=10, seed=1, select="score")
    history = fit(net, tasks, config, lambda: {"score": next(score)}, tmp_path)
    assert [row["step"] for row in history if "loss/u" in row] == [10, 20, 30]
    bests = Checkpoints(tmp_path / "best", keep=1)
    assert [path.name for path in bests.folders()] == ["step-00000020"]
    best = bests.load_newest()
    assert best is not None
    assert torch.equal(best.weights["layer.0.weight"], net.layer[0].weight)


TEXTS = [text for row in nli_rows(200, 0) for text in row[1:]]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny(tmp_path_factory.mktemp("tiny") / "bert", TEXTS, layers=1, width=32, vocabulary=300)


def test_a_tower_pools_as_asked_and_embeds_in_input_order(tiny: Path) -> None:
    from sentence_transformers import SentenceTransformer

    tower = load_tower(str(tiny), pooling="mean").eval()
    texts = ["a dog runs at home", "the cat", "a dog runs at home", "the pig eats by the river"]
    with torch.inference_mode():
        for text, vector in zip(texts, tower.embed(texts), strict=True):
            features = tower.model.preprocess([text])
            states = tower.model[0](features)["token_embeddings"][0]
            pooled_states = {"mean": states.mean(0), "max": states.max(0).values, "cls": states[0]}
            np.testing.assert_allclose(vector, pooled_states["mean"].numpy(), atol=1e-5)
            for pooling, state in pooled_states.items():
                torch.testing.assert_close(tower.embed([text], pooling)[0], state)
        vectors = load_tower(str(tiny), pooling=None).eval().embed(texts)
        encoder = SentenceTransformer(str(tiny), device="cpu")
        np.testing.assert_allclose(vectors, encoder.encode(texts, show_progress_bar=False), atol=1e-5)
        pairs = tower.embed([("a dog", "the cat")], "cls")
        assert pairs.shape == (1, tower.dim)
        assert not torch.allclose(pairs, tower.embed([("the cat", "a dog")], "cls"))


@pytest.mark.parametrize("family", ["albert", "roberta", "xlnet"])
def test_other_encoders_are_towers_too(tmp_path: Path, family: str) -> None:
    tower = load_tower(str(build(tmp_path, family)), dropout=0.0).eval()
    vectors = tower.embed(["the cat sat on a", "the cat"])
    vectors.square().sum().backward()
    assert sum(p.grad is not None for p in tower.parameters()) > 5
    torch.testing.assert_close(tower.embed(["the cat"])[0], vectors[1], atol=1e-5, rtol=1e-4)
