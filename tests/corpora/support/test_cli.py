"""Commands: exit codes, one line for what a user can change, the folder they own, presets, progress."""

from __future__ import annotations

import errno
import sys
import time
from pathlib import Path

import pytest

from corpora.support import progress as module
from corpora.support.cli import (
    Command,
    Count,
    config_from_json,
    config_to_json,
    configuration,
    dry_run_text,
    log_to,
    preset_defaults,
)
from corpora.support.errors import MissingExtraError, UserError
from corpora.support.progress import progress


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
        (OSError(28, "No space", "runs/model"), 2, "runs/model: " + FULL),
        (OSError("Unable to write (errno = 28, error message = 'No space left on device')"), 2, FULL),  # h5py
        (ValueError("I/O error: No space left on device (os error 28)"), 2, FULL),  # safetensors
        (KeyboardInterrupt(), 130, "interrupted; steps are kept"),
        (NotADirectoryError(20, "Not a directory", "f/x"), 2, "f/x: Not a directory; give another path"),
        (MemoryError(), 2, "out of memory; steps are kept"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), 2, "out of memory; steps are kept"),
        (RuntimeError("could not create a primitive"), 2, "out of memory; steps are kept"),
    ],
)  # fmt: skip
def test_errors_become_exit_codes(
    error: BaseException, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(config: Options) -> None:
        raise error

    assert Command(Options, fail, "p", "d", kept="steps are kept")([]) == code
    assert capsys.readouterr().err == f"python -m p: {message}\n"


@pytest.mark.parametrize("error", [PermissionError("no path"), OSError(errno.EIO, "I/O error", "/x")])
def test_a_bug_keeps_its_traceback(error: OSError) -> None:
    def fail(config: Options) -> None:
        raise error

    with pytest.raises(type(error)):
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


def test_configurations_round_trip_and_refuse_unknown_keys() -> None:
    config = Options(output=Path("y"), epochs=3)
    assert config_from_json(Options, config_to_json(config), where="c.json") == config
    for values, message in (
        ({"colour": "red"}, r'c\.json: colour "red": unknown key'),
        ([], r"c\.json: the whole \[\]: must be"),
    ):
        with pytest.raises(UserError, match=message):
            config_from_json(Options, values, where="c.json")


@configuration
class Required:
    """Options without a default."""

    output: Path
    """Where."""
    preset: str | None = None
    """Values by name."""
    epochs: Count = 2
    """Passes."""
    batch: Count = 4
    """Rows."""


def test_a_preset_changes_defaults_and_options_win(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[Required] = []
    defaults = preset_defaults(Required, {"paper": {"preset": "paper", "epochs": 5, "batch": 32}})
    command = Command(Required, seen.append, "tests.presets", "For the tests.", defaults=defaults)
    for preset in (("--preset", "paper"), ("--preset=paper",)):
        assert command(["--output", "x", *preset, "--epochs", "1"]) == 0
        assert seen.pop() == Required(output=Path("x"), preset="paper", epochs=1, batch=32)
    assert command(["--preset", "paper"]) == 2
    assert "--output" in capsys.readouterr().err


def test_a_dry_run_says_how_much_and_how_long() -> None:
    text = dry_run_text(Options(), {"model": "m"}, 12_000, "sentences", 100)
    assert [" ".join(line.split()) for line in text.splitlines()[-3:]] == [
        "model m",
        "work 12,000 sentences at 100 a second",
        "time 0:02:00",
    ]
    assert dry_run_text(Options(), {}, None, "steps", 1).endswith("unknown")


def test_a_step_that_takes_long_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lines do not wait for the next update; they go to the command's log if there is one."""
    monkeypatch.setattr(module, "INTERVAL_S", 0.02)
    for log in (False, True):
        if log:
            log_to(tmp_path)
        with progress(total=9, description="train") as bar:
            bar.update(3)
            bar.set_postfix({"loss": "4.125"})
            time.sleep(0.2)
        shown = capsys.readouterr().err.splitlines()
        assert len(shown) >= 2
        assert shown[-1].startswith("train:  33% 3/9 [00:00") and shown[-1].endswith("loss=4.125]")
    assert "INFO train:  33% 3/9" in (tmp_path / "log.txt").read_text()


def test_a_terminal_has_a_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for terminal, show, steps, shown in (
        (True, None, 4, True),
        (True, False, 4, False),
        (False, None, 3, False),
    ):
        monkeypatch.setattr(sys.stderr, "isatty", lambda terminal=terminal: terminal)
        with progress(total=steps, description="train", show=show) as bar:
            bar.update(steps)
        assert ("train: 100%" in capsys.readouterr().err) == shown
