"""The task files are read as the original toolkit reads them, and wrong rows are named."""

import gzip
from itertools import chain
from pathlib import Path

import pytest

from corpora.senteval.files import TaskData, read_task
from corpora.senteval.tasks import TASKS
from runtime.errors import UserError
from tests.fixtures.senteval import PUBLISHED_TASKS

HEADER = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
SICK = "h\n1\tA kid\tA child\t4.5\tENTAILMENT\n2\tA\tB\t1\tCONTRADICTION\n"
PROBING = "tr\tNNS\tx\tthe cats sat\ntr\tNN\tthe cat sat\nva\tNN\ta\nte\tNNS\tb\n"
STSB = "g\tf\ty\t1\t2.5\tA kid\tA child\textra\n"
# Class 1 first. 0x85 (NEL) and form feed end a line for splitlines; 0xe9 is no UTF-8; a blank line is a row.
CR = (b"caf\xe9 good\n\nx\x85y\x0cz", b"bad one\n")
TREC = (b"DESC:manner How : a\x85b ?\nNUM:dist How far\n", b"HUM:ind Who ?")
MRPC = (HEADER + "1\t2\t3\ta 'b\tc \" d\r\n", HEADER)
SST2, SST5 = "a fine film \t1\nbad\t0\n", "4 a fine film\n0 bad\n"
STS13 = ("a b\tc\nd\te\nf\tg\n", "1.5\n\n4\n")
SNLI = (b"a\xa0b c\n", b"d\n", b"contradiction\n")  # split at ASCII white space only

CONTENTS = {
    "CR": CR, "SUBJ": ("o\n", "s\n"), "TREC": TREC, "MRPC": MRPC, "SICKRelatedness": (SICK,) * 3,
    "SICKEntailment": (SICK,) * 3, "STSBenchmark": (STSB,) * 3, "STS13": STS13 * 3, "SST2": (SST2,) * 3,
    "SST5": (SST5,) * 3, "SNLI": SNLI * 3, "SubjNumber": (PROBING,),
}  # fmt: skip
"""Of every file of a task, in the order of its paths."""


