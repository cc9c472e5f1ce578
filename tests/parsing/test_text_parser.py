"""Sentences to arrays and to trees for people: no sentence is lost, and a fault costs one sentence."""

from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import parsing
from corpora.characters import normalise_text
from corpora.text import text_corpus
from parsing.text_parser import TextParser
from parsing.trees import arrays
from parsing.trees.arrays import constituency_heights, dependency_heights
from parsing.trees.batch import Batch, flag_reasons
from parsing.trees.brackets import read_tree
from runtime.cli import warn_once
from runtime.errors import UserError
from tests.parsing.pipeline.toy_parsers import ToyConstituencyParser, ToyDependencyParser

LOST, LONG, EMPTY, BLANK = 1 | 2, 4, 16, 32
HARD = [
    (("plain", "words"), 0),
    ((), LOST | EMPTY),
    ((" ", "\t", "", "\u2028"), LOST | EMPTY),
    (("a", "", "b"), LOST | BLANK),
    (("nul\0inside", "日本語", "\u202eשלום", "👩‍👩‍👧‍👦", "\x07\x1b[31m", "x" * 1000, "-LRB-"), 0),
    (("v",) * 5000, LOST | LONG),
]
"""Sentences with their flags."""


@pytest.fixture
def toys() -> TextParser:
    return TextParser(ToyDependencyParser(), ToyConstituencyParser())


def test_hard_text_keeps_its_rows_and_is_flagged_by_reason(toys: TextParser) -> None:
    batch = toys.parse_to_batch([tokens for tokens, _ in HARD])
    assert batch.flags.tolist() == [flags for _, flags in HARD]
    assert flag_reasons(batch.flags) == {"empty": 2, "blank token": 1, "too long": 1}
    for words, (tokens, flags) in zip(batch.words(), HARD, strict=True):
        assert words == ([""] if flags & EMPTY else list(tokens))
    check_trees(batch)


def fail_on(parser, word: str, values: dict[str, np.ndarray]):
    """A toy that raises on "boom", and whose parse has other values on a word."""
    parse_one = parser._one

    def failing(tokens):
        if "boom" in tokens:
            raise RuntimeError("boom")
        return replace(parse_one(tokens), **values) if word in tokens else parse_one(tokens)

    parser._one = failing
    return parser


def test_faults_cost_only_the_sentences_that_cause_them(toys: TextParser) -> None:
    good = [("fine", "words", str(i)) for i in range(20)]
    bad = {("boom", "a", "b"): 1 | 2, ("cycle", "in", "it"): 1, ("cross", "a", "b"): 2}
    faults: list[str] = []
    cycle = {"heads": np.array([2, 1, 1], np.int32)}
    cross = {"starts": np.array([0, 0, 1]), "ends": np.array([3, 2, 3]), "labels": np.array([1, 1, 2])}
    dependency, constituency = ToyDependencyParser(), ToyConstituencyParser()
    faulty = TextParser(fail_on(dependency, "cycle", cycle), fail_on(constituency, "cross", cross))
    batch = faulty.parse_to_batch([*good[:10], *bad, *good[10:]], report=faults.append)
    assert all(any(repr(" ".join(text)) in fault for fault in faults) for text in bad)
    assert batch.flags.tolist() == [0] * 10 + [*bad.values()] + [0] * 10
    assert flag_reasons(batch.flags) == {"dependency fault": 2, "constituency fault": 2} and len(faults) == 4
    is_good_token = np.repeat(batch.flags == 0, np.diff(batch.sentence_offsets))
    assert batch.head[is_good_token].tolist() == toys.parse_to_batch(good).head.tolist()
    check_trees(batch)
    short = SimpleNamespace(**{name: getattr(toys.dependency, name) for name in ("relations", "identity")})
    short.parse = lambda sentences: toys.dependency.parse(sentences[: max(1, len(sentences) - 1)])
    assert not TextParser(short, None).parse_to_batch(good).flags.any()


def test_a_parser_that_fails_on_any_sentence_is_an_error(toys: TextParser, monkeypatch) -> None:
    broken = Mock(side_effect=RuntimeError("expected Float\nbut found BFloat16"))
    monkeypatch.setattr(toys.constituency, "parse", broken)
    message = r"^constituency parser: fails on any sentence here \(RuntimeError: expected Float but"
    with pytest.raises(UserError, match=message):
        toys.parse_to_batch([("fine", "words")] * 9)


def check_trees(batch: Batch) -> None:
    heights, defects = dependency_heights(batch.head, batch.sentence_offsets)
    assert not defects.any() and (heights == batch.dep_height).all()
    heights, defects, *_ = constituency_heights(batch.left, batch.right, batch.sentence_offsets)
    assert not defects.any() and (heights == batch.const_height).all()


def heights_by_walking(heads: list[int]) -> list[int] | None:
    """Slow and obvious: from each word climb to the root; None when a climb does not end."""
    heights = [0] * len(heads)
    for word in range(len(heads)):
        at, steps = word, 0
        while heads[at]:
            at, steps = heads[at] - 1, steps + 1
            if steps > len(heads):
                return None
            heights[at] = max(heights[at], steps)
    return heights


