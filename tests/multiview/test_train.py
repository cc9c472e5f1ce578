"""Training: what a run leaves, resumption to the bit, limits, options, bad input."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from multiview.baselines import load_start
from multiview.config import NewViewsConfig, options_of, preset, recorded_config
from multiview.encoders.meaning import FEATURE_LENGTH, sample_ranges
from multiview.model import MultiViewEncoder
from multiview.train import cli, main, open_trainer
from multiview.training import text as text_module
from multiview.training.data import open_trees
from multiview.training.gradient import DistributedContext
from runtime.errors import UserError, printable
from runtime.files import LOCK, lock_folder, read_json
from runtime.training_loop import read_log
from tests.fixtures.kills import dies_at
from tests.fixtures.processes import ROOT, run_ranks
from tests.fixtures.training import VARIANTS, assert_same_files, validated
from tests.fixtures.trees import changed, toy_corpus
from tests.parsing.pipeline.toy_parsers import write_cache

NEW = "--start=none"


@pytest.mark.usefixtures("drawings")
def test_a_run_learns_and_leaves_a_model_folder(tiny: NewViewsConfig, capsys) -> None:
    config = changed(tiny, loop={"epochs": 8}, objective={"denominator": "all"})
    assert main(config) == 0
    folder = config.folder
    for name in ("config.json", "model.safetensors", "vocab.txt", "README.md", "curves.png"):
        assert (folder / name).stat().st_size > 0, name
    lines = read_log(folder / "log.jsonl")
    train = [line for line in lines if line["kind"] == "train"]
    assert [line["step"] for line in train] == list(range(1, len(train) + 1))
    first, last = np.mean([x["loss"] for x in train[:3]]), np.mean([x["loss"] for x in train[-3:]])
    assert last < 0.9 * first
    assert {"accuracy@1/0-dep,1-const", "gradient_norm", "learning_rate"} <= train[0].keys()
    output = capsys.readouterr()
    assert "all " in output.out
    verdict = re.findall(r"^(?:gained|neighbours|no gain|next) .*", output.err, re.MULTILINE)
    assert len(verdict) >= 3 and all(line in (folder / "log.txt").read_text() for line in verdict)
    assert main(config) == 0, "a finished run is left alone"
    card = (folder / "README.md").read_text()
    assert "The corpus came in words. `encode` splits strings by spaCy's rules" in card
    assert "python -m multiview.train" in card and "toy" in card
    assert all("- " + re.sub(r"^(no gain|\w+) +", r"\1: ", line) in card for line in verdict)
    stored = read_json(folder / "config.json")["training"]["config"]
    assert recorded_config(stored, where=folder) == config


@pytest.mark.parametrize("variant", VARIANTS)
def test_resume_in_mid_epoch_leaves_the_same_files(tiny, tmp_path: Path, variant: str, monkeypatch) -> None:
    monkeypatch.setattr("runtime.training_loop.CHECKPOINT_S", 0.0)  # a checkpoint at each step
    config = changed(changed(tiny, loop={"max_steps": 14}), output=Path("models"), **VARIANTS[variant])
    for name, deaths in (("whole", ()), ("killed", (4, 5))):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        for steps in deaths:
            with dies_at(steps):
                main(config)
        main(config)
    assert_same_files(tmp_path / "whole", tmp_path / "killed")


def as_options(config: NewViewsConfig) -> list[str]:
    """The command line of a configuration."""
    base = options_of(preset("paper"))
    options = [f"--{name}={value}" for name, value in options_of(config).items() if value != base[name]]
    return ["--preset=paper", *options]


@pytest.mark.usefixtures("drawings")
def test_sigterm_then_sigkill_then_resume(tiny: NewViewsConfig, tmp_path: Path, monkeypatch) -> None:
    config = changed(tiny, output=Path("models"), loop={"epochs": 300, "max_steps": 80})
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        assert name == "killed" or main(config) == 0
    for number, code, steps in ((signal.SIGTERM, 143, 8), (signal.SIGKILL, -9, 20)):
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "multiview.train", *as_options(config)]
        with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
            while not any(line["step"] >= steps for line in read_log(config.folder / "log.jsonl")):
                assert process.poll() is None, process.communicate()[1]
                time.sleep(0.05)
            process.send_signal(number)
            _, errors = process.communicate(timeout=60)
        assert process.returncode == code and "Traceback" not in errors, errors
    assert main(config) == 0
    text = (config.folder / "log.txt").read_text()
    assert text.count("resuming") == 2 and "last bits may differ" not in text
    assert_same_files(tmp_path / "whole", tmp_path / "killed")


def test_each_process_of_torchrun_has_a_segment(tiny: NewViewsConfig, tmp_path, monkeypatch, refusal) -> None:
    def train(rank: int) -> None:
        with open(tmp_path / f"{rank}.txt", "w") as printed, contextlib.redirect_stdout(printed):
            assert cli(as_options(changed(tiny, loop={"max_steps": 2}))) == 0

    run_ranks(2, train)
    printed = "".join((tmp_path / f"{rank}.txt").read_text() for rank in range(2))
    assert printed.count("trained    2 steps, 80 sentences") == 1
    assert read_json(tiny.folder / "config.json")["training"]["config"]["loop"]["segments"] == 2
    two = SimpleNamespace(world=2, close=lambda: None)
    monkeypatch.setattr(DistributedContext, "from_environment", lambda device: two)
    options = as_options(changed(tiny, name="wrong", loop={"segments": 3}))
    assert "--loop.segments 3: must be a multiple of the 2 processes" in refusal(cli, *options)


def test_other_runs_under_the_same_name_are_refused(tiny: NewViewsConfig, tmp_path: Path, refusal) -> None:
    config = changed(tiny, loop={"max_steps": 2})
    with lock_folder(config.folder):
        assert "another run is writing here" in refusal(cli, *as_options(config))
        assert [path.name for path in config.folder.iterdir()] == [LOCK]
    config.folder.mkdir(parents=True)
    (config.folder / ".config.json.abcd1234.tmp").touch()  # of a run that was killed
    assert cli(as_options(config)) == 0 and not list(config.folder.glob(".*.tmp"))
    with pytest.raises(UserError, match=r"loop\.batch='20', not '21'.*delete the folder"):
        main(changed(config, loop={"batch": 21}))
    write_cache(tmp_path / "other", [("a", "b")] * 90, documents=range(0, 90, 9))
    with pytest.raises(UserError, match="content of --trees"):
        main(changed(config, trees=tmp_path / "other"))


@pytest.mark.parametrize("name", ["../x", "/tmp/x", "..", "a/", "\x1b[31m"])
def test_a_name_leads_nowhere(name: str, refusal) -> None:
    assert f"--name {printable(name)}: is no plain name" in refusal(cli, "--name", name)


TOY, ONLY_DEP, OF_ONE = "--trees=toy", "--trees=only-dep", "--trees=of-one"
BAD_INPUTS = {
    "view 'srl'": [NEW, "--views=dep,srl", TOY],
    "no const trees": [NEW, "--views=dep,const", ONLY_DEP],
    "unless runs/trees has just one tree cache": [],
    "need --vectors, which is none": [NEW, "--words=fixed", "--vectors=none", TOY],
    "--table.dropout 1.0: must be below 1": ["--table.dropout=1"],
    "--loop.patience 3: needs --loop.validation above 0": ["--loop.patience=3", "--loop.validation=0"],
    "must be even for seq": [NEW, "--views=seq,dep", "--encoder.dim=7"],
    '--preset bad.toml: loop.batch "x": must be a valid integer': ["--preset=bad.toml"],
    "lower them": [NEW, "--loop.batch=400", ONLY_DEP, "--views=dep,dep", "--loop.segments=9"],
    "needs two to 32": [NEW, "--views", ",".join(["dep"] * 400), TOY],
    "--loop.batch 2: must be at least 3": ["--loop.batch=2", TOY],
    "of-one: no sentence has a neighbour in its document": [NEW, OF_ONE],
    "cannot be used": [NEW, "--device=cuda:99", TOY],
    "do not fill one step": [NEW, f"--loop.segments={2**31 - 1}", TOY],
    "cannot be written": [NEW, "--name", "x" * 300, "--device=cpu", "--vectors=none", TOY],
    "out of memory": [NEW, f"--encoder.dim={2**31 - 1}", "--device=cpu", "--vectors=none", TOY],
    "must be at most": [f"--loop.epochs={10**9}", TOY],
}
"""A part of each message, and the options that it refuses."""


@pytest.fixture
def of_bad_inputs(toy_trees: Path, tmp_path: Path, monkeypatch, made_once) -> None:
    """Work in a folder with the files that ``BAD_INPUTS`` name."""
    only_dep = made_once("only-dep", lambda folder: write_cache(folder, [("a", "b")] * 40, views=("dep",)))
    of_one = made_once("of-one", lambda folder: write_cache(folder, [("a", "b")] * 40, documents=range(40)))
    monkeypatch.chdir(tmp_path)
    for name, trees in (("toy", toy_trees), ("only-dep", only_dep), ("of-one", of_one)):
        Path(name).symlink_to(trees)
    Path("bad.toml").write_text("[loop]\nbatch = 'x'\n")


@pytest.mark.usefixtures("of_bad_inputs")
@pytest.mark.parametrize(("message", "words"), BAD_INPUTS.items())
def test_bad_input_is_one_line_and_exit_code_2(message: str, words: list[str], refusal) -> None:
    assert message in refusal(cli, *words)
    assert not Path("runs/models").exists()


@pytest.mark.parametrize("same", [0.0, 1.0])
def test_word_dropout_is_a_function_of_the_step(tiny: NewViewsConfig, same: float) -> None:
    """Each view loses words of its own where views are to find the same sentence."""
    config = changed(tiny, table={"dropout": 0.5}, loop={"segments": 2}, objective={"same": same})
    trainer, patterns = open_trainer(config), []
    for job in trainer.jobs():
        step, same_step = job(), job()
        for one, other in zip(step.segments, same_step.segments, strict=True):
            tokens = one.micro_batches[0].tokens
            assert len(tokens) == (2 if same else 1)
            assert all(map(torch.equal, tokens, other.micro_batches[0].tokens))
            patterns += [(step.rows[token] == 0).tolist() for token in tokens]
    assert 0.4 < np.mean(list(chain(*patterns))) < 0.6
    assert len({tuple(pattern[:8]) for pattern in patterns}) > len(patterns) / 2


@pytest.mark.parametrize(("losses", "step"), [((2.0, 4.0, 2.0, 3.0), 0), ((4.0, 2.0, 3.0), 3)])
def test_the_step_of_least_loss_is_kept(tiny, monkeypatch, losses: tuple[float, ...], step: int) -> None:
    """Training that only harms keeps the start."""
    monkeypatch.setattr(text_module.TextSteps, "scores", validated(losses))
    assert main(tiny) == 0
    training = read_json(tiny.folder / "config.json")["training"]
    assert (training["step"], training["sentences"]) == (step, step * tiny.loop.batch)
    assert training["best"]["loss"] == min(losses)
    card = (tiny.folder / "README.md").read_text()
    assert (
        f"step {step}, which had seen {training['sentences']} sentences" if step else "those of the start"
    ) in card
    weights = MultiViewEncoder.load(tiny.folder).network.parameters()
    start = open_trainer(tiny).network.parameters()
    assert all(torch.equal(a, b) for a, b in zip(weights, start, strict=False)) == (step == 0)


def test_neighbours_are_counted_on_centred_numbers_at_one_scale(tiny: NewViewsConfig) -> None:
    """Against numpy in float64, of the model that is kept and of the average of its words."""
    main(tiny)
    cache, best = open_trees(tiny.trees), read_json(tiny.folder / "config.json")["training"]["best"]
    trainer = open_trainer(tiny)
    rows = np.concatenate([np.arange(*span) for span in trainer.program.text.split.validation])
    network = MultiViewEncoder.load(tiny.folder).network
    tables = [table.detach().numpy().astype(np.float64) for table in network.words.tables]
    sentences = [network.words.vocabulary.lookup(toy_corpus()[0][row]) for row in rows]
    words = np.array([np.concatenate([table[ids].mean(0) for table in tables]) for ids in sentences])
    vectors = MultiViewEncoder.load(tiny.folder).encode(None, trees=cache)[rows].astype(np.float64)
    document = np.searchsorted(np.asarray(cache.documents()), rows, side="right")
    near = (abs(rows[:, None] - rows) == 1) & (document[:, None] == document)
    both = np.hstack([vectors, words[:, : tables[0].shape[1]]])
    for name, x in (("recall@1", vectors), ("recall@1/words", words), ("recall@1/both", both)):
        x = (x - x.mean(0)) / x.std(0)
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        cosines = x @ x.T - 9 * np.eye(len(x))
        hits = near[np.arange(len(x)), cosines.argmax(1)][near.any(1)]
        assert best[name] == pytest.approx(hits.mean()), name


@pytest.mark.usefixtures("fake_device")
@pytest.mark.parametrize("beside", [None, "words"])
def test_the_mean_of_the_words_stands_beside_the_views_where_it_helps(tiny, monkeypatch, beside) -> None:
    """The trained model and its start have the same form; without being asked, validation decides."""
    scores = {"anchors": 9, "loss": 2.0, **dict.fromkeys(("accuracy@1", "recall@1", "recall@1/words"), 0.2)}
    recall = 0.1 if beside else 0.3
    monkeypatch.setattr(text_module.TextSteps, "scores", lambda *_, **__: scores | {"recall@1/both": recall})
    config = changed(tiny, preset="laptop", beside=beside, loop={"max_steps": 2})
    main(config)
    cache, encoder = open_trees(tiny.trees), MultiViewEncoder.load(config.folder)
    assert encoder.views == ["dep", "const", "bag"] and encoder.has_scale
    alone = changed(config, beside="nothing", name="alone")
    main(alone)
    views, whole = (one.encode(None, trees=cache) for one in (MultiViewEncoder.load(alone.folder), encoder))
    words = np.array([encoder.word_vectors(tokens).mean(0) for tokens in toy_corpus()[0]])
    np.testing.assert_allclose(whole, np.hstack([views, words[:, : config.table.dim]]), atol=1e-5)
    start = load_start(config.folder, tiny.trees)
    assert start.views == encoder.views and start.has_scale
    np.testing.assert_allclose(start.encode(None, trees=cache), whole, atol=1e-5)  # the start was kept
    card = (config.folder / "README.md").read_text()
    assert "(dep 8, const 8, bag 6)" in card and "it stands beside them" in card


@pytest.mark.usefixtures("fake_device")
@pytest.mark.parametrize("name", ["laptop", "paper"])
def test_features_have_one_scale_over_the_training_text(tiny: NewViewsConfig, name: str, monkeypatch) -> None:
    """Against numpy in float64; those of the paper's preset are raw."""
    monkeypatch.setattr("multiview.training.text.sample_ranges", lambda text: sample_ranges(text, 60, 4))
    config = changed(tiny, preset=name, loop={"max_steps": 3})
    main(config)
    cache, encoder = open_trees(tiny.trees), MultiViewEncoder.load(config.folder)
    raw, features = encoder.view_vectors(None, trees=cache), encoder.features(None, trees=cache)
    np.testing.assert_array_equal(raw, encoder.encode(None, trees=cache))
    assert encoder.has_scale == (name == "laptop")
    expected, const_expected = raw.astype(np.float64), raw[:, 8:]
    if encoder.has_scale:
        spans = sample_ranges(open_trainer(config).program.text.split.training, 60, 4)
        rows = np.concatenate([np.arange(*span) for span in spans])
        assert 50 < len(rows) <= 60
        expected = FEATURE_LENGTH / 4 * (expected - expected[rows].mean(0)) / expected[rows].std(0)
        const_expected = features[:, 8:] * 2**0.5  # half as many numbers have the same length
        assert read_json(config.folder / "config.json")["scale"] == {"origin": "toy"}
    np.testing.assert_allclose(features, expected, atol=1e-5)
    const_features = encoder.features(None, trees=cache, views=["1-const"])
    np.testing.assert_allclose(const_features, const_expected, atol=1e-6)
