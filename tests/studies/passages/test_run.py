"""The passages command: end to end, killed and resumed, bad input; the cross-encoder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from corpora.ranking.questions import PassageSet, filtered
from corpora.ranking.sets import read_set
from corpora.support.config import check
from corpora.support.errors import UserError
from studies.finetune.config import LoopConfig, TinyConfig
from studies.finetune.loop import Row
from studies.finetune.tiny import build_tiny
from studies.passages import cross
from studies.passages import run as passages
from studies.passages.config import CrossConfig, PassagesConfig, RankerConfig
from studies.passages.run import run
from tests.conftest import ROOT
from tests.fixtures import browser
from tests.studies.passages import passage_sets


def write_vectors(path: Path) -> Path:
    """Word vectors in which an animal's home is another word, found by a map and not by cosine."""
    generator = np.random.default_rng(0)
    words = [*passage_sets.ANIMALS, *passage_sets.HOMES, "where", "sleeps", "near", "place", "in"]
    lines = [f"{word} {' '.join(f'{x:.4f}' for x in generator.normal(size=12))}" for word in words]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a set and word vectors; the working folder is there."""
    passage_sets.write_wikiqa(tmp_path / "wikiqa", (150, 40, 40))
    write_vectors(tmp_path / "words.txt")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def options(**changes: Any) -> PassagesConfig:
    values: dict[str, Any] = {
        "sets": ("wikiqa",),
        "models": ("words.txt",),
        "baselines": ("bm25",),
        "features": ("cosine", "uv-diff-prod"),
        "scorers": ("mlp",),
        "ranker": RankerConfig(epochs=15, learning_rate=1e-2, hidden=32),
        "output": Path("out"),
        "cache": Path("vectors"),
    }
    return PassagesConfig(**{**values, **changes})


def results(folder: Path = Path("out")) -> dict[tuple[str, str, str], dict[str, Any]]:
    rows = json.loads((folder / "results.json").read_text())["rows"]
    return {(row["set"], row["model"], row["feature"]): row for row in rows}


def test_training_beats_cosine_and_bm25(world: Path) -> None:
    assert run(options(runs=2, baselines=("bm25", "bm25-tuned", "tfidf"))) == 0
    found = results()
    score = {key: row["metrics"]["map"]["mean"] for key, row in found.items()}
    trained = score["wikiqa", "words.txt", "uv-diff-prod"]
    assert trained > score["wikiqa", "words.txt", "cosine"] + 0.2
    assert trained > score["wikiqa", "BM25", "words"] + 0.2
    row = found["wikiqa", "words.txt", "uv-diff-prod"]
    assert row["seeds"] == 2 and row["metrics"]["map"]["sd"] >= 0
    assert row["metrics"]["map"]["low"] <= trained <= row["metrics"]["map"]["high"]
    assert len(row["info"]) == 2 and row["info"][0]["after"]["satisfied"] > 0.8
    # the relevant candidate is not told apart by words alone: all five share the question's words
    assert found["wikiqa", "BM25", "words"]["tied"] > 0.9
    assert {"k1", "b"} == set(found["wikiqa", "BM25, tuned", "words"]["info"][0])
    page = (world / "out" / "report.html").read_text()
    assert "<svg" in page and "words.txt uv-diff-prod mlp" in page and "http" not in page.split("</style>")[1]
    browser.look(page, world)
    table = (world / "out" / "tables.md").read_text()
    assert "| BM25 | words | none |" in table and "margin 0, as EMP prints it" in table


def test_a_bad_set_is_named_and_the_others_finish(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = passage_sets.write_wikipassageqa(world / "wikipassageqa")
    (bad / "dev.tsv").write_text("QID\tQuestion\n1\tx\n")
    assert run(options(sets=("wikipassageqa", "wikiqa"), models=("none.txt", "words.txt"))) == 2
    assert len(results()) == 3
    told = capsys.readouterr().err
    assert "dev.tsv:1: no column 'DocumentID'" in told and "none.txt" in told
    assert len(json.loads(Path("out/results.json").read_text())["left_out"]) == 2


def test_two_models_of_one_name_are_told_apart(world: Path) -> None:
    write_vectors(world / "wikiqa" / "words.txt")
    assert run(options(models=("words.txt", "wikiqa/words.txt"), features=("cosine",))) == 0
    assert {model for _, model, _ in results()} == {"BM25", "words.txt", "wikiqa/words.txt"}


def test_two_sets_of_one_name_are_kept_apart(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    passage_sets.write_wikiqa(world / "more" / "wikiqa", (9, 4, 4))
    config = options(sets=("wikiqa", "more/wikiqa"), models=(), features=("cosine",))
    assert run(config) == 2
    assert len(results()) == 1 and "more/wikiqa: a set of the name wikiqa" in capsys.readouterr().err


def test_without_a_readable_set_there_is_no_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(options(sets=("none",), output=tmp_path / "out")) == 2
    assert "data set 'none': write FORMAT=FOLDER" in capsys.readouterr().err
    assert not (tmp_path / "out" / "results.json").exists()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"margin": -1.0}, "--margin -1"),
        ({"runs": 0}, "--runs 0"),
        ({"limit": 0}, "--limit 0"),
        ({"sets": ()}, "no data set"),
        ({"models": (), "baselines": ()}, "nothing to rank with"),
        ({"features": ()}, "--features and --scorers"),
        ({"ranker": RankerConfig(negatives=0)}, "--ranker.negatives 0"),
        ({"cross": CrossConfig(steps=0)}, "--cross.steps 0"),
    ],
)
def test_bad_options_are_refused(changes: dict[str, Any], told: str) -> None:
    config = options(**changes)
    with pytest.raises(UserError, match=told):
        check(config)  # as the command does
        run(config)


def test_finished_cells_are_not_repeated_and_options_matter(world: Path) -> None:
    run(options())
    times = {p: p.stat().st_mtime_ns for p in Path("out/parts").iterdir()}
    run(options(margin=0.5))
    assert {p: p.stat().st_mtime_ns for p in times} == times
    assert len(list(Path("out/parts").iterdir())) == len(times) + 1  # cosine and BM25 have no margin
    with (world / "wikiqa" / "test.tsv").open("a") as out:
        out.write("more\t1\twhere ?\tin a den\nmore\t0\twhere ?\tin a sty\n")
    run(options())
    assert len(list(Path("out/parts").iterdir())) == 2 * len(times) + 1


def test_a_killed_run_is_resumed_to_the_same_figures(world: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    config = options(
        features=("bilinear", "uv-diff-prod"),
        scorers=("linear", "mlp"),
        runs=3,
        ranker=RankerConfig(epochs=12),
    )
    arguments = [
        "wikiqa", "--models", "words.txt", "--baselines", "bm25", "--features", *config.features,
        "--scorers", *config.scorers, "--runs", "3", "--ranker.epochs", "12", "--output", "killed",
        "--cache", "v",
    ]  # fmt: skip
    job = subprocess.Popen(
        [sys.executable, "-m", "studies.passages", *arguments],
        env=env,
        cwd=world,
        stderr=subprocess.DEVNULL,
    )
    parts = world / "killed" / "parts"
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline and job.poll() is None and len(list(parts.glob("*.json"))) < 2:
        time.sleep(0.01)
    job.send_signal(signal.SIGKILL)
    job.wait()
    done = {p: p.stat().st_mtime_ns for p in parts.glob("*.json")}
    assert 2 <= len(done) < 10
    assert run(replace(config, output=Path("killed"), cache=Path("v"))) == 0
    assert {p: p.stat().st_mtime_ns for p in done} == done
    assert run(config) == 0
    one, other = results(world / "killed"), results()
    assert one.keys() == other.keys() and len(one) >= 3
    for key, row in one.items():
        for dev, expected in zip(row["dev"], other[key]["dev"], strict=True):
            assert dev == pytest.approx(expected)
        for name, value in row["metrics"].items():
            assert value == pytest.approx(other[key]["metrics"][name], abs=1e-9)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A BERT of one small layer whose words are those of the made sets."""
    folder = tmp_path_factory.mktemp("tiny")
    rows = [row.split("\t") for row in passage_sets.qa_rows(60, 1, "q")]
    texts = [text for row in rows for text in row[2:]]
    config = TinyConfig(layers=1, hidden=64, vocabulary=200, max_length=40)
    return str(build_tiny(folder / "bert", texts, config, seed=0))


