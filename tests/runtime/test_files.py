"""Atomic files: whole or absent, readable like any other file; records with a seal; one run in a folder."""

import errno
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from runtime.errors import UserError
from runtime.files import (
    LOCK,
    atomic_path,
    file_record,
    lock_folder,
    output_file,
    own_files,
    read_array,
    read_json,
    read_record,
    sha256_file,
    write_array,
    write_json,
    write_record,
    write_text,
)
from tests.fixtures.processes import run_python


def test_a_failure_keeps_the_old_file_and_leaves_nothing_behind(tmp_path: Path) -> None:
    target = tmp_path / "value.json"
    with atomic_path(target) as temporary:
        temporary.write_text('{"a": 1}')
        os.chmod(temporary, 0o600)  # what safetensors' own writer leaves
    umask = os.umask(0)
    os.umask(umask)
    assert target.stat().st_mode & 0o777 == 0o666 & ~umask
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
        (b'{"a": NaN}', "column 7"),
        (b'"\\ud800"', "hex escape"),
    ],
)
def test_odd_json_is_one_line(text: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "odd.json").write_bytes(text)
    with pytest.raises(UserError, match=rf"odd\.json: not JSON .*{words}"):
        read_json(tmp_path / "odd.json")


def test_an_array_that_does_not_fit_has_number_and_name(tmp_path: Path) -> None:
    """Files may have 64 KiB; numpy's own error has neither."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (65536, before[1]))
    try:
        with pytest.raises(OSError) as error:
            write_array(tmp_path / "x.npy", np.zeros(100_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (error.value.errno, error.value.filename) == (errno.EFBIG, str(tmp_path / "x.npy"))
    assert not list(tmp_path.iterdir())


def test_a_record_is_sealed(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_record(path, {"step": 7, "score": 0.1 + 0.2, "by": {10: [1, None], 9: "é"}})
    assert read_record(path) == {"step": 7, "score": 0.1 + 0.2, "by": {"10": [1, None], "9": "é"}}
    text = path.read_text()
    for damage in (text.replace("7", "8", 1), text.replace('"seal"', '"real"'), "[]", text[:20], ""):
        path.write_text(damage)
        with pytest.raises(UserError, match=r"state\.json: "):
            read_record(path)


def test_a_record_has_size_and_hash_of_the_files_beside_it(tmp_path: Path) -> None:
    path, content = tmp_path / "state.json", tmp_path / "content.txt"
    content.write_text("1234")
    write_record(path, {"step": 7}, ["content.txt"])
    values = read_record(path, ["content.txt"])
    assert values == {"step": 7, "files": {"content.txt": file_record(content)}}
    with pytest.raises(UserError, match=r"state\.json: files: does not list other\.txt"):
        read_record(path, ["content.txt", "other.txt"])
    for text, message in (("12345", "5 bytes, 4 were written"), ("1235", "does not match its SHA-256")):
        content.write_text(text)
        with pytest.raises(UserError, match=rf"content\.txt: damaged: .*{message}"):
            read_record(path, ["content.txt"])
    content.unlink()
    with pytest.raises(UserError, match=r"content\.txt: no such file"):
        read_record(path, ["content.txt"])
    for files in (None, [], "text", {"content.txt": [4]}, {"content.txt": {"bytes": 4}}):
        write_record(path, {"files": files})
        with pytest.raises(UserError, match=r"state\.json: files: does not list content\.txt"):
            read_record(path, ["content.txt"])


def test_temporary_files_of_killed_runs_are_removed(tmp_path: Path) -> None:
    for path in (tmp_path / "parts" / ".a.json.abcd1234.tmp", tmp_path / ".kept.tmp"):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    with lock_folder(tmp_path):
        assert [path.name for path in own_files(tmp_path) if path.name != LOCK] == [".kept.tmp"]


SPAWN = """
import multiprocessing, sys
from pathlib import Path
from runtime.files import lock_folder
with lock_folder(Path(sys.argv[1]), wait=True):
    process = multiprocessing.get_context("spawn").Process(target=print)
    process.start()
    process.join()
    print("ended with", process.exitcode)
