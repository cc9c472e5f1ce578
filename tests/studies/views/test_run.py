"""The comparison of views: its commands, what it reads back, its tables against counting by hand."""

import importlib
import re
import shlex
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pandas
import pytest
import tyro
from scipy.stats import rankdata, t

import parsing.run
from multiview.config import TrainConfig, decisive_options, options_of, preset, preset_options
from multiview.folder.card import training_command
from runtime.errors import UserError
from runtime.files import read_json
from senteval_runner.protocol.config import TaskResult
from senteval_runner.protocol.statistics import holm
from senteval_runner.report.page import Score, format_cell
from studies.views import run as views
from studies.views.__main__ import cli
from studies.views.config import PAIRS, QUICKTHOUGHT, ViewsConfig
from studies.views.report import SystemScores, ahead, comparison, mean_over_tasks
from studies.views.systems import AVERAGE, System, all_systems, reference, training
from tests.fixtures.pages import make_light
from tests.fixtures.pages import run_here as run_words
from tests.fixtures.senteval import data as data
from tests.fixtures.senteval import write_word_vectors
from tests.fixtures.trees import TOPICS, toy_corpus
from tests.parsing.pipeline.toy_parsers import write_cache


def test_systems_differ_from_the_paper_in_what_is_said_alone() -> None:
    config = ViewsConfig(
        trees=(Path("50k"), Path("150k")), words=("trained", "fixed"), dim=256, rates=(5e-4, 5e-3)
    )
    systems = all_systems(config)
    controls = 2 * 3 * 6 + 3 + 1 + 2  # starts; averages of words, which fixed words have once; random words
    assert len({system.label for system in systems}) == len(systems) == 2 * 2 * 2 * 3 * 7 + controls
    paper, differences = decisive_options(options_of(preset("paper"))), {}
    for system in systems:
        if system.is_trained and system.seed == 2 and system.rate == 5e-4:
            system_config = training(config, system)
            args = shlex.split(training_command(system_config))[3:]
            default = preset_options(system_config.preset)
            assert tyro.cli(TrainConfig, args=args, default=default).resolve() == system_config
            ours = decisive_options(options_of(system_config))
            key = system.words, system.name, system.trees.name
            differences[key] = {name for name in paper if paper[name] != ours[name]}
    always = {"words", "vectors", "seed", "table.expand", "encoder.dim"}
    assert len(differences) == 2 * 7 * 2
    assert {name for _, name, _ in differences} == {*PAIRS, QUICKTHOUGHT}
    assert differences["trained", "seq,seq", "50k"] == always | {"views"}
    assert differences["fixed", "dep,const", "150k"] == always
    quickthought = differences["trained", QUICKTHOUGHT, "50k"] - differences["trained", "seq,seq", "50k"]
    assert quickthought == {"objective.score", "objective.denominator"}
    loop = training(replace(config, passes=5, validation=2000), systems[0]).loop
    assert (loop.epochs, loop.validation, loop.patience) == (5, 2000, 2)


def test_an_option_without_values_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert cli(["--trees", "none", "--seeds", "--output", str(tmp_path / "views")]) == 2
    assert "--seeds ()" in capsys.readouterr().err and not [*tmp_path.iterdir()]


