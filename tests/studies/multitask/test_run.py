"""Sequential fine-tuning on a made-up data folder: heads, forgetting table, shared stages, resume."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from corpora.support.errors import UserError
from studies.finetune.config import LoopConfig, TinyConfig
from studies.finetune.examples import Examples
from studies.multitask import run as runner
from studies.multitask.config import MultitaskConfig, SplitFiles
from studies.multitask.heads import TaskHead, overall
from studies.multitask.net import MultitaskNet, State
from studies.multitask.report import report
from studies.multitask.run import run
from studies.multitask.stages import Stage, parse_stages
from studies.multitask.tasks import read_all_tasks
from tests.studies.finetune.fixtures import write_tasks


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four small tasks in the layout of the data folder."""
    return write_tasks(tmp_path_factory.mktemp("data"))


def config(data: Path, output: Path, **options: object) -> MultitaskConfig:
    return MultitaskConfig(
        output=output,
        data=data,
        **{"backbone": "tiny", "epochs": 2, "batch_size": 16,
           "tiny": TinyConfig(layers=1, hidden=32, vocabulary=300), "dropout": 0.0,
           "loop": LoopConfig(learning_rate=3e-3, warmup=0.0, decay=False), **options},  # type: ignore[arg-type]
    )  # fmt: skip


def test_the_tasks_have_three_splits(data: Path, tmp_path: Path) -> None:
    tasks = read_all_tasks(config(data, tmp_path, limit=50, test_rows=10))
    assert len(tasks["sst"].train) == 50
    assert {len(task.test) for task in tasks.values()} == {10}
    assert set(tasks["sts"].train.target.tolist()) <= {1.0, np.float32(0.1).item()}
    assert tasks["sst"].train.second is None
    assert not set(tasks["nli"].train.first) & set(tasks["nli"].dev.first)
    own = config(data, tmp_path, quora=SplitFiles(train=data / "pairs.tsv"))
    quora = read_all_tasks(own)["quora"]
    assert len(quora.train) + len(quora.dev) + len(quora.test) == 20
    with pytest.raises(UserError, match="MULTIVIEW_DATA"), pytest.MonkeyPatch.context() as patch:
        patch.delenv("MULTIVIEW_DATA", raising=False)
        read_all_tasks(dataclasses.replace(own, data=None))


class Lookup(torch.nn.Module):
    """A tower whose vector of a text is the numbers in it."""

    dim = 3
    joint = True

    def embed(self, texts: list[str], pooling: str | None = None) -> torch.Tensor:
        self.pooling = pooling
        return torch.tensor([[float(x) for x in text.split()] for text in texts])

    def embed_pairs(self, pairs: list[tuple[str, str]]) -> torch.Tensor:
        return self.embed([a for a, _ in pairs]) - self.embed([b for _, b in pairs])


@pytest.mark.parametrize("text", ["SA", "SA(X)", "P", "P(M)*", "STS", "STS(C)", "NLI", "NLI(M)"])
def test_heads_equal_plain_formulas(text: str) -> None:
    stage, tower = parse_stages(text)[0], Lookup()
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(2, 6, 3)).round(3)
    first, second = ([" ".join(map(str, row)) for row in side] for side in vectors)
    classes = {"sst": 5, "quora": 2, "sts": 0, "nli": 3}[stage.task]
    target = rng.integers(classes, size=6) if classes else rng.random(6).astype(np.float32)
    examples = Examples(first, None if stage.task == "sst" else second, target)
    head = TaskHead(stage, tower, seed=4)  # type: ignore[arg-type]
    u, v = (torch.tensor(side, dtype=torch.float32) for side in vectors)
    if stage.task == "sst":
        features = u
    elif stage.pooling is None:
        features = u - v
    else:
        features = torch.cat([u, v, (u - v).abs(), *([u * v] if stage.product else [])], dim=1)
    if stage.task == "sts" and stage.pooling:
        expected = (u * v).sum(1) / (u.norm(dim=1) * v.norm(dim=1))
    else:
        layer = head.layer if isinstance(head.layer, torch.nn.Linear) else head.layer.linear  # type: ignore[union-attr]
        expected = features @ layer.weight.T + layer.bias
        expected = expected[:, 0] if stage.task in ("quora", "sts") else expected
    out = head(tower, examples)
    torch.testing.assert_close(out, expected)
    assert tower.pooling == (stage.pooling or ("cls" if stage.task == "sst" else None))
    goal = torch.from_numpy(target)
    if stage.task == "sts":
        score = np.corrcoef(expected.detach().numpy(), target)[0, 1]
    elif stage.task == "quora":
        score = ((expected > 0) == goal.bool()).float().mean().item()
    if stage.task == "sts" and stage.pooling:
        plain = (expected - goal).square().mean()
    elif stage.task in ("quora", "sts"):  # a joint STS head says how likely "similar" is
        chance = torch.sigmoid(expected)
        plain = -(goal * chance.log() + (1 - goal) * (1 - chance).log()).mean()
    else:
        plain = -expected.log_softmax(1)[torch.arange(6), goal].mean()
        score = (expected.argmax(1) == goal).float().mean().item()
    torch.testing.assert_close(head.loss(tower, examples), plain.to(torch.float32))
    assert head.score(tower, examples, batch_size=4) == pytest.approx(score, abs=1e-5)


def test_a_tower_of_single_sentences_refuses_joint_pairs() -> None:
    tower = Lookup()
    tower.joint = False
    TaskHead(Stage("sst"), tower, 0)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"use NLI\(M\)"):
        TaskHead(Stage("nli"), tower, 0)  # type: ignore[arg-type]


