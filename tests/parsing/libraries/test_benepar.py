"""Our batched inference against benepar's own ``parse``, for our models and for benepar's."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from corpora.support.errors import UserError
from parsing.constituency.model import SpanParser
from parsing.libraries.benepar import BeneparParser, _special_tokens, load_benepar
from parsing.training.scores import read_treebank
from parsing.trees.binarise import binarise
from tests.fixtures.transformers import save_bert, save_roberta, save_t5
from tests.oracles.benepar import stock_parse, to_benepar
from tests.parsing.constituency.examples import (
    LABELS,
    SENTENCES,
    TAGS,
    benepar_model,
    random_model,
    save_as_benepar_does,
)

# torch-struct's, under today's torch.
pytestmark = pytest.mark.filterwarnings("ignore:.*arg_constraints:UserWarning")


def assert_same(ours, theirs) -> None:
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        for name in ("tags", "starts", "ends", "labels"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
            assert getattr(a, name).dtype == np.int32


@pytest.mark.parametrize("force_root", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_our_model_parses_as_stock_benepar_does(seed, force_root) -> None:
    model = random_model(seed, force_root=force_root)
    ours = SpanParser(model, {}, batch_positions=40).parse(SENTENCES * 3)
    assert_same(ours, stock_parse(to_benepar(model), SENTENCES * 3))
    for tokens, parse in zip(SENTENCES * 3, ours, strict=True):
        assert len(binarise(parse, len(LABELS)).label) == len(tokens) - 1
    assert len({tuple(p.labels.tolist()) for p in ours}) > 2  # not all the same tree


@pytest.mark.parametrize("changes", [{}, {"predict_tags": False}, {"force_root_constituent": False}])
def test_benepars_character_model(tmp_path, changes) -> None:
    path = save_as_benepar_does(benepar_model(1, **changes), tmp_path / "tiny.pt")
    parser = load_benepar(str(path))
    parser.runner.positions = 40
    assert parser.labels == LABELS
    assert parser.tags == (TAGS if changes.get("predict_tags", True) else ("UNK",))
    assert set(parser.identity) == {"name", "version", "sha256"}
    stock = stock_parse(benepar_model(1, **changes), SENTENCES)
    assert_same(parser.parse(SENTENCES), stock)
    assert_same(parser.parse(SENTENCES), stock)  # now from the cache of word types
    assert_same(parser.parse(SENTENCES[::-1]), stock[::-1])


@pytest.fixture(scope="module")
def backbones(tmp_path_factory):
    """Tiny random transformers by name, as pretrained models lie on disk."""
    folder = tmp_path_factory.mktemp("backbones")
    for name in ("bert", "roberta", "t5"):
        (folder / name).mkdir()
    return {
        "bert": save_bert(folder / "bert", positions=40),
        "roberta": save_roberta(folder / "roberta"),
        "t5": save_t5(folder / "t5"),
    }


def pretrained(folder, seed=2, **changes):
    """benepar's model over a transformer."""
    with _special_tokens():
        return benepar_model(
            seed, use_chars_lstm=False, use_pretrained=True, pretrained_model=str(folder), **changes
        )


@pytest.mark.parametrize("use_encoder", [True, False])
@pytest.mark.parametrize("name", ["bert", "roberta", "t5"])
def test_a_pretrained_transformer(backbones, tmp_path, name, use_encoder) -> None:
    model = pretrained(backbones[name], use_encoder=use_encoder)
    parser = load_benepar(str(save_as_benepar_does(model, tmp_path / "tiny.pt")))
    parser.runner.positions = 40
    sentences = [tokens for tokens in SENTENCES if name != "t5" or tokens[0].isascii()]
    stock = stock_parse(model, sentences)
    assert_same(parser.parse(sentences), stock)
    assert len({tuple(p.labels.tolist()) for p in stock}) > 1


def test_a_transformer_exported_for_release(backbones, tmp_path) -> None:
    """benepar's release format: a folder with the tokenizer, the configuration and the weights."""
    model = pretrained(backbones["bert"])
    folder = tmp_path / "benepar_tiny"
    model.pretrained_model.config.benepar = model.config
    model.pretrained_model.config.save_pretrained(folder)
    model.retokenizer.tokenizer.save_pretrained(folder)
    torch.save(model.state_dict(), folder / "benepar_model.bin")
    assert_same(load_benepar(str(folder)).parse(SENTENCES), stock_parse(model, SENTENCES))


def test_what_makes_stock_benepar_crash(backbones) -> None:
    """Words of nothing, of spaces, of characters no tokenizer keeps, and too many of them."""
    parser = BeneparParser(pretrained(backbones["bert"]), {})
    odd = [["a", " ", "b"], ["", "a"], ["\u200b", "\u00a0"], ["a", "\ufe0f"]]
    mended = [["a", "-", "b"], ["-", "a"], ["-", "-"], ["a", "-"]]
    assert_same(parser.parse(odd), parser.parse(mended))
    with pytest.raises(ValueError, match="exceeds the maximum"):
        parser.parse([["a"] * 60])


@pytest.mark.data
def test_a_transformer_on_real_sentences(backbones, data_folder) -> None:
    trees = read_treebank([data_folder / "treebank" / "gum" / "dev.ptb"])[::25]
    sentences = [list(tree.words) for tree in trees]
    model = pretrained(backbones["roberta"], encoder_max_len=200)
    assert_same(BeneparParser(model, {}).parse(sentences), stock_parse(model, sentences))


def test_blank_words_of_the_character_model() -> None:
    parser = BeneparParser(benepar_model(3), {})
    assert_same(parser.parse([["a", "", "b"]]), parser.parse([["a", "-", "b"]]))


def test_a_sentence_longer_than_the_model_takes() -> None:
    with pytest.raises(ValueError, match="the model takes 30"):
        BeneparParser(benepar_model(3), {}).parse([["a"] * 31])


def test_parsing_does_not_depend_on_company_or_order() -> None:
    parser = SpanParser(random_model(5), {})
    alone = list(itertools.chain.from_iterable(parser.parse([tokens]) for tokens in SENTENCES))
    assert_same(alone, parser.parse(SENTENCES))


def test_no_sentences() -> None:
    assert SpanParser(random_model(), {}).parse([]) == []
    assert BeneparParser(benepar_model(), {}).parse([]) == []


def test_what_is_no_model_of_benepars(tmp_path) -> None:
    with pytest.raises(UserError, match=r"benepar\.download") as caught:
        load_benepar("benepar_none")
    assert "\n" not in str(caught.value)
    (tmp_path / "text.pt").write_text("not a checkpoint")
    with pytest.raises(UserError, match="cannot read") as caught:
        load_benepar(str(tmp_path / "text.pt"))
    assert "\n" not in str(caught.value)


def test_code_in_a_checkpoint_is_not_run(tmp_path) -> None:
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "run"), "w"))

    torch.save({"config": Evil(), "state_dict": {}}, tmp_path / "evil.pt")
    with pytest.raises(UserError, match="cannot read"):
        load_benepar(str(tmp_path / "evil.pt"))
    assert not (tmp_path / "run").exists()
