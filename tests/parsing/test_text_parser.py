"""``from parsing import load``: text to sentences with trees, for people."""

from pathlib import Path

import pytest

import parsing
from corpora.support.errors import UserError
from corpora.treebanks import read_conllu
from parsing.trees.brackets import read_trees

TEXT = "Dr. Smith (born 1950) didn't sleep. “Why?” she asked… It's 3:30 p.m. now."


@pytest.fixture(scope="module")
def parser():
    return parsing.load()


@pytest.fixture(scope="module")
def trees(parser):
    return parser(TEXT)


def test_words_are_those_of_the_text_and_trees_those_of_the_parsers(parser, trees):
    assert "".join("".join(s.words) for s in trees) == TEXT.replace(" ", "")
    words = [s.words for s in trees]
    for sentence, arcs, spans in zip(
        trees, parser.dependency.parse(words), parser.constituency.parse(words), strict=True
    ):
        assert sentence.flag_names == [] and sentence.heads == arcs.heads.tolist()
        assert sentence.relations == [parser.dependency.relations[r] for r in arcs.relations]
        assert sentence.tags == [parser.constituency.tags[t] for t in spans.tags]
        labels = [parser.constituency.labels[i] for i in spans.labels]
        assert sentence.spans == list(zip(spans.starts.tolist(), spans.ends.tolist(), labels, strict=True))


def test_conllu_and_brackets_are_read_back(trees, tmp_path: Path):
    (tmp_path / "a.conllu").write_text(trees.to_conllu())
    (tmp_path / "a.ptb").write_text(trees.to_ptb())
    arcs = [s for document in read_conllu(tmp_path / "a.conllu") for s in document.sentences]
    spans = list(read_trees(tmp_path / "a.ptb"))
    assert len(arcs) == len(spans) == len(trees)
    for sentence, row, tree in zip(trees, arcs, spans, strict=True):
        assert list(row.tokens) == list(tree.words) == sentence.words
        assert (list(row.heads), list(row.relations)) == (sentence.heads, sentence.relations)
        assert (list(tree.spans), list(tree.tags)) == (sentence.spans, sentence.tags)


def test_it_is_drawn_as_text_and_in_a_notebook(trees):
    assert "└─" in str(trees[0]) and "(nsubj" in str(trees)
    assert trees[0]._repr_html_().count("<div") == 2  # displaCy draws one picture, svgling one of many parts
    assert f"{len(trees)} sentences" in repr(trees)


def test_one_parser_alone():
    sentence = parsing.load(const=None)("The cat sleeps.")[0]
    assert sentence.heads == [2, 3, 0, 3] and sentence.spans is None and sentence.to_ptb() == ""
    sentence = parsing.load(dep=None)("The cat sleeps.")[0]
    tree = "(TOP (S (NP (DT The) (NN cat)) (VP (VBZ sleeps)) (. .)))"
    assert sentence.heads is None and sentence.to_ptb() == tree


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        ([["It"], "The cat sat ."], r"sentence 1 is the string 'The cat sat \.'; give a list of its tokens"),
        ("The cat", "sentence 0 is the string 'The cat'"),
        ([["a"], ["b", None]], "sentence 1: None is no token but a NoneType"),
    ],
)
def test_what_is_no_tokens_is_refused(parser, sentences, message):
    for call in (parser.arrays, parser.dependency.parse, parser.constituency.parse):
        with pytest.raises(UserError, match=message):
            call(sentences)
    with pytest.raises(UserError, match=r"\.parse\(\) takes tokens"):
        parser([["a"]])
    with pytest.raises(UserError, match="nothing to parse with"):
        parsing.load(None, None)
