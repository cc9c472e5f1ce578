"""Presets on a command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from corpora.support.cli import Command
from corpora.support.config import Count, configuration
from corpora.support.errors import UserError
from corpora.support.presets import Need, preset_defaults, refuse_missing


@configuration
class Options:
    output: Path
    """Where."""
    preset: str | None = None
    """Values by name."""
    epochs: Count = 2
    """Passes."""
    batch: Count = 4
    """Rows."""


SEEN: list[Options] = []
DEFAULTS = preset_defaults(Options, {"paper": {"preset": "paper", "epochs": 5, "batch": 32}})
cli = Command(Options, SEEN.append, "tests.presets", "For the tests.", defaults=DEFAULTS)


@pytest.mark.parametrize("preset", [("--preset", "paper"), ("--preset=paper",)])
def test_a_preset_changes_defaults_and_options_win(preset: tuple[str, ...]) -> None:
    assert cli(["--output", "x", *preset, "--epochs", "1"]) == 0
    assert SEEN.pop() == Options(output=Path("x"), preset="paper", epochs=1, batch=32)


def test_without_a_preset_nothing_changes() -> None:
    assert cli(["--output", "x"]) == 0
    assert SEEN.pop() == Options(output=Path("x"))


def test_required_options_stay_required(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["--preset", "paper"]) == 2
    assert "--output" in capsys.readouterr().err


def test_missing_inputs_are_listed_at_once() -> None:
    def need(name: str, here: bool) -> Need:
        return Need(option=f"--{name} FILE", what=f"{name} corpus", where=f"{name}.org", here=here)

    refuse_missing("paper", [need("a", True)])
    with pytest.raises(UserError) as error:
        refuse_missing("paper", [need("a", True), need("b", False), need("c", False)])
    assert str(error.value) == (
        "--preset paper needs what is not here: --b FILE: b corpus (b.org); --c FILE: c corpus (c.org)"
    )