CROSS = CrossConfig(
    steps=6, batch_size=4, evaluate_every=3, save_every=2, max_length=40, loop=LoopConfig(learning_rate=1e-3)
)


def small(folder: Path) -> PassageSet:
    return filtered(read_set(f"wikiqa={folder}"), "answered", 8)


def train(
    tiny: str, folder: Path, data: PassageSet, config: CrossConfig = CROSS
) -> tuple[cross.CrossRanker, list[Row]]:
    choice: dict[str, Any] = {"margin": 1.0, "select": "map", "seed": 3, "device": "cpu"}
    return cross.fine_tune(data, tiny, config, folder=folder, report=lambda line: None, **choice)


def test_cross_loss_scores_and_frozen_words(tiny: str, world: Path) -> None:
    data = small(world / "wikiqa")
    net, history = train(tiny, world / "state", data)
    words = [p for name, p in net.named_parameters() if "word_embeddings" in name]
    assert len(words) == 1 and not words[0].requires_grad
    start = cross.CrossRanker(cross.load_tower(tiny, max_length=40), 256, 3)
    assert torch.equal(words[0], start.tower.model[0].auto_model.get_input_embeddings().weight)
    assert not torch.equal(net.first.weight, start.first.weight)
    assert [row["step"] for row in history] == [0, 3, 6]
    test = data.splits["test"]
    scores = cross.cross_scores(net, test, data.passages, lambda count: None)
    with torch.inference_mode():
        for q, found in zip(test[:3], scores, strict=False):
            alone = [net([(q.text, data.passages[row])]).item() for row in q.candidates]
            assert found.tolist() == pytest.approx(alone, abs=1e-4)
        pairs = cross.RankingPairs(data.splits["train"], data.passages, 2, 0)
        batch = pairs.draw(0).take(np.arange(5))
        terms = []
        for question, right, wrong in zip(batch.first, batch.second, batch.target, strict=True):
            one, other = (net([(question, text)]).item() for text in (right, data.passages[wrong]))
            terms.append(max(0.0, 1.0 - one + other))
        loss = cross.pair_loss(net, batch, data.passages, 1.0).item()
    assert loss == pytest.approx(np.mean(terms), abs=1e-4)
    assert len(pairs) == len(pairs.draw(1)) == 16


