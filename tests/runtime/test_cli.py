"""Commands: exit codes, one line for what a user can change, the folder they own."""

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Literal
from unittest.mock import Mock

import numpy as np
import pytest
from tyro.conf import Positional, arg

from runtime.cli import LOGGER, Command, Count, check, configuration, import_plugin, log_to
from runtime.errors import UserError


@configuration
class Options:
    """Options of a command that writes a folder."""

    output: Path = Path("x")
    """Where to write."""
    data: tuple[Path, ...] = ()
    """What to read."""
    preset: str | None = None
    """Values by name."""
    epochs: Count = 2
    """Passes."""
    dry_run: bool = False
    """Write nothing."""


DISK_FULL = "no space left on the disk, or the file is above its limit; steps are kept"


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (UserError("x.txt, row 3: bad"), 2, "x.txt, row 3: bad"),
        (UserError("a\x1b[2Jb\nc\udce9.txt: bad"), 2, "a\ufffd[2Jb c\ufffd.txt: bad"),
        # As h5py and safetensors say it.
        (OSError("Unable to write (errno = 28, error message = 'No space left on device')"), 2, DISK_FULL),
        (ValueError("I/O error: No space left on device (os error 28)"), 2, DISK_FULL),
        (KeyboardInterrupt(), 130, "interrupted; steps are kept"),
        (ImportError("a.so: failed to map segment from shared object"), 2, "out of memory; steps are kept"),
        (MemoryError(), 2, "out of memory; steps are kept"),
        (FileNotFoundError(2, "Nothing there", "a.txt"), 2, "a.txt: Nothing there; give another path"),
        (FileNotFoundError(2, "No usable temporary directory"), 2, "No usable temporary directory"),
    ],
)  # fmt: skip
def test_errors_become_exit_codes(error: BaseException, code: int, message: str, capsys) -> None:
    fail = Mock(side_effect=error)
    assert Command(Options, fail, "p", "d", kept_work="steps are kept")([]) == code
    assert capsys.readouterr().err == f"python -m p: {message}\n"


def test_a_library_that_finds_no_memory_and_says_something_else(capsys) -> None:
    def load(options: Options) -> None:
        try:
            raise OSError("libllvmlite.so: failed to map segment from shared object")
        except OSError:
            raise OSError("Could not find/load shared object file 'libllvmlite.so'")  # noqa: B904

    assert Command(Options, load, "p", "d", kept_work="steps are kept")([]) == 2
    assert capsys.readouterr().err == "python -m p: out of memory; steps are kept\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--preset", os.fsdecode(b"caf\xe9")], "'caf\\udce9' among the arguments: not UTF-8; rename it"),
        *((words, "an empty name of a file or folder") for words in (["--output", ""], ["--output="])),
        (["--data", "a", ""], "an empty name of a file or folder"),
    ],
)
def test_an_empty_name_is_not_the_working_folder(words: list[str], message: str, capsys) -> None:
    assert Command(Options, lambda config: None, "p", "d")(words) == 2
    assert message in capsys.readouterr().err


@configuration
class Required(Options):
    """Options of which one has no default."""

    corpus: Annotated[Positional[str], arg(metavar="CORPUS")]
    """A text."""
    mode: Literal["slow", "fast"] = "fast"
    """A choice."""
    share: float | None = None
    """A number, or none."""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("a --epochs abc", "--epochs abc: must be a whole number"),
        ("a --epochs=1.5", "--epochs 1.5: must be a whole number"),
        ("a --epochs 0", "--epochs 0: must be at least 1"),
        ("a --share x", "--share x: must be {None}|FLOAT"),
        ("a --mode slwo", "invalid choice 'slwo' for argument '--mode'. Expected one of ('slow', 'fast')."),
        ("a --epochs", "--epochs: needs a value; --help explains it"),
        ("a --epoch 3", "--epoch: no such option; did you mean --epochs? --help lists all"),
        ("--frobnicate 3", "--frobnicate: no such option; --help lists all"),
        ("a b", "Unrecognized options: b"),
        ("--epochs abc -- --a", "--epochs abc: must be a whole number"),
        ("", "CORPUS: missing; --help explains it"),
    ],
)
def test_a_wrong_option_is_named_with_its_value_in_one_line(words: str, message: str, capsys) -> None:
    assert Command(Required, lambda config: None, "p", "d")(words.split()) == 2
    assert capsys.readouterr().err == f"python -m p: {message}\n"


def test_a_configuration_made_in_python_is_checked_and_gets_the_types_of_its_options() -> None:
    values: dict[str, Any] = {"output": "out", "data": ["a"], "epochs": np.int64(3)}
    assert check(Options(**values)) == Options(output=Path("out"), data=(Path("a"),), epochs=3)
    for config, message in ((Options(epochs=0), "--epochs 0: must be"), (None, "None: is no configuration")):
        with pytest.raises(UserError, match=message):
            check(config)


