"""Progress: a bar's clock goes on while a unit takes long, and nothing is drawn after its end."""

import io
import sys
import threading
import time

import pytest

from runtime import progress as ours


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
