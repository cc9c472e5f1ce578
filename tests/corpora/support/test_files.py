"""Atomic files: whole or absent, readable like any other file; JSON and configurations round trip."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from corpora.support.cli import Command
from corpora.support.config import config_from_json, config_to_json, configuration
from corpora.support.errors import MissingExtraError, UserError
from corpora.support.files import (
    TEMPORARY,
    atomic_path,
    check_file,
    file_record,
    read_json,
    read_record,
    sweep,
    sweep_file,
    write_array,
    write_json,
    write_record,
)


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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"[" * 200_000, "recursion limit"),
        (b"[" * 300 + b"]" * 300, "recursion limit"),
        (b'{"a": ' + b"1" * 6_000 + b"}", "number out of range"),
        (b'{"a": NaN}', "column 7"),
        (b'"\xff"', "invalid unicode"),
        (b'"\\ud800"', "hex escape"),
    ],
)
def test_json_beyond_the_limits_is_one_line(text: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_bytes(text)
    with pytest.raises(UserError, match=rf"odd\.json: not JSON .*{words}") as refusal:
        read_json(tmp_path / "odd.json")
    assert len(str(refusal.value)) < 300


def test_json_that_is_too_large_or_no_file_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("corpora.support.files.MAX_JSON_BYTES", 100)
    (tmp_path / "large.json").write_text(f'"{"x" * 100}"')
    with pytest.raises(UserError, match=r"large\.json: over 100 bytes"):
        read_json(tmp_path / "large.json")
    with pytest.raises(UserError, match=r"cannot be read \(Is a directory\)"):
        read_json(tmp_path)


@configuration
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

    got = Command(Config, main, "x", "d", kept="all is kept")([])
    assert got == code
    assert words in capsys.readouterr().err


def interrupted(source: str, folder: Path) -> tuple[int, str]:
    """Exit code and standard error of a module that runs a command and sends itself a Ctrl-C."""
    (folder / "interrupted.py").write_text(source)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])}
    done = subprocess.run(
        [sys.executable, "-m", "interrupted"],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr


INTERRUPTED_IN_EXEC = """
import os, signal, sys
from dataclasses import dataclass
from corpora.support.cli import Command

@dataclass(frozen=True, kw_only=True)
class Config:
    pass

def main(config):
    exec("os.kill(os.getpid(), signal.SIGINT)")

sys.exit(Command(Config, main, "x", "d", kept="all is kept")([]))
"""


def test_ctrl_c_inside_compiled_text_still_exits_with_130(tmp_path: Path) -> None:
    """CPython remembers a KeyboardInterrupt that passed through exec and would end ``-m`` by signal."""
    assert interrupted(INTERRUPTED_IN_EXEC, tmp_path) == (130, "python -m x: interrupted; all is kept\n")


ENDED_AND_INTERRUPTED = """
import atexit, dataclasses, os, signal
from corpora.support.cli import Command

@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    pass

atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))
code = Command(Config, lambda config: print("done"), "x", "d")()
os.kill(os.getpid(), signal.SIGINT)
raise SystemExit(code)
"""


def test_ctrl_c_after_the_work_does_not_undo_the_exit_code(tmp_path: Path) -> None:
    (tmp_path / "ended.py").write_text(ENDED_AND_INTERRUPTED)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3])}
    done = subprocess.run(
        [sys.executable, "-c", "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
         "import runpy, sys; sys.argv = ['ended']; runpy.run_module('ended', run_name='__main__')"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_ctrl_c_while_options_are_read_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tyro.cli", lambda *_, **__: os.kill(os.getpid(), signal.SIGINT))
    assert Command(Config, lambda config: 0, "x", "d")([]) == 130
    assert capsys.readouterr().err.startswith("python -m x: interrupted; ")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_temporary_files_of_dead_processes_are_swept(tmp_path: Path) -> None:
    """`encode` writes into a folder of the user's: only what killed runs left of this very file goes."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    dead = ended.pid
    kept = [f".v.npy.{os.getpid()}.abcdefgh.tmp", f".w.npy.{dead}.abcdefgh.tmp", ".v.npy.notes.tmp", "v.npy"]
    for name in (*kept, f".v.npy.{dead}.abcd_123.tmp"):
        (tmp_path / name).touch()
    sweep_file(tmp_path / "v.npy")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)
    with atomic_path(tmp_path / "v.npy") as temporary:
        assert temporary.name.startswith(f".v.npy.{os.getpid()}.") and TEMPORARY.fullmatch(temporary.name)


@pytest.fixture
def small_files() -> Iterator[None]:
    """Files may have 64 KiB; a write beyond that fails as on a full disk, with another number."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65536, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_arrays_are_numpys_own_files(tmp_path: Path) -> None:
    for place, array in enumerate((np.arange(12.0).reshape(3, 4).T, np.zeros((0, 3)), np.float32(2) * 1)):
        np.save(tmp_path / "numpy.npy", array)
        write_array(tmp_path / f"{place}.npy", np.asarray(array))
        assert (tmp_path / f"{place}.npy").read_bytes() == (tmp_path / "numpy.npy").read_bytes()


def test_an_array_that_does_not_fit_has_number_and_name(tmp_path: Path, small_files: None) -> None:
    """numpy's error has neither, so commands ended in a traceback."""
    with pytest.raises(OSError) as caught:
        write_array(tmp_path / "x.npy", np.zeros(100_000))
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(tmp_path / "x.npy"))
    assert not list(tmp_path.iterdir())

    def write(config: Config) -> None:
        write_array(tmp_path / "x.npy", np.zeros(100_000))

    assert Command(Config, write, "p", "d", kept="nothing was written")([]) == 2


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
    size, sha256 = record["bytes"], record["sha256"]
    check_file(path, size, sha256)
    for damaged, message in ((b"abd", "SHA-256"), (b"ab", "2 bytes, 3 were written")):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match=message):
            check_file(path, size, sha256)
    path.unlink()
    with pytest.raises(UserError, match="no such file"):
        check_file(path, size, sha256)


def test_temporary_files_of_killed_runs_are_removed(tmp_path: Path) -> None:
    old, new = tmp_path / "parts" / ".a.json.abcd1234.tmp", tmp_path / ".b.json.abcd1234.tmp"
    for path in (old, new, tmp_path / ".kept.tmp"):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    os.utime(old, (0, 0))
    sweep(tmp_path, shared=True)
    assert new.exists() and not old.exists()
    sweep(tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [".kept.tmp"]
    sweep(tmp_path / "absent")