def test_a_bug_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        Command(Options, lambda config: 1 // 0, "p", "d")([])


def test_a_command_owns_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two runs at once would delete each other's files."""
    exit_codes: list[int] = []
    leftover = tmp_path / "parts" / ".MR.json.abcd1234.tmp"
    file_in_use = tmp_path / "nested" / ".x.json.abcd1234.tmp"  # of a command that may be running
    for path in (leftover, file_in_use, file_in_use.with_name(".lock")):
        path.parent.mkdir(exist_ok=True)
        path.touch()

    def run_second(config: Options) -> None:
        if not config.dry_run:
            assert not leftover.exists() and file_in_use.exists()
            exit_codes.append(second(["--output", str(tmp_path)]))
            exit_codes.append(second(["--output", str(tmp_path), "--dry-run"]))

    second = Command(Options, lambda config: None, "p", "d", folder_of=lambda config: config.output)
    first = Command(Options, run_second, "p", "d", folder_of=lambda config: config.output)
    assert first(["--output", str(tmp_path), "--dry-run"]) == 0
    assert leftover.exists()
    assert first(["--output", str(tmp_path)]) == 0
    assert exit_codes == [2, 0]
    assert "another run is writing here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("", "no such module"),
        (".", "no such module"),
        ("nowhere.at.all", "no such module"),
        ("broken", r"SyntaxError: .*broken\.py, line 2\)"),
        ("failing", r"ZeroDivisionError: division by zero \(.*failing\.py, line 2\)"),
        ("leaving", r"SystemExit: 3 \(.*leaving\.py, line 2\)"),
        ("wanting", r"ModuleNotFoundError: No module named 'nowhere' \(.*wanting\.py, line 1\)"),
    ],
)
def test_a_plugin_that_fails_is_one_line(module: str, message: str, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "broken.py").write_text("x = 1\ny = = 2\n")
    (tmp_path / "failing.py").write_text("x = 0\ny = 1 / x\n")
    (tmp_path / "leaving.py").write_text("import sys\nsys.exit(3)\n")
    (tmp_path / "wanting.py").write_text("import nowhere\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match=f"^--plugin {module}: {message}"):
        import_plugin(module)


SCRIPT = """
import sys
from runtime.cli import Command, configuration
from runtime.errors import UserError

@configuration
class Options:
    refuse: bool = False

def main(config):
    if config.refuse:
        raise UserError("a: bad")
    print("\u2260")

sys.exit(Command(Options, main, "p", "d")())
"""


@pytest.mark.process
@pytest.mark.parametrize(
    ("line", "codes", "out"),
    [
        ("p", (0, 2), "\u2260\n"),
        ("p 2>&-", (0, 2), "\u2260\n"),
        ("p 2>/dev/full", (0, 2), "\u2260\n"),
        ("p <&- 2>&-", (0, 2), "\u2260\n"),
        ("p >&-", (0, 2), ""),
        ("p >/dev/full", (2, 2), ""),
        ("p | true", (0, 2), ""),
        ("PYTHONIOENCODING=ascii p", (0, 2), "?\n"),
    ],
)
def test_closed_and_full_streams_leave_the_exit_code(line: str, codes: tuple[int, int], out: str) -> None:
    env = {**os.environ, "PYTHON": sys.executable, "SCRIPT": SCRIPT}
    for words, code in zip(("", "--refuse"), codes, strict=True):
        shell = f'p() {{ "$PYTHON" -c "$SCRIPT" {words}; }}; {line}; exit ${{PIPESTATUS[0]}}'
        process = subprocess.run(["bash", "-c", shell], env=env, capture_output=True, timeout=60)
        assert (process.returncode, process.stdout.decode()) == (code, "" if words else out), process.stderr
        assert b"Traceback" not in process.stderr and b"ignored" not in process.stderr


def test_a_log_is_kept_until_its_run_ends(tmp_path: Path) -> None:
    """Then the logger is the caller's again: lines of a later call must not go into that folder."""
    logger = logging.getLogger(LOGGER)
    own = logging.NullHandler()
    logger.addHandler(own)
    before = list(logger.handlers), logger.level, logger.propagate
    try:
        with pytest.raises(UserError), log_to(tmp_path) as log:
            log.info("within")
            raise UserError("no")
        assert (list(logger.handlers), logger.level, logger.propagate) == before
        logger.warning("after")
    finally:
        logger.removeHandler(own)
    text = (tmp_path / "log.txt").read_text()
    assert "within" in text and "after" not in text


def test_a_full_disk_below_the_log_ends_the_run_in_its_own_words(tmp_path: Path, capsys) -> None:
    (tmp_path / "log.txt").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device"), log_to(tmp_path) as log:
        log.info("written nowhere")
        raise AssertionError("the run went on")
    assert "Traceback" not in capsys.readouterr().err
    assert not [each for each in logging.getLogger(LOGGER).handlers if isinstance(each, logging.FileHandler)]
