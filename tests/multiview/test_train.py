"""Training: what a run leaves, resumption to the bit, limits, options, bad input."""

from __future__ import annotations

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
from safetensors.torch import load_file

from corpora.support.errors import UserError
from corpora.support.files import LOCK, locked, read_record
from multiview.config import TrainConfig, options_of, preset
from multiview.defaults import read_config
from multiview.folder.card import training_command
from multiview.info import cli as info
from multiview.train import cli, main
from multiview.training.data import open_trees
from multiview.training.log import read_log
from multiview.training.trainer import Trainer
from parsing.networks.device import pick_device
from tests.conftest import ROOT
from tests.fixtures.trees import changed
from tests.parsing.cache.test_reader import write_cache

PAIRS = ["dep,const", "seq,dep", "const,seq", "seq,seq", "dep,dep", "const,const"]


def newest(config: TrainConfig) -> dict[str, torch.Tensor]:
    folder = sorted((config.folder / "checkpoints").glob("step-*"))[-1]
    weights = load_file(folder / "weights.safetensors")
    moments = load_file(folder / "optimiser.safetensors")
    return weights | {f"optimiser.{name}": value for name, value in moments.items()}


def assert_same_bits(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert torch.equal(value, other[name]), name


def test_a_run_learns_and_leaves_a_model_folder(tiny: TrainConfig, capsys) -> None:
    config = changed(tiny, loop={"epochs": 8}, objective={"denominator": "all"})
    assert main(config) == 0
    folder = config.folder
    for name in ("config.json", "model.safetensors", "vocab.txt", "README.md", "train.json", "curves.png"):
        assert (folder / name).stat().st_size > 0, name
    assert list((folder / "tensorboard").iterdir())
    lines = read_log(folder / "log.jsonl")
    train = [line for line in lines if line["kind"] == "train"]
    assert [line["step"] for line in train] == list(range(1, len(train) + 1))
    first, last = np.mean([x["loss"] for x in train[:3]]), np.mean([x["loss"] for x in train[-3:]])
    assert last < 0.9 * first
    assert {"accuracy@1/0-dep,1-const", "gradient_norm", "learning_rate"} <= train[0].keys()
    summary = capsys.readouterr().out
    assert "all " in summary and "recall@1" in summary
    assert main(config) == 0, "a finished run is left alone"
    card = (folder / "README.md").read_text()
    assert "python -m multiview.train" in card and "toy" in card
    assert read_config(folder / "train.json") == config


class Killed(Exception):
    """Stands for SIGKILL: nothing after it runs."""


def killed_after(config: TrainConfig, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    update = Trainer.update

    def dying(self: Trainer, result):
        if self.position.step == steps:
            raise Killed
        return update(self, result)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "update", dying)
        with pytest.raises(Killed):
            main(config)


@pytest.mark.parametrize("views", PAIRS)
def test_resume_in_mid_epoch_is_bit_identical(tiny: TrainConfig, views: str, monkeypatch) -> None:
    config = changed(tiny, views=views)
    main(config)
    broken = changed(config, name="broken")
    for steps in (5, 13):  # checkpoints are at 3, 6, ...; an epoch has 11 steps
        killed_after(broken, steps, monkeypatch)
    main(broken)
    assert_same_bits(newest(config), newest(broken))
    one, other = (read_record(c.folder / "config.json") for c in (config, broken))
    other["training"]["config"]["name"] = config.name
    assert one == other  # with the SHA-256 of the weights
    strip = [
        [
            {k: v for k, v in line.items() if k != "sentences_per_s"}
            for line in read_log(c.folder / "log.jsonl")
        ]
        for c in (config, broken)
    ]
    assert strip[0] == strip[1]


@pytest.mark.parametrize(
    "changes",
    [
        {
            "table": {"update": "rows"},
            "objective": {"score": "dot"},
            "optimiser": {"schedule": "cosine", "warmup_steps": 4, "clip": 0.1},
        },
        {"objective": {"negatives": "step"}, "loop": {"segments": 2, "micro_batch": 7}},
        {
            "table": {"init": "unit", "equal": True},
            "encoder": {"recurrent_scale": 0.2, "equal_inputs": True, "forget_bias": 1.5},
            "objective": {"direction": "both"},
        },
    ],
    ids=["rows", "gathered", "laptop-like"],
)
def test_resume_with_other_options(tiny: TrainConfig, changes: dict, monkeypatch) -> None:
    config = changed(tiny, **changes)
    main(config)
    broken = changed(config, name="broken")
    killed_after(broken, 4, monkeypatch)
    main(broken)
    assert_same_bits(newest(config), newest(broken))


def as_options(config: TrainConfig) -> list[str]:
    """The command line of a configuration."""
    base = options_of(preset("paper-2400"))
    given = [f"--{name}={value}" for name, value in options_of(config).items() if value != base[name]]
    return ["--preset=paper-2400", *given]


def start(config: TrainConfig, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "multiview.train", *as_options(config), *more],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_steps(config: TrainConfig, process: subprocess.Popen[str], steps: int) -> None:
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline:
        lines = read_log(config.folder / "log.jsonl")
        if lines and lines[-1]["step"] >= steps:
            return
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.02)
    raise AssertionError("no progress")


