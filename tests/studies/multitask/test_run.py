"""Sequential fine-tuning on a made-up data folder: heads, shared stages, forgetting, the paper's numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from corpora.support.errors import UserError
from corpora.support.files import read_record
from studies.finetune.examples import Examples
from studies.kit.data import published, read_presets
from studies.kit.runner import run_study
from studies.multitask.__main__ import cli
from studies.multitask.config import MultitaskConfig
from studies.multitask.net import MultitaskNet, TaskHead, overall
from studies.multitask.run import SEQ_MT, best, train_all
from studies.multitask.stages import Stage, TaskName, parse_stages
from studies.multitask.tasks import SIZES, read_all_tasks, resplit
from tests.conftest import ROOT
from tests.studies.finetune.fixtures import write_tasks


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four small tasks in the layout of the data folder."""
    return write_tasks(tmp_path_factory.mktemp("data"))


def config(data: Path, output: Path, *stages: str, **options: Any) -> MultitaskConfig:
    values = {"epochs": 2, "batch_size": 16, "learning_rate": 1e-3, "backbone": "tiny", **options}
    return MultitaskConfig(output=output, data=data, stages=stages, **values)


def stored(folder: Path) -> dict[str, Any]:
    """Figures of a stage."""
    figures: dict[str, Any] = read_record(folder / "cell.json")["figures"]
    return figures


