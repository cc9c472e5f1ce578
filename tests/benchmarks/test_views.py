"""The comparison of views: its commands, what it reads back, its tables against counting by hand."""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import tyro

import parsing.run
from benchmarks import views
from benchmarks.views import PAIRS, QUICKTHOUGHT, ViewsConfig, all_systems, training
from multiview.config import TrainConfig, decisive_options, preset
from multiview.folder.card import training_command
from multiview.train import defaults_from
from runtime.files import read_json
from tests.fixtures.senteval import data as data
from tests.fixtures.trees import TOPICS, toy_corpus


def test_systems_differ_from_the_paper_in_what_is_said_alone() -> None:
    config = ViewsConfig(trees=Path("trees"), words=("trained", "fixed"), dim=256, sentences=(50_000, 0))
    systems = all_systems(config)
    assert len({system.label for system in systems}) == len(systems) == 2 * 3 * (2 * 8 + 6 + 1)
    paper, found = decisive_options(preset("paper")), {}
    for system in systems:
        if system.name in config.systems and system.seed == 2:
            how = training(config, system, 5e-4)
            args = shlex.split(training_command(how))[3:]
            assert tyro.cli(TrainConfig, args=args, default=defaults_from(args)) == how
            ours = decisive_options(how)
            found[system.words, system.name, system.sentences] = {k for k in paper if paper[k] != ours[k]}
    same = {"words", "vectors", "seed", "table.expand", "encoder.dim"}
    assert len(found) == 2 * 7 * 2 and {name for _, name, _ in found} == {*PAIRS, QUICKTHOUGHT}
    assert found["trained", "seq,seq", 0] == same | {"views"} and found["fixed", "dep,const", 0] == same
    assert found["fixed", "dep,const", 50_000] == same | {"loop.max-steps"}
    quickthought = found["trained", QUICKTHOUGHT, 0] - found["trained", "seq,seq", 0]
    assert quickthought == {"objective.score", "objective.denominator"}
    assert training(config, systems[0], 5e-4).loop.max_steps == 50_000 / 400


def test_paper_preset_in_one_command(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables 1 and 2 at toy size: both kinds of words, vectors and data given, published rows beside."""
    monkeypatch.chdir(tmp_path)
    texts, documents = toy_corpus(120)
    lines = ["\n" * (place in documents[1:]) + " ".join(words) for place, words in enumerate(texts)]
    Path("toy.txt").write_text("\n".join(lines))
    assert parsing.run.cli(["toy.txt", "--tokenize", "space", "--workers", "1"]) == 0
    known = sorted({*" ".join(TOPICS).split(), "good", "bad", "the"})
    numbers = np.random.default_rng(0).normal(size=(len(known), 8)).tolist()
    rows = [" ".join([word, *map(str, row)]) for word, row in zip(known, numbers, strict=True)]
    Path("vectors.txt").write_text("\n".join(rows))
    ran: list[tuple[str, ...]] = []

    def here(module: str, *arguments: object) -> None:
        ran.append((module, *map(str, arguments)))
        assert importlib.import_module(module).cli([*map(str, arguments)]) == 0

    monkeypatch.setattr(views, "_command", here)
    args = ["--trees", "runs/trees/toy", "--vectors", "vectors.txt", "--words", "both", "--data", str(data)]
    args += ["--dim", "8", "--word-dim", "6", "--seeds", "3", "4", "--protocol", "fast"]
    args += ["--systems", "seq,const", "dep,const", "--rates", "1e-3", "5e-2"]
    assert views.cli(args) == 0
    report = Path("runs/views/report.md").read_text()
    assert "| DEP, CONST (Simoulin & Crabbé 2021) † |" in report and "| CONST, CONST (" not in report
    rows = dict(re.findall(r"^\| ([a-z.-]+) \| \S+ \| (.*) \|$", report, re.MULTILINE))
    losses = re.findall(r"words, all sentences \| (\**\d\S*) \| (\**\d\S*) \| (0.\d+) \|", report)
    chosen = [0.001 if float(low.strip("*")) < float(high.strip("*")) else 0.05 for low, high, _ in losses]
    assert [float(rate) for *_, rate in losses] == chosen and len(chosen) == 2
    differing = {"views": "seq,const; dep,const", "seed": "3; 4", "encoder.dim": "8", "table.dim": "6"}
    differing |= {"vectors": "vectors.txt", "loop.learning-rate": "; ".join(map(str, dict.fromkeys(chosen)))}
    assert {name: rows.get(name) for name in differing} == differing
    # By hand: accuracy at both seeds of both tasks that have one.
    means = {}
    for name in ("seq-const", "dep-const"):
        labels = [f"{name}-both-words-all-sentences-seed{seed}" for seed in (3, 4)]
        found = [read_json(Path("runs/views/scores") / label / "results.json")["results"] for label in labels]
        means[name] = np.mean(
            [row["metrics"]["acc"] for rows in found for row in rows if "acc" in row["metrics"]]
        )
    [shown] = re.findall(r"^\| seq,const, both words.*? \| (\S+) \[", report, re.MULTILINE)
    assert float(shown) == pytest.approx(means["dep-const"] - means["seq-const"], abs=1)
    ran.clear()
    assert views.cli([*args[: args.index("--seeds")], "--seeds", "3", "--protocol", "fast"]) == 0
    told = " ".join(word for words in ran for word in words)
    assert "seq-const" not in told and "dep-const" not in told  # finished: not again
    report = Path("runs/views/report.md").read_text()
    assert all(f"| {name}, both words, all sentences | 1 |" in report for name in (*PAIRS, QUICKTHOUGHT))
