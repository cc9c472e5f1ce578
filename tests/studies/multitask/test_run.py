"""Sequential fine-tuning on a made-up data folder: heads, shared stages, forgetting, the paper's numbers."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from runtime.errors import UserError
from runtime.files import read_record
from studies.finetune import training
from studies.finetune.examples import Examples
from studies.multitask.config import MultitaskConfig
from studies.multitask.run import (
    SIZES,
    MultitaskNet,
    TaskName,
    best,
    new_head,
    overall,
    parse_stages,
    read_all_tasks,
    resplit,
    train_all,
)
from studies.runner import read_presets, read_published, run_study
from tests.fixtures.files import differing
from tests.fixtures.kills import run_with_interruptions
from tests.fixtures.processes import ROOT
from tests.studies.finetune.fixtures import write_tasks

TABLE_1, TABLE_2 = (read_published(ROOT / f"studies/multitask/published-table-{n}.csv") for n in (1, 2))
MEAN = {
    "SA": "sst", "P": "quora", "STS": "sts", "STS(C)": "sts cls", "STS(M)": "sts mean", "STS(X)": "sts max",
    "P(C)": "quora cls", "P(M)": "quora mean", "P(X)": "quora max", "P[sub]": "quora sub",
    "P[sub](M)": "quora sub mean", "P(M)*": "quora mean prod", "NLI(M)": "nli mean",
}  # fmt: skip
"""What the caption of Table 1 says that the names of stages mean."""


def test_the_grid_is_table_1_row_by_row() -> None:
    for preset in read_presets(MultitaskConfig).values():
        assert list(preset["stages"]) == list(TABLE_1)
        for name in preset["stages"]:
            slugs = [stage.slug.replace("-", " ") for stage in parse_stages(name)]
            assert slugs == [MEAN[part] for part in name.split("-")]


def test_overall_scores_and_the_three_best_are_the_papers() -> None:
    rows = TABLE_1.values()
    ours = [overall(dict(zip(("sst", "quora", "sts"), row.values(), strict=False))) for row in rows]
    published = [row["Overall"] for row in rows]
    assert ours[:-1] == pytest.approx(published[:-1], abs=0.001)  # the last row's parts give 0.734, not 0.730
    early = [overall({"sst": 0.5}), overall({"sst": 0.5, "quora": 0.9, "nli": 0.1}), overall({"nli": 0.1})]
    assert early == pytest.approx([0.5, 0.7, 0.1])  # of a stage: over the tasks that were trained so far
    assert best({name: {"overall": row["Overall"]} for name, row in TABLE_1.items()}) == list(TABLE_2)
    assert MultitaskConfig(output=Path("x")).stages == (next(iter(TABLE_2)),)


@pytest.mark.parametrize("bad", ["", "SST", "P(mean)", "P*", "STS(M)*", "SA(M)*", "P(M)[sub]", "p"])
def test_a_bad_stage_is_named(bad: str) -> None:
    with pytest.raises(UserError, match="stage"):
        parse_stages("SA-" + bad)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four small tasks in the layout of the data folder."""
    return write_tasks(tmp_path_factory.mktemp("data"))


def config(data: Path, output: Path, *stages: str, **options: Any) -> MultitaskConfig:
    values = {"epochs": 2, "batch_size": 16, "learning_rate": 1e-3, "backbone": "tiny", **options}
    return MultitaskConfig(output=output, data=data, stages=stages, **values)


def figures_of(folder: Path) -> Any:
    """Figures of a stage."""
    return read_record(folder / "cell.json")["figures"]


def test_the_tasks_have_three_splits(data: Path, tmp_path: Path) -> None:
    tasks = read_all_tasks(config(data, tmp_path, limit=50, dev_rows=10))
    assert len(tasks["sst"].train) == 50 and all(len(task.dev) <= 10 for task in tasks.values())
    assert set(tasks["sts"].train.target.tolist()) <= {1.0, np.float32(0.1).item()}
    assert not set(tasks["nli"].train.first) & set(tasks["nli"].dev.first)
    nli = data / "nli/snli_dev.tsv"
    tasks = read_all_tasks(config(data, tmp_path, quora=data / "pairs.tsv", nli=nli, nli_dev=nli))
    for task, rows in ((tasks["quora"], 20), (tasks["nli"], 160)):
        assert len(task.train) + len(task.dev) + len(task.test) == rows


class Lookup(torch.nn.Module):
    """A tower whose vector of a text is the numbers in it."""

    dim = 3
    joint = True

    def embed(self, texts: list[Any], pooling: str | None = None) -> torch.Tensor:
        if isinstance(texts[0], tuple):
            return self.embed([a for a, _ in texts]) - self.embed([b for _, b in texts], pooling)
        self.pooling = pooling
        return torch.tensor([[float(x) for x in text.split()] for text in texts])


