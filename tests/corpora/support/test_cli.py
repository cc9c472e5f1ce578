"""Paths of the wrong kind end in one line and exit code 2, whichever command met them."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from corpora.inputs import list_files
from corpora.support.cli import Command, log_to
from corpora.support.config import configuration
from corpora.support.errors import UserError


@configuration
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
    code = Command(Options, make_folder, "p", "d")(["--output", str(output)])
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
        Command(Options, fail, "p", "d")([])


def test_an_empty_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=": no files in this folder"):
        list_files(tmp_path)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device", "runs/model"),
        OSError("Unable to write (errno = 28, error message = 'No space left on device')"),  # as h5py says it
        ValueError("I/O error: No space left on device (os error 28)"),  # as safetensors says it
        OSError(errno.EDQUOT, "Disk quota exceeded", "runs/model"),
    ],
)
def test_a_full_disk_is_one_line(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(config: Options) -> None:
        raise error

    code = Command(Options, fail, "p", "d", kept="steps are kept")([])
    message = capsys.readouterr().err
    assert code == 2 and message.count("\n") == 1
    assert message.endswith("no space left on the disk; steps are kept\n")


def test_a_file_above_its_limit_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(config: Options) -> None:
        raise OSError(errno.EFBIG, "File too large", "x.npy")

    assert Command(Options, fail, "p", "d", kept="steps are kept")([]) == 2
    assert capsys.readouterr().err == (
        "python -m p: x.npy: the file is larger than its limit (ulimit -f); steps are kept\n"
    )


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("Can't decrement id ref count (memory allocation failed for on disk image buffer)"),
        RuntimeError("could not create a primitive"),
        RuntimeError("could not execute a primitive"),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
    ],
)
def test_memory_that_runs_out_is_one_line(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(config: Options) -> None:
        raise error

    assert Command(Options, fail, "p", "d", kept="steps are kept")([]) == 2
    assert capsys.readouterr().err == "python -m p: out of memory; steps are kept\n"


def test_a_read_only_folder_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(config: Options) -> None:
        raise OSError(errno.EROFS, "Read-only file system", "/locked/x")

    assert Command(Options, fail, "p", "d")([]) == 2
    assert capsys.readouterr().err == "python -m p: /locked/x: Read-only file system; give another path\n"


def test_other_errors_keep_their_traceback() -> None:
    def fail(config: Options) -> None:
        raise OSError(errno.EIO, "Input/output error", "/x")

    with pytest.raises(OSError, match="Input/output error"):
        Command(Options, fail, "p", "d")([])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_log_on_a_full_disk_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before, logging printed a traceback of its own for every line."""
    (tmp_path / "log.txt").symlink_to("/dev/full")

    def log(config: Options) -> None:
        log_to(tmp_path).info("a line")

    assert Command(Options, log, "p", "d")([]) == 2
    assert (
        capsys.readouterr().err.strip().splitlines()[-1].startswith("python -m p: no space left on the disk")
    )
    log_to(tmp_path / "another")  # closes the earlier log, whose end still finds no room


@configuration
class Owner:
    """Options of a command with a folder."""

    output: Path
    dry_run: bool = False


def test_a_command_owns_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two runs at once deleted each other's files."""
    inner: list[int] = []
    leftover = tmp_path / "parts" / ".MR.json.abcd1234.tmp"
    other = tmp_path / "nested" / ".x.json.abcd1234.tmp"  # of a command that may be running
    for path in (leftover, other, other.with_name(".lock")):
        path.parent.mkdir(exist_ok=True)
        path.touch()

    def again(config: Owner) -> None:
        if not config.dry_run:
            assert not leftover.exists() and other.exists()
            inner.append(second(["--output", str(tmp_path)]))
            inner.append(second(["--output", str(tmp_path), "--dry-run"]))

    second = Command(Owner, lambda config: None, "p", "d", owns=lambda config: config.output)
    first = Command(Owner, again, "p", "d", owns=lambda config: config.output)
    assert first(["--output", str(tmp_path), "--dry-run"]) == 0
    assert leftover.exists()
    assert first(["--output", str(tmp_path)]) == 0
    assert inner == [2, 0]
    assert "another run is writing here" in capsys.readouterr().err


def test_messages_hold_no_escape_sequences(capsys: pytest.CaptureFixture[str]) -> None:
    def main(config: Options) -> None:
        raise UserError("a\x1b[2Jb\nc\udce9.txt: bad")

    assert Command(Options, main, "p", "d")([]) == 2
    assert capsys.readouterr().err == "python -m p: a\ufffd[2Jb\ufffdc\ufffd.txt: bad\n"