"""


def test_a_script_that_workers_import_again_ends_instead_of_waiting_for_itself(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SPAWN, encoding="utf-8")
    process = run_python(tmp_path / "script.py", tmp_path / "folder", timeout_s=60)
    assert "ended with 1" in process.stdout
    assert "work under `if __name__ == '__main__':`" in process.stderr


def write_special_files(folder: Path) -> None:
    """Make what is no regular file: none may be opened, which could wait for ever, or be replaced."""
    os.mkfifo(folder / "pipe")
    (folder / "below").mkdir()
    (folder / "text").write_text("A file is no folder.")
    for name, target in (("stream", "/proc/self/fd/1"), ("null", os.devnull), ("nowhere", "nowhere")):
        (folder / name).symlink_to(target)


SPECIAL = [
    "pipe",
    "below",
    "stream",
    "null",
    "nowhere",
    "text/x",
    "..",
    "/",
    "/proc/self/mem",
    "/dev/new",
]


@pytest.mark.parametrize("name", [*SPECIAL, "", "-", "a\0b"])
def test_an_output_that_is_no_file_is_refused_and_stays(name: str, tmp_path: Path) -> None:
    write_special_files(tmp_path)
    path = Path(name) if name in ("", "..", "-", "a\0b") else tmp_path / name
    before = os.lstat(path) if os.path.lexists(path) else None
    with pytest.raises(UserError, match="is not a regular file"):
        output_file(path)
    if name not in ("/proc/self/mem", "/dev/new", "text/x", "-", "a\0b"):  # no entries of output folders
        with pytest.raises(UserError, match="is not a regular file"):
            write_json(path, 1)
    assert before is None or os.lstat(path).st_ino == before.st_ino


def test_an_output_through_links_replaces_the_file_they_lead_to(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    (disk / "value.json").write_text("old")
    (disk / "link").symlink_to("value.json")
    (tmp_path / "value.json").symlink_to("disk/link")
    (tmp_path / "new.json").symlink_to("disk/new.json")
    for name in ("value.json", "new.json"):
        write_json(output_file(tmp_path / name), 1)
        assert (tmp_path / name).is_symlink() and not (disk / name).is_symlink()
        assert read_json(disk / name) == 1
    write_json(output_file(Path("/dev/shm") / f"{tmp_path.name}.json"), 1)
    (Path("/dev/shm") / f"{tmp_path.name}.json").unlink()
    write_json(tmp_path / ("x" * 250), 1)  # the temporary name is no longer than the file system takes


def test_the_next_run_removes_what_a_killed_one_left_beside_an_output(tmp_path: Path) -> None:
    target = tmp_path / "trees.conllu"
    code = "import os, sys; from runtime.files import *\nfor name in sys.argv[1:]:\n"
    code += (
        " with atomic_path(output_file(Path(name))) as path: path.write_text('half'); os.kill(os.getpid(), 9)"
    )
    assert run_python("-c", code, target).returncode == -9
    (tmp_path / ".other.conllu.abcd1234.tmp").touch()
    (tmp_path / ".trees.conllu.mine.tmp").touch()
    assert len([*tmp_path.iterdir()]) == 3
    with atomic_path(output_file(target)) as temporary:
        assert output_file(target) == target and temporary.exists()  # its writer lives
        temporary.write_text("whole")
    left = {".other.conllu.abcd1234.tmp", ".trees.conllu.mine.tmp", "trees.conllu"}
    assert {path.name for path in tmp_path.iterdir()} == left


@pytest.mark.parametrize("name", ["pipe", "below", "null", "nowhere"])
@pytest.mark.parametrize("read", [read_json, sha256_file, lambda path: read_array(path, 2)])
def test_an_input_that_is_no_file_is_refused_before_it_is_opened(name: str, read, tmp_path: Path) -> None:
    write_special_files(tmp_path)
    path = tmp_path / name
    with pytest.raises(UserError, match=f"{name}: (a pipe or a device|a folder|no such file|cannot be read)"):
        read(path)


@pytest.mark.parametrize("folder", ["/", "/proc", "/dev/none", "-", "a\0b"])
def test_a_folder_of_the_system_is_refused(folder: str, monkeypatch) -> None:
    for name in (folder, os.path.relpath(folder) if folder[0] == "/" else folder):
        with (
            pytest.raises(UserError, match=r"(system's own|no name of a) folder; choose another"),
            lock_folder(Path(name)),
        ):
            pass


def test_a_locked_folder_that_was_replaced_is_an_error_at_the_end(tmp_path: Path) -> None:
    """Whatever was written since is in two places, or gone."""
    folder = tmp_path / "out"
    with pytest.raises(UserError, match="was removed or renamed while"), lock_folder(folder):
        folder.rename(tmp_path / "before")
        write_text(folder / "a.txt", "made again")
    with pytest.raises(ZeroDivisionError), lock_folder(folder):
        shutil.rmtree(folder)
        1 / 0  # noqa: B018  # a bug stays one


@pytest.mark.parametrize("name", ["log.txt", ".lock", "parts", "parts/MR.json"])
@pytest.mark.parametrize("kind", ["file", "folder", "pipe"])
def test_a_link_or_a_pipe_in_an_output_folder_is_refused(name: str, kind: str, tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    (folder / name).parent.mkdir(parents=True)
    elsewhere.mkdir()
    (elsewhere / "victim").write_text("as it was")
    if kind == "pipe":
        os.mkfifo(folder / name)
    else:
        (folder / name).symlink_to(elsewhere / "victim" if kind == "file" else elsewhere)
    with pytest.raises(UserError, match=rf"{name}: a link, a pipe or a device"), lock_folder(folder):
        raise AssertionError
    assert (elsewhere / "victim").read_text() == "as it was" and len(list(elsewhere.iterdir())) == 1


def test_a_message_is_one_line() -> None:
    assert str(UserError("a\nb\u2028c\r\nd")) == "a b c d"
    assert len(str(UserError("x" * 10**6))) < 1600
