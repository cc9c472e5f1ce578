"""supar's transformer, tag and CRF parsers: our inference against its own ``predict``."""

from __future__ import annotations

import json

import pytest
import torch
from supar import BiaffineDependencyParser, CRFDependencyParser, VIDependencyParser

from corpora.support.errors import UserError
from parsing.convert import cli as convert_cli
from parsing.dependency.subword_model import SubwordParser
from parsing.dependency.train import read_dependencies
from parsing.models import load_dependency_parser
from tests.fixtures.transformers import save_bert, save_roberta
from tests.oracles.supar import stock_predict
from tests.parsing.dependency.examples import ODD, SENTENCES
from tests.parsing.libraries.test_supar import conllu
from tests.parsing.subcommand import run

# supar's, under today's torch.
pytestmark = pytest.mark.filterwarnings("ignore:Using a non-tuple sequence:UserWarning")
TOKENS = [list(s.tokens) for s in SENTENCES] + ODD
LONG = ["cats", "sleep", "on", "mats"] * 15
SIZES = {
    "n_embed": 8, "n_pretrained": 8, "n_char_embed": 5, "n_char_hidden": 6, "n_feat_embed": 6,
    "n_lstm_hidden": 7, "n_lstm_layers": 2, "n_arc_mlp": 9, "n_rel_mlp": 4,
}  # fmt: skip


def build(folder, kind=BiaffineDependencyParser, **options):
    """A parser of supar's own with random weights."""
    train = str(conllu(folder / "train.conllu"))
    torch.manual_seed(3)
    values = {"encoder": "lstm", "feat": ["char"], "embed": None, "unk": "unk", "n_bert_layers": 2} | SIZES
    parser = kind.build(
        str(folder / "parser"), min_freq=2, train=train, build=True, **({"fix_len": 9} | values | options)
    )
    with torch.no_grad():
        for name, parameter in parser.model.named_parameters():
            if ".bert." not in name and parameter.requires_grad:
                parameter.normal_(0, 0.5)
    parser.model.eval()
    return parser


def convert(parser, folder):
    """Saved by supar, converted by the command, loaded by specification."""
    parser.save(str(folder / "theirs.pt"))
    command = ["dep", str(folder / "theirs.pt"), str(folder / "ours"), "--trust-pickle"]
    assert run(convert_cli, *command) == 0
    return load_dependency_parser(str(folder / "ours"))


def assert_same(ours, stock, sentences) -> None:
    parses = ours.parse(sentences)
    heads, relations = stock_predict(stock, sentences)
    assert [p.heads.tolist() for p in parses] == heads
    assert [[ours.relations[r] for r in p.relations] for p in parses] == relations
    assert len({tuple(h) for h in heads}) > 1


@pytest.fixture(scope="module")
def backbones(tmp_path_factory):
    folder = tmp_path_factory.mktemp("backbones")
    (folder / "bert").mkdir()
    (folder / "roberta").mkdir()
    # 40 positions: the longer sentences are read in windows.
    return {
        "bert": str(save_bert(folder / "bert", positions=40)),
        "roberta": str(save_roberta(folder / "roberta")),
    }


@pytest.mark.parametrize(
    ("backbone", "options"),
    [
        ("bert", {}),
        ("bert", {"bert_pooling": "first", "fix_len": 2}),
        ("bert", {"bert_pooling": "last", "n_bert_layers": 0}),
        ("roberta", {}),
        ("roberta", {"bert_pooling": "last", "scale": 0.5}),
    ],
)
def test_a_transformer_as_encoder(backbones, tmp_path, backbone, options) -> None:
    parser = build(tmp_path, encoder="bert", bert=backbones[backbone], **options)
    ours = convert(parser, tmp_path)
    assert isinstance(ours, SubwordParser) and ours.model.encoder is None
    assert_same(ours, parser, [*TOKENS, LONG])
    ours.runner.positions = 30
    assert_same(ours, parser, [*TOKENS, LONG])