@pytest.mark.usefixtures("drawings")
def test_ahead_is_the_difference_of_the_papers_means_paired_by_seed() -> None:
    """Accuracy of MR, and relatedness, which counts as (r + ρ + 100 − MSE) / 3."""
    gold = [1.0, 2.0, 3.0, 5.0]

    def scores_of(seed: int, hits: list[int], relatedness: list[float]) -> SystemScores:
        r, rho = (np.corrcoef(kind(gold), kind(relatedness))[0, 1] for kind in (np.asarray, rankdata))
        mse = np.mean(np.subtract(gold, relatedness) ** 2)
        result = partial(TaskResult, dim=2, rows={})
        results = [
            result(task="MR", metrics={"acc": 25.0 * sum(hits)},
                   predictions={"all": hits}, gold={"all": [1, 1, 1, 1]}),
            result(task="SICKRelatedness", metrics={"pearson": r, "spearman": rho, "mse": mse},
                   predictions={"test": relatedness}, gold={"test": gold}),
        ]  # fmt: skip
        system = System(name="dep,const", words="fixed", trees=Path("t"), rate=1, seed=seed)
        return SystemScores(system, Path(), {}, {result.task: result for result in results})

    best, worse = ([1, 1, 1, 1], gold), ([1, 1, 0, 0], [2.0, 1.0, 3.0, 5.0])
    first, second = (
        [scores_of(seed, *outputs) for seed, outputs in enumerate(system)]
        for system in ((best, worse), (worse, worse))
    )
    r, rho = (np.corrcoef(kind(gold), kind(worse[1]))[0, 1] for kind in (np.asarray, rankdata))
    relatedness = (100 * (1 - r) + 100 * (1 - rho) + 100 * 0.5) / 3
    gain, p = ahead(first, second)
    gain_of_relatedness, _ = ahead(first, second, "SICKRelatedness")
    assert gain_of_relatedness.value == pytest.approx(relatedness / 2)
    assert gain.value == pytest.approx((50 + relatedness) / 2 / 2)  # over two tasks and two seeds
    # Two seeds, of which one gains it all: Student's t with (a + b)² / b² degrees of freedom.
    of_seeds = gain.value**2  # its square is the variance of (2 x, 0), over two
    of_items = np.var(sum(
        (mean_over_tasks(a.resamples) - mean_over_tasks(b.resamples)) / 2
        for a, b in zip(first, second, strict=True)
    ))  # fmt: skip
    freedom, error = ((of_items + of_seeds) / of_seeds) ** 2, np.sqrt(of_items + of_seeds)
    assert of_items > 0 and gain.interval == pytest.approx(t.interval(0.95, freedom, gain.value, error))
    assert p == pytest.approx(2 * t.cdf(-gain.value / error, freedom))
    assert ahead(first[:1], first[:1]) == (Score(0, interval=(0, 0)), 1)
    assert ahead(first[:1], second[1:]) is None
    [table, dots] = comparison({"one": second, first[0].system.row: first}, "dep,const")
    corrected, *_ = holm([ahead(first, second, task)[1] for task in ("", "MR", "SICKRelatedness")])
    assert table.rows[0][3] == f"{format_cell(gain)}, p {corrected:.3f}" and table.rows[1][3] is None
    assert not any(cell.is_best for row in table.formatted_rows() for cell in row) and dots.svg


