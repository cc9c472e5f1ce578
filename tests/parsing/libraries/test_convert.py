"""Checkpoints that the libraries saved become model folders, and nothing else does."""

from __future__ import annotations

import pytest
import torch

from parsing.convert import cli as convert
from parsing.text_parser import load_parser
from tests.oracles.benepar import stock_parse
from tests.oracles.supar import stock_predict, to_supar
from tests.parsing.examples import (
    ODD,
    SENTENCES,
    WORDS,
    as_lists,
    benepar_model,
    random_arcs,
    save_as_benepar_does,
)
from tests.parsing.subcommand import run

pytestmark = [
    pytest.mark.filterwarnings("ignore:Using a non-tuple sequence:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*arg_constraints:UserWarning"),
]


def test_a_checkpoint_saved_by_supar_converts(tmp_path, capsys):
    parser = to_supar(random_arcs())
    parser.save(str(tmp_path / "theirs.pt"))
    arguments = ["dep", tmp_path / "theirs.pt", tmp_path / "ours"]
    assert run(convert, *arguments) == 2
    assert "add --trust-pickle" in capsys.readouterr().err
    assert not (tmp_path / "ours").exists()
    assert run(convert, *arguments, "--trust-pickle") == 0
    sentences = [list(s.tokens) for s in SENTENCES] + ODD
    ours = load_parser("dep", str(tmp_path / "ours"))
    parses = ours.parse(sentences)
    names = [[ours.relations[r] for r in p.relations] for p in parses]
    assert stock_predict(parser, sentences) == ([p.heads.tolist() for p in parses], names)


def test_benepars_checkpoint_by_file_and_converted(tmp_path):
    model = benepar_model(4)
    path = save_as_benepar_does(model, tmp_path / "tiny.pt")
    assert run(convert, "const", path, tmp_path / "folder") == 2
    assert run(convert, "const", path, tmp_path / "folder", "--trust-pickle") == 0
    stock = as_lists(stock_parse(model, WORDS))
    for spec in (path, tmp_path / "folder"):
        assert as_lists(load_parser("const", str(spec)).parse(WORDS)) == stock


@pytest.mark.parametrize("kind", ["dep", "const"])
@pytest.mark.parametrize(
    "content",
    [
        b"no checkpoint",
        b"\x80\x65 not pickle's own error",
        [1],
        {"name": "crf-constituency", "state_dict": {}},
        {"config": {"hparams": 3}, "state_dict": {}},
        {"config": {"hparams": {}, "tag_vocab": {}, "label_vocab": {}, "char_vocab": {}}, "state_dict": 3},
    ],
)
def test_other_files_are_refused(tmp_path, capsys, kind, content):
    path = tmp_path / "file.pt"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        torch.save(content, path)
    assert run(convert, kind, path, tmp_path / "out", "--trust-pickle") == 2
    assert len(capsys.readouterr().err.splitlines()) == 1 and not (tmp_path / "out").exists()
