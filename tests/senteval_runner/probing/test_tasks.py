"""Probing tasks built from trees: hand-worked answers, balance, disjoint splits."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.documents import Document, Sentence
from corpora.support.config import check
from corpora.support.errors import UserError
from corpora.treebanks import write_conllu
from senteval_runner.build_probing import BuildConfig, gold_sentences, main
from senteval_runner.probing import structure
from senteval_runner.probing.somo import BigramReplacer
from senteval_runner.probing.structure import Annotated
from senteval_runner.probing.tasks import BUILDERS, Item, balance, build, split
from tests.parsing.cache.test_reader import corpus_of, write_cache


def annotated(text: str, tags: str, heads: str, relations: str, tree: str | None = None) -> Annotated:
    return Annotated(
        Sentence(
            tokens=tuple(text.split()),
            tags=tuple(tags.split()),
            heads=tuple(map(int, heads.split())),
            relations=tuple(relations.split()),
            tree=tree,
        )
    )


CATS = annotated(
    "The cats have seen a mouse .",
    "DT NNS VBP VBN DT NN .",
    "2 4 4 0 6 4 4",
    "det nsubj aux root det obj punct",
    "(ROOT (S (NP-SBJ (DT The) (NNS cats)) (VP (VBP have) (VP (VBN seen) (NP (DT a) (NN mouse)))) (. .)))",
)
MEMORIES = annotated(
    "They fade , but I still feel them .",
    "PRP VBP , CC PRP RB VBP PRP .",
    "2 0 7 7 7 7 2 7 2",
    "nsubj root punct cc nsubj advmod conj obj punct",
    "(S (S (NP (PRP They)) (VP (VBP fade))) (, ,) (CC but) "
    "(S (NP (PRP I)) (ADVP (RB still)) (VP (VBP feel) (NP (PRP them)))) (. .))",
)


def test_answers_read_off_a_sentence() -> None:
    assert structure.length_bin(CATS) == "0"
    assert structure.depth(CATS) == "5"  # S, VP, VP, NP, NN, mouse
    assert structure.top_constituents(CATS) == "NP_VP_."
    assert structure.tense(CATS) == ("PRES", "have")
    assert structure.noun_number(CATS, "nsubj") == ("NNS", "cats")
    assert structure.noun_number(CATS, "obj") == ("NN", "mouse")
    assert structure.coordinated_clauses(CATS) is None
    assert structure.noun_number(MEMORIES, "nsubj") is None  # a pronoun


def test_a_word_may_end_in_a_backslash() -> None:
    slash = annotated("a \\", "DT NN", "2 0", "det root", "(TOP (NP (DT a) (NN \\)))")
    assert structure.depth(slash) == "2"


def test_a_modal_hides_the_tense() -> None:
    modal = annotated("He would have gone", "PRP MD VB VBN", "4 4 4 0", "nsubj aux aux root")
    assert structure.tense(modal) is None


def test_clauses_are_inverted_with_their_case() -> None:
    borders = structure.coordinated_clauses(MEMORIES)
    assert borders == (2, 4, 8)
    inverted = structure.invert_clauses(MEMORIES.tokens, borders, proper_first=False)
    assert " ".join(inverted) == "I still feel them , but they fade ."


def test_odd_words_keep_tag_and_bigram_frequency() -> None:
    corpus = [
        annotated(f"the {noun} is here", "DT NN VBZ RB", "2 4 4 0", "det nsubj cop root")
        for noun in ("cat", "dog", "cow")
    ]
    replacer = BigramReplacer(corpus)
    changed = replacer.replace(corpus[0], Random(0))
    assert changed is not None and changed[1] in ("dog", "cow")
    assert (
        replacer.replace(
            annotated("a cat is here", "DT NN VBZ RB", "2 4 4 0", "det nsubj cop root"), Random(0)
        )
        is None
    )


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 20)), min_size=12, max_size=200),
    st.integers(0, 99),
)
@settings(deadline=None, max_examples=50)
def test_groups_never_cross_splits_and_nothing_is_lost(rows: list[tuple[str, int]], seed: int) -> None:
    items = [Item(label, f"s{i}", group) for i, (label, group) in enumerate(rows)]
    parts = split(items, Random(seed))
    assert sorted(item.text for part in parts.values() for item in part) == sorted(
        item.text for item in items
    )
    groups = [{item.group for item in part} for part in parts.values()]
    assert not groups[0] & groups[1] and not groups[0] & groups[2] and not groups[1] & groups[2]


def test_balance_and_proportions() -> None:
    items = [Item("a" if i % 3 else "b", str(i), i) for i in range(3600)]
    balanced = balance(items, Random(0))
    assert Counter(item.label for item in balanced) == {"a": 1200, "b": 1200}
    sizes = {name: len(part) for name, part in split(balanced, Random(0)).items()}
    assert sizes["tr"] == pytest.approx(2000, abs=10) and sizes["va"] == pytest.approx(200, abs=10)


TRACED = """(TOP (S (S (NP-SBJ (PRP They)) (VP (VBP fade) (NP (-NONE- *T*-1)))) (, ,) (CC but)
 (S (NP-SBJ (PRP I)) (ADVP (RB still)) (VP (VBP feel) (NP (PRP them)))) (. .)))