def test_cross_training_resumes_to_the_same_bits(
    tiny: str, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = small(world / "wikiqa")
    whole, _ = train(tiny, world / "whole", data)
    measured, calls = cross.measure, []

    def interrupted(*args: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:  # the evaluation after step 3; the state of step 2 is saved
            raise KeyboardInterrupt
        return measured(*args)

    monkeypatch.setattr(cross, "measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(tiny, world / "killed", data)
    monkeypatch.setattr(cross, "measure", measured)
    assert [path.name for path in (world / "killed" / "state").iterdir()]
    resumed, history = train(tiny, world / "killed", data)
    assert [row["step"] for row in history] == [0, 3, 6]
    for one, other in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(one, other)


def test_cross_encoder_as_a_cell(tiny: str, world: Path) -> None:
    config = options(
        models=(), limit=8, margin=1.0, cross=CrossConfig(**{**vars(CROSS), "backbones": (tiny,)})
    )
    assert run(config) == 0
    row = results()["wikiqa", "bert", "cross-encoder"]
    assert row["info"][0]["steps"] == 6 and 0 <= row["metrics"]["map"]["mean"] <= 1
    assert not list(Path("out/unfinished").glob("*"))
    assert not [p for p in Path("out").rglob("*") if p.suffix in (".pt", ".bin", ".pkl")]


def test_a_kill_before_the_cell_is_written_loses_no_training(
    tiny: str, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = options(
        models=(), baselines=(), limit=8, cross=CrossConfig(**{**vars(CROSS), "backbones": (tiny,)})
    )
    real = passages.write_record

    def killed(path: Path, value: Any) -> None:
        if path.parent.name == "parts":
            raise KeyboardInterrupt
        real(path, value)

    monkeypatch.setattr(passages, "write_record", killed)
    with pytest.raises(KeyboardInterrupt):
        run(config)
    monkeypatch.setattr(passages, "write_record", real)
    monkeypatch.setattr(cross, "pair_loss", None)  # nothing is left to train
    assert run(config) == 0 and not list(Path("out/unfinished").glob("*"))


def test_a_multi_view_model_is_no_cross_encoder(world: Path) -> None:
    (world / "model").mkdir()
    (world / "model" / "config.json").write_text(json.dumps({"format": 1, "views": {}}))
    config = options(models=(), cross=CrossConfig(backbones=("model",)))
    assert run(config) == 2
    assert "reads one sentence at a time" in json.loads(Path("out/results.json").read_text())["left_out"][0]