def write(folder: Path, name: str, *contents: str | bytes) -> list[Path]:
    paths = list(dict.fromkeys(path for part in TASKS[name].paths(folder).values() for path in part))
    for path, content in zip(paths, contents or CONTENTS[name], strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return paths


@pytest.mark.parametrize(
    ("name", "split", "first", "second", "labels"),
    [
        ("CR", "all", ["café good", "", "x", "y", "z", "bad one"], None, [1, 1, 1, 1, 1, 0]),
        ("TREC", "train", ["How : a b ?", "How far"], None, [1, 5]),
        ("TREC", "test", ["Who ?"], None, [3]),
        ("MRPC", "train", ["a 'b"], ['c " d'], [1]),
        ("MRPC", "test", [], [], []),
        ("SICKRelatedness", "dev", ["A kid", "A"], ["A child", "B"], [4.5, 1.0]),
        ("SICKEntailment", "test", ["A kid", "A"], ["A child", "B"], [2, 0]),
        ("STSBenchmark", "test", ["A kid"], ["A child"], [2.5]),
        ("STS13", "FNWN", ["a b", "f"], ["c", "g"], [1.5, 4.0]),  # the pair without gold is dropped
        ("SST2", "train", ["a fine film", "bad"], None, [1, 0]),
        ("SST5", "train", ["a fine film", "bad"], None, [4, 0]),
        ("SNLI", "train", ["a\xa0b c"], ["d"], [2]),
        ("SubjNumber", "train", ["the cats sat", "the cat sat"], None, [1, 0]),
        ("SubjNumber", "test", ["b"], None, [1]),
    ],
)
def test_rows_are_the_toolkits(tmp_path, name, split, first, second, labels: list[float]) -> None:
    (tmp_path / "probing").mkdir()
    write(tmp_path, name)
    data = read_task(name, tmp_path)
    rows = data.splits[split]
    tokens = [words.split() if name != "SNLI" else words.split(" ") for words in first]
    assert (rows.a, rows.y) == (tokens, labels)
    assert rows.b == (None if second is None else [words.split() for words in second])
    assert data.count_notes()


@pytest.mark.parametrize(
    ("name", "contents", "message"),
    [
        ("TREC", (TREC[0], b"HUM:ind Who ?\nWHO:x y\n"), r"TREC_10.label:2: expected a label .*'WHO'"),
        ("MRPC", (MRPC[0] + "1\t1\t2\tcut", HEADER), "train.txt:3: expected 5 tab-separated columns"),
        ("SICKEntailment", (SICK, SICK.replace("\t", " ", 7), SICK), r"SICK_trial.txt:2: expected 5"),
        ("STS13", (*STS13 * 2, STS13[0], "1\n2\n"), r"STS.gs.OnWN.txt: 2 rows, but .* has 3"),
        ("STS13", (*STS13 * 2, STS13[0], "1_0\n\n2\n"), r"STS.gs.OnWN.txt:1: expected a number, found '1_0'"),
        ("SST2", (b"good\t1\n\xff\t0\n", SST2, SST2), r"sentiment-train:2: not utf-8 \(byte 0xff\)"),
        ("SubjNumber", (PROBING + "te\tJJ\tc\n",), r"number.txt:5: expected a label that occurs"),
    ],
)  # fmt: skip
def test_wrong_rows_are_named(tmp_path: Path, name: str, contents: tuple[str, ...], message: str) -> None:
    (tmp_path / "probing").mkdir()
    write(tmp_path, name, *contents)
    with pytest.raises(UserError, match=message):
        read_task(name, tmp_path)


def test_files_may_be_packed_but_not_damaged(tmp_path: Path) -> None:
    (tmp_path / "probing").mkdir()
    [path] = write(tmp_path, "SubjNumber")
    path.unlink()
    packed = path.with_name(path.name + ".gz")
    packed.write_bytes(gzip.compress(PROBING.encode()))
    assert read_task("SubjNumber", tmp_path).classes == ("NN", "NNS")
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(UserError, match=r"subj_number.txt.gz: cannot be read"):
        read_task("SubjNumber", tmp_path)


def test_every_missing_file_is_named_with_its_origin(tmp_path: Path) -> None:
    for name in PUBLISHED_TASKS:
        with pytest.raises(UserError, match=r"github\.com/facebookresearch/SentEval") as caught:
            read_task(name, tmp_path / "none")
        message = str(caught.value)
        files = chain.from_iterable(TASKS[name].paths(tmp_path / "none").values())
        assert all(path.name in message for path in files)
    write(tmp_path, "CR")[1].unlink()
    with pytest.raises(UserError, match=r"no such file in \S*: downstream/CR/custrev\.neg \(nor"):
        read_task("CR", tmp_path)


HERE = "MR CR SUBJ TREC MRPC SICKRelatedness SICKEntailment STSBenchmark STS12 STS14 STS16 SST2 SST5"
REBUILT = "Length WordContent TopConstituents BigramShift Tense ObjNumber"


@pytest.mark.data
@pytest.mark.parametrize("name", [*HERE.split(), *REBUILT.split()])
def test_real_files_have_the_published_row_counts(data_folder: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "probing").symlink_to(data_folder / "probing_rebuilt")  # look-alikes, under their own name
    data: TaskData = read_task(name, tmp_path if name in REBUILT.split() else data_folder)
    assert len(data.count_notes()) == (0 if name in HERE.split() else 3)  # look-alikes are said to differ
    for rows in data.splits.values():
        assert len(rows.a) == len(rows.y) == len(rows.b or rows.a)
        if data.classes:
            assert set(rows.y) == set(range(len(data.classes)))
