"""The dependency model that is shipped: small, sound, as good as its card says."""

import numpy as np
import pytest

from parsing.dependency.parser import BiaffineParser
from parsing.dependency.task import score_parser
from parsing.dependency.train import read_dependencies
from parsing.models import BUILTIN, BUILTIN_DEPENDENCY, load_dependency_parser
from parsing.trees.parsers import DependencyParse
from tests.oracles.supar import stock_predict, to_supar


@pytest.fixture(scope="module")
def parser() -> BiaffineParser:
    return load_dependency_parser("builtin")


def test_it_is_small_and_has_a_card():
    folder = BUILTIN / BUILTIN_DEPENDENCY
    assert (folder / "model.safetensors").stat().st_size <= 8_000_000
    card = (folder / "README.md").read_text(encoding="utf-8")
    for word in ("CC BY-SA 4.0", "CC BY 4.0", "GUM", "EWT", "UAS", "python -m tools.train_parsers"):
        assert word in card


def test_it_parses_a_plain_sentence(parser):
    assert parser.identity["name"] == "builtin-dep" and parser.identity["version"] == "3"
    (parse,) = parser.parse([["The", "old", "dog", "chased", "a", "cat", "."]])
    assert isinstance(parse, DependencyParse)
    assert parse.heads.tolist() == [3, 3, 4, 0, 6, 4, 4]
    names = [parser.relations[r] for r in parse.relations]
    assert names == ["det", "amod", "nsubj", "root", "det", "obj", "punct"]


def test_odd_input_gets_trees(parser):
    sentences = [["."], ["\u200b", "日本語", "🙂"], ["a"] * 200, ["x" * 500, "\t", ""]]
    parses = parser.parse(sentences)
    assert [len(p.heads) for p in parses] == [1, 3, 200, 3]
    assert all((p.heads == 0).sum() == 1 for p in parses)


@pytest.mark.data
@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence:UserWarning")
def test_scores_and_agreement_with_stock_supar_on_gum_dev(parser, data_folder):
    gold = read_dependencies([data_folder / "treebank" / "gum" / "dev.conllu"])
    scores = score_parser(parser, gold)
    assert scores["uas"] >= 91 and scores["las"] >= 88
    sentences = [list(s.tokens) for s in gold]
    heads, relations = stock_predict(to_supar(parser.model), sentences)
    parses = parser.parse(sentences)
    assert [p.heads.tolist() for p in parses] == heads
    assert [np.array(parser.relations)[p.relations].tolist() for p in parses] == relations
