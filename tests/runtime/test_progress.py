"""Progress: a bar's clock goes on while a unit takes long, and nothing is drawn after its end."""

import io
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from runtime import progress as ours
from runtime.cli import RUNS_COMMAND


@pytest.fixture(autouse=True)
def a_command_runs(monkeypatch):
    outside = RUNS_COMMAND.set(True)
    yield
    RUNS_COMMAND.reset(outside)


@pytest.mark.parametrize(("interval", "show"), [("TICK_S", True), ("INTERVAL_S", None)])
def test_reports_come_while_nothing_happens_and_end_with_the_loop(interval, show, monkeypatch, capfd) -> None:
    """A bar that is drawn anew, or a line now and then outside a terminal."""
    monkeypatch.setattr(ours, interval, 0.05)
    output = ""
    with ours.progress(total=2, description="work", show=show) as bar:
        bar.update(1)
        until = time.monotonic() + 20
        while "work:  50%" not in output and time.monotonic() < until:
            time.sleep(0.05)
            output += capfd.readouterr().err
    assert "work:  50%" in output and ("\r" in output) == bool(show)
    capfd.readouterr()
    time.sleep(0.2)
    assert not capfd.readouterr().err


def test_a_closed_stream_ends_the_reports_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ours, "INTERVAL_S", 0.01)
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with ours.progress(total=2, description="work") as bar:
        (thread,) = [thread for thread in threading.enumerate() if thread.name == "progress"]
        stream.close()
        thread.join(20)
        assert not thread.is_alive()
        bar.update(1)


@pytest.mark.parametrize("stderr", [None, SimpleNamespace(write=len, flush=list), "closed"])
def test_any_standard_error_is_one_on_which_work_goes_on(stderr, monkeypatch, capsys) -> None:
    """None in programs without a console, an object of a server's without isatty, or a closed stream."""
    if stderr == "closed":
        stderr = io.StringIO()
        stderr.close()
    monkeypatch.setattr(sys, "stderr", stderr)
    for show in (None, False, True):
        with ours.progress(total=2, description="work", show=show) as bar:
            bar.update(1)
            bar.set_postfix({"loss": 1})
            bar.total = 3
    assert not capsys.readouterr().out


def test_outside_commands_nothing_is_shown_unless_asked(capsys) -> None:
    outside = RUNS_COMMAND.set(False)
    for show in (None, False, True):
        with ours.progress(total=1, description="work", show=show) as bar:
            bar.update(1)
        assert bool(capsys.readouterr().err) == bool(show)
    RUNS_COMMAND.reset(outside)
