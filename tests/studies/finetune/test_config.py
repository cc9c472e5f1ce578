"""Every number of the studies' options has a range, and the commands refuse numbers out of it by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest

from corpora.support.cli import check
from studies.analogies.config import BuildConfig
from studies.burt.__main__ import cli
from studies.burt.config import BurtConfig
from studies.faq.config import FaqConfig
from studies.layers.config import LayersConfig
from studies.multitask.config import MultitaskConfig
from studies.passages.config import PassagesConfig
from studies.similarity.config import SimilarityConfig

BURT = BurtConfig(output=Path("x"))
CONFIGS = (
    BURT,
    MultitaskConfig(output=Path("x")),
    FaqConfig(),
    PassagesConfig(),
    BuildConfig(),
    SimilarityConfig(models=("x",)),
    LayersConfig(backbones=("x",)),
)


def without_range(config: type[Any]) -> Iterator[str]:
    """Names of the numbers that may have any value."""
    for name, hint in get_type_hints(config, include_extras=True).items():
        if is_dataclass(hint):
            yield from without_range(hint)
        elif has_bare_number(hint):
            yield name


def has_bare_number(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        return False
    return hint in (int, float) or any(has_bare_number(part) for part in get_args(hint))


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: type(config).__name__)
def test_every_number_but_seeds_has_a_range_and_the_defaults_are_in_it(config: Any) -> None:
    assert set(without_range(type(config))) <= {"seed", "split_seed", "random_seed"}
    check(config)


def test_the_command_checks_before_it_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["--output", str(tmp_path / "out"), "--batch-size", "0"]) == 2
    assert "--batch-size 0: must be at least 1" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
