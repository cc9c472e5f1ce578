"""How progress is shown: a bar where there is a screen, lines in logs, nothing for what is over soon."""

from __future__ import annotations

import logging
import sys
import time
import types
from pathlib import Path

import numpy as np
import pytest

from corpora.support import progress as module
from corpora.support.cli import LOGGER, log_to
from corpora.support.progress import LogLines, progress
from senteval_runner.evaluation import evaluate


def test_a_line_says_how_much_how_fast_and_how_long() -> None:
    bar = LogLines(total=40_000, initial=10_000, unit="sent", description="parsing")
    assert bar.line(30) == "parsing: 10,000 of 40,000 (25%) sentences, 30 s so far"
    bar.update(10_000)
    bar.set_postfix({"loss": "4.125"})
    assert bar.line(20) == ("parsing: 20,000 of 40,000 (50%) sentences, 500 a second, 40 s left, loss 4.125")
    slow = LogLines(total=10, initial=0, unit="task", description="evaluate")
    slow.update()
    assert slow.line(600) == "evaluate: 1 of 10 (10%) tasks, 10.0 min each, 90.0 min left"
    unknown = LogLines(total=None, initial=0, unit="B", description="hashing")
    unknown.update(5_000_000)
    assert unknown.line(1) == "hashing: 5 MB, 5 a second"


def test_a_step_that_takes_long_shows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lines must not wait for the next update, and of loops inside each other the innermost one is shown."""
    monkeypatch.setattr(module, "INTERVAL_S", 0.02)
    with progress(total=3, unit="task", description="outer"), progress(total=9, description="inner"):
        time.sleep(0.2)
    shown = capsys.readouterr().err
    assert shown.count("inner: 0 of 9 (0%) sentences") >= 2
    assert "outer" not in shown


def test_what_is_over_soon_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(total=3, description="short") as bar:
        bar.update(3)
    assert capsys.readouterr().err == ""


def test_lines_go_to_the_commands_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INTERVAL_S", 0.02)
    logger = log_to(tmp_path)
    try:
        with progress(total=3, description="train"):
            time.sleep(0.1)
    finally:
        for handler in list(logger.handlers):
            logger.removeHandler(handler)
            handler.close()
    assert logger.name == LOGGER
    assert "INFO train: 0 of 3 (0%) sentences" in (tmp_path / "log.txt").read_text()


def test_a_terminal_has_a_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress(total=4, description="train") as bar:
        bar.update(4)
    assert "train: 100%" in capsys.readouterr().err
    with progress(total=4, description="train", show=False) as bar:
        bar.update(4)
    assert capsys.readouterr().err == ""


def test_a_notebook_has_its_own_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = types.SimpleNamespace(config={"IPKernelApp": {}})
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    made = types.SimpleNamespace(tqdm=lambda **options: options)
    monkeypatch.setitem(sys.modules, "tqdm.auto", made)
    assert progress(total=4, description="train")["desc"] == "train"  # type: ignore[index]
    shell.config.clear()  # IPython in a terminal
    assert isinstance(progress(total=4, description="train"), LogLines)


def test_evaluate_reports(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "INTERVAL_S", 0.002)
    monkeypatch.setattr(logging.getLogger(LOGGER), "handlers", [])

    class Lengths:
        def encode(self, sentences: list[str]) -> np.ndarray:
            return np.array([[len(text), text.count("a")] for text in sentences], dtype=np.float32)

    assert "CR" in evaluate(Lengths(), ["CR", "MRPC"], data, protocol="fast").tasks
    assert "evaluate: 0 of 2 (0%) tasks" in capsys.readouterr().err
