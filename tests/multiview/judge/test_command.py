"""The command that judges a pair or a table of pairs, and the rows that it reads."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from multiview.judge import Judge
from multiview.judge.__main__ import agreement, cli, read_file
from runtime.errors import UserError
from tests.fixtures.pairs import SAME, SWAPPED


def test_the_command_judges_a_pair_or_a_table(tmp_path: Path, capsys, refusal) -> None:
    assert cli(["A dog barked.", ""]) == 0, "an empty sentence is a sentence"
    capsys.readouterr()
    assert cli([*SWAPPED]) == 0
    assert "roles: agent of praised: lawyer | doctor" in capsys.readouterr().out
    (tmp_path / "pairs.tsv").write_text("\t".join(SAME) + "\n" + "\t".join(SWAPPED) + "\n")
    assert cli([str(tmp_path / "pairs.tsv"), "--judge", "pairs-with-mrpc"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert float(rows[0][0]) > 0.5 > float(rows[1][0]) and rows[1][3].startswith("roles: ")
    for alone in (str(tmp_path / "none.tsv"), "The cat sat. " * 30):
        assert f"{alone}: no such file; to judge two sentences, give both" in refusal(cli, alone)
    (tmp_path / "empty.tsv").touch()
    assert "holds no rows" in refusal(cli, tmp_path / "empty.tsv")
    (tmp_path / "bad.json").write_text("{}")
    assert "bad.json" in refusal(cli, *SAME, "--judge", tmp_path / "bad.json")


@pytest.mark.parametrize(
    ("text", "pairs", "labels"),
    [
        ('He said "no" to it.\tNo.\n', [('He said "no" to it.', "No.")], []),
        ('"He said ""no"" to it."\t"No."\n', [('He said "no" to it.', "No.")], []),
        ("A.\tB.\t1\nC.\tD.\t0\n", [("A.", "B."), ("C.", "D.")], [1, 0]),
        ("sentence1\tsentence2\nA.\tB.\n", [("A.", "B.")], []),
        ("id\tlabel\tsentence2\tsentence1\n7\t1\tB.\tA.\n", [("A.", "B.")], [1]),
        ("A\u2028B.\tC.\n", [("A\u2028B.", "C.")], []),
    ],
)
def test_rows_of_a_file(tmp_path: Path, text: str, pairs: list[tuple[str, str]], labels: list[int]) -> None:
    (tmp_path / "pairs.tsv").write_text(text, encoding="utf-8")
    assert read_file(tmp_path / "pairs.tsv") == (pairs, labels)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"The caf\xe9.\tThe cafe.\n", "pairs.tsv:1: not UTF-8"),
        (b"A.\tB.\t1\nC.\tD.\n", "pairs.tsv:2: expected 3 cells"),
        (b"A.\tB.\tyes\n", "pairs.tsv:1: expected a label 0 or 1, found 'yes'"),
        (b"A.\t\n", "pairs.tsv:1: expected 2 cells"),
        (b"A.\n", "pairs.tsv:1: expected two sentences"),
        (b"sentence1\tsentence2\n", "holds no rows"),
        (b"sentence1\tsentence2\tsentence1\nA\tB\tC\n", "two columns are called sentence1"),
    ],
)
def test_a_file_without_pairs_is_refused(tmp_path: Path, text: bytes, message: str) -> None:
    (tmp_path / "pairs.tsv").write_bytes(text)
    with pytest.raises(UserError, match=re.escape(message)):
        read_file(tmp_path / "pairs.tsv")


def test_labels_are_compared_and_control_characters_are_not_printed(tmp_path: Path, capsys) -> None:
    rows = [(*SAME, "1"), (*SWAPPED, "0"), ("The \x1b[31mcat\u2028sat.", "A dog ran.", "1")]
    (tmp_path / "pairs.tsv").write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    assert cli([str(tmp_path / "pairs.tsv")]) == 0
    printed = capsys.readouterr().out
    assert len(printed.split("\n")) == 5 and not {"\x1b", "\u2028"} & {*printed}
    assert "accuracy 66.7, area under the ROC curve" in printed and "of 3 pairs" in printed
    assert cli(["The \x1b[31mcat sat.", "A \x1b[31mdog\u2028sat."]) == 0
    assert not {"\x1b", "\u2028"} & {*capsys.readouterr().out}


def test_the_accuracy_is_that_at_the_threshold_of_the_judge(judge: Judge) -> None:
    judgements = [replace(judge(*SAME), probability=p, threshold=0.8) for p in (0.9, 0.7, 0.6)]
    text = agreement(judgements, [1, 0, 0])
    assert text == "accuracy 100.0, area under the ROC curve 100.0, of 3 pairs"


def test_the_command_draws_precision_against_hit_rate(tmp_path: Path, capsys, refusal) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / "pairs.tsv"
    file.write_text("".join("\t".join(row) + "\n" for row in ((*SAME, "1"), (*SWAPPED, "0"))))
    assert cli([str(file), "--labels"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["hit", "rate", "precision"] and len(lines) == 12
    assert lines[1].split()[:2] == ["100.0%", "100.0%"]
    assert (tmp_path / "pairs.tsv.png").read_bytes()[:4] == b"\x89PNG" and lines[-1] == f"{file}.png"
    file.write_text("\t".join(SAME) + "\n")
    assert "--labels needs labels, 0 and 1" in refusal(cli, file, "--labels")
    assert "--labels: is for a file of pairs" in refusal(cli, *SAME, "--labels")
    assert "--similarity: is not printed with --labels" in refusal(cli, file, "--labels", "--similarity")
