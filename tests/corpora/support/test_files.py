"""Atomic files: whole or absent; records with a seal."""

from __future__ import annotations

from pathlib import Path

import pytest

from corpora.support.errors import UserError
from corpora.support.files import (
    atomic_path,
    check_file,
    file_record,
    read_json,
    read_record,
    write_json,
    write_record,
)


def test_a_failure_keeps_the_old_file_and_leaves_nothing_behind(tmp_path: Path) -> None:
    target = tmp_path / "value.json"
    write_json(target, {"a": 1})
    with pytest.raises(RuntimeError), atomic_path(target) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    with pytest.raises(ValueError):
        write_json(tmp_path / "nan.json", float("nan"))
    assert read_json(target) == {"a": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["value.json"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"[" * 200_000, "recursion limit"),
        (b'{"a": ' + b"1" * 6_000 + b"}", "number out of range"),
    ],
)
def test_odd_json_is_one_line(text: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_bytes(text)
    with pytest.raises(UserError, match=rf"odd\.json: not JSON .*{words}"):
        read_json(tmp_path / "odd.json")


def test_a_record_is_sealed(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_record(path, {"step": 7, "score": 0.1 + 0.2, "by": {10: [1, None], 9: "é"}})
    assert read_record(path) == {"step": 7, "score": 0.1 + 0.2, "by": {"10": [1, None], "9": "é"}}
    whole = path.read_text()
    for damaged in (whole.replace("7", "8", 1), whole.replace('"seal"', '"real"'), "[]", whole[:20], ""):
        path.write_text(damaged)
        with pytest.raises(UserError, match=r"state\.json: "):
            read_record(path)


def test_a_files_record_finds_damage(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"abc")
    record = file_record(path)
    check_file(path, **record)
    for damaged, message in ((b"abd", "SHA-256"), (b"ab", "2 bytes, 3 were written")):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match=message):
            check_file(path, **record)
    path.unlink()
    with pytest.raises(UserError, match="no such file"):
        check_file(path, **record)
