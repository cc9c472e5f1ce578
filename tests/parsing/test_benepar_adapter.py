"""Our batched inference against benepar's own ``parse``, for our models and for benepar's."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel, BertTokenizerFast

from corpora.support.errors import UserError
from parsing.benepar_adapter import BeneparParser, load_benepar, stock_parse, to_benepar
from parsing.binarise import binarise
from parsing.const_model import SpanParser
from tests.parsing.const_examples import (
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
    ours = SpanParser(model, {}, batch_words=40).parse(SENTENCES * 3)
    assert_same(ours, stock_parse(to_benepar(model), SENTENCES * 3))
    for tokens, parse in zip(SENTENCES * 3, ours, strict=True):
        assert len(binarise(parse, len(LABELS)).label) == len(tokens) - 1
    assert len({tuple(p.labels.tolist()) for p in ours}) > 2  # not all the same tree


@pytest.mark.parametrize("changes", [{}, {"predict_tags": False}, {"force_root_constituent": False}])
def test_benepars_character_model(tmp_path, changes) -> None:
    path = save_as_benepar_does(benepar_model(1, **changes), tmp_path / "tiny.pt")
    parser = load_benepar(str(path))
    parser.batch_words = 40
    assert parser.labels == LABELS
    assert parser.tags == (TAGS if changes.get("predict_tags", True) else ("UNK",))
    assert set(parser.identity) == {"name", "version", "sha256"}
    stock = stock_parse(benepar_model(1, **changes), SENTENCES)
    assert_same(parser.parse(SENTENCES), stock)
    assert_same(parser.parse(SENTENCES), stock)  # now from the cache of word types
    assert_same(parser.parse(SENTENCES[::-1]), stock[::-1])


@pytest.fixture(scope="module")
def bert_folder(tmp_path_factory):
    """A tiny random BERT with its tokenizer, as a pretrained model lies on disk."""
    folder = tmp_path_factory.mktemp("bert")
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "it", "rain", "##s", ".", "(", ")", "-"]
    pieces += [f"{prefix}{letter}" for prefix in ("", "##") for letter in "abcdefghijklmnopqrstuvwxyz"]
    (folder / "vocab.txt").write_text("\n".join(pieces), encoding="utf-8")
    BertTokenizerFast(vocab_file=str(folder / "vocab.txt"), model_max_length=40).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(pieces),
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=40,
    )
    BertModel(config).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("use_encoder", [True, False])
def test_a_pretrained_transformer(bert_folder, tmp_path, use_encoder) -> None:
    from parsing.benepar_adapter import _special_tokens

    changes = {"use_chars_lstm": False, "use_pretrained": True, "pretrained_model": str(bert_folder)}
    with _special_tokens():
        model = benepar_model(2, **changes, use_encoder=use_encoder)
    parser = load_benepar(str(save_as_benepar_does(model, tmp_path / "tiny.pt")))
    parser.batch_words = 40
    assert_same(parser.parse(SENTENCES), stock_parse(model, SENTENCES))
    # What makes stock benepar crash: words of nothing, of spaces, of characters no tokenizer keeps.
    odd = [["a", " ", "b"], ["", "a"], ["\u200b", "\u00a0"], ["a", "\ufe0f"]]
    mended = [["a", "-", "b"], ["-", "a"], ["-", "-"], ["a", "-"]]
    assert_same(parser.parse(odd), parser.parse(mended))
    with pytest.raises(ValueError, match="exceeds the maximum"):
        parser.parse([["a"] * 60])


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
