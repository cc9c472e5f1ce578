"""Published pair formats: a line of each kind, and malformed ones."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from corpora.pairs.formats import ENTAILMENTS, read_binary, read_nli, read_phrases
from corpora.support.errors import UserError


def write(path: Path, *lines: str) -> Path:
    text = "".join(line + "\n" for line in lines)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return path


def test_ppdb_of_both_versions(tmp_path: Path) -> None:
    features = "PPDB2.0Score=5.24981 PPDB1.0Score=3.295900 -logp(LHS|e1)=0.01579 AGigaSim=0.63 Abstract=0"
    path = write(
        tmp_path / "ppdb.gz",
        *(
            f"[NP] ||| the {i} men ||| men {i} ||| {features} ||| 1 ||| {e}"
            for i, e in enumerate(ENTAILMENTS)
        ),
        "[VB/NP] ||| take part in ||| participate in ||| p(e|f)=2.1 ||| 0-0 2-1",
        "",
        "[,] ||| , ||| , and ||| x=1 ||| 0-0",
    )
    rows = list(read_phrases(path))
    assert rows[0] == ("the 0 men", "men 0", "Equivalence")
    assert [row[2] for row in rows] == [*ENTAILMENTS, None, None]
    assert rows[-2][:2] == ("take part in", "participate in")


def test_word_pairs_in_two_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "words.tsv", "word1\tword2", "fast\tquick", "co-operate\tcooperate")
    assert list(read_phrases(path)) == [("fast", "quick", None), ("co-operate", "cooperate", None)]


@pytest.mark.parametrize("line", ["[NP] ||| a ||| b ||| f", "[NP] |||  ||| b ||| f ||| 0-0", "free text"])
def test_lines_that_are_not_ppdb_are_counted(tmp_path: Path, line: str) -> None:
    path = write(tmp_path / "ppdb", "[NP] ||| a ||| b ||| f ||| 0-0", line)
    skipped: Counter[str] = Counter()
    assert list(read_phrases(path, skipped)) == [("a", "b", None)]
    assert skipped.total() == 1


def test_a_relation_that_ppdb_does_not_know_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "ppdb", "[NP] ||| a ||| b ||| f ||| 0-0 ||| Synonym")
    with pytest.raises(UserError, match="'Synonym' of 'a' and 'b' is none of Equivalence"):
        list(read_phrases(path))


def test_nli_as_published_and_as_a_table(tmp_path: Path) -> None:
    rows = [
        {"gold_label": "neutral", "sentence1": "A man.", "sentence2": "He is tall.", "annotator_labels": []},
        {"gold_label": "-", "sentence1": "A man.", "sentence2": 'He "is" here.'},
    ]
    published = write(tmp_path / "snli_1.0_train.jsonl", *map(json.dumps, rows))
    expected = [("A man.", "He is tall.", "neutral"), ("A man.", 'He "is" here.', "-")]
    skipped: Counter[str] = Counter()
    assert list(read_nli(published, skipped)) == expected[:1]
    assert skipped.total() == 1
    table = write(
        tmp_path / "nli.tsv.gz",
        "label\tsentence1\tsentence2\tgenre",
        "neutral\tA man.\tHe is tall.\tx",
        '-\tA man.\tHe "is" here.\tx',
    )
    assert list(read_nli(table)) == expected


def test_quora_as_published(tmp_path: Path) -> None:
    path = write(
        tmp_path / "quora.tsv",
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
        '0\t1\t2\tWhat is "it"?\tWhat?\t0',
        '1\t3\t4\t"Say ""hi""',
        'twice?"\tHow do I say hi?\t1',
    )
    assert list(read_binary(path)) == [
        ('What is "it"?', "What?", 0),
        ('Say "hi"\ntwice?', "How do I say hi?", 1),
    ]


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("a.jsonl", ["{}"]),
        ("a.jsonl", ["not json"]),
        ("a.tsv", ["ordinal_label_1to5\tsentence1\tsentence2"]),
        ("a.tsv", ["label\tsentence1\tsentence2", "neutral\tonly"]),
        ("a.tsv", []),
    ],
)
def test_malformed_nli_is_named(tmp_path: Path, name: str, lines: list[str]) -> None:
    with pytest.raises(UserError, match=name):
        list(read_nli(write(tmp_path / name, *lines)))


def test_a_label_that_is_not_binary_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "p.tsv", "label\tsentence1\tsentence2", "1\ta\tb", "2\ta\tc")
    with pytest.raises(UserError, match=r"p\.tsv: expected label 0 or 1, found '2'"):
        list(read_binary(path))


@pytest.mark.data
def test_the_data_folder_reads_whole(data_folder: Path) -> None:
    assert sum(1 for _ in read_nli(data_folder / "nli" / "snli_dev.tsv")) == 9842
    twitter = data_folder / "paraphrase" / "twitter_url_test.tsv.gz"
    assert sum(1 for _ in read_binary(twitter)) == 9324
    words = data_folder / "paraphrase" / "ppdb1_xxxl_lexical_synonym_pairs.tsv.gz"
    assert sum(1 for _ in read_phrases(words)) == 210_372
    with pytest.raises(UserError, match="no column 'label'"):
        list(read_nli(data_folder / "nli" / "joci.tsv.gz"))  # JOCI stays out of NLI training
