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

UNGUARDED = """
import multiprocessing
from pathlib import Path
from corpora.support.lock import locked
with locked(Path("folder"), wait=True):
    process = multiprocessing.get_context("spawn").Process(target=print)
    process.start()
    process.join()
    print("ended with", process.exitcode)
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


def test_a_script_that_workers_import_again_ends_instead_of_waiting_for_itself(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=60, cwd=tmp_path, env=environment
    )
    assert "ended with 1" in done.stdout
    assert "do the work under `if __name__ == '__main__':`" in done.stderr


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