def test_sigterm_then_sigkill_then_resume(tiny: TrainConfig) -> None:
    config = changed(
        tiny,
        loop={"epochs": 300, "max_steps": 120, "checkpoint_every": 10},
        validation={"every": 50},
    )
    main(changed(config, name="whole", loop={"threads": 1}))
    for number, code, steps in ((signal.SIGTERM, 143, 12), (signal.SIGKILL, -9, 35)):
        process = start(config)
        wait_for_steps(config, process, steps)
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == code, errors
        assert "Traceback" not in errors
    assert main(changed(config, loop={"threads": 1})) == 0
    text = (config.folder / "log.txt").read_text()
    assert text.count("resuming") == 2 and "last bits may differ" not in text
    assert_same_bits(newest(changed(config, name="whole")), newest(config))


def test_ctrl_c_checkpoints_and_exits_with_130(tiny: TrainConfig, monkeypatch, capsys) -> None:
    update = Trainer.update

    def interrupted(self: Trainer, result):
        if self.position.step == 4:
            os.kill(os.getpid(), signal.SIGINT)
        return update(self, result)

    monkeypatch.setattr(Trainer, "update", interrupted)
    assert main(tiny) == 130
    assert [p.name for p in sorted((tiny.folder / "checkpoints").iterdir())] == [
        "step-00000003",
        "step-00000005",
    ]
    assert "the same command resumes" in capsys.readouterr().out


def test_corrupted_newest_checkpoint_is_skipped(tiny: TrainConfig, monkeypatch, caplog) -> None:
    main(tiny)
    broken = changed(tiny, name="broken")
    killed_after(broken, 8, monkeypatch)
    last = sorted((broken.folder / "checkpoints").glob("step-*"))[-1]
    data = bytearray((last / "weights.safetensors").read_bytes())
    data[-1] ^= 1
    (last / "weights.safetensors").write_bytes(data)
    main(broken)
    assert "damaged and skipped" in (broken.folder / "log.txt").read_text()
    assert_same_bits(newest(tiny), newest(broken))


def test_full_disk_keeps_the_previous_checkpoint(tiny: TrainConfig, monkeypatch) -> None:
    import parsing.training.checkpoints as checkpoints

    save = checkpoints._save_tensors

    def full(path: Path, tensors) -> None:
        if "00000006" in str(path) and path.name.startswith("optimiser"):
            raise OSError(28, "No space left on device")
        save(path, tensors)

    monkeypatch.setattr(checkpoints, "_save_tensors", full)
    killed_after(tiny, 8, monkeypatch)
    assert [p.name for p in (tiny.folder / "checkpoints").iterdir()] == ["step-00000003"]
    assert "No space left" in (tiny.folder / "log.txt").read_text()


def test_keeps_the_last_checkpoints_only(tiny: TrainConfig) -> None:
    (tiny.folder / "checkpoints" / ".step-00000099.tmp").mkdir(parents=True)  # left by a kill
    main(changed(tiny, loop={"keep": 3}))
    assert [name[-2:] for name in kept(tiny)] == ["18", "21", "24"]


def test_non_finite_loss_stops_before_the_update(tiny: TrainConfig, monkeypatch) -> None:
    gradient = Trainer.gradient

    def poisoned(self: Trainer, step):
        result = gradient(self, step)
        if self.position.step == 4:
            result.metrics[0] = float("nan")
            self.before = {name: value.clone() for name, value in self.network.state_dict().items()}
            seen.append(self)
        return result

    seen: list[Trainer] = []
    monkeypatch.setattr(Trainer, "gradient", poisoned)
    with pytest.raises(UserError, match=r"step 5: loss nan.*before the update"):
        main(tiny)
    assert_same_bits(seen[0].before, dict(seen[0].network.state_dict()))


