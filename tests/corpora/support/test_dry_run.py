"""What a dry run prints, and the calibration behind it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from corpora.support.dry_run import Work, dry_run_text, duration, rate


@dataclass(frozen=True, kw_only=True)
class Config:
    output: Path = Path("out")


def test_the_rate_leaves_the_first_part_out() -> None:
    def work(pause_s: float) -> int:
        time.sleep(pause_s)
        return 10

    assert rate(work, [0.2, 0.02, 0.02]) == pytest.approx(500, rel=0.5)
    assert rate(work, [0.1]) == pytest.approx(100, rel=0.5)
    assert rate(work, []) == 0


def test_a_calibration_ends_with_its_budget() -> None:
    done = []
    rate(lambda part: done.append(part) or time.sleep(0.01) or 1, range(1000), budget_s=0.03)
    assert 2 <= len(done) < 100


@pytest.mark.parametrize(("seconds", "text"), [(48, "48 s"), (750, "12.5 min"), (11520, "3.2 h")])
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_everything_is_said() -> None:
    work = [
        Work(name="encode", units=12_000, unit="sentences", per_s=100),
        Work(name="read", units=None, unit="lines", per_s=7),
    ]
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
    lines = [" ".join(line.split()) for line in text.splitlines()]
    for line in (
        "model m",
        "parameters 1,000 dep",
        "parameters 1,500 in all",
        "memory 1 MiB peak in the calibration",
        "disk 2.5 MB",
        "encode 12,000 sentences at 100 a second",
        "read an unknown number of lines at 7 a second",
        "time 2.0 min; not counted: validation",
    ):
        assert line in lines
