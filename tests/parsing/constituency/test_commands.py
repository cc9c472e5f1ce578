"""train, score, convert and load of constituency parsers, as a user calls them."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from corpora.documents import Document, Sentence
from corpora.support.errors import UserError
from corpora.treebanks import write_conllu
from parsing.constituency.task import arc_names
from parsing.constituency.train import read_extra, read_treebank
from parsing.convert import cli as convert
from parsing.libraries.benepar_stock import stock_parse
from parsing.models import load_constituency_parser
from parsing.score import cli as score
from parsing.train import cli as train
from tests.parsing.constituency.examples import SENTENCES, benepar_model, save_as_benepar_does
from tests.parsing.subcommand import run

pytestmark = pytest.mark.filterwarnings("ignore:.*arg_constraints:UserWarning")

TREES = [
    "(ROOT (S (NP-SBJ (PRP It)) (VP (VBZ rains)) (. .)))",
    "(ROOT (S (NP-SBJ (DT The) (NN dog)) (VP (VBZ sleeps)) (. .)))",
    "(ROOT (S (NP-SBJ (DT The) (NN cat)) (VP (VBZ sees) (NP (DT the) (NN dog))) (. .)))",
    "(ROOT (NP (NP (DT the) (NN end)) (PP (IN of) (NP (DT the) (NN day)))))",
    "(ROOT (UH Yes))",
]
HEADS = [(2, 0, 2), (2, 3, 0, 3), (2, 3, 0, 5, 3, 3), (2, 0, 5, 5, 2), (0,)]
SMALL = [
    "--model.min-count", "1", "--model.encoder.word-dim", "12", "--model.encoder.hidden", "12",
    "--model.encoder.layers", "1", "--model.encoder.dropout", "0", "--model.encoder.embedding-dropout", "0",
    "--model.label-hidden", "16", "--model.tag-hidden", "8", "--batch-tokens", "12",
    "--learning-rate", "0.02", "--average", "0",
]  # fmt: skip


@pytest.fixture(scope="module")
def treebank(tmp_path_factory):
    """A bracket file and the CoNLL-U file of the same sentences: documents talk_1 and news_1."""
    path = tmp_path_factory.mktemp("treebank") / "tiny.ptb"
    path.write_text("\n".join(TREES) + "\n", encoding="utf-8")
    sentences = [
        Sentence(tree.words, tree.tags, heads, tuple("root" if h == 0 else "dep" for h in heads))
        for tree, heads in zip(read_treebank([path]), HEADS, strict=True)
    ]
    documents = [Document("talk_1", tuple(sentences[:2])), Document("news_1", tuple(sentences[2:]))]
    write_conllu(path.with_suffix(".conllu"), documents)
    return path


@pytest.fixture(scope="module")
def trained(treebank):
    folder = treebank.parent / "model"
    assert run(train, "const", "--train", treebank, "--dev", treebank, "--output", folder,
               "--extra", treebank.with_suffix(".conllu"), "--epochs", 40, *SMALL) == 0  # fmt: skip
    return folder


def test_train_writes_a_folder_that_parses_and_scores(trained, treebank, capsys) -> None:
    assert run(score, "const", trained, treebank) == 0
    scores = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert scores["f1"] > 80 and scores["tags"] > 80
    assert scores["name"] == "model" and len(scores["sha256"]) == 64
    card = (trained / "README.md").read_text()
    assert f"| {scores['f1']:.2f} | {scores['tags']:.2f} |" in card
    assert "tiny.ptb" in card and "| epoch | minutes | loss |" in card
    parser = load_constituency_parser(str(trained))
    parses = parser.parse([["Cats", "sleep"], ["x"]])
    assert [len(p.tags) for p in parses] == [2, 1]
    assert all((p.starts[0], p.ends[0]) == (0, len(p.tags)) and p.tags.dtype == np.int32 for p in parses)


def test_training_again_changes_nothing_and_another_setting_is_refused(trained, treebank, capsys) -> None:
    before = (trained / "model.safetensors").read_bytes()
    command = ["const", "--train", treebank, "--dev", treebank, "--output", trained, *SMALL]
    command += ["--extra", treebank.with_suffix(".conllu")]
    assert run(train, *command, "--epochs", 40) == 0
    assert (trained / "model.safetensors").read_bytes() == before
    capsys.readouterr()
    assert run(train, *command, "--epochs", 41) == 2
    assert "was made with epochs=40, not 41" in capsys.readouterr().err.splitlines()[-1]


def test_going_on_from_a_model(trained, treebank, tmp_path, capsys) -> None:
    command = ["const", "--train", treebank, "--dev", treebank, "--output", tmp_path / "more", *SMALL]
    assert run(train, *command, "--start-from", trained, "--epochs", 1) == 0
    curve = (tmp_path / "more" / "training" / "log.jsonl").read_text().splitlines()
    assert json.loads(curve[0])["f1"] > 80  # one epoch from scratch reaches nothing
    assert "started from the weights" in (tmp_path / "more" / "README.md").read_text()
    (tmp_path / "other.ptb").write_text("(ROOT (XP (DT the) (NN end)))")
    other = ["const", "--train", tmp_path / "other.ptb", "--dev", treebank, *SMALL, "--start-from", trained]
    capsys.readouterr()
    assert run(train, *other, "--output", tmp_path / "none") == 2
    assert "no label 'XP'" in capsys.readouterr().err.splitlines()[-1]
    assert run(train, *command[:-1], 0.1, "--start-from", trained, "--model.tag-hidden", 9) == 2
    assert "another configuration" in capsys.readouterr().err.splitlines()[-1]


def test_documents_can_be_left_out(treebank, tmp_path) -> None:
    assert len(read_treebank([treebank])) == 5
    assert [t.words for t in read_treebank([treebank], ["talk_"])] == [
        t.words for t in read_treebank([treebank])[2:]
    ]
    assert len(read_extra([treebank.with_suffix(".conllu")], ["news_"])) == 2
    short = tmp_path / "short.ptb"
    short.write_text(TREES[0])
    (tmp_path / "short.conllu").write_bytes(treebank.with_suffix(".conllu").read_bytes())
    with pytest.raises(UserError, match=r"1 trees, but short\.conllu has 5"):
        read_treebank([short], ["talk_"])
    with pytest.raises(UserError, match="no trees"):
        read_treebank([treebank], ["talk_", "news_"])


def test_arc_classes() -> None:
    sentence = Sentence(("a", "dog", "barks"), ("DT", "NNS", "VBZ"), (2, 3, 0), ("det", "nsubj:pass", "root"))
    assert arc_names(sentence) == ["det > NN", "nsubj > VB", "root < "]
    assert arc_names(Sentence(("a",))) == [""]


def test_benepars_checkpoint_by_file_and_converted(tmp_path, capsys) -> None:
    model = benepar_model(4)
    path = save_as_benepar_does(model, tmp_path / "tiny.pt")
    assert run(convert, "const", path, tmp_path / "folder") == 2
    assert "--trust-pickle" in capsys.readouterr().err
    assert run(convert, "const", path, tmp_path / "folder", "--trust-pickle") == 0
    stock = stock_parse(model, SENTENCES)
    for spec in (path, tmp_path / "folder"):
        for ours, theirs in zip(load_constituency_parser(str(spec)).parse(SENTENCES), stock, strict=True):
            for name in ("tags", "starts", "ends", "labels"):
                np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))


NO_CHECKPOINTS = [
    {"state_dict": {}},
    [1],
    {"config": {"hparams": 3}, "state_dict": {}},
    {"config": {"hparams": {}, "tag_vocab": {}, "label_vocab": {}, "char_vocab": {}}, "state_dict": 3},
]


@pytest.mark.parametrize("content", NO_CHECKPOINTS)
def test_what_is_no_checkpoint_is_one_line(content, tmp_path, capsys) -> None:
    torch.save(content, tmp_path / "other.pt")
    assert run(convert, "const", tmp_path / "other.pt", tmp_path / "f", "--trust-pickle") == 2
    assert "not a benepar checkpoint" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("spec", "complaint"), [("nothing", "no benepar model"), (".", "not a model folder")]
)
def test_models_that_are_not_there(spec, complaint, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=complaint) as caught:
        load_constituency_parser(spec)
    assert "\n" not in str(caught.value)


def test_a_dependency_folder_is_refused(tmp_path) -> None:
    (tmp_path / "config.json").write_text('{"format": 1, "kind": "dependency"}')
    with pytest.raises(UserError, match="a dependency model where a constituency"):
        load_constituency_parser(str(tmp_path))
    (tmp_path / "config.json").write_text("[]")  # ended in an AttributeError
    with pytest.raises(UserError, match="model format None"):
        load_constituency_parser(str(tmp_path))


def test_dry_run_follows_a_budget_of_minutes(treebank, tmp_path, capsys):
    code = run(train, "const", "--train", treebank, "--dev", treebank,
               "--output", tmp_path / "out", "--minutes", 30, "--dry-run", *SMALL)  # fmt: skip
    assert code == 0
    text = capsys.readouterr().out
    assert "time         30.0 min" in text and "encoder" in text
    assert not (tmp_path / "out").exists()
