"""What a dry run prints."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from corpora.support.dry_run import dry_run_text, duration


@dataclass(frozen=True, kw_only=True)
class Config:
    output: Path = Path("out")


@pytest.mark.parametrize(("seconds", "text"), [(48, "48 s"), (750, "12.5 min"), (11520, "3.2 h")])
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def shown(work: tuple[str, float | None, str, float]) -> list[str]:
    text = dry_run_text(
        Config(),
        work=work,
        parameters={"dep": 1000, "const": 500},
        facts={"model": "m"},
        disk_bytes=2.5e6,
        memory_bytes=2**20,
        not_counted="validation",
    )
    assert '"output": "out"' in text
    return [" ".join(line.split()) for line in text.splitlines()]


def test_everything_is_said() -> None:
    assert shown(("encode", 12_000, "sentences", 100))[-8:] == [
        "model m",
        "parameters 1,000 dep",
        "parameters 500 const",
        "parameters 1,500 in all",
        "memory 1 MiB peak in the calibration",
        "disk 2.5 MB",
        "encode 12,000 sentences at 100 a second",
        "time 2.0 min; not counted: validation",
    ]
    assert shown(("read", None, "lines", 7))[-1] == "read an unknown number of lines at 7 a second"
