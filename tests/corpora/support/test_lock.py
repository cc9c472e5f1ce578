"""The lock of a folder: one run at a time, freed however the run ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from corpora.support.errors import UserError
from corpora.support.lock import locked

HOLD = """
import sys, time
from pathlib import Path
from corpora.support.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_run_is_refused_until_the_first_is_killed(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with pytest.raises(UserError, match="another run is writing here"), locked(tmp_path):
            pass
    finally:
        holder.kill()
        holder.communicate()
    with locked(tmp_path):
        pass


def test_an_error_inside_frees_the_lock(tmp_path: Path) -> None:
    with pytest.raises(KeyError), locked(tmp_path):
        raise KeyError
    with locked(tmp_path, wait=True):
        pass


def test_a_read_only_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "fixed"
    folder.mkdir()
    folder.chmod(0o555)
    for parent in tmp_path.parents[:2]:
        parent.chmod(0o755)
    tmp_path.chmod(0o755)
    if os.geteuid() == 0:  # root may write anywhere: try as nobody, in a child
        child = os.fork()
        if child == 0:
            os.setuid(65534)
            os._exit(0 if refused(folder) else 1)
        assert os.waitpid(child, 0)[1] == 0
    else:
        assert refused(folder)


def refused(folder: Path) -> bool:
    try:
        with locked(folder):
            return False
    except UserError as error:
        return "cannot be written (Permission denied)" in str(error)
