"""Replaces all files of a folder in one atomic step.

    with lock_folder(folder), replace_folder(folder) as new_folder:
        write_text(new_folder / "README.md", text)  # and every other file of the new content

The new content is written to ``.change.new`` inside the folder. The atomic step is to rename ``.change.new``
to ``.change.next``. While there is a ``.change.next``, readers take the content from there
(:func:`current_folder`). At last its files are moved to their places in the folder, and it is removed. A kill
at any moment leaves the old or the new content, and the next writer finishes the change.
"""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from runtime.errors import UserError
from runtime.files import LOCK, fsync_path, lock_folder, read_json, read_record, write_record

NEW, NEXT, OLD = ".change.new", ".change.next", ".change.old"
OWN_NAMES = frozenset({LOCK, NEW, NEXT, OLD})
"""Names that this package uses in any output folder."""
IDENTITY_FILE = "source.json"
"""The record of what the files of a folder were made from; see :func:`make_once`."""


def current_folder(folder: Path) -> Path:
    """Return the folder of the current content: ``folder``, or the ``.change.next`` of a killed writer."""
    next_folder = Path(folder) / NEXT
    return next_folder if next_folder.is_dir() and not next_folder.is_symlink() else Path(folder)


def readme_text(title: str, *paragraphs: str) -> str:
    """Return the text of a folder's README.md: a title, and paragraphs, lists and tables below."""
    return "\n\n".join([f"# {title}", *paragraphs]) + "\n"


def refuse_others(folder: Path, *keys: str) -> None:
    """Raise UserError if a folder has a config.json with none of these keys, which is of another kind."""
    path = current_folder(folder) / "config.json"
    record = read_json(path) if path.is_file() else dict.fromkeys(keys)
    if not (isinstance(record, dict) and record.keys() & set(keys)):
        raise UserError(f"{folder}: holds something else, with a config.json; choose another folder")


def make_once(
    folder: Path, identity: Mapping[str, Any], files: Sequence[str], make: Callable[[], object]
) -> None:
    """Call ``make`` to write the files of a folder, unless they are there, undamaged and of this identity.

    If several runs need the files at the same time, one makes them and the others wait.

    Args:
        folder: the folder.
        identity: JSON values that decide the content of the files.
        files: the names of the files.
        make: writes them.
    """

    def is_made() -> bool:
        try:
            record = read_record(folder / IDENTITY_FILE, files)
        except UserError:
            return False
        return record == {**identity, "files": record["files"]}

    if not is_made():
        with lock_folder(folder, option="folder for it", wait=True):
            if not is_made():
                # Removed first, so that the folder does not look complete if this process is killed.
                (folder / IDENTITY_FILE).unlink(missing_ok=True)
                make()
                write_record(folder / IDENTITY_FILE, identity, files)


@contextlib.contextmanager
def write_folder(folder: Path, temporary: Path) -> Iterator[Path]:
    """Yield the new, empty folder ``temporary``, which is renamed to ``folder`` unless there is an error."""
    temporary.mkdir(parents=True)
    try:
        yield temporary
        for path in (*temporary.rglob("*"), temporary):
            fsync_path(path)
        _remove(folder)
        os.replace(temporary, folder)
        fsync_path(folder.parent)
    except BaseException:
        _remove(temporary)
        raise


@contextlib.contextmanager
def replace_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty folder for the new content, which replaces the old one unless there is an error.

    Files that the new content does not have are kept. The caller holds the lock of the folder. Raises
    UserError if a file would replace a folder.
    """
    _finish_change(folder)
    with write_folder(folder / NEXT, folder / NEW) as temporary:
        yield temporary
    _finish_change(folder)


def _finish_change(folder: Path) -> None:
    """Move the files of a ``.change.next`` to their places, and remove the leftovers of killed writers."""
    # Links are never followed, because a folder from someone else may have links anywhere.
    _remove(folder / NEW)
    _remove(folder / OLD)
    next_folder = current_folder(folder)
    if next_folder == folder:
        _remove(folder / NEXT)  # a link or a file of that name
        return
    for path in sorted(next_folder.rglob("*")):
        target = folder / path.relative_to(next_folder)
        if path.is_symlink():
            continue
        if path.is_file():  # it gets a second name, which replaces the old file
            if target.is_dir() and not target.is_symlink():
                raise UserError(f"{target}: is a folder where a file goes; move it away")
            temporary = target.with_name(f".{target.name}.replaced.tmp")
            _remove(temporary)
            try:
                os.link(path, temporary)
            except OSError:  # a file system without links
                shutil.copyfile(path, temporary)
                fsync_path(temporary)
            os.replace(temporary, target)
            _remove(temporary)  # os.replace keeps it if both are the same file
            fsync_path(target.parent)
        elif path.is_dir() and (target.is_symlink() or not target.is_dir()):
            _remove(target)
            target.mkdir()
    os.replace(next_folder, folder / OLD)
    fsync_path(folder)
    _remove(folder / OLD)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
