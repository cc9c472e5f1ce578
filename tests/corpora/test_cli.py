"""Paths of the wrong kind end in one line and exit code 2, whichever command met them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from corpora.inputs import list_files
from corpora.support.cli import run_command
from corpora.support.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of a command that writes a folder."""

    output: Path = Path("x")
    """Where to write."""


def make_folder(config: Options) -> None:
    config.output.mkdir(parents=True)


@pytest.mark.parametrize("below", ["", "model"])
def test_a_file_where_a_folder_is_needed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], below: str
) -> None:
    """Before, ``--output FILE/model`` ended in a traceback and exit code 1."""
    file = tmp_path / "file"
    file.write_text("kept", encoding="utf-8")
    output = file / below
    code = run_command(Options, make_folder, prog="p", description="d", args=["--output", str(output)])
    message = capsys.readouterr().err
    assert code == 2
    assert message.count("\n") == 1
    assert str(output) in message
    assert "another path" in message
    assert file.read_text(encoding="utf-8") == "kept"


def test_an_error_without_a_path_keeps_its_traceback() -> None:
    def fail(config: Options) -> None:
        raise PermissionError("no path")

    with pytest.raises(PermissionError, match="no path"):
        run_command(Options, fail, prog="p", description="d", args=[])


def test_an_empty_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=": no files in this folder"):
        list_files(tmp_path)
