"""Commands: exit codes, one line for what a user can change, the folder they own."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from corpora.support.cli import Command, Count, configuration
from corpora.support.errors import MissingExtraError, UserError


@configuration
class Options:
    """Options of a command that writes a folder."""

    output: Path = Path("x")
    """Where to write."""
    preset: str | None = None
    """Values by name."""
    epochs: Count = 2
    """Passes."""
    dry_run: bool = False
    """Write nothing."""


FULL = "no space left on the disk, or the file is above its limit; steps are kept"


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (UserError("x.txt, row 3: bad"), 2, "x.txt, row 3: bad"),
        (UserError("a\x1b[2Jb\nc\udce9.txt: bad"), 2, "a\ufffd[2Jb\ufffdc\ufffd.txt: bad"),
        (MissingExtraError("ray", "ray"), 2, "ray is not installed: pip install 'multiview-embeddings[ray]'"),
        (OSError("Unable to write (errno = 28, error message = 'No space left on device')"), 2, FULL),  # h5py
        (ValueError("I/O error: No space left on device (os error 28)"), 2, FULL),  # safetensors
        (KeyboardInterrupt(), 130, "interrupted; steps are kept"),
        (MemoryError(), 2, "out of memory; steps are kept"),
    ],
)  # fmt: skip
def test_errors_become_exit_codes(
    error: BaseException, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(config: Options) -> None:
        raise error

    assert Command(Options, fail, "p", "d", kept="steps are kept")([]) == code
    assert capsys.readouterr().err == f"python -m p: {message}\n"


def test_arguments_that_are_not_utf8_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    command = Command(Options, lambda config: None, "p", "d")
    assert command(["--preset", os.fsdecode(b"caf\xe9")]) == 2
    assert capsys.readouterr().err == "python -m p: 'caf\\udce9' among the arguments: not UTF-8; rename it\n"


def test_a_bug_keeps_its_traceback() -> None:
    def fail(config: Options) -> None:
        raise OSError(errno.EIO, "I/O error", "/x")

    with pytest.raises(OSError, match="I/O error"):
        Command(Options, fail, "p", "d")([])


def test_a_command_owns_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two runs at once would delete each other's files."""
    inner: list[int] = []
    leftover = tmp_path / "parts" / ".MR.json.abcd1234.tmp"
    other = tmp_path / "nested" / ".x.json.abcd1234.tmp"  # of a command that may be running
    for path in (leftover, other, other.with_name(".lock")):
        path.parent.mkdir(exist_ok=True)
        path.touch()

    def again(config: Options) -> None:
        if not config.dry_run:
            assert not leftover.exists() and other.exists()
            inner.append(second(["--output", str(tmp_path)]))
            inner.append(second(["--output", str(tmp_path), "--dry-run"]))

    second = Command(Options, lambda config: None, "p", "d", owns=lambda config: config.output)
    first = Command(Options, again, "p", "d", owns=lambda config: config.output)
    assert first(["--output", str(tmp_path), "--dry-run"]) == 0
    assert leftover.exists()
    assert first(["--output", str(tmp_path)]) == 0
    assert inner == [2, 0]
    assert "another run is writing here" in capsys.readouterr().err
