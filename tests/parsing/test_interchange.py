"""Treebank files to a cache and back: the same trees, or one line that says what does not fit."""

from pathlib import Path

import pytest

import parsing
from parsing import verify
from parsing.export_trees import ExportConfig, main
from parsing.import_trees import import_trees
from parsing.trees.cache import TreeCache
from parsing.trees.sentences import ParsedSentence, Trees, cached_sentences
from runtime.errors import UserError

CONLLU = """# newdoc id = one
# sent_id = 1
# text = It rains .
1\tIt\t_\tPRON\tPRP\t_\t2\tnsubj\t_\t_
2\trains\t_\tVERB\tVBZ\t_\t0\troot\t_\t_
3\t.\t_\tPUNCT\t.\t_\t2\tpunct\t_\t_

# sent_id = 2
# text = Yes
1\tYes\t_\tINTJ\tUH\t_\t0\troot\t_\t_

# newdoc id = two
# sent_id = 3
# text = ( No rain )
1\t(\t_\tPUNCT\t-LRB-\t_\t3\tpunct\t_\t_
2\tNo\t_\tDET\tDT\t_\t3\tdet\t_\t_
3\train\t_\tNOUN\tNN\t_\t0\troot\t_\t_
4\t)\t_\tPUNCT\t-RRB-\t_\t3\tpunct\t_\t_

"""
RELATIONS = ["nsubj", "cop", "advmod", "root", "punct"]
PTB = """(TOP (S (NP (PRP It)) (VP (VBZ rains)) (. .)))
(TOP (INTJ (UH Yes)))
(TOP (NP (-LRB- -LRB-) (DT No) (NP (NN rain)) (-RRB- -RRB-)))
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "a.conllu").write_text(CONLLU)
    (tmp_path / "a.ptb").write_text(PTB)
    return tmp_path / "a.conllu", tmp_path / "a.ptb"


def export(cache: Path, **files: Path) -> None:
    main(ExportConfig(cache=cache, **files))


def test_files_come_back_as_they_were(files, tmp_path: Path, monkeypatch) -> None:
    conllu, ptb = files
    monkeypatch.setattr("parsing.import_trees.SHARD_SENTENCES", 2)
    import_trees(tmp_path / "cache", conllu=conllu, ptb=ptb)
    cache = TreeCache.open(tmp_path / "cache")
    assert cache.documents().tolist() == [0, 2, 3] and cache.document_ids() == ["one", "two"]
    verify.main(verify.VerifyConfig(cache=cache.folder))
    export(cache.folder, conllu=tmp_path / "b.conllu", ptb=tmp_path / "b.ptb")
    assert (tmp_path / "b.conllu").read_text() == CONLLU
    assert (tmp_path / "b.ptb").read_text() == PTB


def test_the_official_validator_takes_odd_words_too(tmp_path: Path) -> None:
    udtools = pytest.importorskip("udtools")
    words = ["e\u0301 ", "a \u00a0b", "", "\x85", "#", '\u0301"', "-", "12\t3"]
    heads = [2, 0, 2, 2, 2, 2, 2, 2]
    odd = ParsedSentence(words, 0, heads, ["_"] * 8, ["_"] * 8, None)
    whole = ParsedSentence(["It", "is", "n't", "so", "."], 0, [4, 4, 4, 0, 4], RELATIONS, None, None)
    path = tmp_path / "a.conllu"
    path.write_text(
        CONLLU.replace("# sent_id = ", "# sent_id = a") + Trees([odd, whole]).to_conllu(validate=True)
    )
    state = udtools.Validator(lang="ud", level=3).validate_files([str(path)])
    assert state.passed(), str(state)
    assert '# text = é a b _ _ #\u0301" - 12 3\n' in path.read_text()


TWO_SUBJECTS = """# newdoc id = cafe\u0301
# sent_id = 1
# text = Dogs cats/e\u0301 sleep
1\tDogs\t_\tNOUN\tNNS\t_\t3\tnsubj\t_\t_
2\tcats/e\u0301\t_\tNOUN\tNNS\t_\t3\tnsubj\t_\t_
3\tsleep\t_\tVERB\tVBP\t_\t0\troot\t_\t_

