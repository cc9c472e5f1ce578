"""CoNLL-U and bracketed trees: read, written, refused with file and line, mended as UD allows them."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.registry import open_corpus
from corpora.text import MAX_SENTENCES, Document, Sentence
from corpora.treebanks import _UPOS_BY_TAG, read_conllu, write_conllu
from corpora.universal import RELATIONS as KNOWN
from corpora.universal import mend_tree
from runtime.errors import UserError


def row(number: object, form: str, head: object, relation="dep", upos="X", xpos="_") -> str:
    return f"{number}\t{form}\t_\t{upos}\t{xpos}\t_\t{head}\t{relation}\t_\t_\n"


def test_documents_multiword_tokens_and_empty_nodes(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu"
    path.write_text(
        "# newdoc id = first\n# text = x\n"
        + row("1-2", "don't", "_")
        + row(1, "do", 0, "root", "AUX", "VB")
        + row(2, "n't", 1, "advmod", "PART", "_")
        + row("2.1", "ghost", "_")
        + "\n\n# newpar\n"
        + row(1, "Go", 0)
        + "\n# newdoc\n"
        + row(1, "End", 0)
    )
    documents = list(read_conllu(path))
    assert [(d.id, len(d.sentences)) for d in documents] == [("first", 2), ("a.conllu#1", 1)]
    first = documents[0].sentences[0]
    assert first == Sentence(("do", "n't"), tags=("VB", "PART"), heads=(0, 1), relations=("root", "advmod"))
    upos = next(read_conllu(path, tags="upos")).sentences[0]
    assert upos.tags == ("AUX", "PART")


def test_a_long_document_comes_in_pieces_as_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu"
    path.write_text("# newdoc id = long\n" + (row(1, "Go", 0) + "\n") * (MAX_SENTENCES + 1) + "bad\n")
    documents = read_conllu(path)
    piece = next(documents)
    assert (piece.id, len(piece.sentences)) == ("long", MAX_SENTENCES)
    with pytest.raises(UserError, match=r"a\.conllu:\d+: 1 columns"):
        next(documents)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.conllu", "1\tword\n", ":1: 2 columns, CoNLL-U has 10"),
        ("a.conllu", row(1, "a", 0) + row(3, "b", 1), ":2: word id '3', expected 2"),
        ("a.conllu", row(1, "a", 0) + row(2, "b", "9" * 5_000), ":2: head '9{40}', expected 0 to 2"),
        ("a.conllu", row("1-2", "a", "_"), ":1: a sentence without words"),
        ("a.conllu", row(1, "a", 0) + row("1-b", "b", 1), ":2: word id '1-b', expected 2"),
        ("a.conllu", row(1, "a\rb", 0), ":1: a carriage return within the row"),
        ("a.conllu", row(1, "", 0), ":1: an empty word; CoNLL-U writes _"),
        ("a.conllu", "# text = one\n" + row(1, "caf\xe9", 0), ":2: not UTF-8 text; convert it"),
        ("a.ptb", "(S (A one)\n (B caf\xe9))\n", ":2: not UTF-8 text; convert it"),
        ("a.ptb", "(A (B c))\nword (A (B c))\n", r":2: expected '\(', found 'word'"),
        ("a.ptb", "\n(A (B c)\n(D e)\n", ":2: this tree's brackets are never closed"),
        ("a.ptb", "(A )\n", ":1: not one tree of words"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text, encoding="latin-1")
    with pytest.raises(UserError, match=f"{name}{message}"):
        list(open_corpus(tmp_path / name))


def test_a_line_may_be_long(tmp_path: Path) -> None:
    (tmp_path / "a.conllu").write_text(row(1, "e" * 300_000, 0))
    (tmp_path / "a.ptb").write_text(f"(A (B {'e' * 300_000}))\n")
    for name in ("a.conllu", "a.ptb"):
        (document,) = open_corpus(tmp_path / name)
        assert len(document.sentences[0].tokens[0]) == 300_000


forms = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=5)


@st.composite
def annotated(draw: st.DrawFn) -> Sentence:
    tokens = draw(st.lists(forms.filter(lambda w: not w.startswith("#")), min_size=1, max_size=6))
    n = len(tokens)
    heads = [draw(st.sampled_from([h for h in range(n + 1) if h != i + 1])) for i in range(n)]
    labels = st.lists(st.sampled_from(["nsubj", "root", "obj"]), min_size=n, max_size=n)
    return Sentence(tuple(tokens), tuple(draw(labels)), tuple(heads), tuple(draw(labels)))


@settings(deadline=None, max_examples=25)
@given(st.lists(st.lists(annotated(), min_size=1, max_size=3), max_size=3))
def test_conllu_round_trip(tmp_path_factory, sentences: list[list[Sentence]]) -> None:
    path = tmp_path_factory.mktemp("trip") / "a.conllu"
    documents = [Document(f"d{i}", tuple(doc)) for i, doc in enumerate(sentences)]
    write_conllu(path, documents)
    assert list(read_conllu(path)) == documents


WRITTEN = """He/PRP/nsubj/PRON did/VBD/aux/AUX n't/RB/advmod/PART want/VB/root/VERB to/TO/mark/PART
go/VB/xcomp/VERB to/TO/case/ADP the/DT/det/DET "/``/punct/PUNCT well/RB/advmod/ADV -/HYPH/punct/PUNCT
known/VBN/amod/VERB "/''/punct/PUNCT Low/NNP/amod/ADJ Bar/NNP/obl/PROPN ,/,/punct/PUNCT as/IN/mark/SCONJ
that/DT/nsubj/PRON cost/VBD/advcl/VERB 5/CD/nummod/NUM -/:/cc/SYM 10/CD/conj/NUM %/NN/obj/NOUN
(/-LRB-/punct/PUNCT Al/NNP/nmod:poss/PROPN 's/POS/case/PART )/-RRB-/punct/PUNCT more/NN/dep/NOUN
././punct/PUNCT"""
TEXT = "He didn't want to go to the \"well-known\" Low Bar, as that cost 5 - 10% (Al's) more."


def test_universal_tags_and_spaces(tmp_path: Path) -> None:
    words, tags, relations, expected = zip(*(word.rsplit("/", 3) for word in WRITTEN.split()), strict=True)
    sentence = Sentence(words, tags=tags, heads=tuple(range(len(words))), relations=relations)
    write_conllu(tmp_path / "a.conllu", [Document("d", (sentence,))], guess_spaces=True)
    (sentence,) = next(read_conllu(tmp_path / "a.conllu", tags="upos")).sentences
    assert sentence.tags == expected
    assert f"# text = {TEXT}\n" in (tmp_path / "a.conllu").read_text()


def test_a_folder_of_treebanks_is_a_treebank(tmp_path: Path) -> None:
    (tmp_path / "b.conllu").write_text(row(1, "Go", 0))
    (tmp_path / "a.conllu").write_text(row(1, "Yes", 0))
    corpus = open_corpus(tmp_path)
    assert [s.tokens for document in corpus for s in document.sentences] == [("Yes",), ("Go",)]
    (tmp_path / "a.ptb").write_text("(A (B c))\n")
    with pytest.raises(UserError, match="holds a treebank beside files of another kind"):
        open_corpus(tmp_path)


@pytest.mark.data
def test_gum_dev_in_both_formats(data_folder: Path) -> None:
    conllu = open_corpus(data_folder / "treebank" / "gum" / "dev.conllu")
    ptb = open_corpus(data_folder / "treebank" / "gum" / "dev.ptb")
    words = [s.tokens for document in conllu for s in document.sentences]
    leaves = [s.tokens for document in ptb for s in document.sentences]
    assert len(words) == 1022 and sum(map(len, words)) == 18_432
    assert words == leaves
    with pytest.raises(UserError, match=r"is a treebank, whose words are given"):
        open_corpus(data_folder / "treebank" / "gum" / "dev.ptb", tokenize="spacy")


def test_line_breaks_in_a_documents_id_do_not_break_the_file(tmp_path: Path) -> None:
    sentence = Sentence(("Go",), heads=(0,), relations=("root",))
    written = tmp_path / "a.conllu"
    write_conllu(written, [Document("odd\n1\tname\u2028.txt#0", (sentence,))])
    assert [document.id for document in read_conllu(written)] == ["odd 1 name\u2028.txt#0"]
    assert len(written.read_text().split("\n")) == 6


RELATIONS = [*sorted(KNOWN), *["punct"] * 15, "goeswith", "nsubj:outer", "obj", "obl", "obl:arg", "csubj"]


@st.composite
def trees_of_any_relations(draw: st.DrawFn) -> Sentence:
    order = draw(st.permutations(range(draw(st.integers(1, 12)))))
    heads = {word: draw(st.sampled_from(order[:n])) + 1 for n, word in enumerate(order) if n}
    names, tags = (
        tuple(draw(st.sampled_from(some)) for _ in order) for some in (RELATIONS, sorted(_UPOS_BY_TAG))
    )
    return Sentence(("a",) * len(order), tags, tuple(heads.get(at, 0) for at in range(len(order))), names)


@settings(deadline=None, max_examples=8)
@given(st.lists(trees_of_any_relations(), min_size=5, max_size=15))
def test_the_official_validator_takes_any_tree(tmp_path_factory, trees: list[Sentence]) -> None:
    mended = tuple(map(mend_tree, trees))
    for old, new in zip(trees, mended, strict=True):
        assert mend_tree(new) == new
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
    tree = mend_tree(Sentence(words, tags=tuple(tags), heads=tuple(map(int, heads)), relations=relations))
    expected = [word.partition(">")[2] or word.partition("/")[2] for word in text.split()]
    assert [
        f"{head}/{relation}" for head, relation in zip(tree.heads, tree.relations, strict=True)
    ] == expected
