"""What the import linter (``make check``) does not see: no pickle, and files that are read in one sitting."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.test_commands import PIPELINE, ROOT

pytestmark = pytest.mark.repo

MAX_LINES = 450
PICKLE = re.compile(r"(^|[^a-z_])(pickle|dill|joblib)\.(load|dump)|torch\.(load|save)\(|allow_pickle=True")
CONVERTER = Path("parsing/convert.py")
"""The one file that opens a pickle, after ``--trust-pickle`` asked for it by name."""


def sources(*folders: str) -> list[Path]:
    """The Python files below these folders, relative to the project's root."""
    return [path.relative_to(ROOT) for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def test_nothing_executable_is_read_or_written() -> None:
    found = [path for path in sources(*PIPELINE) if PICKLE.search((ROOT / path).read_text(encoding="utf-8"))]
    assert found == [CONVERTER]


def test_files_are_read_in_one_sitting() -> None:
    lines = {
        path: (ROOT / path).read_text(encoding="utf-8").count("\n")
        for path in sources(*PIPELINE, "benchmarks", "tests", "tools")
    }
    assert {path: count for path, count in lines.items() if count > MAX_LINES} == {}
