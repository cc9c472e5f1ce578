"""benepar's own models by file, folder and name; our models in benepar's classes give our trees."""

from __future__ import annotations

import pytest
import torch
from benepar.integrations.nltk_plugin import InputSentence

from corpora.support.errors import UserError
from parsing.convert import cli as convert
from parsing.libraries.benepar import BeneparParser, load_benepar, todays_libraries
from parsing.networks.constituency import SpanParser
from parsing.text_parser import load_parser
from tests.fixtures.transformers import save_bert, save_roberta, save_t5
from tests.oracles.benepar import stock_parse, to_benepar
from tests.parsing.examples import LABELS, TAGS, as_lists, benepar_model, random_spans, save_as_benepar_does
from tests.parsing.examples import WORDS as SENTENCES

# torch-struct's, under today's torch.
pytestmark = pytest.mark.filterwarnings("ignore:.*arg_constraints:UserWarning")


@pytest.mark.parametrize("seed", range(3))
def test_our_model_parses_as_stock_benepar_does(seed) -> None:
    model = random_spans(seed)
    parser = SpanParser(model, {})
    parser.positions = 40
    ours = parser.parse(SENTENCES * 3)
    assert as_lists(ours) == as_lists(stock_parse(to_benepar(model), SENTENCES * 3))
    assert len({tuple(p.labels.tolist()) for p in ours}) > 2  # not all the same tree
    alone = [SpanParser(model, {}).parse([tokens])[0] for tokens in SENTENCES]
    assert as_lists(alone * 3) == as_lists(ours)


def test_a_parse_is_benepars_tree() -> None:
    """Word for word against the tree that benepar itself builds."""
    model = benepar_model(1)
    for tokens, parse in zip(SENTENCES, BeneparParser(model, {}).parse(SENTENCES), strict=True):
        words = InputSentence(words=tokens, space_after=[True] * len(tokens), escaped_words=tokens)
        (tree,) = model.parse([words])
        assert [tag for _, tag in tree.pos()] == [TAGS[i] for i in parse.tags]
        leaves = [tree.leaf_treeposition(i) for i in range(len(tokens))]
        spans = {(0, len(tokens))}
        for place in tree.treepositions():
            if not isinstance(tree[place], str) and tree[place].height() > 2:
                covered = [i for i, leaf in enumerate(leaves) if leaf[: len(place)] == place]
                spans.add((covered[0], covered[-1] + 1))
        assert set(zip(parse.starts.tolist(), parse.ends.tolist(), strict=True)) == spans


@pytest.mark.parametrize("changes", [{}, {"predict_tags": False}, {"force_root_constituent": False}])
def test_benepars_character_model(tmp_path, changes) -> None:
    path = save_as_benepar_does(benepar_model(1, **changes), tmp_path / "tiny.pt")
    parser = load_benepar(str(path))
    assert parser.labels == LABELS
    assert parser.tags == (TAGS if changes.get("predict_tags", True) else ("UNK",))
    assert set(parser.identity) == {"name", "version", "sha256"}
    stock = as_lists(stock_parse(benepar_model(1, **changes), SENTENCES))
    assert convert(["const", str(path), str(tmp_path / "folder")]) == 2
    assert convert(["const", str(path), str(tmp_path / "folder"), "--trust-pickle"]) == 0
    for spec in (path, tmp_path / "folder"):
        assert as_lists(load_parser("const", str(spec)).parse(SENTENCES)) == stock
    parser.positions = 40
    assert as_lists(parser.parse(SENTENCES)) == stock
    assert as_lists(parser.parse(SENTENCES[::-1])) == stock[::-1]
    assert as_lists(parser.parse([["a", "", "b"]])) == as_lists(parser.parse([["a", "-", "b"]]))
    assert parser.parse([]) == []
    with pytest.raises(ValueError, match="the model takes 30"):
        parser.parse([["a"] * 31])


@pytest.fixture(scope="module")
def backbones(tmp_path_factory):
    """Tiny random transformers by name, as pretrained models lie on disk."""
    bert, roberta, t5 = (tmp_path_factory.mktemp(name) for name in ("bert", "roberta", "t5"))
    return {"bert": save_bert(bert, positions=40), "roberta": save_roberta(roberta), "t5": save_t5(t5)}


def pretrained(folder, **changes):
    """benepar's model over a transformer."""
    kind = {"use_chars_lstm": False, "use_pretrained": True, "pretrained_model": str(folder)}
    with todays_libraries():
        return benepar_model(2, **kind, **changes)


@pytest.mark.parametrize("use_encoder", [True, False])
@pytest.mark.parametrize("name", ["bert", "roberta", "t5"])
def test_a_pretrained_transformer(backbones, tmp_path, name, use_encoder) -> None:
    model = pretrained(backbones[name], use_encoder=use_encoder)
    parser = load_benepar(str(save_as_benepar_does(model, tmp_path / "tiny.pt")))
    sentences = [tokens for tokens in SENTENCES if name != "t5" or tokens[0].isascii()]
    stock = stock_parse(model, sentences)
    assert as_lists(parser.parse(sentences)) == as_lists(stock)
    assert len({tuple(p.labels.tolist()) for p in stock}) > 1


def test_a_transformer_exported_for_release(backbones, tmp_path) -> None:
    """benepar's release format: a folder with the tokenizer, the configuration and the weights."""
    model = pretrained(backbones["bert"])
    folder = tmp_path / "benepar_tiny"
    model.pretrained_model.config.benepar = model.config
    model.pretrained_model.config.save_pretrained(folder)
    model.retokenizer.tokenizer.save_pretrained(folder)
    torch.save(model.state_dict(), folder / "benepar_model.bin")
    parses = load_benepar(str(folder)).parse(SENTENCES)
    assert as_lists(parses) == as_lists(stock_parse(model, SENTENCES))


def test_what_makes_stock_benepar_crash(backbones) -> None:
    """Words of nothing, of spaces, of characters no tokenizer keeps, and too many of them."""
    parser = BeneparParser(pretrained(backbones["bert"]), {})
    odd = [["a", " ", "b"], ["", "a"], ["\u200b", "\u00a0"], ["a", "\ufe0f"]]
    mended = [["a", "-", "b"], ["-", "a"], ["-", "-"], ["a", "-"]]
    assert as_lists(parser.parse(odd)) == as_lists(parser.parse(mended))
    with pytest.raises(ValueError, match="the model takes 30"):
        parser.parse([["a"] * 60])


def test_what_is_no_model_of_benepars(tmp_path) -> None:
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "run"), "w"))

    torch.save({"config": Evil(), "state_dict": {}}, tmp_path / "evil.pt")
    for spec, message in (("benepar_none", r"benepar\.download"), (str(tmp_path / "evil.pt"), "cannot read")):
        with pytest.raises(UserError, match=message) as caught:
            load_benepar(spec)
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("kind", ["dep", "const"])
@pytest.mark.parametrize(
    "content",
    [
        None,
        [1],
        {"name": "crf-constituency", "state_dict": {}},
        {"config": {"hparams": 3}, "state_dict": {}},
        {"config": {"hparams": {}, "tag_vocab": {}, "label_vocab": {}, "char_vocab": {}}, "state_dict": 3},
    ],
)
def test_other_files_are_refused(tmp_path, capsys, kind, content):
    path = tmp_path / "file.pt"
    torch.save(content, path)
    if content is None:
        path.write_bytes(b"\x80\x65 not pickle's own error")
    assert convert([kind, str(path), str(tmp_path / "out"), "--trust-pickle"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1 and not (tmp_path / "out").exists()
