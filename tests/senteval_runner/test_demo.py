"""The demo's steps and its estimate; ``make demo`` runs the whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from senteval_runner import demo, demo_estimate


def test_dry_run_names_the_commands_and_writes_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    dry_run,  # type: ignore[no-untyped-def]
) -> None:
    monkeypatch.setattr(demo_estimate, "SHARD", 120)
    monkeypatch.setattr(demo_estimate, "EVERY", 2000)
    text = dry_run(demo.cli, "--sentences", "1k", "--held-out", 500, "--minutes", 30)
    assert "$ python -m parsing.run pydocs --split heldout --limit 500" in text
    assert "$ python -m multiview.train --views dep,const --trees runs/demo/trees/pydocs-train" in text
    assert "parse        1,500 sentences" in text and "train        40 steps" in text
    assert "parameters" in text
