"""Pair sets in the formats of their authors: a line of each kind, and malformed ones."""

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from corpora.pairs import RELATIONS, read_binary, read_nli, read_phrases, read_ppdb
from runtime.errors import UserError


def write(path: Path, *lines: str) -> Path:
    text = "".join(line + "\n" for line in lines)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return path


def test_both_versions_of_ppdb_and_word_pairs(tmp_path: Path) -> None:
    features = "PPDB2.0Score=5.24981 PPDB1.0Score=3.295900 -logp(LHS|e1)=0.01579 Name=x Lex(e|f)=6.1"
    path = write(
        tmp_path / "ppdb.gz",
        *(f"[NP] ||| the {i} men ||| men {i} ||| {features} ||| 1 ||| {e}" for i, e in enumerate(RELATIONS)),
        "[VB/NP] ||| take part in ||| participate in ||| p(e|f)=2.1 ||| 0-0 2-1",
        "",
        "broken ||| line",
        "[,] ||| , ||| , and ||| x=1 ||| 0-0",
    )
    rows = list(read_phrases(path))
    assert rows[0] == ("the 0 men", "men 0", "Equivalence")
    assert [row[2] for row in rows] == [*RELATIONS, None, None]
    assert rows[-2][:2] == ("take part in", "participate in")
    first, *_, last = read_ppdb(path)
    assert (first.left, first.entailment, last.entailment) == ("the 0 men", "Equivalence", "")
    values = [first.feature(name) for name in ("PPDB2.0Score", "Lex(e|f)", "Name", "x")]
    assert values == [5.24981, 6.1, None, None] and last.feature("x") == 1
    for line, message in (
        ("[NP] ||| a ||| b ||| f ||| 0-0 ||| Synonym", "'Synonym' of 'a' and 'b' is none of Equivalence"),
        ("just text", "ppdb: no line of PPDB"),
    ):
        with pytest.raises(UserError, match=message):
            list(read_phrases(write(tmp_path / "ppdb", line)))
    words = write(tmp_path / "words.tsv", "word1\tword2", "fast\tquick", "co-operate\tcooperate")
    assert list(read_phrases(words)) == [("fast", "quick", None), ("co-operate", "cooperate", None)]


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
    for row in ("not json", '{"gold_label": "neutral", "sentence1": "a"}'):
        bad = write(tmp_path / "bad.jsonl", json.dumps(rows[0]), row)
        with pytest.raises(UserError, match=r"bad\.jsonl:2: expected a JSON object with gold_label"):
            list(read_nli(bad))
    table = write(
        tmp_path / "nli.tsv.gz",
        "label\tsentence1\tsentence2\tgenre",
        "neutral\tA man.\tHe is tall.\tx",
        '-\tA man.\tHe "is" here.\tx',
    )
    assert list(read_nli(table)) == expected


def test_quora_has_quoted_line_breaks_and_unusable_rows(tmp_path: Path) -> None:
    path = tmp_path / "q.tsv"
    path.write_text(
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
        '0\t1\t2\t"Why\n""so""?"\tHow?\t1\n'
        "1\t3\t4\t\tHow?\t0\n"
        "2\t5\t6\tcut off\n"
    )
    assert list(read_binary(path)) == [('Why\n"so"?', "How?", 1)]
    for question in ("What is\rthis?", '"' + "never closed " * 12_000):
        rows = f"id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n0\t1\t2\t{question}\tHow?\t1\n"
        path.write_bytes(rows.encode())
        with pytest.raises(UserError, match=r"q\.tsv:2: cannot be read as tab-separated columns"):
            list(read_binary(path))
    path = write(tmp_path / "p.tsv", "label\tsentence1\tsentence2", "1\ta\tb", "2\ta\tc")
    with pytest.raises(UserError, match=r"p\.tsv:3: expected label 0 or 1, found '2'"):
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
