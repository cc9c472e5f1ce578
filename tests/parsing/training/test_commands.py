"""train, score and load, as a user calls them."""

import json

import pytest

from parsing.score import cli as score
from parsing.train import cli as train
from tests.fixtures.treebanks import write_treebank

SMALL = """
--model.min-count 1 --model.encoder.word-dim 12 --model.encoder.hidden 12 --model.encoder.layers 1
--model.arcs.arc-dim 12 --model.arcs.relation-dim 8 --loop.dropout 0.1 --loop.batch-tokens 20
--loop.learning-rate 0.02 --loop.epochs 10
"""


@pytest.fixture(scope="module")
def treebank(tmp_path_factory):
    arcs, brackets = write_treebank(tmp_path_factory.mktemp("treebank"))
    return {"dep": arcs, "const": brackets}


def run(cli, *args: object) -> int:
    """The exit code of a command with these words."""
    return cli([str(arg) for arg in args])


def command(treebank, output, *options, kinds=("dep", "const")) -> list:
    files = [part for k in kinds for use in ("train", "dev") for part in (f"--{use}-{k}", treebank[k])]
    return [*files, "--output", output, *SMALL.split(), *options]


@pytest.fixture(scope="module")
def trained(treebank):
    folder = treebank["dep"].parent / "model"
    assert run(train, *command(treebank, folder)) == 0
    return folder


@pytest.mark.parametrize(("kind", "names"), [("dep", ("uas", "las")), ("const", ("f1", "tags"))])
def test_each_folder_parses_and_scores_as_its_card_says(trained, treebank, capsys, kind, names):
    assert run(score, kind, trained / kind, treebank[kind]) == 0
    scores = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert all(scores[name] > 80 for name in names)
    assert scores["name"] == f"model-{kind}" and len(scores["sha256"]) == 64
    card = (trained / kind / "README.md").read_text()
    parts = [*(f" {scores[name]:.2f} |" for name in names), f"tiny.{treebank[kind].suffix[1:]}"]
    assert all(part in card for part in parts)


@pytest.mark.parametrize(
    ("kind", "heads", "message"),
    [
        ("dep", "5", ":1: head '5'"),
        ("dep", "_", "has no heads"),
        ("dep", "032", "'x x x': the heads have a cycle"),
        ("dep", "00", "'x x': not exactly one root"),
        ("const", "", "no sentences"),
    ],
)
def test_a_bad_treebank_is_one_line_and_exit_2(tmp_path, treebank, refusal, kind, heads, message):
    path = tmp_path / "bad.txt"
    rows = [
        f"{i}\tx\t_\t_\t_\t_\t{head}\t{'_' if head == '_' else 'dep'}\t_\t_\n"
        for i, head in enumerate(heads, 1)
    ]
    path.write_text("".join(rows) + "\n" * bool(rows))
    line = refusal(train, *command({**treebank, kind: path}, tmp_path / "m", kinds=(kind,)))
    assert str(path) in line and message in line
