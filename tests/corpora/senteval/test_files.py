"""The task files are read as the original toolkit reads them, and wrong rows are named."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from corpora.senteval.files import TaskData, read_task
from corpora.senteval.tasks import (
    ALIASES,
    PUBLISHED_ROWS,
    STS_SUBSETS,
    TASK_NAMES,
    canonical_task,
    task_paths,
)
from corpora.support.errors import UserError


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("alias", ALIASES)
def test_aliases(alias: str) -> None:
    assert canonical_task(alias) == canonical_task(alias.lower().replace("-", "_")) == ALIASES[alias]


def test_unknown_tasks_list_the_known_ones() -> None:
    assert canonical_task("odd_man_out") == "OddManOut"
    with pytest.raises(UserError, match=r"unknown task 'MRR'.*SICKEntailment"):
        canonical_task("MRR")
    with pytest.raises(UserError, match="image features"):
        canonical_task("ImageCaptionRetrieval")


def test_every_task_has_published_counts() -> None:
    assert set(PUBLISHED_ROWS) == set(TASK_NAMES)
    assert [sum(PUBLISHED_ROWS[name].values()) for name in STS_SUBSETS] == [3108, 1500, 3750, 3000, 1186]


def test_binary_files_are_latin_1_cut_like_splitlines_with_class_one_first(tmp_path: Path) -> None:
    # 0x85 (NEL) and form feed end a line for splitlines; 0xe9 is no UTF-8; the blank line is a row.
    write(tmp_path, "downstream/CR/custrev.pos", b"caf\xe9 good\n\nx\x85y\x0cz")
    write(tmp_path, "downstream/CR/custrev.neg", b"bad one\n")
    data = read_task("CR", tmp_path)
    rows = data.splits["all"]
    assert rows.a == [["café", "good"], [], ["x"], ["y"], ["z"], ["bad", "one"]]
    assert rows.y == [1, 1, 1, 1, 1, 0]
    assert data.count_notes() == ["CR all: 6 rows, published 3,775"]


def test_trec_drops_the_fine_label_and_keeps_nel_inside_a_line(tmp_path: Path) -> None:
    write(tmp_path, "downstream/TREC/train_5500.label", b"DESC:manner How : a\x85b ?\nNUM:dist How far\n")
    write(tmp_path, "downstream/TREC/TREC_10.label", b"HUM:ind Who ?")
    data = read_task("TREC", tmp_path)
    assert data.splits["train"].a == [["How", ":", "a", "b", "?"], ["How", "far"]]
    assert data.splits["train"].y == [1, 5]
    assert data.splits["test"].y == [3]
    write(tmp_path, "downstream/TREC/TREC_10.label", b"HUM:ind Who ?\nWHO:x y\n")
    with pytest.raises(UserError, match=r"TREC_10.label:2: expected a label among ABBR .* 'WHO'"):
        read_task("TREC", tmp_path)


def test_mrpc_skips_the_header_and_names_short_rows(tmp_path: Path) -> None:
    header = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    write(tmp_path, "downstream/MRPC/msr_paraphrase_train.txt", header + "1\t2\t3\ta 'b\tc \" d\r\n")
    test = write(tmp_path, "downstream/MRPC/msr_paraphrase_test.txt", header + "0\t2\t3\tonly one\n")
    with pytest.raises(UserError, match=r"msr_paraphrase_test.txt:2: expected 5 tab-separated columns"):
        read_task("MRPC", tmp_path)
    test.write_text(header, encoding="utf-8")
    data = read_task("MRPC", tmp_path)
    assert data.splits["train"].a == [["a", "'b"]]
    assert data.splits["train"].b == [["c", '"', "d"]]
    assert len(data.splits["test"]) == 0


def test_sick_labels_and_scores(tmp_path: Path) -> None:
    row = "h\n1\tA kid\tA child\t4.5\tENTAILMENT\n2\tA\tB\t1\tCONTRADICTION\n"
    for part in ("train", "trial", "test_annotated"):
        write(tmp_path, f"downstream/SICK/SICK_{part}.txt", row)
    assert read_task("SICK-R", tmp_path).splits["dev"].y == [4.5, 1.0]
    entailment = read_task("SICK-E", tmp_path)
    assert entailment.splits["test"].y == [2, 0]
    assert list(entailment.splits["test"].sentences()) == [["A", "kid"], ["A", "child"], ["A"], ["B"]]
    write(tmp_path, "downstream/SICK/SICK_train.txt", row.replace("4.5", "high"))
    with pytest.raises(UserError, match=r"SICK_train.txt:2: expected a number, found 'high'"):
        read_task("SICK-R", tmp_path)


def test_sts_drops_pairs_without_gold_and_checks_alignment(tmp_path: Path) -> None:
    for subset in STS_SUBSETS["STS13"]:
        write(tmp_path, f"downstream/STS/STS13-en-test/STS.input.{subset}.txt", "a b\tc\nd\te\nf\tg\n")
        write(tmp_path, f"downstream/STS/STS13-en-test/STS.gs.{subset}.txt", "1.5\n\n4\n")
    data = read_task("STS13", tmp_path)
    assert list(data.splits) == ["FNWN", "headlines", "OnWN"]
    assert data.splits["FNWN"].a == [["a", "b"], ["f"]]
    assert data.splits["FNWN"].y == [1.5, 4.0]
    write(tmp_path, "downstream/STS/STS13-en-test/STS.gs.OnWN.txt", "1\n2\n")
    with pytest.raises(UserError, match=r"STS.gs.OnWN.txt: 2 rows, but .* has 3"):
        read_task("STS13", tmp_path)


def test_sst_formats(tmp_path: Path) -> None:
    for split in ("train", "dev", "test"):
        write(tmp_path, f"downstream/SST/binary/sentiment-{split}", "a fine film \t1\nbad\t0\n")
        write(tmp_path, f"downstream/SST/fine/sentiment-{split}", "4 a fine film\n0 bad\n")
    assert read_task("SST2", tmp_path).splits["train"].a == [["a", "fine", "film"], ["bad"]]
    assert read_task("SST5", tmp_path).splits["train"].y == [4, 0]
    write(tmp_path, "downstream/SST/fine/sentiment-dev", "5 too high\n")
    with pytest.raises(UserError, match="sentiment-dev:1: expected a label among 0 1 2 3 4"):
        read_task("SST5", tmp_path)


def test_snli_splits_at_ascii_white_space_only(tmp_path: Path) -> None:
    for split in ("train", "dev", "test"):
        write(tmp_path, f"downstream/SNLI/s1.{split}", b"a\xa0b c\n")
        write(tmp_path, f"downstream/SNLI/s2.{split}", b"d\n")
        write(tmp_path, f"downstream/SNLI/labels.{split}", "contradiction\n")
    data = read_task("SNLI", tmp_path)
    assert data.splits["train"].a == [["a\xa0b", "c"]]
    assert data.splits["train"].y == [2]


def test_probing_reads_gzip_last_column_and_train_labels(tmp_path: Path) -> None:
    text = "tr\tNNS\tx\tthe cats sat\ntr\tNN\tthe cat sat\nva\tNN\ta\nte\tNNS\tb\n"
    write(tmp_path, "probing/subj_number.txt.gz", gzip.compress(text.encode()))
    data = read_task("SubjNumber", tmp_path)
    assert data.classes == ("NN", "NNS")
    assert data.splits["train"].a[0] == ["the", "cats", "sat"]
    assert data.splits["test"].y == [1]
    write(tmp_path, "probing/obj_number.txt", text + "te\tJJ\tc\n")
    with pytest.raises(UserError, match=r"obj_number.txt:5: expected a label that occurs in the train rows"):
        read_task("ObjNumber", tmp_path)
    write(tmp_path, "probing/subj_number.txt.gz", gzip.compress(text.encode())[:-9])
    with pytest.raises(UserError, match=r"subj_number.txt.gz: cannot be read"):
        read_task("SubjNumber", tmp_path)
    packed = bytearray(gzip.compress(text.encode()))
    packed[10] = 0xFF  # not a block of deflate: zlib's own error, which ended in a traceback
    write(tmp_path, "probing/subj_number.txt.gz", bytes(packed))
    with pytest.raises(UserError, match=r"subj_number.txt.gz: cannot be read"):
        read_task("SubjNumber", tmp_path)


def test_missing_and_undecodable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"MPQA: no such file: .*/MPQA lacks mpqa.pos, mpqa.neg"):
        read_task("MPQA", tmp_path)
    write(tmp_path, "downstream/SST/binary/sentiment-train", b"good\t1\n\xff\t0\n")
    for split in ("dev", "test"):
        write(tmp_path, f"downstream/SST/binary/sentiment-{split}", "good\t1\n")
    with pytest.raises(UserError, match=r"sentiment-train:2: not utf-8 \(byte 0xff\)"):
        read_task("SST2", tmp_path)


def check_shape(data: TaskData) -> None:
    for rows in data.splits.values():
        assert len(rows.a) == len(rows.y) == len(rows.b or rows.a)
        assert (rows.b is not None) == (data.kind == "pair")
        if data.classes:
            assert set(rows.y) == set(range(len(data.classes)))


HERE = "MR CR SUBJ TREC MRPC SICKRelatedness SICKEntailment STSBenchmark STS12 STS14 STS16 SST2 SST5"


@pytest.mark.data
@pytest.mark.parametrize("name", HERE.split())
def test_real_files_have_the_published_row_counts(data_folder: Path, name: str) -> None:
    data = read_task(name, data_folder)
    assert data.count_notes() == []
    check_shape(data)


@pytest.mark.data
@pytest.mark.parametrize(
    "name", ["Length", "WordContent", "TopConstituents", "BigramShift", "Tense", "ObjNumber"]
)
def test_rebuilt_probing_files_are_read_and_said_to_differ(data_folder: Path, name: str) -> None:
    data = read_task(name, data_folder)
    assert len(data.count_notes()) == 3
    check_shape(data)


def test_every_missing_file_is_named_with_its_origin(tmp_path: Path) -> None:
    for name in TASK_NAMES:
        with pytest.raises(UserError, match=r"github\.com/facebookresearch/SentEval") as caught:
            read_task(name, tmp_path / "none")
        message = str(caught.value)
        wanted = [path for paths in task_paths(name, tmp_path / "none").values() for path in paths]
        assert all(path.name in message for path in wanted) and "\n" not in message
    write(tmp_path, "downstream/CR/custrev.pos", "good\n")
    with pytest.raises(UserError, match=r"/CR lacks custrev\.neg \(nor"):
        read_task("CR", tmp_path)