def test_the_first_pair_that_cannot_be_scored_ends_the_study(tmp_path, data, monkeypatch, capsys) -> None:
    """After one step of it, with what the runner said; the module of its view is named to the runner."""
    write_cache(tmp_path / "trees", [("a", "cat")] * 40, documents=range(0, 40, 8))
    args = [
        "--trees",
        tmp_path / "trees",
        "--systems",
        "seq,seq",
        "dep,const",
        "--data",
        data,
        "--tasks",
        "CR",
    ]

    def refuse(module: str, *words: object) -> None:
        assert "--loop.max-steps" in words or words[words.index("--plugin") + 1] == "mine"
        if module == "senteval_runner.run":
            raise UserError("CR: no vectors")

    command = Mock(side_effect=refuse)
    monkeypatch.setattr(views, "_command", command)
    monkeypatch.setattr(views, "plugin_modules", lambda names: ["mine"])
    assert cli([*map(str, args), "--tasks", "CR", "--output", str(tmp_path / "views")]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == "python -m studies.views: CR: no vectors"
    assert [call.args[0] for call in command.call_args_list] == ["multiview.train", "senteval_runner.run"]


def test_any_two_views_are_compared_with_the_first_pair_and_trained_alone() -> None:
    config = ViewsConfig(
        trees=(Path("t"),), systems=("bow,dep", "seq,bow"), preset="laptop", words=("fixed",)
    )
    systems = all_systems(config)
    assert reference(config) == "bow,dep" and reference(ViewsConfig(trees=(Path("t"),))) == "dep,const"
    [average] = [system for system in systems if system.name == AVERAGE]
    assert average.spec(Path("m"), "none").startswith("bag:m/bow-dep-fixed-words-t-rate-")
    assert {training(config, system).beside for system in systems if system.is_trained} == {"nothing"}
    assert training(replace(config, beside="words"), systems[0]).beside == "words"


def test_holm_multiplies_the_smallest_p_by_all_and_keeps_the_order() -> None:
    assert holm([0.01, 0.5, 0.03, 0.02]) == pytest.approx([0.04, 0.5, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1, 1] and holm([]) == []


@pytest.mark.timeout(900)
def test_paper_preset_in_one_command(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables 1 and 2 at toy size: both kinds of words, vectors and data given, published rows beside."""
    monkeypatch.chdir(tmp_path)
    make_light(monkeypatch)
    texts, documents = toy_corpus(60)
    lines = ["\n" * (place in documents[1:]) + " ".join(words) for place, words in enumerate(texts)]
    Path("toy.txt").write_text("\n".join(lines))
    assert parsing.run.cli(["toy.txt", "--tokenize", "space", "--workers", "1"]) == 0
    write_word_vectors(Path("vectors.txt"), sorted({*" ".join(TOPICS).split(), "good", "bad", "the"}))

    def run_here(module: str, *arguments: object) -> None:
        assert importlib.import_module(module).cli([*map(str, arguments)]) == 0

    command = Mock(side_effect=run_here)
    monkeypatch.setattr(views, "_command", command)
    args = ["--trees", "runs/trees/toy", "--vectors", "vectors.txt", "--words", "both", "--data", str(data)]
    args += ["--dim", "8", "--word-dim", "6", "--seeds", "3", "4", "--protocol", "fast"]
    args += ["--systems", "seq,const", "dep,const", "--rates", "5e-2"]
    args += ["--passes", "1", "--validation", "12", "--case", "lower", "--output", "runs/pairs"]
    assert cli(args) == 2 and not command.called  # MR, SUBJ, MPQA and TREC are not there
    args += ["--tasks", "CR,MRPC"]
    with monkeypatch.context() as patch:
        patch.setattr(views, "subprocess", SimpleNamespace(run=run_words))
        assert cli([*args, "--dry-run"]) == 0 and not Path("runs/pairs/models").exists()
    assert cli(args) == 0
    trainings = [call.args for call in command.call_args_list if call.args[0] == "multiview.train"]
    assert all("--loop.max-steps" in words for words in trainings[:2])  # a step of both pairs, then all
    # Two scales, of which the second finds the model trained.
    assert len(trainings) == 2 + 8 and not any("--loop.max-steps" in words for words in trainings[2:])
    assert not [*Path("runs/pairs").glob("check-*")] and Path("runs/pairs/report.tex").exists()
    report = Path("runs/pairs/report.md").read_text()
    assert "| DEP, CONST (Simoulin & Crabbé 2021) † |" in report and "| CONST, CONST (" not in report
    differing = {"views": "seq,const; dep,const", "seed": "3; 4", "encoder.dim": "8", "table.dim": "6"}
    differing |= {"vectors": "vectors.txt", "loop.learning-rate": "0.05", "table.case": "lower"}
    rows = dict(re.findall(r"^\| ([a-z.-]+) \| \S+ \| (.*) \|$", report, re.MULTILINE))
    assert {name: rows.get(name) for name in differing} == differing
    scores = pandas.read_csv("runs/pairs/rows.csv", dtype=str)
    [commit] = set(scores["commit"])
    assert commit
    # At each scale two systems and seeds, their starts, an average of words a seed, and random words.
    assert len(scores) == 2 * (4 + 4 + 2 + 1) and set(scores["scale"]) == {"none", "one"}
    # By hand, paired by seed.
    rows = scores[(scores["rate"] == "0.05") & (scores["scale"] == "one")].set_index(["system", "seed"])
    means = rows["mean of 2"].astype(float)
    gain = (means["dep,const"] - means["seq,const"]).mean()
    label = "seq-const-both-words-toy-rate-0.05-seed3"
    models = read_json(Path("runs/pairs/scores") / label / "one" / "results.json")["config"]["models"]
    parts = (f"runs/pairs/models/{label}/{words}?scale=runs/trees/toy" for words in ("trained", "fixed"))
    assert models == ["+".join(parts)]
    at_scale = report.partition("## Each number at one scale: comparison")[2]
    [gain_in_report] = re.findall(
        r"\n\| seq,const, both words, toy, rate 0.05 \| 2 \| [^|]* \| (\S+) \[", at_scale
    )
    assert float(gain_in_report) == pytest.approx(gain, abs=0.02)
    command.reset_mock()
    assert cli([*args, "--seeds", "3"]) == 0
    assert not command.called  # finished: not again
    assert len(pandas.read_csv("runs/pairs/rows.csv", dtype=str)) == 2 * (2 + 2 + 1 + 1)
    # Other tasks are added, and nothing is trained for them.
    assert cli([*args, "--seeds", "3", "--tasks", "BShift,WC"]) == 2 and not command.called
    assert cli([*args, "--seeds", "3", "--tasks", "CR,WC"]) == 0
    assert {call.args[0] for call in command.call_args_list} == {"multiview.train", "senteval_runner.run"}
    assert "WordContent" in pandas.read_csv("runs/pairs/rows.csv").columns