@pytest.mark.parametrize("text", ["SA", "SA(X)", "P", "P(M)*", "STS", "STS(C)", "NLI", "NLI(M)"])
def test_heads_equal_plain_formulas(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "EMBED_BATCH", 4)
    stage, tower = parse_stages(text)[0], Lookup()
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(2, 6, 3)).round(3)
    first, second = ([" ".join(map(str, row)) for row in side] for side in vectors)
    classes = {"sst": 5, "quora": 2, "sts": 0, "nli": 3}[stage.task]
    target = rng.integers(classes, size=6) if classes else rng.random(6).astype(np.float32)
    examples = Examples(first, None if stage.task == "sst" else second, target)
    head = new_head(stage, dim=3, seed=4)
    u, v = (torch.tensor(side, dtype=torch.float32) for side in vectors)
    siamese, joint = torch.cat([u, v, (u - v).abs(), *([u * v] if stage.product else [])], dim=1), u - v
    features = u if stage.task == "sst" else siamese if stage.pooling else joint
    if siamese_sts := stage.task == "sts" and stage.pooling is not None:
        outputs = (u * v).sum(1) / (u.norm(dim=1) * v.norm(dim=1))
    else:
        outputs = features @ head.linear.weight.T + head.linear.bias
        outputs = outputs[:, 0] if stage.task in ("quora", "sts") else outputs
    torch.testing.assert_close(head(tower, examples), outputs)
    assert tower.pooling == (stage.pooling or "cls")
    goal = torch.from_numpy(target)
    if siamese_sts:
        loss = (outputs - goal).square().mean()
    elif stage.task in ("quora", "sts"):  # a joint STS head says how likely "similar" is
        chance = torch.sigmoid(outputs)
        loss = -(goal * chance.log() + (1 - goal) * (1 - chance).log()).mean()
    else:
        loss = -outputs.log_softmax(1)[torch.arange(6), goal].mean()
    torch.testing.assert_close(head.loss(tower, examples), loss.to(torch.float32))
    if stage.task == "sts":
        score = np.corrcoef(outputs.detach().numpy(), target)[0, 1]
    else:
        classes = outputs > 0 if stage.task == "quora" else outputs.argmax(1)
        score = (classes == goal).float().mean().item()
    assert head.score(tower, examples) == pytest.approx(score, abs=1e-5)


@pytest.mark.usefixtures("fake_device")
def test_a_grid_shares_stages_and_shows_forgetting(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sentence_transformers import SentenceTransformer

    real, overall_scores, styles = MultitaskNet.scores, [], {}

    def scores(net: MultitaskNet, *args: Any) -> dict[str, float]:
        result, head = real(net, *args), net.head("nli")
        tasks = "-".join(args[2] if args[2:] else ["all"])
        overall_scores.append((tasks, result["overall"]))
        styles[tasks] = (head.features, head.pooling)
        return result

    monkeypatch.setattr(MultitaskNet, "scores", scores)
    settings = config(data, tmp_path / "out", "SA-NLI(M)", "SA-P[sub](X)*-STS(M)", epochs=4)
    assert run_study(settings, train_all) == 0
    tasks = ["sst", "all", "sst-nli", "sst-quora", "sst-quora-sts"]
    assert list(dict(overall_scores)) == tasks, "epochs, by the tasks trained so far; at the end all"
    stages = settings.output / "stages"
    assert sorted(path.name for path in stages.iterdir()) == [
        *("sst", "sst+nli-mean", "sst+quora-sub-max-prod", "sst+quora-sub-max-prod+sts-mean")
    ]
    assert figures_of(stages / "sst+nli-mean")["nli"] > figures_of(stages / "sst")["nli"] + 0.25
    report = (settings.output / "report.md").read_text()
    for start in ("| SA |", r"| SA-P[sub](X)\* |", r"| SA-P[sub](X)\*-STS(M) |"):
        (line, *_) = [line for line in report.splitlines() if line.startswith(start)]
        assert "(" in line.removeprefix(start), "tasks without a stage are in brackets"
    last_stage = stages / "sst+quora-sub-max-prod+sts-mean"
    epochs = [value for names, value in overall_scores if names == "sst-quora-sts"][1:]
    assert figures_of(last_stage)["overall"] == max(epochs) > epochs[-1], "the best epoch is kept"
    starts = dict(reversed(overall_scores))  # before a stage's first step: as the stage before it ended
    assert starts["sst-nli"] == figures_of(stages / "sst")["sst"] == 1.0
    assert styles["sst"] == ("one", "cls")
    assert (styles["sst-quora"], styles["sst-quora-sts"]) == (("uv-diff", "max"), ("uv-diff", "mean"))
    assert SentenceTransformer(str(last_stage), device="cpu").encode(["the film"]).shape == (1, 128)


def test_an_interrupted_study_leaves_the_files_of_a_whole_one(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed within the first stage and the second, and before the third."""
    monkeypatch.setattr("runtime.training_loop.CHECKPOINT_S", 0.0)
    study = partial(run_study, config(data, Path("out"), "SA-P(M)-STS(M)", epochs=1), train_all)
    whole, interrupted = tmp_path / "whole", tmp_path / "interrupted"
    for folder, before in ((whole, ()), (interrupted, (2, 6, 9))):
        steps = run_with_interruptions(study, "runtime.training_step.GradientDescent.step", before, folder)
        assert steps == 13, "each is made once"
    assert differing(whole, interrupted, clocks=False) == set()
    assert differing(whole, interrupted) <= {"out/log.txt"}


@pytest.mark.parametrize("task", ["quora", "sts"])
def test_a_random_split_has_the_papers_sizes(task: TaskName) -> None:
    total = sum(SIZES[task])
    numbers = [str(i) for i in range(total)]
    split = resplit(task, Examples(numbers, numbers, np.arange(total)))
    assert (len(split.train), len(split.dev), len(split.test)) == SIZES[task]
    rows = np.concatenate([part.target for part in (split.train, split.dev, split.test)])
    assert np.array_equal(np.sort(rows), np.arange(total))
