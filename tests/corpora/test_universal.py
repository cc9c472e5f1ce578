"""Trees as Universal Dependencies allow them: the official validator, and sentences mended by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.text import Document, Sentence
from corpora.treebanks import write_conllu
from corpora.universal import _UPOS, valid
from corpora.universal import RELATIONS as KNOWN

RELATIONS = [*sorted(KNOWN), *["punct"] * 15, "goeswith", "nsubj:outer", "obj", "obl", "obl:arg", "csubj"]


@st.composite
def trees(draw: st.DrawFn) -> Sentence:
    order = draw(st.permutations(range(draw(st.integers(1, 12)))))
    heads = {word: draw(st.sampled_from(order[:place])) + 1 for place, word in enumerate(order) if place}
    names, tags = (tuple(draw(st.sampled_from(some)) for _ in order) for some in (RELATIONS, sorted(_UPOS)))
    return Sentence(("a",) * len(order), tags, tuple(heads.get(at, 0) for at in range(len(order))), names)


@settings(deadline=None, max_examples=8)
@given(st.lists(trees(), min_size=5, max_size=15))
def test_the_official_validator_takes_any_tree(tmp_path_factory, given: list[Sentence]) -> None:
    mended = tuple(map(valid, given))
    for old, new in zip(given, mended, strict=True):
        assert valid(new) == new
        both = zip(old.heads, new.heads, new.relations, strict=True)
        assert all(before == after or relation == "punct" for before, after, relation in both)
    path = tmp_path_factory.mktemp("any") / "a.conllu"
    write_conllu(path, [Document("any", mended)])
    state = pytest.importorskip("udtools").Validator(lang="ud", level=3).validate_files([str(path)])
    assert state.passed(), str(state)


MENDED = """It/2/nsubj rains/0/root ,/1/punct>5/punct she/5/nsubj says/2/parataxis ./1/punct>2/punct
The/2/det mat/4/nsubj>4/dep Tom/4/nsubj saw/0/root the/6/det cat/4/obj it/4/obj>4/dep
a/2/det friend/4/obj had/4/aux met/0/root on/6/case Monday/2/obl:tmod>2/nmod:tmod ./4/punct
She/3/nsubj had/3/aux>3/dep slept/0/root Tom/2/obj
a/2/det hat/8/nsubj (/8/punct>5/punct my/5/det own/2/appos )/8/punct is/8/cop red/0/root ./5/punct>8/punct
new/3/conj>3/dep and/3/cc old/0/root :/3/flat good/6/amod day/3/root>3/dep
I/3/nsubj ,/5/punct>1/punct saw/0/root what/5/nsubj fell/3/ccomp
what/4/nsubj:outer counts/4/dep Tom/4/nsubj knows/0/root
Ann/2/nsubj said/0/root ,/2/punct Tom/5/nsubj left/2/ccomp ./2/punct
up/2/advmod goes/0/root ,/1/punct prices/2/nsubj by/6/prep far/2/pobj"""
"""``/head/relation`` of each word, and behind ``>`` what it becomes; labels of Stanford's stay."""


@pytest.mark.parametrize("text", MENDED.splitlines())
def test_trees_mended_by_hand(text: str) -> None:
    words, heads, relations = zip(*(word.partition(">")[0].split("/") for word in text.split()), strict=True)
    tags = ["NN" if word in ("friend", "Monday") else "_" for word in words]
    found = valid(Sentence(words, tags=tuple(tags), heads=tuple(map(int, heads)), relations=relations))
    expected = [word.partition(">")[2] or word.partition("/")[2] for word in text.split()]
    assert [
        f"{head}/{relation}" for head, relation in zip(found.heads, found.relations, strict=True)
    ] == expected
