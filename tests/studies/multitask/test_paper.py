"""SEQ-MT's own numbers: its overall score, its splits, its preset."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from studies.finetune.examples import Examples
from studies.multitask.config import MultitaskConfig, SplitFiles
from studies.multitask.heads import overall
from studies.multitask.paper import PRESETS, SIZES, TABLE_1, TABLE_2, Published
from studies.multitask.preset import refuse_missing_inputs
from studies.multitask.report import AfterStage, Outcome, best
from studies.multitask.stages import TaskName
from studies.multitask.tasks import TaskExamples, resplit
from tests.studies.finetune.fixtures import write_tasks


def overall_of(row: Published) -> float:
    return overall({"sst": row.sst, "quora": row.quora, "sts": row.sts})


def test_the_overall_score_is_the_papers() -> None:
    """Printed with three digits, from parts with three digits; one row of Table 1 is off in the paper."""
    off = {name: row.overall - overall_of(row) for name, row in TABLE_1.items()}
    assert off.pop("SA-P-STS(M)-NLI(M)") == pytest.approx(-0.0043, abs=1e-4)
    assert max(map(abs, off.values())) < 1.01e-3
    assert all(abs(row.overall - overall_of(row)) < 1.01e-3 for row in TABLE_2.values())


def test_the_papers_dev_scores_lead_to_its_table_2() -> None:
    outcomes = [
        Outcome(name=name, after=[AfterStage(stage="", trained=[], dev={"overall": row.overall})])
        for name, row in TABLE_1.items()
    ]
    assert [outcome.name for outcome in best(outcomes)] == list(TABLE_2)
    assert [outcome.name for outcome in best(outcomes[:4])] == ["SA-P-STS", "P", "STS"], "nothing else ran"


@pytest.mark.parametrize("task", ["quora", "sts"])
def test_a_random_split_has_the_papers_sizes(task: TaskName) -> None:
    total = sum(SIZES[task])
    numbers = [str(i) for i in range(total)]
    whole = Examples(numbers, numbers, np.arange(total))
    none = whole.take(np.zeros(0, dtype=np.int64))
    split = resplit(task, TaskExamples(none, whole, none))
    assert (len(split.train), len(split.dev), len(split.test)) == SIZES[task]
    seen = np.concatenate([part.target for part in (split.train, split.dev, split.test)])
    assert np.array_equal(np.sort(seen), np.arange(total))
    assert all(text == str(i) for text, i in zip(split.dev.first, split.dev.target, strict=True))


def test_the_preset_has_the_papers_values() -> None:
    config = MultitaskConfig(output=Path("x"), **PRESETS["paper"])
    assert (config.epochs, config.batch_size, config.loop.learning_rate) == (5, 32, 1e-5)  # section 5.3
    assert (config.loop.warmup, config.loop.decay, config.loop.clip_norm) == (0.0, False, 0.0)
    assert (config.limit, config.dev_rows, config.test_rows) == (0, 0, 0)
    assert (config.grid, config.splits, config.backbone) == ("paper", "paper", "bert-base-uncased")


def test_all_that_the_preset_lacks_is_listed_at_once(
    command: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    data = write_tasks(tmp_path / "data")
    options = ("--preset", "paper", "--output", tmp_path / "out")
    refused = command("studies.multitask", *options, "--backbone", tmp_path / "no", "--data", data / "none")
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1
    for part in ("SST-5", "STS-B", "--quora.train", "--nli.train", "--nli.dev", "--nli.test", "snli"):
        assert part in refused.stderr
    assert not (tmp_path / "out").exists()
    nli = data / "nli" / "snli_dev.tsv"
    here = {"backbone": "tiny", "data": data, "quora": SplitFiles(train=data / "pairs.tsv")}
    values = {**PRESETS["paper"], **here, "nli": SplitFiles(train=nli, dev=nli, test=nli)}
    refuse_missing_inputs(MultitaskConfig(output=tmp_path / "out", **values))  # all is here


def test_the_preset_leaves_the_output_required(
    command: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    refused = command("studies.multitask", "--preset", "paper")
    assert refused.returncode == 2 and "--output" in refused.stderr


def test_no_backbone_is_chosen_for_the_user(
    command: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    refused = command("studies.multitask", "--output", tmp_path / "out")
    assert refused.returncode == 2 and "bert-base-uncased" in refused.stderr and "tiny" in refused.stderr
    assert not (tmp_path / "out").exists()
