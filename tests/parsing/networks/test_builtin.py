"""The models that are shipped: small, sound, as good as their cards say, and the libraries' own trees."""

from __future__ import annotations

import re

import numpy as np
import pytest
from parsing.models import (
    BUILTIN,
    BUILTIN_CONSTITUENCY,
    BUILTIN_DEPENDENCY,
    load_constituency_parser,
    load_dependency_parser,
)

from parsing.training.scores import read_dependencies, read_treebank, score_constituency, score_dependency
from parsing.trees.arrays import binarise
from parsing.trees.brackets import from_parse, write_tree
from tests.oracles.benepar import stock_parse, to_benepar
from tests.oracles.supar import stock_predict, to_supar
from tests.parsing.dependency.examples import as_lists

pytestmark = [
    pytest.mark.filterwarnings("ignore:Using a non-tuple sequence:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*arg_constraints:UserWarning"),
]
ODD = [
    [""],
    [" "],
    ["\u200b", "\ud7ff"],
    ["-LRB-"] * 40,
    ["x" * 5000, "\t"],
    ["日本", "語", "🙂"],
    ["a"] * 300,
]


@pytest.fixture(scope="module")
def dependency():
    return load_dependency_parser("builtin")


@pytest.fixture(scope="module")
def constituency():
    return load_constituency_parser("builtin")


@pytest.mark.parametrize("name", [BUILTIN_DEPENDENCY, BUILTIN_CONSTITUENCY])
def test_each_is_small_and_has_a_card(name):
    assert (BUILTIN / name / "model.safetensors").stat().st_size <= 8_000_000
    card = (BUILTIN / name / "README.md").read_text(encoding="utf-8")
    for part in ("CC BY-SA 4.0", "CC BY 4.0", "GUM", "EWT", "## Data", "## Licences", "## Scores"):
        assert part in card


def test_easy_sentences(dependency, constituency):
    (parse,) = dependency.parse([["The", "old", "dog", "chased", "a", "cat", "."]])
    assert parse.heads.tolist() == [3, 3, 4, 0, 6, 4, 4]
    names = [dependency.relations[r] for r in parse.relations]
    assert names == ["det", "amod", "nsubj", "root", "det", "obj", "punct"]
    words = ["The", "old", "man", "saw", "a", "boat", "in", "the", "harbour", "."]
    parsed = from_parse(constituency.parse([words])[0], words, constituency.labels, constituency.tags)
    assert write_tree(parsed).startswith("(TOP (S (NP (DT The) (JJ old) (NN man)) (VP (VBD saw) (NP")
    for parser, name in ((dependency, "builtin-dep"), (constituency, "builtin-const")):
        assert (parser.identity["name"], parser.identity["version"]) == (name, "3")


def test_odd_input_gets_whole_trees(dependency, constituency):
    for tokens, arcs, spans in zip(ODD, dependency.parse(ODD), constituency.parse(ODD), strict=True):
        assert len(arcs.heads) == len(tokens) and (arcs.heads == 0).sum() == 1
        assert len(binarise(spans, len(constituency.labels)).label) == len(tokens) - 1


@pytest.mark.data
def test_arcs_on_gum_dev(dependency, data_folder):
    gold = read_dependencies([data_folder / "treebank" / "gum" / "dev.conllu"])
    scores = score_dependency(dependency, gold)
    assert scores["uas"] >= 91 and scores["las"] >= 88
    sentences = [list(s.tokens) for s in gold]
    heads, relations = stock_predict(to_supar(dependency.model), sentences)
    parses = dependency.parse(sentences)
    assert [p.heads.tolist() for p in parses] == heads
    assert [np.array(dependency.relations)[p.relations].tolist() for p in parses] == relations


@pytest.mark.data
def test_spans_on_gum_dev(constituency, data_folder):
    gold = read_treebank([data_folder / "treebank" / "gum" / "dev.ptb"])
    scores = score_constituency(constituency, gold)
    assert scores["f1"] >= 88 and scores["tags"] >= 97
    card = (BUILTIN / BUILTIN_CONSTITUENCY / "README.md").read_text(encoding="utf-8")
    row = re.search(r"^\| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", card, re.MULTILINE)
    assert row is not None
    # Another processor's arithmetic may turn a near tie.
    assert float(row.group(3)) == pytest.approx(scores["f1"], abs=0.1)
    sentences = [list(tree.words) for tree in gold[::8]]
    stock = stock_parse(to_benepar(constituency.model), sentences, subbatch_max_tokens=500)
    assert as_lists(constituency.parse(sentences)) == as_lists(stock)
