"""Every command answers ``--help`` without loading heavy packages, and refuses unknown options."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PIPELINE = ("corpora", "parsing", "multiview", "senteval_runner", "studies")
HEAVY = ("torch", "spacy", "transformers", "numba", "sklearn", "matplotlib", "h5py")


def commands() -> list[str]:
    """Modules that run as ``python -m``: those with a main guard."""
    found = []
    for package in PIPELINE:
        for path in sorted((ROOT / package).rglob("*.py")):
            if '__name__ == "__main__"' in path.read_text(encoding="utf-8"):
                parts = path.relative_to(ROOT).with_suffix("").parts
                found.append(".".join(parts[:-1] if parts[-1] == "__main__" else parts))
    return found


PROBE = """
import runpy, sys
sys.argv = [{module!r}, {argument!r}]
try:
    runpy.run_module({module!r}, run_name="__main__", alter_sys=True)
    code = 0
except SystemExit as stop:
    code = stop.code or 0
print("heavy:", [name for name in {heavy!r} if name in sys.modules])
sys.exit(code)
"""


def probe(module: str, argument: str) -> subprocess.CompletedProcess[str]:
    program = PROBE.format(module=module, argument=argument, heavy=HEAVY)
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.mark.parametrize("module", commands())
def test_help_is_light(module: str) -> None:
    result = probe(module, "--help")
    assert result.returncode == 0, result.stderr
    assert "heavy: []" in result.stdout
    assert "usage" in result.stdout.lower()


@pytest.mark.parametrize("module", commands())
def test_unknown_options_exit_with_2(module: str) -> None:
    result = probe(module, "--no-such-option")
    assert result.returncode == 2
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("module", ["multiview.train", "parsing.run"])
def test_commands_that_run_long_have_a_dry_run(module: str, command) -> None:  # type: ignore[no-untyped-def]
    assert "--dry-run" in command(module, "--help").stdout
