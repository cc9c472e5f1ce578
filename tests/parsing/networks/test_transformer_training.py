"""parsing.train --transformer: parsers over a pretrained transformer, as MV's own."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel, AutoTokenizer

from corpora.documents import Document
from corpora.support.errors import UserError
from corpora.treebanks import write_conllu
from parsing.constituency.subword_model import SubwordConstituencyModel
from parsing.constituency.task import ConstituencyTask
from parsing.constituency.train import read_treebank
from parsing.dependency.task import DependencyTask
from parsing.models import load_constituency_parser, load_dependency_parser
from parsing.networks.config import ConstituencyConfig, DependencyConfig, LoopConfig
from parsing.networks.subwords import read_transformer
from parsing.networks.training import Trainer, seed_everything
from parsing.train import cli as train
from tests.fixtures.transformers import save_bert, save_roberta
from tests.parsing.constituency.test_commands import TREES
from tests.parsing.dependency.examples import SENTENCES
from tests.parsing.subcommand import run

LOOP = ["--loop.batch-tokens", "20", "--loop.learning-rate", "0.005", "--loop.pretrained-rate", "1"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return save_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("treebank")
    write_conllu(folder / "tiny.conllu", [Document("a", tuple(SENTENCES))], tags="upos")
    (folder / "tiny.ptb").write_text("\n".join(TREES) + "\n")
    return {"dep": folder / "tiny.conllu", "const": folder / "tiny.ptb"}


@pytest.mark.parametrize("save", [save_bert, save_roberta])
def test_words_get_the_vectors_that_transformers_computes(save, tmp_path):
    """One sentence at a time, by transformers' own tokenizer and model: mean of the last four layers."""
    folder = save(tmp_path)
    pretrained = read_transformer(folder)
    (tree,) = read_treebank([_one_tree(tmp_path, "(S (NP (DT the) (NN cats)) (VP (VBZ catnaps)))")])
    task = ConstituencyTask([tree], [tree], ConstituencyConfig(), transformer=pretrained)
    assert isinstance(task.model, SubwordConstituencyModel)
    encoder = task.model.subwords.eval()
    states, lengths = task._sentences.states([0])
    model = AutoModel.from_pretrained(folder).eval()
    names = AutoTokenizer.from_pretrained(folder)
    pieces = [names(word, add_special_tokens=False)["input_ids"] for word in tree.words]
    if save is save_bert:
        assert any(len(ids) > 1 for ids in pieces)
    ids = [[names.cls_token_id], *pieces, [names.sep_token_id]]
    with torch.no_grad():
        flat = torch.tensor([[i for part in ids for i in part]])
        layers = model(flat, output_hidden_states=True).hidden_states
        mixed = torch.stack(layers[-4:]).mean(0)[0]
        words = torch.stack([part.mean(0) for part in mixed.split([len(i) for i in ids])])
        torch.testing.assert_close(states[0], words @ encoder.projection.weight.T, rtol=1e-4, atol=1e-5)
    assert lengths.tolist() == [5]


def _one_tree(folder, text):
    path = folder / "one.ptb"
    path.write_text(f"(ROOT {text})\n")
    return path


@pytest.mark.parametrize("kind", ["dep", "const"])
def test_it_learns_and_the_folder_parses_like_the_model(kind, bert, files, tmp_path):
    command = [kind, "--train", files[kind], "--dev", files[kind], "--transformer", bert, *LOOP]
    assert run(train, *command, "--output", tmp_path / "out", "--loop.epochs", 60) == 0
    log = [json.loads(line) for line in (tmp_path / "out/training/log.jsonl").read_text().splitlines()]
    metric = "uas" if kind == "dep" else "f1"
    assert max(line[metric] for line in log) > 90
    assert log[-1]["loss"] < log[0]["loss"] / 3
    card = (tmp_path / "out/README.md").read_text()
    assert "over a pretrained transformer" in card and "started from the weights" in card
    load = load_dependency_parser if kind == "dep" else load_constituency_parser
    (parse,) = load(str(tmp_path / "out")).parse([["Cats", "sleep", "(", "soundly", ")"]])
    assert len(parse.heads if kind == "dep" else parse.tags) == 5


@pytest.mark.parametrize("kind", ["dep", "const"])
def test_a_killed_run_ends_in_the_same_bytes(kind, bert, files, tmp_path, monkeypatch):
    command = [kind, "--train", files[kind], "--dev", files[kind], "--transformer", bert, *LOOP]
    command += ["--loop.epochs", 3, "--name", "same"]
    assert run(train, *command, "--output", tmp_path / "whole") == 0
    epochs = []
    end_epoch = Trainer._end_epoch

    def killed(self):
        if len(epochs) == 2:
            raise KeyboardInterrupt
        epochs.append(end_epoch(self))

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_end_epoch", killed)
        assert run(train, *command, "--output", tmp_path / "killed") == 130
    assert run(train, *command, "--output", tmp_path / "killed") == 0
    weights = [load_file(tmp_path / name / "model.safetensors") for name in ("whole", "killed")]
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_pretrained_weights_move_at_their_own_rate(bert, tmp_path):
    """Adam's first steps depend on the learning rate, not on the gradient's size.

    The biaffine weights start from 0, so the encoder gets its first gradient at the second step.
    """
    config = LoopConfig(epochs=1, batch_tokens=1000, learning_rate=0.01, pretrained_rate=0.1, clip=1e9)
    seed_everything(config)
    task = DependencyTask(SENTENCES, SENTENCES, DependencyConfig(), read_transformer(bert))
    before = {name: value.clone() for name, value in task.module.state_dict().items()}
    trainer = Trainer(task, config, tmp_path, {})
    for _ in range(2):
        trainer._step(list(range(len(SENTENCES))), config.learning_rate)
    moved = {
        name: float((value - before[name]).abs().max()) for name, value in task.module.state_dict().items()
    }
    own, pretrained = "subwords.layer_weights", "subwords.model.encoder.layer.2.output.dense.weight"
    assert 0.005 < moved[own] < 0.01
    assert moved[pretrained] == pytest.approx(moved[own] / 10, rel=0.01)


def test_what_is_no_transformer_is_named(bert, tmp_path):
    with pytest.raises(UserError, match=r"config\.json: no such file; --transformer takes the folder"):
        read_transformer(tmp_path)
    shutil.copytree(bert, tmp_path / "bert")
    (tmp_path / "bert/model.safetensors").write_bytes(b"nothing")
    with pytest.raises(UserError, match=r"bert: transformers cannot read it"):
        read_transformer(tmp_path / "bert")
    shutil.copy(bert / "model.safetensors", tmp_path / "bert/model.safetensors")
    (tmp_path / "bert/config.json").write_text('{"model_type": "unheard-of"}')
    with pytest.raises(UserError, match=r"bert: transformers cannot read it"):
        read_transformer(tmp_path / "bert")
