"""The loop both parsers share: learns, resumes to the bit after a kill, keeps to its budget."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from corpora.support.errors import UserError
from parsing.networks.checkpoints import Checkpoint, Checkpoints
from parsing.networks.sentence_encoder import DROPOUT_RANDOM, shared_dropout
from parsing.networks.training import (
    LoopConfig,
    Trainer,
    learning_rate_factor,
    length_buckets,
    seed_everything,
)


class SharedDropout(nn.Module):
    """The dropout of the parsers' own layers."""

    def forward(self, x_ND):
        return shared_dropout(x_ND[:, None], 0.2 if self.training else 0.0)[:, 0]


class Regression:
    """A least-squares task with dropout: tiny, but with all the state a parser has."""

    metric = "score"

    def __init__(self, pause_s: float = 0.0) -> None:
        generator = torch.Generator().manual_seed(0)
        self.x = torch.randn(60, 4, generator=generator)
        self.y = self.x @ torch.tensor([[1.0], [-2.0], [0.5], [3.0]])
        self.module = nn.Sequential(nn.Linear(4, 16), SharedDropout(), nn.Linear(16, 1))
        self.pause_s = pause_s

    def sizes(self):
        return [1 + i % 7 for i in range(60)]

    def loss(self, sentences):
        time.sleep(self.pause_s)
        return (self.module(self.x[sentences]) - self.y[sentences]).square().mean()

    @torch.no_grad()
    def evaluate(self):
        return {"score": -float((self.module(self.x) - self.y).square().mean())}


def run(folder, pause_s=0.0, **options):
    config = LoopConfig(
        **{"epochs": 4, "batch_tokens": 24, "learning_rate": 0.05, "checkpoint_s": 0.0} | options
    )
    seed_everything(config)
    return Trainer(Regression(pause_s), config, folder, {"name": "regression"}).run()


def newest(folder: Path) -> Checkpoint:
    found = Checkpoints(folder, keep=1).newest()
    assert found is not None
    return found


@pytest.mark.parametrize("average", [0.0, 0.9])
def test_training_learns_and_keeps_the_best(tmp_path, average):
    summary = run(tmp_path, epochs=20, average=average)
    log = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in log] == list(range(20))
    assert log[-1]["loss"] < 0.2 * log[0]["loss"]
    assert summary.best_scores["score"] == pytest.approx(max(line["score"] for line in log), abs=1e-3)
    task = Regression()
    task.module.load_state_dict(newest(tmp_path / "best").weights)
    task.module.eval()
    assert task.evaluate()["score"] == summary.best_scores["score"]


@pytest.mark.parametrize("parallel", [1, 2])
def test_a_killed_run_resumes_to_the_same_bits(tmp_path, parallel):
    options = {"average": 0.9, "parallel": parallel}
    run(tmp_path / "whole", **options)
    program = (
        "from tests.parsing.networks.test_training import run; from pathlib import Path; import sys;"
        f"run(Path(sys.argv[1]), pause_s=0.02, **{options})"
    )
    for n in range(2):
        process = subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "killed")])
        # Kill at different depths, once a checkpoint is there.
        saved = Checkpoints(tmp_path / "killed" / "checkpoints", keep=2)
        before = saved.listed()
        deadline = time.monotonic() + 60
        while saved.listed()[-1:] == before[-1:] and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(0.1 * n)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    run(tmp_path / "killed", **options)
    for name in ("best", "checkpoints"):
        whole, killed = (newest(tmp_path / run / name) for run in ("whole", "killed"))
        for one, other in ((whole.weights, killed.weights), (whole.optimiser, killed.optimiser)):
            assert one.keys() == other.keys()
            assert all(torch.equal(one[k], other[k]) for k in one)
    drop = ("minutes",)
    logs = [
        [
            {k: v for k, v in json.loads(line).items() if k not in drop}
            for line in (tmp_path / name / "log.jsonl").read_text().splitlines()
        ]
        for name in ("whole", "killed")
    ]
    assert logs[0] == logs[1]


def test_parts_learned_from_at_the_same_time_give_the_gradient_of_the_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(SharedDropout, "forward", lambda self, x_ND: x_ND)
    batch = list(range(12))
    task = Regression()
    trainer = Trainer(task, LoopConfig(parallel=3), tmp_path, {})
    loss = task.loss(batch)
    expected = torch.autograd.grad(loss, list(task.module.parameters()))
    assert trainer._step_in_parts(batch) == pytest.approx(loss.item(), rel=1e-5)
    for parameter, gradient in zip(task.module.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


def test_parts_have_dropout_of_their_own(tmp_path):
    """Each part differs from the other, and neither depends on which thread is first."""
    runs = []
    for pauses in ([0.0, 0.05], [0.05, 0.0]):
        seed_everything(LoopConfig())
        task = Regression()
        trainer = Trainer(task, LoopConfig(parallel=2), tmp_path, {})
        first = iter(pauses)
        plain = task.loss
        drawn = {}

        def slow(sentences, plain=plain, drawn=drawn, first=first):
            time.sleep(next(first))
            drawn[sentences[0]] = torch.empty(8).bernoulli_(0.5, generator=DROPOUT_RANDOM.generator).tolist()
            return plain(sentences)

        task.loss = slow
        trainer._step_in_parts([0, 1, 2, 3])
        runs.append((drawn, [p.grad.tolist() for p in task.module.parameters()]))
    assert runs[0] == runs[1]
    assert runs[0][0][0] != runs[0][0][1]


def test_a_module_with_its_own_dropout_is_not_learned_in_parts(tmp_path):
    task = Regression()
    task.module.append(nn.Dropout(0.1))
    with pytest.raises(UserError, match=r"--loop\.parallel must be 1"):
        Trainer(task, LoopConfig(parallel=2), tmp_path, {})


def test_another_configuration_is_refused(tmp_path):
    run(tmp_path, epochs=1)
    with pytest.raises(UserError, match=r"was made with seed=1, not 2"):
        run(tmp_path, epochs=1, seed=2)


def test_a_time_budget_ends_in_time_and_resumes(tmp_path):
    start = time.monotonic()
    summary = run(tmp_path, minutes=0.01)
    assert time.monotonic() - start < 10
    assert summary.minutes >= 0.01
    assert run(tmp_path, minutes=0.01).steps == summary.steps


def test_a_diverged_loss_stops_with_one_line(tmp_path):
    with pytest.raises(UserError, match="training loss is"):
        run(tmp_path, learning_rate=1e30)


def test_buckets_hold_every_sentence_once_and_similar_lengths():
    generator = np.random.default_rng(0)
    sizes = generator.integers(1, 60, 500).tolist()
    batches = length_buckets(sizes, 100, np.random.default_rng(1))
    assert sorted(i for batch in batches for i in batch) == list(range(500))
    assert all(sum(sizes[i] for i in batch) <= 100 or len(batch) == 1 for batch in batches)
    padded = sum(len(batch) * max(sizes[i] for i in batch) for batch in batches)
    assert padded < 1.1 * sum(sizes)
    assert batches != length_buckets(sizes, 100, np.random.default_rng(2))


def test_learning_rate_rises_then_falls_to_zero():
    assert [learning_rate_factor(p, 0.1) for p in (0, 0.05, 0.1, 0.55, 1, 2)] == pytest.approx(
        [0, 0.5, 1, 0.5, 0, 0]
    )
