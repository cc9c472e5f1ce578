"""Fixtures shared by all tests: the data folder, commands as a user types them, dry runs."""

import fcntl
import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from runtime.cli import LOGGER
from tests.fixtures.processes import run_python

FIXTURES = [f"tests.fixtures.{name}" for name in ("senteval", "trees", "builtin", "device")]

# As in every command, and before anything imports torch or scikit-learn (runtime/device.py).
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Workers of pytest-xdist share the cores: one thread each, and one per process that they start.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_configure(config: pytest.Config) -> None:
    """A shell's background job ignores Ctrl-C; every command that a test starts would inherit that.

    The process that only hands tests to others does without the fixtures, which import torch.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.fsync = lambda descriptor: None  # a test's files need not outlive a power cut
    for name in [] if config.getoption("numprocesses", None) else FIXTURES:
        config.pluginmanager.import_plugin(name)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that runs a command in a process of its own is marked so, before -m selects.

    What takes longest has a limit of its own and comes first, so that none is left over for one worker.
    """
    for item in items:
        if "command" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.process)
    items.sort(key=lambda item: (item.get_closest_marker("timeout") is None, len(item.path.parts)))


@pytest.fixture(autouse=True)
def no_log_of_an_earlier_test() -> Iterator[None]:
    """A command that a test calls logs until the next one does; here only until the test ends."""
    yield
    logger = logging.getLogger(LOGGER)
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
        handler.close()
    logger.propagate = True


@pytest.fixture
def drawings() -> None:
    """Lets a test draw."""


@pytest.fixture(autouse=True)
def no_drawings(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainings draw no ``curves.png`` and reports no figures, unless a test asks for ``drawings``.

    Each takes as long as a tiny training.
    """
    if "drawings" not in request.fixturenames:
        from senteval_runner.report.page import Figure

        monkeypatch.setattr("multiview.train.plot_curves", lambda folder: None)
        target = "senteval_runner.report.plots._figure"
        monkeypatch.setattr(target, lambda draw, caption, names: Figure("", caption))


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], object]], Path]:
    """A folder that the first worker to ask for it fills, and all read."""
    place = tmp_path_factory.getbasetemp()
    place = place.parent if "PYTEST_XDIST_WORKER" in os.environ else place

    def make(name: str, fill: Callable[[Path], object]) -> Path:
        folder, mark = place / name, place / f"{name}.done"
        with open(place / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not mark.exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                fill(folder)
                mark.touch()
        return folder

    return make


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real data named by MULTIVIEW_DATA, or a skip."""
    folder = os.environ.get("MULTIVIEW_DATA")
    if not folder:
        pytest.skip("MULTIVIEW_DATA is unset")
    return Path(folder)


@pytest.fixture(scope="session")
def command() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run ``python -m MODULE ARGS...`` in a process of its own."""
    return partial(run_python, "-m")


@pytest.fixture
def switching() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def dry_run(tmp_path, monkeypatch, capsys) -> Callable[..., str]:
    """Call a command's ``cli`` with ``--dry-run`` in ``tmp_path``, where no file may change; its output."""

    def files() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}

    def run(cli: Callable[[list[str]], int], *args: object) -> str:
        monkeypatch.chdir(tmp_path)
        before = files()
        code = cli([*map(str, args), "--dry-run"])
        output, errors = capsys.readouterr()
        assert code == 0, errors
        assert files() == before
        for part in ('"dry_run": true', "\nmemory ", "\ndisk ", "\ntime "):
            assert part in output
        return output

    return run


@pytest.fixture
def refusal(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Call a command's ``cli`` with words that it refuses with exit code 2; the one line that it says."""

    def run(cli: Callable[[list[str]], int], *words: object) -> str:
        capsys.readouterr()
        assert cli([*map(str, words)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        return line

    return run