"""


def write_gold(folder: Path, trees: str = TRACED) -> BuildConfig:
    """MEMORIES as a treebank, its tree with a trace."""
    write_conllu(folder / "gold.conllu", [Document("d", (MEMORIES.sentence,))])
    (folder / "gold.ptb").write_text(trees)
    files = {"conllu": folder / "gold.conllu", "brackets": folder / "gold.ptb"}
    return BuildConfig(**files, output=folder / "probing")


def test_traces_of_a_gold_tree_are_no_words(tmp_path: Path) -> None:
    config = write_gold(tmp_path)
    assert config.conllu and config.brackets
    (found,) = gold_sentences(config.conllu, config.brackets)
    assert structure.coordinated_clauses(found) == structure.coordinated_clauses(MEMORIES) == (2, 4, 8)
    assert structure.depth(found) == structure.depth(MEMORIES)


def test_files_and_where_their_labels_come_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(write_gold(tmp_path))
    told = json.loads((tmp_path / "probing/probing.json").read_text())["tasks"]
    assert told["Depth"]["labels_from"] == "gold trees" and told["Length"]["labels_from"] == "words"
    assert (tmp_path / "probing/sentence_length.txt").read_text() == f"tr\t1\t{MEMORIES.text}\n"
    assert "too small a corpus" in capsys.readouterr().out
    write_cache(tmp_path / "trees", corpus_of(60))
    main(BuildConfig(trees=tmp_path / "trees", output=tmp_path / "parsed", tasks="Length, Depth"))
    told = json.loads((tmp_path / "parsed/probing.json").read_text())["tasks"]
    assert set(told) == {"Length", "Depth"} and told["Depth"]["labels_from"] == "parser"
    rows = [line.split("\t") for line in (tmp_path / "parsed/sentence_length.txt").read_text().splitlines()]
    assert {part for part, _, _ in rows} == {"tr", "va", "te"}
    for _, label, text in rows:
        low, high = structure.LENGTH_BINS[int(label)]
        assert low <= len(text.split()) <= high


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"conllu": None}, "both --conllu and --brackets"),
        ({"conllu": None, "brackets": None}, "give either --trees"),
        ({"trees": Path("t")}, "give either --trees"),
        ({"tasks": "Lengths"}, "unknown probing task 'Lengths'"),
        ({"limit": 0}, "--limit 0: must be at least 1"),
    ],
)
def test_wrong_options_are_one_line(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    wrong = replace(write_gold(tmp_path), **changes)
    with pytest.raises(UserError, match=message):
        check(wrong)
        main(wrong)


def test_trees_of_other_sentences_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"gold\.ptb, tree 1: 1 words, but 9 in"):
        main(write_gold(tmp_path, "(TOP (VP (VB Go)))"))


@pytest.mark.data
def test_every_task_from_a_gold_treebank(data_folder) -> None:  # type: ignore[no-untyped-def]
    gum = data_folder / "treebank" / "gum"
    sentences = gold_sentences(gum / "dev.conllu", gum / "dev.ptb")
    for task in BUILDERS:
        parts = build(task, sentences, seed=1)
        assert parts == build(task, sentences, seed=1)
        if task != "WordContent":  # its frequency ranks start above a small treebank's words
            labels = {item.label for item in parts["tr"]}
            assert len(labels) >= 2, task
            counts = Counter(item.label for part in parts.values() for item in part)
            assert max(counts.values()) == min(counts.values()), task
    shifted = {item.text for item in build("BigramShift", sentences, seed=1)["tr"] if item.label == "I"}
    assert not shifted & {a.text for a in sentences}
