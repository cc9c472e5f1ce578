"""A text of three lines, one of them empty."""

from __future__ import annotations

from pathlib import Path

import pytest

LINES = ["the cat rained", "", "stock prices fell !"]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "in.txt").write_text("\n".join(LINES) + "\n")
    return tmp_path / "in.txt"