def test_the_tasks_have_three_splits(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = read_all_tasks(config(data, tmp_path, limit=50, dev_rows=10))
    assert len(tasks["sst"].train) == 50
    assert {len(task.dev) <= 10 for task in tasks.values()} == {True}
    assert set(tasks["sts"].train.target.tolist()) <= {1.0, np.float32(0.1).item()}
    assert tasks["sst"].train.second is None
    assert not set(tasks["nli"].train.first) & set(tasks["nli"].dev.first)
    nli = data / "nli/snli_dev.tsv"
    own = read_all_tasks(config(data, tmp_path, quora=data / "pairs.tsv", nli=nli, nli_dev=nli))
    for task, rows in ((own["quora"], 20), (own["nli"], 160)):
        assert len(task.train) + len(task.dev) + len(task.test) == rows
    monkeypatch.delenv("MULTIVIEW_DATA", raising=False)
    with pytest.raises(UserError, match="MULTIVIEW_DATA"):
        read_all_tasks(MultitaskConfig(output=tmp_path))


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


def test_a_grid_shares_stages_and_shows_forgetting(data: Path, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    settings = config(data, tmp_path / "out", "SA-NLI(M)", "SA-P[sub](X)*-STS(M)", epochs=4)
    assert run_study(settings, train_all) == 0
    stages = settings.output / "stages"
    assert sorted(path.name for path in stages.iterdir()) == [
        *("sst", "sst+nli-mean", "sst+quora-sub-max-prod", "sst+quora-sub-max-prod+sts-mean")
    ]
    assert stored(stages / "sst+nli-mean")["nli"] > stored(stages / "sst")["nli"] + 0.25
    shown = (settings.output / "report.md").read_text()
    for start in ("| SA |", r"| SA-P[sub](X)\* |", r"| SA-P[sub](X)\*-STS(M) |"):
        (line, *_) = [line for line in shown.splitlines() if line.startswith(start)]
        assert "(" in line.removeprefix(start), "tasks without a stage are in brackets"
    last = stages / "sst+quora-sub-max-prod+sts-mean"
    assert SentenceTransformer(str(last), device="cpu").encode(["the film"]).shape == (1, 128)
    with pytest.raises(UserError, match="other options"):
        run_study(dataclasses.replace(settings, epochs=1), train_all)


def test_dev_chooses_and_test_is_read_for_the_best_three_only(data: Path, tmp_path: Path) -> None:
    """Four configurations of one epoch; the dev scores name the three that are scored on test."""
    settings = config(data, tmp_path / "out", "STS(M)", "STS(X)", "STS(C)", "P(M)", epochs=1)
    assert run_study(settings, train_all) == 0
    dev = {name: stored(settings.output / "stages" / name)["overall"]
           for name in ("sts-mean", "sts-max", "sts-cls", "quora-mean")}  # fmt: skip
    names = dict(zip(dev, settings.stages, strict=True))
    shown = (settings.output / "report.md").read_text()
    part = shown[shown.index("## Table 2") : shown.index("## Stages")]
    ranked = sorted(dev, key=lambda name: -dev[name])
    assert [f"| {names[name]} |" in part for name in ranked] == [True, True, True, False]


def test_the_epoch_with_the_best_overall_score_is_kept(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With made-up scores: the stage's metric is best in the last epoch, the overall score in the first."""
    calls: list[float] = []

    def scores(net: MultitaskNet, *_: object) -> dict[str, float]:
        calls.append(next(net.tower.parameters()).detach().sum().item())
        turn = len(calls)
        return {"sst": turn / 10, "quora": 0.5, "sts": 0.5, "nli": 0.0, "overall": {2: 0.9}.get(turn, 0.1)}

    monkeypatch.setattr(MultitaskNet, "scores", scores)
    run_study(config(data, tmp_path / "out", "SA", epochs=3), train_all)
    before, first, second, third, kept, tested = calls
    assert kept == tested == first and len({before, first, second, third}) == 4


def test_a_head_without_a_stage_reads_pairs_as_the_last_stage_did(data: Path, tmp_path: Path) -> None:
    settings = config(data, tmp_path / "out", "SA-STS(M)", epochs=1, limit=8)
    run_study(settings, train_all)
    folders = [tmp_path / "out/stages/sst", tmp_path / "out/stages/sst+sts-mean"]
    sst, sts = Stage("sst"), Stage("sts", "mean")
    start = str(tmp_path / "out/backbone")
    assert MultitaskNet(settings, sst, [], start).head("nli").stage.pooling is None
    earlier = list(zip((sst, sts), folders, strict=True))
    net = MultitaskNet(settings, sts, earlier, str(folders[1]))
    assert net.head("nli").stage.pooling == net.head("quora").stage.pooling == "mean"
    assert MultitaskNet(settings, Stage("quora"), earlier, str(folders[1])).head("nli").stage.pooling is None
    saved = load_file(folders[0] / "head.safetensors")
    assert torch.equal(net.head("sst").state_dict()["layer.weight"], saved["layer.weight"])


TABLE_1, TABLE_2 = (published(ROOT / f"studies/multitask/published-table-{n}.csv") for n in (1, 2))


def test_the_overall_score_is_the_papers() -> None:
    """Printed with three digits, from parts with three digits; one row of Table 1 is off in the paper."""

    def off(row: Mapping[str, float]) -> float:
        return row["Overall"] - overall({"sst": row["SST"], "quora": row["Quora"], "sts": row["SemEval"]})

    assert overall({"sst": 0.5, "quora": 0.7, "sts": 0.6, "nli": 0.1}) == pytest.approx((0.5 + 0.7 + 0.8) / 3)
    assert off(TABLE_1["SA-P-STS(M)-NLI(M)"]) == pytest.approx(-0.0043, abs=1e-4)
    rows = [row for name, row in TABLE_1.items() if "NLI" not in name] + list(TABLE_2.values())
    assert max(abs(off(row)) for row in rows) < 1.01e-3


def test_the_papers_dev_scores_lead_to_its_table_2() -> None:
    dev = {parse_stages(name): {"overall": row["Overall"]} for name, row in TABLE_1.items()}
    assert best(dev) == [parse_stages(name) for name in TABLE_2]
    baselines = dict(list(dev.items())[:4])
    assert best(baselines) == [parse_stages(name) for name in ("SA-P-STS", "P", "STS")], "nothing else ran"


@pytest.mark.parametrize("task", ["quora", "sts"])
def test_a_random_split_has_the_papers_sizes(task: TaskName) -> None:
    total = sum(SIZES[task])
    numbers = [str(i) for i in range(total)]
    whole = Examples(numbers, numbers, np.arange(total))
    split = resplit(task, whole)
    assert (len(split.train), len(split.dev), len(split.test)) == SIZES[task]
    seen = np.concatenate([part.target for part in (split.train, split.dev, split.test)])
    assert np.array_equal(np.sort(seen), np.arange(total))
    assert all(text == str(i) for text, i in zip(split.dev.first, split.dev.target, strict=True))


def test_the_preset_has_the_papers_values() -> None:
    settings = MultitaskConfig(output=Path("x"), **read_presets(MultitaskConfig)["paper"])
    assert (settings.epochs, settings.batch_size, settings.learning_rate) == (5, 32, 1e-5)  # section 5.3
    assert (SEQ_MT.learning_rate, SEQ_MT.warmup, SEQ_MT.decay) == (1e-5, 0.0, False)
    assert (settings.limit, settings.dev_rows, settings.splits) == (0, 0, "paper")
    assert settings.backbone == "bert-base-uncased"


def test_the_command_refuses_what_it_cannot_do_in_one_line(
    tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for options, told in (
        (("--preset", "paper"), "--preset paper needs --quora, --nli, --nli-dev, --nli-test: quora_dup"),
        (("--backbone", "tiny", "--stages", "SA-cola"), "'cola'"),
        (("--data", str(data)), "no backbone: give --backbone with a Hugging Face name"),
    ):
        assert cli(["--output", str(tmp_path / "out"), *options]) == 2
        assert told in capsys.readouterr().err.splitlines()[-1]