@pytest.mark.parametrize(
    "options",
    [
        {"feat": ["bert"]},
        {"feat": ["char", "bert"]},
        {"feat": ["tag", "char", "bert"], "n_char_hidden": 8},
        {"feat": ["char", "bert"], "freeze": False, "bert_pooling": "first"},
    ],
    ids=["alone", "with characters", "with tags and projected characters", "tuned"],
)
def test_a_transformer_as_a_feature(backbones, tmp_path, options) -> None:
    parser = build(tmp_path, bert=backbones["roberta"], **options)
    ours = convert(parser, tmp_path)
    assert isinstance(ours, SubwordParser) and ours.model.encoder is not None
    assert_same(ours, parser, [*TOKENS, LONG])


@pytest.mark.parametrize("feat", [["tag"], ["tag", "char"]])
def test_tags_are_missing_as_in_predict_on_words(tmp_path, capsys, feat) -> None:
    parser = build(tmp_path, feat=feat)
    ours = convert(parser, tmp_path)
    assert "reads every tag as missing" in capsys.readouterr().out
    assert "reads every tag as missing" in (tmp_path / "ours" / "README.md").read_text()
    assert_same(ours, parser, [*TOKENS, LONG])


def test_a_crf_model_is_decoded_to_the_best_tree(tmp_path, capsys) -> None:
    parser = build(tmp_path, CRFDependencyParser)
    ours = convert(parser, tmp_path)
    assert "predict(mbr=False, proj=False)" in capsys.readouterr().out
    dataset = parser.predict(TOKENS, mbr=False, proj=False, verbose=False)
    parses = ours.parse(TOKENS)
    assert [p.heads.tolist() for p in parses] == dataset.arcs
    assert [[ours.relations[r] for r in p.relations] for p in parses] == dataset.rels


@pytest.mark.data
def test_real_sentences(backbones, tmp_path, data_folder) -> None:
    sentences = read_dependencies([data_folder / "treebank" / "gum" / "dev.conllu"])[::12]
    tokens = [list(s.tokens) for s in sentences]
    parser = build(tmp_path, encoder="bert", bert=backbones["roberta"])
    assert_same(convert(parser, tmp_path), parser, tokens)


def test_odd_words_have_pieces_of_their_own(backbones, tmp_path) -> None:
    ours = convert(build(tmp_path, encoder="bert", bert=backbones["bert"]), tmp_path)
    odd = [[""], [" "], ["\u200b", "\ud800"], ["[PAD]", "sat"], ["x" * 5000], ["日本", "語"]]
    assert [len(p.heads) for p in ours.parse(odd)] == [len(tokens) for tokens in odd]


def refusal(folder, capsys) -> str:
    command = ["dep", str(folder / "theirs.pt"), str(folder / "ours"), "--trust-pickle"]
    assert run(convert_cli, *command) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and not (folder / "ours").exists()
    return lines[0]


def test_what_cannot_be_run_is_one_line(tmp_path, capsys) -> None:
    parser = build(tmp_path, VIDependencyParser, n_sib_mlp=3)
    parser.save(str(tmp_path / "theirs.pt"))
    assert "a 'vi-dependency' model; only biaffine-dependency and crf-dependency" in refusal(tmp_path, capsys)
    parser = build(tmp_path)
    parser.model.args.feat = ["char", "lemma"]
    parser.save(str(tmp_path / "theirs.pt"))
    assert "features lemma; only tag, char, bert convert" in refusal(tmp_path, capsys)


def test_a_transformer_whose_files_are_gone(tmp_path, capsys) -> None:
    (tmp_path / "bert").mkdir()
    backbone = save_bert(tmp_path / "bert")
    build(tmp_path, encoder="bert", bert=str(backbone)).save(str(tmp_path / "theirs.pt"))
    backbone.rename(tmp_path / "elsewhere")
    capsys.readouterr()
    assert str(backbone) in refusal(tmp_path, capsys)


def test_a_folder_of_another_version_is_one_line(backbones, tmp_path) -> None:
    convert(build(tmp_path, encoder="bert", bert=backbones["bert"]), tmp_path)
    config = json.loads((tmp_path / "ours" / "config.json").read_text())
    config["model"]["backbone"]["model_type"] = "unheard"
    (tmp_path / "ours" / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match="not a transformer that can be built here") as caught:
        load_dependency_parser(str(tmp_path / "ours"))
    assert "\n" not in str(caught.value)
