"""How progress is shown: a bar where there is a screen, lines in logs, nothing for what is over soon."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from corpora.support import progress as module
from corpora.support.cli import log_to
from corpora.support.progress import progress


def test_a_step_that_takes_long_shows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lines do not wait for the next update."""
    monkeypatch.setattr(module, "INTERVAL_S", 0.02)
    with progress(total=9, description="train") as bar:
        bar.update(3)
        bar.set_postfix({"loss": "4.125"})
        time.sleep(0.2)
    shown = capsys.readouterr().err.splitlines()
    assert len(shown) >= 2
    assert shown[-1].startswith("train:  33% 3/9 [00:00") and shown[-1].endswith("loss=4.125]")


def test_what_is_over_soon_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(total=3, description="short") as bar:
        bar.update(3)
    assert capsys.readouterr().err == ""


def test_lines_go_to_the_commands_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INTERVAL_S", 0.02)
    log_to(tmp_path)
    with progress(total=3, description="train"):
        time.sleep(0.1)
    assert "INFO train:   0% 0/3" in (tmp_path / "log.txt").read_text()


def test_a_terminal_has_a_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress(total=4, description="train") as bar:
        bar.update(4)
    assert "train: 100%" in capsys.readouterr().err
    with progress(total=4, description="train", show=False) as bar:
        bar.update(4)
    assert capsys.readouterr().err == ""
