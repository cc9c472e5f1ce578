"""Atomic files: whole or absent, readable like any other file; JSON and configurations round trip."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from corpora.support.cli import config_from_json, config_to_json, run_command
from corpora.support.errors import MissingExtraError, UserError
from corpora.support.files import atomic_path, read_json, write_json


def test_a_failure_keeps_the_old_file_and_leaves_nothing_behind(tmp_path: Path) -> None:
    target = tmp_path / "value.json"
    write_json(target, {"a": 1})
    with pytest.raises(RuntimeError), atomic_path(target) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert read_json(target) == {"a": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["value.json"]


def test_finished_files_follow_the_umask_whoever_made_the_temporary_one(tmp_path: Path) -> None:
    with atomic_path(tmp_path / "weights") as temporary:
        temporary.unlink()
        temporary.write_bytes(b"x")
        os.chmod(temporary, 0o600)  # what safetensors' own writer leaves
    umask = os.umask(0)
    os.umask(umask)
    assert (tmp_path / "weights").stat().st_mode & 0o777 == 0o666 & ~umask


def test_json_errors_name_the_file(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(UserError, match=r"bad\.json: not JSON"):
        read_json(tmp_path / "bad.json")
    with pytest.raises(UserError, match="no such file"):
        read_json(tmp_path / "absent.json")
    with pytest.raises(ValueError):
        write_json(tmp_path / "nan.json", float("nan"))
    assert not (tmp_path / "nan.json").exists()


@dataclass(frozen=True, kw_only=True)
class Config:
    """A command's options."""

    name: str = "a"
    folder: Path | None = None
    sizes: tuple[int, ...] = (1, 2)


def test_configurations_round_trip_and_refuse_unknown_keys() -> None:
    config = Config(name="b", sizes=(3,))
    assert config_from_json(Config, config_to_json(config), where="c.json") == config
    with pytest.raises(UserError, match=r"c\.json: unknown key 'colour'"):
        config_from_json(Config, {"colour": "red"}, where="c.json")


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (UserError("x.txt, row 3: bad"), 2, "x.txt, row 3: bad"),
        (MissingExtraError("ray", "ray"), 2, "pip install 'multiview-embeddings[ray]'"),
        (KeyboardInterrupt(), 130, "interrupted; all is kept"),
    ],
)
def test_errors_become_exit_codes(
    error: BaseException, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def main(config: Config) -> None:
        raise error

    got = run_command(Config, main, prog="python -m x", description="d", args=[], kept="all is kept")
    assert got == code
    assert words in capsys.readouterr().err
