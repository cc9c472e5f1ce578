"""Folders that change in one step, whenever the one who writes is killed."""

import os
import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest

from runtime.errors import UserError
from runtime.folders import NEW, NEXT, OLD, current_folder, refuse_others, replace_folder
from tests.fixtures.kills import kills

OLD_FILES = {"a": "1", "b": "1", "in/c": "1"}
NEW_FILES = {"a": "2", "d": "2", "in/c": "2", "in/e": "2"}


def put(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def content(folder: Path) -> dict[str, str]:
    """The files that count, but those that the new content lacks."""
    current = current_folder(folder)
    names = (path.relative_to(current) for path in current.rglob("*") if path.is_file())
    return {
        str(name): (current / name).read_text() for name in names if name.parts[0] not in (NEW, NEXT, OLD)
    }


def write(folder: Path) -> None:
    with replace_folder(folder) as new:
        put(new, NEW_FILES)


def test_a_kill_leaves_the_old_files_or_the_new(tmp_path: Path) -> None:
    put(tmp_path / "before", OLD_FILES)
    states = []
    for folder in kills(lambda: write(tmp_path / "work"), tmp_path / "before", tmp_path / "work"):
        files = content(folder)
        states.append(files.get("a"))
        assert files == OLD_FILES if states[-1] == "1" else files.items() >= NEW_FILES.items()
        write(folder)  # the next one finishes what was left
        assert content(folder) == {**NEW_FILES, "b": "1"}
        assert sorted(os.listdir(folder)) == ["a", "b", "d", "in"]
    assert states == sorted(states) and set(states) == {"1", "2"} and len(states) > 10


@pytest.mark.parametrize("text", ['{"views": ["dep"]}', "[1]", "{"])
def test_a_config_of_something_else_stays(text: str, tmp_path: Path) -> None:
    refuse_others(tmp_path, "models")
    put(tmp_path, {"config.json": '{"models": []}'})
    refuse_others(tmp_path, "views", "models")
    put(tmp_path, {"config.json": text})
    with pytest.raises(UserError, match=r"holds something else|config\.json: not JSON"):
        refuse_others(tmp_path, "models")


def test_an_error_keeps_the_old_files(tmp_path: Path) -> None:
    put(tmp_path, OLD_FILES)
    with pytest.raises(ZeroDivisionError), replace_folder(tmp_path) as new:
        put(new, NEW_FILES)
        raise ZeroDivisionError
    assert content(tmp_path) == OLD_FILES and sorted(os.listdir(tmp_path)) == ["a", "b", "in"]


def test_without_hard_links_files_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", Mock(side_effect=PermissionError))
    write(tmp_path)
    assert content(tmp_path) == NEW_FILES


def test_no_link_is_followed(tmp_path: Path) -> None:
    """A folder of someone else has links for every name: what they lead to stays."""
    victim, folder = tmp_path / "victim", tmp_path / "m"
    put(victim, {"a": "mine", "in/c": "mine"})
    for name in ("a", "in", NEW, OLD):
        folder.mkdir(exist_ok=True)
        (folder / name).symlink_to(victim / name if (victim / name).exists() else victim)
    (folder / NEXT).symlink_to(victim)
    assert current_folder(folder) == folder
    write(folder)
    assert content(folder) == NEW_FILES and not (folder / "in").is_symlink()
    assert content(victim) == {"a": "mine", "in/c": "mine"}
    put(folder / NEXT, {"f": "3"})  # and one that was left half-way
    (folder / NEXT / "a").symlink_to(victim / "a")
    write(folder)
    assert content(folder) == {**NEW_FILES, "f": "3"} and content(victim)["a"] == "mine"


def test_a_folder_in_the_place_of_a_file(tmp_path: Path) -> None:
    put(tmp_path, {"a/x": "1"})
    with pytest.raises(UserError, match=r"/a: is a folder where a file goes"):
        write(tmp_path)
    assert content(tmp_path) == NEW_FILES  # what was written counts
    shutil.move(tmp_path / "a", tmp_path / "kept")
    write(tmp_path)
    assert content(tmp_path) == {**NEW_FILES, "kept/x": "1"}
