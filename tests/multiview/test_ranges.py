"""Numbers out of their range are refused by name; every number of the commands has a range."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from corpora.support.errors import UserError
from studies.burt.config import BurtConfig
from studies.burt.train import train
from studies.finetune.config import LoopConfig, TinyConfig
from studies.finetune.ranges import RULES, refuse_bad_numbers
from studies.multitask.config import MultitaskConfig
from studies.multitask.run import run
from tests.studies.finetune.fixtures import write_tsv

BURT = BurtConfig(output=Path("x"))
MULTITASK = MultitaskConfig(output=Path("x"))


def numbers(config: Any) -> set[str]:
    found = set()
    for entry in fields(config):
        value = getattr(config, entry.name)
        if is_dataclass(value):
            found |= numbers(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found.add(entry.name)
    return found


@pytest.mark.parametrize("config", [BURT, MULTITASK])
def test_every_number_has_a_range_and_the_defaults_are_in_it(config: Any) -> None:
    assert numbers(config) - {"seed"} <= set(RULES)
    refuse_bad_numbers(config)


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (replace(BURT, batch=0), "--batch is at least 1, not 0"),
        (replace(BURT, epochs=-1.0), "--epochs is above 0"),
        (replace(BURT, epochs=float("nan")), "--epochs is above 0"),
        (replace(BURT, dropout=2.0), "--dropout is at least 0 and below 1"),
        (replace(BURT, held_out=1.0), "--held-out"),
        (replace(BURT, max_length=0), "--max-length"),
        (replace(BURT, evaluate_every=0), "--evaluate-every"),
        (replace(BURT, loop=LoopConfig(learning_rate=0.0)), "--loop.learning-rate"),
        (replace(BURT, loop=LoopConfig(betas=(0.9, 1.0))), "--loop.betas"),
        (replace(BURT, tiny=TinyConfig(hidden=0)), "--tiny.hidden"),
        (replace(BURT, tiny=TinyConfig(hidden=200)), "--tiny.hidden"),
        (replace(MULTITASK, epochs=0), "--epochs"),
        (replace(MULTITASK, dropout=-0.5), "--dropout"),
    ],
)
def test_numbers_out_of_range_are_named(config: Any, told: str) -> None:
    with pytest.raises(UserError, match=told):
        refuse_bad_numbers(config)


def test_commands_check_before_they_write(tmp_path: Path) -> None:
    for command, config in ((train, BURT), (run, MULTITASK)):
        with pytest.raises(UserError, match="--batch"):
            command(replace(config, output=tmp_path / "out", batch=0))  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_nothing_to_train_on_is_told(tmp_path: Path) -> None:
    path = write_tsv(tmp_path / "odd.tsv", [("maybe", "a dog", "a cat")])
    with pytest.raises(UserError, match=r"odd\.tsv leave no training pair: 1 without a three-way label"):
        train(BurtConfig(output=tmp_path / "out", nli=(path,), objectives=("nli",)))
    (tmp_path / "grid.txt").write_text("\n\n")
    with pytest.raises(UserError, match="holds no line with stages"):
        run(MultitaskConfig(output=tmp_path / "out", grid=str(tmp_path / "grid.txt")))