def kept(config: TrainConfig) -> list[str]:
    return sorted(path.name for path in (config.folder / "checkpoints").iterdir())


def test_limits_and_early_stopping(tiny: TrainConfig) -> None:
    main(changed(tiny, loop={"max_steps": 5}, name="steps"))
    limited = changed(tiny, loop={"max_minutes": 1e-6, "max_steps": 3}, name="minutes")
    main(limited)
    main(
        changed(
            tiny,
            optimiser={"learning_rate": 1e-12},
            validation={"patience": 2},
            loop={"epochs": 20},
            name="patience",
        )
    )
    states = {}
    for name in ("steps", "minutes", "patience"):
        folder = sorted((tiny.output / name / "checkpoints").iterdir())[-1]
        states[name] = json.loads((folder / "state.json").read_text())
    assert states["steps"]["step"] == 5 and "all 5 steps" in states["steps"]["finished"]
    assert states["minutes"]["step"] == 1 and "time limit" in states["minutes"]["finished"]
    main(limited)
    assert kept(limited) == ["step-00000001"], "the limit holds"
    main(changed(limited, loop={"max_minutes": 0}))
    assert kept(limited)[-1] == "step-00000003", "without the limit the run goes on"
    # Nothing is learnt, so the start stays the best: validations at 4 and 8 are the two.
    assert states["patience"]["step"] == 8 and "2 validations" in states["patience"]["finished"]


def test_other_options_or_cache_under_the_same_name_are_refused(tiny: TrainConfig, tmp_path) -> None:
    main(changed(tiny, loop={"max_steps": 2}))
    with pytest.raises(UserError, match=r"loop\.batch 20 -> 21.*--fresh"):
        main(changed(tiny, loop={"max_steps": 2, "batch": 21}))
    write_cache(tmp_path / "other", [("a", "b")] * 90, documents=range(0, 90, 9))
    with pytest.raises(UserError, match="content of the tree cache"):
        main(changed(tiny, loop={"max_steps": 2}, trees=tmp_path / "other"))
    main(changed(tiny, loop={"max_steps": 2, "batch": 21}, fresh=True))


def test_fresh_deletes_training_runs_only(tiny: TrainConfig) -> None:
    (tiny.folder / "thesis").mkdir(parents=True)
    with pytest.raises(UserError, match="holds no training run"):
        main(changed(tiny, fresh=True))
    assert (tiny.folder / "thesis").exists()


def test_the_card_gives_a_command_that_can_be_typed(tiny: TrainConfig) -> None:
    command = training_command(changed(tiny, trees=Path("my trees")))
    assert "--trees 'my trees'" in command


@pytest.mark.skipif(torch.cuda.device_count() > 1, reason="there is a second GPU")
def test_processes_take_a_gpu_each() -> None:
    with pytest.raises(UserError, match="device 'cuda:1'"):
        pick_device("cuda", local_rank=1)


def test_dry_run_writes_nothing(tiny: TrainConfig, capsys) -> None:
    assert main(changed(tiny, dry_run=True)) == 0
    out = capsys.readouterr().out
    for word in ("parameters", "memory", "sentences/s", "24 steps at", "validation set"):
        assert word in out
    assert not tiny.folder.exists()