def test_overall_is_the_mean_of_three() -> None:
    assert overall({"sst": 0.5, "quora": 0.7, "sts": 0.6, "nli": 0.1}) == pytest.approx((0.5 + 0.7 + 0.8) / 3)


def test_a_grid_shares_stages_resumes_and_shows_forgetting(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sentence_transformers import SentenceTransformer

    grid = tmp_path / "grid.txt"
    grid.write_text("SA-NLI(M)\nSA-P[sub](X)*-STS(M)\n", encoding="utf-8")
    trained: list[str] = []
    train_stage = runner.train_stage

    def watched(*arguments: object) -> None:
        trained.append(str(arguments[1].stage))  # type: ignore[attr-defined]
        if len(trained) == 3:
            raise KeyboardInterrupt
        train_stage(*arguments)  # type: ignore[arg-type]

    settings = config(data, tmp_path / "out", grid=str(grid))
    with monkeypatch.context() as patch:
        patch.setattr(runner, "train_stage", watched)
        with pytest.raises(KeyboardInterrupt):
            run(settings)
        outcomes = run(settings)
    assert trained == ["SA", "NLI(M)", "P[sub](X)*", "P[sub](X)*", "STS(M)"]
    first, second = outcomes
    assert first.after[0] == second.after[0], "both begin with the same stage"
    assert first.after[0].trained == ["sst"]
    assert first.after[1].dev["nli"] > first.after[0].dev["nli"] + 0.3
    assert second.after[-1].trained == ["quora", "sst", "sts"]
    shown = report(outcomes).markdown()
    assert shown.count("| SA |") == 1
    assert r"| SA → P[sub](X)\* → STS(M) |" in shown
    assert "(" in next(line for line in shown.splitlines() if line.startswith("| SA |"))
    last = tmp_path / "out/stages/sst+quora-sub-max-prod+sts-mean"
    assert SentenceTransformer(str(last), device="cpu").encode(["the film"]).shape == (1, 32)
    assert not (last / "training").exists()
    with pytest.raises(UserError, match="other options"):
        run(dataclasses.replace(settings, seed=2))


def test_dev_chooses_and_test_is_read_for_the_best_three_only(data: Path, tmp_path: Path) -> None:
    """Four configurations of one epoch; the dev scores name the three that are scored on test."""
    grid = tmp_path / "grid.txt"
    grid.write_text("STS(M)\nSTS(X)\nSTS(C)\nP(M)\n", encoding="utf-8")
    settings = config(data, tmp_path / "out", grid=str(grid), epochs=1)
    outcomes = run(settings)
    ranked = sorted(outcomes, key=lambda outcome: -outcome.after[-1].dev["overall"])
    assert [outcome.test is not None for outcome in ranked] == [True, True, True, False]
    assert ranked[0].test != ranked[0].after[-1].dev
    shown = report(outcomes).markdown()
    assert shown.index("## Table 1") < shown.index("## Table 2")
    stored = {path.parent.name: path for path in (tmp_path / "out/stages").rglob("test.json")}
    assert len(stored) == 3
    assert run(settings) == outcomes, "a finished grid reads what it wrote"
    damaged = next(iter(stored.values()))
    damaged.write_text(damaged.read_text().replace("0.", "7.", 1))
    assert run(settings) == outcomes, "a damaged cell is computed again"


def test_the_epoch_with_the_best_overall_score_is_kept(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With made-up scores: the stage's metric is best in the last epoch, the overall score in the first."""
    calls: list[float] = []

    def scores(net: MultitaskNet, *_: object) -> dict[str, float]:
        weight = next(net.tower.parameters()).detach().sum().item()
        calls.append(weight)
        turn = len(calls)
        return {"sst": turn / 10, "quora": 0.5, "sts": 0.5, "nli": 0.0, "overall": {2: 0.9}.get(turn, 0.1)}

    monkeypatch.setattr(MultitaskNet, "scores", scores)
    run(config(data, tmp_path / "out", stages="SA", epochs=3))
    before, first, second, third, kept, tested = calls
    assert kept == tested == first and len({before, first, second, third}) == 4


def test_a_head_without_a_stage_reads_pairs_as_the_last_stage_did(data: Path, tmp_path: Path) -> None:
    settings = config(data, tmp_path / "out", stages="SA-STS(M)", epochs=1, limit=8)
    run(settings)
    folders = {"sst": tmp_path / "out/stages/sst", "sts": tmp_path / "out/stages/sst+sts-mean"}
    start = State(str(tmp_path / "out/backbone"), {})
    assert MultitaskNet(settings, Stage("sst"), start).head("nli").stage.pooling is None
    after = State(str(folders["sts"]), dict(folders))  # type: ignore[arg-type]
    net = MultitaskNet(settings, Stage("sts", "mean"), after)
    assert net.head("nli").stage.pooling == net.head("quora").stage.pooling == "mean"
    joint = MultitaskNet(settings, Stage("quora"), after)
    assert joint.head("nli").stage.pooling is None
    saved = load_file(folders["sts"].parent / "sst" / "head.safetensors")
    assert torch.equal(net.head("sst").state_dict()["layer.weight"], saved["layer.weight"])


def test_a_grid_that_is_not_there_is_named(data: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="neither paper nor a readable file"):
        run(config(data, tmp_path, grid="table1"))


def test_the_command_explains_itself_and_refuses_bad_stages(
    command: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    assert "--stages" in command("studies.multitask", "--help").stdout
    refused = command(
        "studies.multitask", "--output", tmp_path / "x", "--backbone", "tiny", "--stages", "SA-cola"
    )
    assert refused.returncode == 2
    assert "'cola'" in refused.stderr
