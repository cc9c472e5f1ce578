"""A folder of several files that changes in one step.

    with lock_folder(folder), replace_folder(folder) as new:
        write_text(new / "README.md", text)  # and every other file of the new content

The new content is written to ``.change.new`` inside the folder. Then that is renamed to ``.change.next``:
this is the step. As long as there is a ``.change.next``, it counts, and whoever reads the folder reads it
(:func:`current_folder`). Its files then take their places in the folder, and it goes. A kill at any instant
leaves the old content or the new one, and the next one who writes finishes what was left.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from runtime.errors import UserError
from runtime.files import LOCK, fsync_path, read_json

NEW, NEXT, OLD = ".change.new", ".change.next", ".change.old"
OWN_NAMES = frozenset({LOCK, NEW, NEXT, OLD})
"""Names in a folder that say nothing about what it holds."""


def current_folder(folder: Path) -> Path:
    """Return where a folder's content is: in itself, or in the ``.change.next`` that a killed writer left."""
    following = Path(folder) / NEXT
    return following if following.is_dir() and not following.is_symlink() else Path(folder)


def refuse_others(folder: Path, *keys: str) -> None:
    """Refuse to write a config.json where there is one of another kind, which has none of these keys."""
    path = current_folder(folder) / "config.json"
    record = read_json(path) if path.is_file() else dict.fromkeys(keys)
    if not (isinstance(record, dict) and record.keys() & set(keys)):
        raise UserError(f"{folder}: holds something else, with a config.json; choose another folder")


@contextlib.contextmanager
def replace_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty folder for the new content, which replaces the old in one step unless there is an error.

    Files that the new content lacks stay. Whoever calls this holds the folder's lock. If a folder takes a
    file's place, UserError names it.
    """
    new = folder / NEW
    _settle(folder)
    new.mkdir(parents=True)
    try:
        yield new
        for path in (*new.rglob("*"), new):
            fsync_path(path)
        os.replace(new, folder / NEXT)
        fsync_path(folder)
    except BaseException:
        _remove(new)
        raise
    _settle(folder)


def _settle(folder: Path) -> None:
    """Put what a ``.change.next`` holds in its places, and remove what killed writers left.

    Links are never followed: a folder of someone else may have them anywhere.
    """
    _remove(folder / NEW)
    _remove(folder / OLD)
    following = current_folder(folder)
    if following == folder:
        _remove(folder / NEXT)  # a link or a file of that name
        return
    for path in sorted(following.rglob("*")):
        place = folder / path.relative_to(following)
        if path.is_symlink():
            continue
        if path.is_file():  # it gets a second name, in the place of what has that now
            if place.is_dir() and not place.is_symlink():
                raise UserError(f"{place}: is a folder where a file goes; move it away")
            temporary = place.with_name(f".{place.name}.replaced.tmp")
            _remove(temporary)
            try:
                os.link(path, temporary)
            except OSError:  # a file system without links
                shutil.copyfile(path, temporary)
                fsync_path(temporary)
            os.replace(temporary, place)
            _remove(temporary)  # it stays where both were the same file
            fsync_path(place.parent)
        elif path.is_dir() and (place.is_symlink() or not place.is_dir()):
            _remove(place)
            place.mkdir()
    os.replace(following, folder / OLD)
    fsync_path(folder)
    _remove(folder / OLD)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