def test_bad_input_is_one_line_and_exit_code_2(
    command, toy_trees: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    write_cache(tmp_path / "trees" / "only-dep", [("a", "b")] * 40, views=("dep",))
    write_cache(tmp_path / "old", [("a", "b")] * 40)
    manifest = tmp_path / "old" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"format_version": 1', '"format_version": 0'))
    only_dep = f"--trees={tmp_path}/trees/only-dep"
    cases = {
        "view 'srl'": ["--views=dep,srl", f"--trees={toy_trees}"],
        "no const trees": ["--views=dep,const", only_dep],
        "format version 0": [f"--trees={tmp_path}/old"],
        "no tree cache under runs/trees": [],
        "at least two views": ["--views=dep", f"--trees={toy_trees}"],
        "needs --vectors": ["--words=fixed", f"--trees={toy_trees}"],
        "--vectors none.txt: no such file": ["--words=both", "--vectors=none.txt", f"--trees={toy_trees}"],
        "--loop.checkpoint-every 0: must be at least 1": ["--loop.checkpoint-every=0"],
        "--loop.micro-batch -1: must be at least 0": ["--loop.micro-batch=-1"],
        "--loop.max-minutes nan: must be a finite number": ["--loop.max-minutes=nan"],
        "--optimiser.learning-rate 0.0: must be above 0": ["--optimiser.learning-rate=0"],
        "--table.dropout 1.0: must be below 1": ["--table.dropout=1"],
        "must be even for seq": ["--views=seq,dep", "--encoder.dim=7"],
        "--preset huge: choose one of laptop": ["--preset=huge"],
        "device 'xyz' cannot be used": ["--device=xyz", f"--trees={toy_trees}"],
        "lower them": ["--loop.batch=400", only_dep, "--views=dep,dep", "--loop.segments=9"],
    }
    monkeypatch.chdir(tmp_path)
    for message, args in cases.items():
        assert cli([*args, f"--output={tmp_path}/models"]) == 2, message
        errors = capsys.readouterr().err
        assert message in errors
        assert len(errors.strip().splitlines()) == 1, errors
    done = command("multiview.train", "--views=dep,const", only_dep, cwd=tmp_path)
    assert done.returncode == 2 and "no const trees" in done.stderr
    assert "Traceback" not in done.stderr


def test_word_dropout_is_a_function_of_the_step(tiny: TrainConfig) -> None:
    trainer = Trainer(changed(tiny, table={"dropout": 0.5}, loop={"segments": 2}), open_trees(tiny.trees))
    jobs = list(trainer.jobs())
    plain = Trainer(changed(tiny, loop={"segments": 2}), open_trees(tiny.trees))
    dropped = total = 0
    seen = set()
    for job in jobs:
        one, again, whole = trainer.prepare(job), trainer.prepare(job), plain.prepare(job)
        for a, b, c in zip(one.groups, again.groups, whole.groups, strict=True):
            rows = [s.rows.host[g.micro_batches[0].tokens[0]] for s, g in ((one, a), (again, b), (whole, c))]
            np.testing.assert_array_equal(rows[0], rows[1])
            kept = rows[0] == rows[2]
            assert (rows[0][~kept] == 0).all()
            dropped, total = dropped + int((~kept).sum()), total + len(kept)
            seen.add(tuple(kept[:8].tolist()))
    assert 0.4 < dropped / total < 0.6
    assert len(seen) > len(jobs) / 2


def test_two_runs_under_one_name(tiny: TrainConfig, capsys: pytest.CaptureFixture[str]) -> None:
    """Both ended with 0 and deleted each other's checkpoints; --fresh deleted a running one's folder."""
    config = changed(tiny, loop={"max_steps": 2})
    with locked(config.folder):
        for more in ([], ["--fresh"]):
            assert cli([*as_options(config), *more]) == 2
            assert "another run is writing here" in capsys.readouterr().err
        assert [path.name for path in config.folder.iterdir()] == [LOCK]
        assert cli([*as_options(config), "--dry-run"]) == 0
    assert cli(as_options(config)) == 0
    (config.folder / ".config.json.abcd1234.tmp").touch()  # of a run that was killed
    assert cli([*as_options(config), "--fresh"]) == 0
    assert not list(config.folder.glob(".*.tmp"))


def test_a_kill_before_the_first_checkpoint_leaves_one_line_of_step_0(tiny: TrainConfig, monkeypatch) -> None:
    config = changed(tiny, loop={"max_steps": 2})
    killed_after(config, 0, monkeypatch)
    assert main(config) == 0
    lines = read_log(config.folder / "log.jsonl")
    assert [line["step"] for line in lines if line["kind"] == "validation"].count(0) == 1


def test_a_foreign_line_in_the_log_is_named(tiny: TrainConfig, capsys: pytest.CaptureFixture[str]) -> None:
    config = changed(tiny, loop={"max_steps": 2})
    assert main(config) == 0
    path = config.folder / "log.jsonl"
    whole = path.read_bytes()
    for foreign in (
        b"{}",
        b"7",
        b'{"kind": [], "step": 1}',
        b'{"kind": "train", "step": 1}',
        b'{"kind": "validation", "step": 1, "loss": "x", "recall@1": 0}',
        b"[" * 200_000,
        b"9" * 6000,
        b"\xff",
    ):
        path.write_bytes(foreign + b"\n" + whole)
        assert info(["--plot", str(config.folder)]) == 2
        assert "log.jsonl, line 1: " in capsys.readouterr().err
    path.write_bytes(whole + b'{"kind": "tra')
    assert info([str(config.folder)]) == 0
