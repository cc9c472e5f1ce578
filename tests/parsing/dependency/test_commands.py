"""train, score, convert and load of dependency parsers, as a user calls them."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch

from corpora.documents import Document
from corpora.support.errors import UserError
from corpora.support.files import LOCK, locked
from corpora.treebanks import write_conllu
from parsing.convert import cli as convert
from parsing.dependency.train import read_dependencies
from parsing.models import load_dependency_parser
from parsing.score import cli as score
from parsing.train import cli as train
from tests.oracles.supar import stock_predict, to_supar
from tests.parsing.dependency.examples import ODD, SENTENCES, random_model
from tests.parsing.subcommand import run

pytestmark = pytest.mark.filterwarnings("ignore:Using a non-tuple sequence:UserWarning")

SMALL = [
    "--model.min-count", "1", "--model.encoder.word-dim", "12", "--model.encoder.hidden", "12",
    "--model.encoder.layers", "1", "--model.scorer.arc-dim", "12", "--model.scorer.relation-dim", "8",
    "--loop.batch-tokens", "20", "--loop.learning-rate", "0.02",
]  # fmt: skip


@pytest.fixture(scope="module")
def treebank(tmp_path_factory):
    path = tmp_path_factory.mktemp("treebank") / "tiny.conllu"
    documents = [Document("talk_1", tuple(SENTENCES[:2])), Document("news_1", tuple(SENTENCES[2:]))]
    write_conllu(path, documents, tags="upos")
    return path


@pytest.fixture(scope="module")
def trained(treebank):
    folder = treebank.parent / "model"
    assert run(train, "dep", "--train", treebank, "--dev", treebank, "--output", folder,
               "--loop.epochs", 8, *SMALL) == 0  # fmt: skip
    return folder


def test_train_writes_a_folder_that_parses_and_scores(trained, treebank, capsys):
    assert run(score, "dep", trained, treebank) == 0
    scores = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert scores["uas"] > 30
    assert scores["name"] == "model" and len(scores["sha256"]) == 64
    card = (trained / "README.md").read_text()
    assert f"| without punctuation | {scores['uas']:.2f} | {scores['las']:.2f} |" in card
    assert "tiny.conllu" in card and "| epoch | minutes | loss |" in card
    saved = json.loads((trained / "training" / "config.json").read_text())
    assert saved["loop"]["epochs"] == 8 and saved["model"]["min_count"] == 1
    parses = load_dependency_parser(str(trained)).parse([["Cats", "sleep"], ["x"]])
    assert [len(p.heads) for p in parses] == [2, 1]
    assert all((p.heads == 0).sum() == 1 and p.heads.dtype == np.int32 for p in parses)


def test_training_again_changes_nothing_and_another_setting_is_refused(trained, treebank, capsys):
    before = (trained / "model.safetensors").read_bytes()
    command = ["dep", "--train", treebank, "--dev", treebank, "--output", trained, *SMALL]
    assert run(train, *command, "--loop.epochs", 8) == 0
    assert (trained / "model.safetensors").read_bytes() == before
    capsys.readouterr()
    assert run(train, *command, "--loop.epochs", 9) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert "was made with epochs=8, not 9" in error


def test_documents_can_be_left_out(treebank):
    assert len(read_dependencies([treebank])) == 6
    assert len(read_dependencies([treebank], ["talk_"])) == 4
    assert read_dependencies([treebank])[0].tags[-1] == "PUNCT"
    with pytest.raises(UserError, match="no sentences"):
        read_dependencies([treebank], ["talk_", "news_"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no such file"),
        ("1\tx\t_\t_\t_\t_\t0\n\n", ":1: 7 columns"),
        ("1\tx\t_\t_\t_\t_\t5\troot\t_\t_\n\n", ":1: head '5'"),
        ("1\tx\t_\t_\t_\t_\t_\t_\t_\t_\n\n", "has no heads"),
        ("", "no sentences"),
    ],
    ids=["missing", "columns", "head", "unannotated", "empty"],
)
def test_a_bad_treebank_is_one_line_and_exit_2(tmp_path, treebank, capsys, text, message):
    path = tmp_path / "bad.conllu"
    if text is not None:
        path.write_text(text)
    assert run(train, "dep", "--train", path, "--dev", treebank, "--output", tmp_path / "m") == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and str(path) in lines[0] and message in lines[0]


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--loop.epochs", 0, "--loop.epochs 0: must be at least 1"),
        ("--loop.warmup", 1, "--loop.warmup 1.0: must be below 1"),  # a ZeroDivisionError
        ("--loop.threads", 0, "--loop.threads 0: must be at least 1"),
        ("--loop.minutes", 0, "--loop.minutes 0.0: must be above 0"),
        ("--model.encoder.layers", 0, "--model.encoder.layers 0: must be at least 1"),
        ("--model.encoder.character-hidden", 1, "--model.encoder.character-hidden 1: must be at least 2"),
    ],
)
def test_numbers_that_cannot_work_are_refused(tmp_path, treebank, capsys, option, value, message):
    command = ["dep", "--train", treebank, "--dev", treebank, "--output", tmp_path / "m", option, value]
    assert run(train, *command) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and message in lines[0]
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("biaffine-dep-en", "python -m parsing.convert dep biaffine-dep-en FOLDER --trust-pickle"),
        ("some/where", "no such model folder"),
        (".", "not a model folder"),
    ],
)
def test_a_model_that_cannot_be_loaded_says_what_to_do(spec, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=message) as caught:
        load_dependency_parser(spec)
    assert "\n" not in str(caught.value)


def test_a_checkpoint_saved_by_supar_converts(tmp_path, capsys):
    parser = to_supar(random_model())
    parser.save(str(tmp_path / "theirs.pt"))
    arguments = ["dep", tmp_path / "theirs.pt", tmp_path / "ours"]
    assert run(convert, *arguments) == 2
    assert "add --trust-pickle" in capsys.readouterr().err
    assert not (tmp_path / "ours").exists()
    assert run(convert, *arguments, "--trust-pickle") == 0

    sentences = [list(s.tokens) for s in SENTENCES] + ODD
    ours = load_dependency_parser(str(tmp_path / "ours"))
    parses = ours.parse(sentences)
    assert stock_predict(parser, sentences) == (
        [p.heads.tolist() for p in parses],
        [[ours.relations[r] for r in p.relations] for p in parses],
    )


@pytest.mark.parametrize("content", ["garbage", "protocol", "list", "other"])
def test_other_files_are_refused(tmp_path, capsys, content):
    path = tmp_path / "file.pt"
    if content == "garbage":
        path.write_bytes(b"no checkpoint")
    elif content == "protocol":
        path.write_bytes(b"\x80\x65 not pickle's own error")
    else:
        torch.save([1] if content == "list" else {"name": "crf-constituency"}, path)
    assert run(convert, "dep", path, tmp_path / "out", "--trust-pickle") == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_first_word_is_needed(capsys):
    assert run(train) == 2
    assert "dep" in capsys.readouterr().err
    assert run(train, "--help") == 0
    assert "a dependency parser" in capsys.readouterr().out


@pytest.mark.parametrize("module", ["train", "score", "convert"])
def test_help_imports_nothing_heavy(command, module):
    program = f"import sys, parsing.{module}; sys.exit(any(m in sys.modules for m in ('torch', 'supar')))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
    result = command(f"parsing.{module}", "dep", "--help")
    assert result.returncode == 0 and "options" in result.stdout


@pytest.mark.parametrize("kind", ["dep", "const"])
def test_two_runs_into_one_folder_are_refused(tmp_path, kind, capsys):
    given = ("--train", tmp_path / "a", "--dev", tmp_path / "a", "--output", tmp_path / "model")
    with locked(tmp_path / "model"):
        assert run(train, kind, *given) == 2
    assert "another run is writing here" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "model").iterdir()] == [LOCK]
    left = tmp_path / "model" / "training" / ".config.json.abcd1234.tmp"
    left.parent.mkdir()
    left.touch()  # by a run that was killed
    assert run(train, kind, *given) == 2 and not left.exists()