# sent_id = 2
# text = 5\u00a0000 \u00a0 _
1\t5\u00a0000\t_\tNUM\tCD\t_\t2\t_\t_\t_
2\t\u00a0\t_\tX\t_\t_\t0\t_\t_\t_
3\t_\t_\tX\t_\t_\t1\t_\t_\t_

"""


def test_the_file_has_the_trees_of_the_cache_unless_they_are_to_be_valid(tmp_path: Path, capsys) -> None:
    conllu, ptb = tmp_path / "a.conllu", tmp_path / "a.ptb"
    conllu.write_text(TWO_SUBJECTS, encoding="utf-8")
    import_trees(tmp_path / "arcs", conllu=conllu)
    batch = TreeCache.open(tmp_path / "arcs").read(0, 2)
    assert batch.head.tolist() == [3, 3, 0, 2, 0, 1] and not batch.flags.any()
    export(tmp_path / "arcs", conllu=tmp_path / "b.conllu")
    sentences = Trees(cached_sentences(TreeCache.open(tmp_path / "arcs"), 0, 2))
    # Arcs alone have no tags; the words are the file's, and only "# text" is made.
    for text in ((tmp_path / "b.conllu").read_text(encoding="utf-8"), sentences.to_conllu()):
        rows = [line.split("\t") for line in text.splitlines() if "\t" in line]
        expected = [line.split("\t") for line in TWO_SUBJECTS.splitlines() if "\t" in line]
        assert [(r[1], r[6], r[7]) for r in rows] == [(r[1], r[6], r[7]) for r in expected]
    assert "# newdoc id = cafe\u0301\n" in (tmp_path / "b.conllu").read_text(encoding="utf-8")
    main(ExportConfig(cache=tmp_path / "arcs", conllu=tmp_path / "c.conllu", validate=True))
    assert "5 of 6 words changed by --validate" in capsys.readouterr().out
    mended = (tmp_path / "c.conllu").read_text(encoding="utf-8")
    assert mended.count("\tdep\t") == 3 and "\t_\t_\tX\t_\t_\t0\troot\t" in mended
    assert "\tcats/é\t" in mended and "# newdoc id = café\n" in mended
    assert sentences.to_conllu(validate=True).count("\tdep\t") == 3
    # Brackets without tags and labels, as of a sentence that no parser took.
    ptb.write_text("(TOP (_ Dogs) (_ cats))\n")
    import_trees(tmp_path / "spans", ptb=ptb)
    with pytest.raises(UserError, match="--validate mends CoNLL-U alone"):
        main(ExportConfig(cache=tmp_path / "spans", ptb=tmp_path / "b.ptb", validate=True))
    export(tmp_path / "spans", ptb=tmp_path / "b.ptb")
    assert (tmp_path / "b.ptb").read_text() == ptb.read_text()


ODD_WORDS = ["a\u2028b", "10\u00a0000", "10 000", "-LRB-", "x\x85", "(", "_", "3/4"]


def test_odd_words_and_phrases_without_labels_come_back(tmp_path: Path, capsys) -> None:
    conllu, ptb = tmp_path / "a.conllu", tmp_path / "a.ptb"
    rows = [f"{n}\t{w}\t_\tNOUN\tNN\t_\t{n - 1}\t_\t_\t_\n" for n, w in enumerate(ODD_WORDS, 1)]
    head = f"# newdoc id = a\u2028b\n# sent_id = 1\n# text = {' '.join(ODD_WORDS)}\n"
    conllu.write_text(f"{head}{''.join(rows)}\n", encoding="utf-8")
    leaves = [f"(NN {w})" for w in ["a_b", "10_000", "10_000", "-LRB-", "x_", "-LRB-", "_", r"3\/4"]]
    ptb.write_text(f"(TOP (S ( {' '.join(leaves[:3])}) {' '.join(leaves[3:])}))\n", encoding="utf-8")
    import_trees(tmp_path / "cache", conllu=conllu, ptb=ptb)
    export(tmp_path / "cache", conllu=tmp_path / "b.conllu", ptb=tmp_path / "b.ptb")
    assert (tmp_path / "b.conllu").read_text(encoding="utf-8") == conllu.read_text(encoding="utf-8")
    assert (tmp_path / "b.ptb").read_text(encoding="utf-8") == ptb.read_text(encoding="utf-8")
    [arcs, brackets] = capsys.readouterr().out.splitlines()
    assert "b.conllu: written; the import did not keep comments, multiword ranges, empty" in arcs
    assert "b.ptb: written; the import did not keep function tags, traces" in brackets
    # Names that nothing else could be made of.
    ptb.write_text("(TOP (S ( (NN a)) (NN b)))\n")
    with pytest.raises(
        UserError, match=r"a\.ptb: sentence 1: a phrase without a label over the one word 'a'"
    ):
        import_trees(tmp_path / "lost", ptb=ptb)
    ptb.write_text("(TOP (<dummy> (NN a) (NN b)))\n")
    with pytest.raises(UserError, match=r"a\.ptb: sentence 1: the label <dummy> is this program's own"):
        import_trees(tmp_path / "lost", ptb=ptb)
    assert not (tmp_path / "lost").exists()


def test_slices_are_trees() -> None:
    trees = parsing.load(dep=None)("It rains. Nobody slept. Why?")
    assert trees[:2].to_ptb() == "".join(f"{one.to_ptb()}\n" for one in (trees[0], trees[1]))
    assert isinstance(trees[::-1], Trees) and trees[-1].words == ["Why", "?"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("VBZ\t_\t0", "VBZ\t_\t1", r"dependency tree: not exactly one root; 'It rains \.'"),
        ("Yes\t", "No\t", "sentence 2 is not 'No' of"),
        ("0\troot", "_\t_", "has no heads|head '_'"),
        ("(NN rain)", "(NN rain) sun", r"a\.ptb:3: not one tree of words"),
        ("(-RRB- -RRB-)))", "(-RRB- -RRB-)))\n(TOP (X (A more)))", "goes on after the 3 sentences"),
    ],
)
def test_what_does_not_fit_is_named(files, tmp_path: Path, old: str, new: str, message: str) -> None:
    for path in files:
        path.write_text(path.read_text().replace(old, new))
    with pytest.raises(UserError, match=message):
        import_trees(tmp_path / "cache", conllu=files[0], ptb=files[1])
    assert not (tmp_path / "cache" / "manifest.json").exists()


def test_a_path_may_be_a_string(files, tmp_path: Path) -> None:
    conllu, _ = files
    assert import_trees(str(tmp_path / "cache"), conllu=str(conllu)).complete  # type: ignore[arg-type]
    with pytest.raises(UserError, match="import_trees: a int is no path"):
        import_trees(tmp_path / "other", conllu=3)  # type: ignore[arg-type]


def test_one_format_alone_and_a_cache_that_is_not_overwritten(files, tmp_path: Path) -> None:
    import_trees(tmp_path / "const", ptb=files[1])
    assert not TreeCache.open(tmp_path / "const").has("dep")
    import_trees(tmp_path / "dep", conllu=files[0])
    assert TreeCache.open(tmp_path / "dep").fields == ("token", "head", "relation", "dep_height")
    with pytest.raises(UserError, match="has no const trees"):
        export(tmp_path / "dep", ptb=tmp_path / "x.ptb")
    import_trees(tmp_path / "both", conllu=files[0], ptb=files[1])
    for other in (
        tmp_path / "x",
        tmp_path / "both" / "x",
        tmp_path,
        Path("-"),
    ):  # all are refused before the work
        with pytest.raises(UserError, match=r"is the other output too|is not a regular file"):
            export(tmp_path / "both", conllu=tmp_path / "x", ptb=other)
        assert not (tmp_path / "x").exists() and not (tmp_path / "both" / "x").exists()
    leftover = tmp_path / "dep" / ".config.json.abcd1234.tmp"
    leftover.touch()  # by a run that was killed after its last shard
    with pytest.raises(UserError, match="holds a tree cache already"):
        import_trees(tmp_path / "dep", conllu=files[0])
    assert not leftover.exists()
    with pytest.raises(UserError, match="--conllu or --ptb"):
        import_trees(tmp_path / "other")
