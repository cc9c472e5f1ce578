"""Pair sets in the formats of their authors."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.pairs.labelled import (
    LabelledPair,
    LabelledText,
    Paraphrase,
    read_nli_jsonl,
    read_pairs_tsv,
    read_ppdb,
    read_quora,
    read_sst5,
    read_sts_benchmark,
)
from corpora.support.errors import UserError


def test_nli_without_majority_label_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    rows = [
        {"gold_label": "neutral", "sentence1": 'A "b"\n', "sentence2": "c", "other": [1]},
        {"gold_label": "-", "sentence1": "x", "sentence2": "y"},
    ]
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    skipped: Counter[str] = Counter()
    assert list(read_nli_jsonl(path, skipped=skipped)) == [LabelledPair('A "b"\n', "c", "neutral")]
    assert skipped == {"pairs without a majority label": 1}


@pytest.mark.parametrize("row", ["not json", "[1]", '{"gold_label": "neutral", "sentence1": "a"}'])
def test_bad_nli_rows_are_named(tmp_path: Path, row: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"gold_label": "neutral", "sentence1": "a", "sentence2": "b"}\n' + row)
    with pytest.raises(UserError, match=r"a\.jsonl:2: expected a JSON object with gold_label"):
        list(read_nli_jsonl(path))


def test_tsv_columns_are_found_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text('label\tsentence1\tsentence2\tset\n1\tsay "hi"\tb\tx\n')
    assert list(read_pairs_tsv(path)) == [LabelledPair('say "hi"', "b", "1")]
    with pytest.raises(UserError, match=r"a\.tsv:1: no column 'gold' \(columns: label"):
        list(read_pairs_tsv(path, label="gold"))
    path.write_text("label\tsentence1\tsentence2\n1\ta\n")
    with pytest.raises(UserError, match=r"a\.tsv:2: expected 3 tab-separated columns, found '1\\ta'"):
        list(read_pairs_tsv(path))
    path.write_text("")
    with pytest.raises(UserError, match="empty; expected a header"):
        list(read_pairs_tsv(path))


def test_quora_has_quoted_line_breaks_and_unusable_rows(tmp_path: Path) -> None:
    path = tmp_path / "q.tsv"
    path.write_text(
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
        '0\t1\t2\t"Why\n""so""?"\tHow?\t1\n'
        "1\t3\t4\t\tHow?\t0\n"
        "2\t5\t6\tcut off\n"
    )
    skipped: Counter[str] = Counter()
    assert list(read_quora(path, skipped=skipped)) == [LabelledPair('Why\n"so"?', "How?", "1")]
    assert skipped == {"rows with an empty question": 1, "rows with other columns": 1}


@pytest.mark.parametrize("question", ["What is\rthis?", '"' + "never closed " * 12_000])
def test_quora_rows_that_cannot_be_read_are_named(tmp_path: Path, question: str) -> None:
    """Before, the csv module's own error ended the command with a traceback."""
    path = tmp_path / "q.tsv"
    path.write_bytes(
        f"id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n0\t1\t2\t{question}\tHow?\t1\n".encode()
    )
    with pytest.raises(UserError, match=r"q\.tsv:2: cannot be read as tab-separated columns"):
        list(read_quora(path))


def test_sts_benchmark_rows(tmp_path: Path) -> None:
    path = tmp_path / "sts.csv"
    path.write_text('g\tf\ty\t1\t4.750\tA "x"\tB\tlicence\n')
    (pair,) = read_sts_benchmark(path)
    assert (pair.first, pair.second, pair.score()) == ('A "x"', "B", 4.75)
    path.write_text("g\tf\ty\t1\t7\tA\tB\n")
    with pytest.raises(UserError, match=r"sts\.csv:1: expected a score from 0 to 5"):
        list(read_sts_benchmark(path))


def test_sst5_rows(tmp_path: Path) -> None:
    path = tmp_path / "sst"
    path.write_text("4 fine film\nfive bad\n")
    rows = read_sst5(path)
    assert next(rows) == LabelledText("fine film", "4")
    with pytest.raises(UserError, match=r"sst:2: expected a label from 0 to 4"):
        next(rows)


def test_ppdb_of_both_versions(tmp_path: Path) -> None:
    path = tmp_path / "ppdb"
    path.write_text(
        "[NN] ||| car ||| automobile ||| PPDB2.0Score=5.2 Abstract=0 Lex(e|f)=6.1 Name=x "
        "||| 0-0 ||| Equivalence\n"
        "[X] ||| a b ||| c ||| Abstract=0 ||| 0-0 1-0\n"
        "broken ||| line\n"
    )
    skipped: Counter[str] = Counter()
    new, old = read_ppdb(path, skipped=skipped)
    assert (new.left, new.right, new.syntax, new.entailment) == ("car", "automobile", "[NN]", "Equivalence")
    assert new.features() == {"PPDB2.0Score": 5.2, "Abstract": 0.0, "Lex(e|f)": 6.1}
    assert (old.left, old.alignment, old.entailment) == ("a b", "0-0 1-0", "")
    assert skipped == {"lines without the fields of PPDB": 1}
    path.write_text("just text\n")
    with pytest.raises(UserError, match="ppdb: no line of PPDB"):
        list(read_ppdb(path))


word = st.text("abc'-,.", min_size=1, max_size=6)
phrase = st.lists(word, min_size=1, max_size=3).map(" ".join)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.builds(Paraphrase, word, phrase, phrase, phrase, phrase, st.just("") | word), min_size=1))
def test_ppdb_round_trip(tmp_path_factory, rows: list[Paraphrase]) -> None:
    path = tmp_path_factory.mktemp("trip") / "ppdb"
    fields = [[r.syntax, r.left, r.right, r.raw_features, r.alignment, r.entailment] for r in rows]
    path.write_text("".join(" ||| ".join(f if f[-1] else f[:-1]) + "\n" for f in fields))
    assert list(read_ppdb(path)) == rows


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "pairs"),
    [
        ("nli/snli_dev.tsv", 9842),
        ("nli/snli_test.tsv", 9824),
        ("nli/joci.tsv.gz", 39_092),
        ("nli/help_and_or.tsv", 6514),
        ("nli/med.tsv", 5382),
        ("nli/breaking_nli.tsv", 8193),
        ("nli/rte1-3.tsv", 4167),
        ("paraphrase/quora_duplicates_eval_split.tsv.gz", 14_926),
        ("paraphrase/twitter_url_test.tsv.gz", 9324),
    ],
)
def test_real_pair_files_have_the_stated_counts(data_folder: Path, name: str, pairs: int) -> None:
    label = "ordinal_label_1to5" if "joci" in name else "label"
    assert sum(1 for _ in read_pairs_tsv(data_folder / name, label=label)) == pairs


@pytest.mark.data
def test_real_sts_benchmark_and_sst5(data_folder: Path) -> None:
    downstream = data_folder / "senteval" / "downstream"
    assert sum(1 for _ in read_sts_benchmark(downstream / "STS" / "STSBenchmark" / "sts-dev.csv")) == 1500
    assert sum(1 for _ in read_sst5(downstream / "SST" / "fine" / "sentiment-test")) == 2210
