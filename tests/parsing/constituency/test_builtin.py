"""The constituency model that is shipped: small, sound, as good as its card says."""

from __future__ import annotations

import re

import numpy as np
import pytest

from parsing.constituency.model import SpanParser
from parsing.constituency.task import score_parser
from parsing.constituency.train import read_treebank
from parsing.models import BUILTIN, BUILTIN_CONSTITUENCY, load_constituency_parser
from parsing.trees.binarise import binarise
from parsing.trees.brackets import from_parse, write_tree
from tests.oracles.benepar import stock_parse, to_benepar

FOLDER = BUILTIN / BUILTIN_CONSTITUENCY

# torch-struct's, under today's torch.
pytestmark = pytest.mark.filterwarnings("ignore:.*arg_constraints:UserWarning")


@pytest.fixture(scope="module")
def parser() -> SpanParser:
    parser = load_constituency_parser("builtin")
    assert isinstance(parser, SpanParser)
    return parser


def test_it_is_small_and_says_what_it_is(parser) -> None:
    assert (FOLDER / "model.safetensors").stat().st_size <= 8e6
    assert parser.identity["name"] == "builtin-const" and re.fullmatch(
        r"[0-9a-f]{64}", parser.identity["sha256"]
    )
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    for part in (
        "## Data",
        "## Licences",
        "CC BY 4.0",
        "## Scores",
        "## Learning curve",
        "parsing.train both",
    ):
        assert part in card


def test_an_easy_sentence(parser) -> None:
    words = ["The", "old", "man", "saw", "a", "boat", "in", "the", "harbour", "."]
    tree = write_tree(from_parse(parser.parse([words])[0], words, parser.labels, parser.tags))
    assert tree.startswith("(TOP (S (NP (DT The) (JJ old) (NN man)) (VP (VBD saw) (NP")


def test_odd_input_gives_whole_trees(parser) -> None:
    odd = [[""], [" "], ["\u200b", "\ud7ff"], ["-LRB-"] * 40, ["x" * 5000], ["日本", "語"], ["a"] * 300]
    for tokens, parse in zip(odd, parser.parse(odd), strict=True):
        assert len(binarise(parse, len(parser.labels)).label) == len(tokens) - 1


@pytest.mark.data
def test_scores_are_the_cards(parser, data_folder) -> None:
    scores = score_parser(parser, read_treebank([data_folder / "treebank" / "gum" / "dev.ptb"]))
    assert scores["f1"] >= 88 and scores["tags"] >= 97
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    row = re.search(r"^\| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", card, re.MULTILINE)
    assert row is not None
    # Another processor's arithmetic may turn a near tie.
    assert float(row.group(3)) == pytest.approx(scores["f1"], abs=0.1)


@pytest.mark.data
@pytest.mark.parametrize("step", [8, pytest.param(1, marks=pytest.mark.slow)])
def test_trees_are_stock_benepars(parser, data_folder, step) -> None:
    trees = read_treebank([data_folder / "treebank" / "gum" / "dev.ptb"])[::step]
    sentences = [list(tree.words) for tree in trees]
    stock = stock_parse(to_benepar(parser.model), sentences, subbatch_max_tokens=500)
    for ours, theirs in zip(parser.parse(sentences), stock, strict=True):
        for name in ("tags", "starts", "ends", "labels"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