@given(st.lists(st.lists(st.integers(-1, 7), min_size=1, max_size=6), min_size=1, max_size=5))
@settings(max_examples=60, deadline=None)
def test_dependency_heights_and_defects_against_walking(sentences: list[list[int]]) -> None:
    offsets = np.cumsum([0, *map(len, sentences)])
    heights, defects = dependency_heights(np.concatenate(sentences).astype(np.int32), offsets)
    for i, heads in enumerate(sentences):
        if any(not 0 <= head <= len(heads) for head in heads):
            assert defects[i] == arrays.HEAD_OUTSIDE
        elif heads.count(0) != 1:
            assert defects[i] == arrays.NOT_ONE_ROOT
        elif (walked := heights_by_walking(heads)) is None:
            assert defects[i] == arrays.CYCLE
        else:
            assert not defects[i] and heights[offsets[i] : offsets[i + 1]].tolist() == walked


def test_constituency_defects() -> None:
    offsets = np.array([0, 1, 4], np.int64)  # a one-word sentence before it has no node
    for *children, defect in (
        ([1, 0], [2, 3], arrays.SOUND),
        ([0, 4], [1, 2], arrays.CHILD_AFTER_PARENT),
        ([0, 0], [1, 2], arrays.NOT_ONE_PARENT),
        ([0, 2], [1, 3], arrays.WORDS_OUT_OF_ORDER),
    ):
        assert constituency_heights(*map(np.array, children), offsets)[1].tolist() == [0, defect]


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


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("The mayor’s aide donʼt know ‘em.", "The mayor's aide don't know 'em."),
        ("I don`t know if it`s Tom＇s.", "I don't know if it's Tom's."),
        ("Zoe\u0308 co\u00adoperates\u200b.", "Zoë cooperates."),
        ("A well\u2011known oﬃcer slept.", "A well-known officer slept."),
    ],
)
def test_trees_do_not_see_how_a_character_is_written(parser, text: str, same: str) -> None:
    (tree,), (expected,) = parser(text), parser(same)
    assert [normalise_text(word) for word in tree.words] == expected.words
    for name in ("flags", "heads", "relations", "tags", "spans"):
        assert getattr(tree, name) == getattr(expected, name), name
    (tokens,) = parser.parse([tree.words])
    assert tokens == tree
    end = 0
    for word in tree.words:  # a user finds the words in the text
        end = text.index(word, end) + len(word)


def test_a_line_break_ends_a_sentence_as_in_files(parser, tmp_path) -> None:
    text = "Chapter One\r\n\r\nThe rain fell on\nthe town. Nobody slept.\n\u200b\n"
    path = tmp_path / "a.txt"
    path.write_bytes(text.encode())
    read = [s.tokens for doc in text_corpus(path, format="running") for s in doc.sentences]
    assert [tuple(s.words) for s in parser(text)] == read
    expected = ["Chapter One", "The rain fell on", "the town .", "Nobody slept ."]
    assert [" ".join(words) for words in read] == expected
    # A return ends a line where nothing else does.
    assert [" ".join(s.words) for s in parser("Chapter One\rIt rained.\r")] == ["Chapter One", "It rained ."]
    assert [" ".join(s.words) for s in parser("It\rrained.\n")] == ["It rained ."]


def test_words_without_width_are_blank(parser) -> None:
    one, other, emoji = parser.parse([["\u200b", "\ufeff"], ["a", "\u200b"], ["👩", "\u200d", "💻"]])
    assert one.words == [""] and "empty" in one.flag_names and "blank token" in other.flag_names
    assert emoji.flag_names == [] and parser("\u200b") == ()
    (flag,) = parser("🏴\U000e0067\U000e0062\U000e007f and ❤\ufe0f\u200d🔥 won.")
    assert flag.flag_names == [] and flag.words[-3:] == ["🔥", "won", "."]


def test_one_parser_alone():
    sentence = parsing.load(const=None)("The cat sleeps.")[0]
    assert sentence.heads == [2, 3, 0, 3] and sentence.spans is None and sentence.to_ptb() == ""
    sentence = parsing.load(dep=None)("The cat sleeps.")[0]
    tree = "(TOP (S (NP (DT The) (NN cat)) (VP (VBZ sleeps)) (. .)))"
    assert sentence.heads is None and sentence.to_ptb() == tree
    assert read_tree(tree) == sentence


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        ([["It"], "A cat ."], r"input 1, a str \('A cat \.'\), is a string; give a list of its tokens"),
        ([["a"], ["b", None]], r"input 1, a list .* it holds a NoneType \(None\)"),
        ([["a"], ["b", "\udce9"]], "input 1.*lone surrogate"),
    ],
)
def test_what_is_no_tokens_is_refused(parser, sentences, message):
    for call in (parser.parse_to_batch, parser.dependency.parse, parser.constituency.parse):
        with pytest.raises(UserError, match=message):
            call(sentences)
    with pytest.raises(UserError, match=r"parse: .*\\ud.*lone surrogate"):
        parser("a \ud800 cat")
    with pytest.raises(UserError, match=r"\.parse\(\) takes tokens"):
        parser([["a"]])
    with pytest.raises(UserError, match="nothing to parse with"):
        parsing.load(None, None)


GERMAN = ["Der", "Hund", "schläft", "heute", "auf", "der", "neuen", "Matte"]


def test_text_that_is_not_english_is_told_once(parser, toys, caplog):
    warn_once.cache_clear()
    english = ["Nobody", "knew", "Zbigniew", "Brzezinski", "'s", "brother", "in", "Łódź"]
    for tell in (parser.parse, parsing.load(const=None).parse, toys.parse):
        tell([english, ["Kubernetes", "xyzzy"], []])
    assert not caplog.messages
    toys.parse([GERMAN])  # parsers of other languages are not builtin
    assert not caplog.messages
    for _ in range(2):
        parser.parse([GERMAN])
    assert len(caplog.messages) == 1 and "few of these words are English" in caplog.messages[0]
