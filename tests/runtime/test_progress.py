"""Progress: a bar's clock goes on while a unit takes long, and nothing is drawn after its end."""

from __future__ import annotations

import io
import sys
import threading
import time

import pytest

from runtime import progress as ours


def test_a_bar_is_drawn_anew_while_nothing_happens(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ours, "TICK_S", 0.05)
    with ours.progress(total=2, description="work", show=True):
        capfd.readouterr()
        until = time.monotonic() + 20
        while "work" not in (drawn := capfd.readouterr().err) and time.monotonic() < until:
            time.sleep(0.05)
    assert "work:   0%" in drawn
    capfd.readouterr()
    time.sleep(0.2)
    assert not capfd.readouterr().err


def test_outside_a_terminal_a_line_comes_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ours, "INTERVAL_S", 0.05)
    told = ""
    with ours.progress(total=2, description="work") as bar:
        bar.update(1)
        until = time.monotonic() + 20
        while "work" not in told and time.monotonic() < until:
            time.sleep(0.05)
            told += capfd.readouterr().err
    assert "work:  50%" in told.splitlines()[0] and "\r" not in told


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
